"""Twin Delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477).

Idea: DDPG's policy exploits every overestimate of its critic. TD3 has three remedies: the
target uses the smaller of two critics (clipped double Q-learning), noise on the target action
smooths Q over similar actions (target policy smoothing), and the policy is updated less often than
the critics (delayed policy updates).

    python -m spinup.run td3 --env HalfCheetah-v5
    python -m spinup.algos.pytorch.td3.td3 --env Pendulum-v1 --epochs 5

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
from spinup.algos.pytorch.common.qnets import action_limits, twin_q
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.common.targets import polyak_update, target_copy
from spinup.algos.pytorch.td3 import core
from spinup.runs.arguments import OffPolicyOptions, Unpack, training_function


def smoothed_action(ac_targ, o2, target_noise, noise_clip, low, high):
    """Add clipped noise, in units of half the range, to the target policy's action (sec. 5.3)."""
    a2 = ac_targ.pi(o2)  # (B, act_dim)
    noise = (target_noise * torch.randn_like(a2)).clamp(-noise_clip, noise_clip)
    return (a2 + noise * (high - low) / 2).clamp(low, high)


def compute_target(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits):
    """Return the target networks' one-step backup, which both critics learn, (B,)."""
    r, o2, d = (batch[k] for k in ("rew", "obs2", "done"))
    with torch.no_grad():
        a2 = smoothed_action(ac_targ, o2, target_noise, noise_clip, *limits)
        q_targ = torch.min(*twin_q(ac_targ, o2, a2))  # (B,)
        return r + gamma * (1 - d) * q_targ


def compute_loss_q(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits):
    """Return both critics' mean squared errors against their target."""
    o, a = batch["obs"], batch["act"]
    backup = compute_target(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits)
    q1, q2 = twin_q(ac, o, a)
    loss_q = ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()
    return loss_q, {"Q1Vals": q1.detach(), "Q2Vals": q2.detach()}


def compute_loss_pi(ac, batch):
    """Return the negated mean value that the first critic assigns to the policy's actions."""
    o = batch["obs"]
    return -ac.q1(o, ac.pi(o)).mean()


def td3_update(
    ac,
    ac_targ,
    pi_optimizer,
    q_optimizer,
    batch,
    limits,
    update_policy=True,
    gamma=0.99,
    polyak=0.995,
    target_noise=0.2,
    noise_clip=0.5,
):
    """Lines 8 to 13 of the pseudocode: one step of critics and, if due, policy and targets."""
    loss_q, info = compute_loss_q(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits)
    q_optimizer.zero_grad()
    loss_q.backward()
    q_optimizer.step()
    info["LossQ"] = loss_q.detach()

    if not update_policy:  # policy and targets take fewer steps
        return info

    with frozen(ac.q1, ac.q2):  # the gradient passes through Q to the action; Q is not updated
        loss_pi = compute_loss_pi(ac, batch)
        pi_optimizer.zero_grad()
        loss_pi.backward()
        pi_optimizer.step()
    info["LossPi"] = loss_pi.detach()

    polyak_update(ac, ac_targ, polyak)
    return info


def td3_learner(
    run,
    ac,
    *,
    gamma,
    polyak,
    pi_lr,
    q_lr,
    act_noise,
    target_noise,
    noise_clip,
    policy_delay,
):
    """Create the TD3 learner for the networks `ac`, used by the training loop below and by HER."""
    ac_targ = target_copy(ac)
    pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
    # of a module, because parameters that the critics share are then listed once
    q_optimizer = Adam(nn.ModuleList([ac.q1, ac.q2]).parameters(), lr=q_lr)
    run.track(ac_targ=ac_targ, pi_optimizer=pi_optimizer, q_optimizer=q_optimizer)
    policy = NoisyPolicy(make_policy(ac, run.device, on_policy=False), run.action_space, act_noise)

    # ---------------------------- Gradient update rule ----------------------------
    optimizers = (pi_optimizer, q_optimizer)
    rule = compiled(run, td3_update, *optimizers)
    rule = partial(rule, ac, ac_targ, *optimizers, gamma=gamma, polyak=polyak)
    smoothing = {
        "target_noise": target_noise,
        "noise_clip": noise_clip,
        "limits": action_limits(run.action_space, run.device),
    }

    def update(batch, step):  # the delay counts gradient steps over the whole run
        return rule(batch, update_policy=step % policy_delay == 0, **smoothing)

    target = partial(compute_target, ac, ac_targ, gamma=gamma, **smoothing)
    return Learner(policy, update, ("Q1Vals", "Q2Vals"), ("LossPi", "LossQ"), target)


@training_function
def td3(
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
    target_noise: float = 0.2,
    noise_clip: float = 0.5,
    policy_delay: int = 2,
    num_test_episodes: int = 10,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 1,
    **options: Unpack[OffPolicyOptions],
) -> nn.Module:
    """Train a policy with TD3.

    Args:
        actor_critic: class with the methods `act`, `pi`, `q1` and `q2`; called with
            (observation_space, action_space, **ac_kwargs).
        q_lr: learning rate of both Q-functions (Adam); 3e-4 to 1e-3.
        target_noise: standard deviation of the noise on the target policy's action, in the same
            units as `act_noise`. Higher values smooth Q over more actions; 0.1 to 0.3.
        noise_clip: limit to which the target noise is clipped, in the same units; 0.3 to 0.5.
        policy_delay: gradient steps of the critics per update of the policy and the targets,
            counted over the whole run. Higher values give the critics more time; 1 to 3.

    Returns:
        The trained actor-critic.
    """
    with TorchRun("td3") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        learner = td3_learner(run, ac, **run.arguments_for(td3_learner))
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

    run_file(td3)
