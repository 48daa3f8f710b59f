"""Actor-Critic with Experience Replay (Wang et al. 2017, arXiv:1611.01224).

Idea: an actor-critic that also learns from stored trajectories. Three techniques make this work:
targets for the critic that are correct regardless of which policy acted (Retrace); importance
weights truncated at `c`, with the truncated part added back through the critic (bias correction);
and a trust region that keeps the policy close to an average of past policies. `continuous.py`
contains the differences for continuous actions.

    python -m spinup.run acer --env CartPole-v1
    python -m spinup.algos.pytorch.acer.acer --env CartPole-v1 --num_envs 8

The README next to this file lists the differences from the paper.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn.functional import log_softmax

from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.acer import core
from spinup.algos.pytorch.acer.continuous import continuous_update
from spinup.algos.pytorch.acer.core import TrajectoryBuffer as TrajectoryBuffer
from spinup.algos.pytorch.acer.core import chosen, logits
from spinup.algos.pytorch.acer.retrace import compute_loss_q, policy_step, retrace
from spinup.algos.pytorch.common.acting import make_get_action
from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.common.targets import polyak_update, target_copy
from spinup.runs.arguments import TorchOptions, Unpack, training_function


def compute_loss_pi(phi, q, q_ret, batch, c=10.0, ent_coef=0.0):
    """Return losses (T, N) whose negated gradients are those of eq. 9 plus an entropy bonus.

    `phi` contains the policy's logits and `q` the values of all actions, (T, N, A).
    """
    logp, logmu = log_softmax(phi, -1), batch["logmu"]  # (T, N, A)
    logp_a, logmu_a = chosen(logp, batch["act"]), chosen(logmu, batch["act"])  # (T, N)
    with torch.no_grad():
        pi = logp.exp()
        v = (pi * q).sum(-1)
        rho = torch.exp(logp_a - logmu_a)
        # pi [(rho - c) / rho]_+ without the division: the part of pi that truncation leaves out
        beyond = (pi - c * logmu.exp()).clamp(min=0)  # (T, N, A)
    objective = rho.clamp(max=c) * (q_ret - v) * logp_a
    objective = objective + (beyond * (q - v.unsqueeze(-1)) * logp).sum(-1)
    return -(objective + ent_coef * core.entropy(logp))


def acer_update(
    ac,
    pi_avg,
    pi_optimizer,
    q_optimizer,
    batch,
    gamma=0.99,
    lam=1.0,
    c=10.0,
    delta=1.0,
    polyak=0.99,
    ent_coef=0.0,
):
    """Lines 8 to 13 of the pseudocode: one step of critic and policy on N trajectories."""
    o, a, o2 = batch["obs"], batch["act"], batch["obs2"]
    weight = batch["valid"] / batch["valid"].mean().clamp(min=1e-8)  # (T, N), 1 on average
    phi, q = logits(ac.pi, o), ac.q(o)  # log-probabilities and values of all actions, (T, N, A)
    with torch.no_grad():
        v2 = (logits(ac.pi, o2).softmax(-1) * ac.q(o2)).sum(-1)  # (T, N)
        rho = torch.exp(chosen(log_softmax(phi, -1) - batch["logmu"], a))
        q_ret = retrace(chosen(q, a), v2, rho, batch, gamma, lam)
        logp_avg = log_softmax(logits(pi_avg, o), -1)
    loss_q = (weight * compute_loss_q(chosen(q, a), q_ret)).mean()
    q_optimizer.zero_grad()
    loss_q.backward()
    q_optimizer.step()

    def compute_losses(out):
        kl = (logp_avg.exp() * (logp_avg - log_softmax(out, -1))).sum(-1)  # KL(average || pi)
        return compute_loss_pi(out, q.detach(), q_ret, batch, c, ent_coef), kl

    # Two stages: backward to phi, where the trust region acts, then from phi to the parameters.
    loss_pi, kl, bent = policy_step(phi, compute_losses, delta, weight, pi_optimizer)
    polyak_update(ac.pi, pi_avg, polyak)
    return {
        "QVals": chosen(q, a).detach(),
        "LossPi": loss_pi,
        "LossQ": loss_q.detach(),
        "KL": kl,
        "Entropy": core.entropy(log_softmax(phi.detach(), -1)).mean(),
        "ClipFrac": (rho > c).float().mean(),
        "TrustFrac": bent,
    }


@training_function
def acer(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., nn.Module] = core.MLPActorCritic,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    replay_size: int | float = 50000,
    gamma: float = 0.99,
    lam: float = 1.0,
    n_steps: int = 20,
    replay_ratio: float = 4.0,
    c: float = 10.0,
    delta: float = 1.0,
    polyak: float = 0.99,
    pi_lr: float = 1e-3,
    q_lr: float = 1e-3,
    ent_coef: float = 0.001,
    num_test_episodes: int = 10,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 1,
    *,
    anneal_lr: bool = False,
    dueling_samples: int = 5,
    **options: Unpack[TorchOptions],
) -> nn.Module:
    """Train a policy with ACER.

    Args:
        actor_critic: class with the methods `act`, `pi` (a distribution with `logits`) and `q` (the
            values of all actions); called with (observation_space, action_space, **ac_kwargs). For
            continuous actions, `pi` is Gaussian and `q` is like `core.StochasticDuelingQ`.
        ac_kwargs: keyword arguments of the actor-critic. The default class takes `hidden_sizes`,
            `activation`, `orthogonal_init`, `encoder` (images) and `std` (continuous actions).
        replay_size: capacity of the replay buffer in transitions, over all environments; the oldest
            are overwritten. Larger buffers keep data from older policies; 1e4 to 1e6.
        lam: lambda of Retrace. Lower values rely more on the critic: less variance, more bias; 0.9
            to 1.
        n_steps: length of a trajectory: each environment's steps between two updates on new data,
            and in a replayed batch. Longer trajectories rely less on the critic; 5 to 50.
        replay_ratio: mean number of updates on replayed data per update on new data (Poisson
            distributed). Higher values learn more from the same data and are slower; 0 to 8.
        c: limit at which importance weights are truncated; the critic accounts for the rest. Higher
            values are noisier and rely less on the critic; 1 to 10.
        delta: how much a step may raise the KL divergence from the average policy, to first order.
            Lower values restrict the policy more; 0.1 to 1.
        polyak: fraction of the average policy that each update keeps. Values closer to 1 move it
            more slowly, which makes the trust region tighter; 0.95 to 0.999.
        pi_lr: learning rate of the policy (Adam); 1e-4 to 3e-3.
        q_lr: learning rate of the critic (Adam); 3e-4 to 3e-3.
        ent_coef: weight of an entropy bonus in the objective. Higher values keep the policy random
            for longer; 0 to 0.01. No effect for continuous actions: their variance is fixed.
        dueling_samples: for continuous actions, the number of sampled actions that estimate the
            mean advantage. More samples are less noisy and slower; 1 to 20.

    Returns:
        The trained actor-critic.
    """
    with TorchRun("acer") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        pi_avg = target_copy(ac.pi)
        pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
        q_optimizer = Adam(ac.q.parameters(), lr=q_lr)
        run.track(pi_avg=pi_avg, pi_optimizer=pi_optimizer, q_optimizer=q_optimizer)
        buffer = core.make_trajectory_buffer(run, replay_size)
        policy = core.make_behavior(ac.pi, run.action_space, run.device)
        losses = ("LossPi", "LossQ", "KL", "Entropy", "ClipFrac", "TrustFrac")
        loop = Loop(run, ("QVals",), losses, partial(core.one_step_target, ac, gamma=gamma))

        # ---------------------------- Gradient update rule ----------------------------
        rule = continuous_update if isinstance(run.action_space, core.Box) else acer_update
        update = partial(rule, ac, pi_avg, pi_optimizer, q_optimizer, **run.arguments_for(rule))

        # -------------------------------- Training loop -------------------------------
        for epoch in run.epochs():
            if anneal_lr:
                pi_optimizer.set_lr(pi_lr * (1 - epoch / epochs))
                q_optimizer.set_lr(q_lr * (1 - epoch / epochs))
            for _t in loop.steps():
                a = loop.act(policy)
                o, a, r, o2, d = loop.step(a)
                buffer.store(o, a, r, o2, d, policy.behavior, loop.ended, loop.took)
                if buffer.due(n_steps):
                    loop.record(update(buffer.newest(n_steps)))
                    for batch in buffer.replays(replay_ratio, n_steps):
                        loop.record(update(batch))
            loop.evaluate(make_get_action(ac, deterministic=True), num_test_episodes)
            loop.log()
    return ac


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(acer)
