"""Deep Deterministic Policy Gradient (Lillicrap et al. 2016, arXiv:1509.02971).

Idea: learn Q(s, a) by Q-learning, with a deterministic policy in place of the maximum over actions,
and improve that policy by following the gradient of Q through its action. Both networks learn from
a replay buffer of past transitions, and the targets come from slowly moving copies of the networks.

    python -m spinup.run ddpg --env HalfCheetah-v5
    python -m spinup.algos.pytorch.ddpg.ddpg --env Pendulum-v1 --epochs 5

The README next to this file lists the differences from the paper.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from spinup.algos.common.exploration import Learner, NoisyPolicy
from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common.acting import make_get_action, make_policy
from spinup.algos.pytorch.common.buffers import ReplayBuffer as ReplayBuffer
from spinup.algos.pytorch.common.buffers import make_replay_buffer
from spinup.algos.pytorch.common.compiling import compiled
from spinup.algos.pytorch.common.gradients import Adam, frozen
from spinup.algos.pytorch.common.qnets import flat
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.common.targets import polyak_update, target_copy
from spinup.algos.pytorch.ddpg import core
from spinup.runs.arguments import OffPolicyOptions, Unpack, training_function


def compute_target(ac, ac_targ, batch, gamma):
    """Return the target networks' one-step backup, which the critic learns, (B,)."""
    r, o2, d = (batch[k] for k in ("rew", "obs2", "done"))
    with torch.no_grad():
        a2 = ac_targ.pi(o2)
        q_targ = flat(ac_targ.q(o2, a2))  # (B,)
        return r + gamma * (1 - d) * q_targ


def compute_loss_q(ac, ac_targ, batch, gamma):
    """Return the critic's mean squared error against its target."""
    o, a = batch["obs"], batch["act"]
    backup = compute_target(ac, ac_targ, batch, gamma)
    q = flat(ac.q(o, a))
    loss_q = ((q - backup) ** 2).mean()
    return loss_q, {"QVals": q.detach()}


def compute_loss_pi(ac, batch):
    """Return the negated mean value that the critic assigns to the policy's actions."""
    o = batch["obs"]
    return -ac.q(o, ac.pi(o)).mean()


def ddpg_update(ac, ac_targ, pi_optimizer, q_optimizer, batch, gamma=0.99, polyak=0.995):
    """Lines 8 to 11 of the pseudocode: one step of critic, policy and targets."""
    loss_q, info = compute_loss_q(ac, ac_targ, batch, gamma)
    q_optimizer.zero_grad()
    loss_q.backward()
    q_optimizer.step()
    info["LossQ"] = loss_q.detach()

    with frozen(ac.q):  # the gradient passes through Q to the action; Q itself is not updated
        loss_pi = compute_loss_pi(ac, batch)
        pi_optimizer.zero_grad()
        loss_pi.backward()
        pi_optimizer.step()
    info["LossPi"] = loss_pi.detach()

    polyak_update(ac, ac_targ, polyak)
    return info


def ddpg_learner(run, ac, *, gamma, polyak, pi_lr, q_lr, act_noise):
    """Create the DDPG learner for the networks `ac`, used by the training loop below and by HER."""
    ac_targ = target_copy(ac)
    pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
    q_optimizer = Adam(ac.q.parameters(), lr=q_lr)
    run.track(ac_targ=ac_targ, pi_optimizer=pi_optimizer, q_optimizer=q_optimizer)
    policy = NoisyPolicy(make_policy(ac, run.device, on_policy=False), run.action_space, act_noise)

    # ---------------------------- Gradient update rule ----------------------------
    optimizers = (pi_optimizer, q_optimizer)
    rule = compiled(run, ddpg_update, *optimizers)
    rule = partial(rule, ac, ac_targ, *optimizers, gamma=gamma, polyak=polyak)

    def update(batch, step):
        return rule(batch)

    target = partial(compute_target, ac, ac_targ, gamma=gamma)
    return Learner(policy, update, ("QVals",), ("LossPi", "LossQ"), target)


@training_function
def ddpg(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., nn.Module] = core.MLPActorCritic,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 100,
    replay_size: int | float = 1000000,
    gamma: float = 0.99,
    polyak: float = 0.995,
    pi_lr: float = 1e-3,
    q_lr: float = 1e-3,
    batch_size: int = 100,
    start_steps: int = 10000,
    update_after: int = 1000,
    update_every: int = 50,
    act_noise: float = 0.1,
    num_test_episodes: int = 10,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 1,
    **options: Unpack[OffPolicyOptions],
) -> nn.Module:
    """Train a policy with DDPG.

    Args:
        actor_critic: class with the methods `act`, `pi` and `q`; called with
            (observation_space, action_space, **ac_kwargs).

    Returns:
        The trained actor-critic.
    """
    with TorchRun("ddpg") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        learner = ddpg_learner(run, ac, **run.arguments_for(ddpg_learner))
        buffer = make_replay_buffer(run, replay_size)
        loop = Loop(run, learner.values, learner.losses, learner.target)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            for _t in loop.steps():
                a = loop.act(learner.policy, start_steps)
                o, a, r, o2, d = loop.step(a)
                buffer.store_many(o, a, r, o2, d)
                n = loop.updates_due(update_after, update_every, options["updates_per_step"])
                for batch in loop.sample(buffer, n, batch_size):
                    loop.record(learner.update(batch, loop.updates))
            loop.evaluate(make_get_action(ac, deterministic=True), num_test_episodes)
            loop.log(learner.columns(loop.t))
    return ac


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(ddpg)
