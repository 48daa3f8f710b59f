"""Soft Actor-Critic (Haarnoja et al. 2018, arXiv:1801.01290 and arXiv:1812.05905).

Idea: also reward the policy for its entropy, so that it keeps exploring and stays random where the
choice of action matters little. The critics learn values that include this bonus. The policy is
stochastic; its gradient passes through its own samples (the reparameterization trick). As in TD3,
the target uses the smaller of two critics; the policy's own noise replaces target policy smoothing.

    python -m spinup.run sac --env HalfCheetah-v5
    python -m spinup.algos.pytorch.sac.sac --env Pendulum-v1 --epochs 5

The README next to this file lists the differences from the paper.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from spinup.algos.common.exploration import Learner, SampledPolicy
from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common.acting import make_get_action, make_policy
from spinup.algos.pytorch.common.buffers import ReplayBuffer as ReplayBuffer
from spinup.algos.pytorch.common.buffers import make_replay_buffer
from spinup.algos.pytorch.common.compiling import compiled
from spinup.algos.pytorch.common.gradients import Adam, frozen
from spinup.algos.pytorch.common.qnets import flat, twin_q
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.common.targets import polyak_update, target_copy
from spinup.algos.pytorch.sac import core
from spinup.runs.arguments import OffPolicyOptions, Unpack, training_function


def soft_value(ac, ac_q, o, alpha):
    """Return E[min Q_i(o, a) - alpha log pi(a|o)], with a ~ `ac`'s policy and Q_i from `ac_q`.

    For continuous actions, one sample estimates the expectation; for discrete ones, it is exact.
    Returns the values (B,) and log pi (B,).
    """
    if getattr(ac, "discrete", False):
        probs, logp = core.action_probs(ac, o)  # (B, n)
        q = torch.min(ac_q.q1(o), ac_q.q2(o))
        return (probs * (q - alpha * logp)).sum(-1), (probs * logp).sum(-1)
    a, logp = ac.pi(o)
    logp = flat(logp)  # (B,)
    return torch.min(*twin_q(ac_q, o, a)) - alpha * logp, logp


def compute_target(ac, ac_targ, batch, gamma, alpha):
    """Return the target networks' one-step backup, which both critics learn, (B,)."""
    r, o2, d = (batch[k] for k in ("rew", "obs2", "done"))
    with torch.no_grad():
        q_targ, _ = soft_value(ac, ac_targ, o2, alpha)  # uses the current policy's actions
        return r + gamma * (1 - d) * q_targ


def compute_loss_q(ac, ac_targ, batch, gamma, alpha):
    """Return both critics' mean squared errors against their target."""
    o, a = batch["obs"], batch["act"]
    backup = compute_target(ac, ac_targ, batch, gamma, alpha)
    q1, q2 = twin_q(ac, o, a)
    loss_q = ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()
    return loss_q, {"Q1Vals": q1.detach(), "Q2Vals": q2.detach()}


def compute_loss_pi(ac, batch, alpha):
    """Return the negated mean soft value of the policy's actions."""
    o = batch["obs"]
    v, logp = soft_value(ac, ac, o, alpha)
    return -v.mean(), logp.detach()


def compute_loss_alpha(log_alpha, logp, target_entropy):
    """Return a loss that raises the temperature if the entropy is below its target (eq. 18)."""
    return -(log_alpha.exp() * (logp + target_entropy)).mean()


def sac_update(
    ac,
    ac_targ,
    pi_optimizer,
    q_optimizer,
    alpha_optimizer,
    batch,
    log_alpha,
    target_entropy,
    gamma=0.99,
    polyak=0.995,
):
    """Lines 8 to 12 of the pseudocode: one step of critics, policy, temperature and targets."""
    alpha = log_alpha.detach().exp()
    loss_q, info = compute_loss_q(ac, ac_targ, batch, gamma, alpha)
    q_optimizer.zero_grad()
    loss_q.backward()
    q_optimizer.step()
    info["LossQ"] = loss_q.detach()

    with frozen(ac.q1, ac.q2):  # the gradient passes through Q to the action; Q is not updated
        loss_pi, logp = compute_loss_pi(ac, batch, alpha)
        pi_optimizer.zero_grad()
        loss_pi.backward()
        pi_optimizer.step()
    info["LossPi"] = loss_pi.detach()
    info["LogPi"] = logp

    if alpha_optimizer is not None:
        alpha_optimizer.zero_grad()
        compute_loss_alpha(log_alpha, logp, target_entropy).backward()
        alpha_optimizer.step()

    polyak_update(ac, ac_targ, polyak)
    return info


def sac_learner(run, ac, *, gamma, polyak, lr, alpha, target_entropy):
    """Create the SAC learner for the networks `ac`, used by the training loop below and by HER."""
    core.check_actor_critic(ac, run.action_space)
    ac_targ = target_copy(ac, "q1", "q2")  # the targets use the current policy
    pi_optimizer = Adam(ac.pi.parameters(), lr=lr)
    # of a module, because parameters that the critics share are then listed once
    q_optimizer = Adam(nn.ModuleList([ac.q1, ac.q2]).parameters(), lr=lr)
    run.track(ac_targ=ac_targ, pi_optimizer=pi_optimizer, q_optimizer=q_optimizer)
    log_alpha, alpha_optimizer, target_entropy = core.make_temperature(
        run, alpha, target_entropy, lr
    )
    policy = SampledPolicy(make_policy(ac, run.device, on_policy=False), run.action_space)

    # ---------------------------- Gradient update rule ----------------------------
    optimizers = (pi_optimizer, q_optimizer, alpha_optimizer)
    rule = compiled(run, sac_update, *optimizers)
    rule = partial(rule, ac, ac_targ, *optimizers, gamma=gamma, polyak=polyak)

    def update(batch, step):
        return rule(batch, log_alpha, target_entropy)

    def target(batch):
        return compute_target(ac, ac_targ, batch, gamma, log_alpha.detach().exp())

    def columns(t):
        return {"Alpha": float(log_alpha.detach().exp())}

    return Learner(
        policy,
        update,
        ("Q1Vals", "Q2Vals", "LogPi"),
        ("LossPi", "LossQ"),
        target,
        columns=columns,
    )


@training_function
def sac(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., nn.Module] = core.MLPActorCritic,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 100,
    replay_size: int | float = 1000000,
    gamma: float = 0.99,
    polyak: float = 0.995,
    lr: float = 1e-3,
    alpha: float | Literal["auto"] = 0.2,
    batch_size: int = 100,
    start_steps: int = 10000,
    update_after: int = 1000,
    update_every: int = 50,
    num_test_episodes: int = 10,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 1,
    *,
    target_entropy: float | None = None,
    **options: Unpack[OffPolicyOptions],
) -> nn.Module:
    """Train a policy with SAC.

    Args:
        actor_critic: class with the methods `act`, `pi`, `q1` and `q2`; called with
            (observation_space, action_space, **ac_kwargs).
        lr: learning rate of the policy, the Q-functions and the temperature (Adam); 3e-4 to 1e-3.
        alpha: weight of the entropy in the objective (the temperature). Higher values keep the
            policy more random; 0.05 to 0.3 for rewards around 1, or 'auto' to learn it.
        target_entropy: the entropy that alpha='auto' aims for, in action units. None means the sum
            of log(half range) - 1 over the dimensions of a Box, or half the uniform distribution's
            entropy for discrete actions.

    Returns:
        The trained actor-critic.
    """
    with TorchRun("sac") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        learner = sac_learner(run, ac, **run.arguments_for(sac_learner))
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

    run_file(sac)
