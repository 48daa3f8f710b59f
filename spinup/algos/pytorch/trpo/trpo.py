"""Trust Region Policy Optimization (Schulman et al. 2015, arXiv:1502.05477) and natural gradient.

Idea: take the largest step that improves the policy while its mean KL divergence from the old
policy stays below `delta`. With the objective expanded to first order and the constraint to second
order, the direction of that step is H^-1 g. The conjugate gradient method computes it using only
products H v. A line search then ensures that the true objective improves and the true constraint
is satisfied. `algo='npg'` skips the line search, which gives the natural policy gradient (Kakade
2001) with steps of fixed KL.

    python -m spinup.run trpo --env HalfCheetah-v5
    python -m spinup.algos.pytorch.trpo.trpo --env CartPole-v1 --delta 0.02

The README next to this file lists the differences from the paper.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import nn

from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common.acting import make_get_action, make_policy
from spinup.algos.pytorch.common.advantages import EpochBuffer, update_normalizer
from spinup.algos.pytorch.common.gradients import Adam, evaluate, over_shards
from spinup.algos.pytorch.common.nets import entropy, mean_kl, pi_and_logp, values
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.trpo import core
from spinup.algos.pytorch.trpo.core import GAEBuffer as GAEBuffer
from spinup.runs.arguments import TorchOptions, Unpack, training_function


def compute_loss_pi(ac, batch):
    """Return the negated surrogate objective (eq. 14), the new policy's gain on the old data."""
    pi, logp = pi_and_logp(ac, batch)
    ratio = torch.exp(logp - batch["logp"])  # (B,)
    kl = mean_kl(batch["pi_old"], pi, batch["logp"], logp)
    return -(ratio * batch["adv"]).mean(), {"KL": kl, "Entropy": entropy(pi)}


def compute_kl(ac, batch):
    """Return the mean KL(old || new). The order matters; the line search uses the same order."""
    pi, logp = pi_and_logp(ac, batch)
    return mean_kl(batch["pi_old"], pi, batch["logp"], logp)


def compute_loss_v(ac, batch):
    """Return the value function's mean squared error against the rewards-to-go."""
    return ((values(ac, batch) - batch["ret"]) ** 2).mean()


def line_search(ac, pi_loss, batches, shards, full_step, delta, backtrack_iters, backtrack_coeff):
    """Line 9: take the longest step among s, c s, c^2 s, ... that improves within the constraint.

    Returns the loss and info after the step, and how often it was shortened. If no step is good
    enough, the policy stays unchanged.
    """
    old_params = core.flat_params(ac.pi)
    loss_pi_old, info_old = evaluate(pi_loss, batches, shards)
    for j in range(backtrack_iters):  # minus: g is the gradient of the loss, the negated objective
        core.set_flat_params(ac.pi, old_params - backtrack_coeff**j * full_step)
        loss_pi, info = evaluate(pi_loss, batches, shards)
        if info["KL"] <= delta and loss_pi <= loss_pi_old:
            return loss_pi, info, j
    core.set_flat_params(ac.pi, old_params)
    return loss_pi_old, info_old, backtrack_iters


def trpo_update(
    ac,
    vf_optimizer,
    batches,
    shards,
    delta=0.01,
    train_v_iters=80,
    damping_coeff=0.1,
    cg_iters=10,
    backtrack_iters=10,
    backtrack_coeff=0.8,
    algo="trpo",
):
    """Lines 6 to 10 of the pseudocode: one trust-region step, then fit the value function."""
    batches = core.with_old_policy(ac, batches)
    pi_loss, v_loss = partial(compute_loss_pi, ac), partial(compute_loss_v, ac)
    loss_pi_old, _ = evaluate(pi_loss, batches, shards)
    loss_v_old, _ = evaluate(v_loss, batches, shards)

    # Search direction x = H^-1 g, where H is the Hessian of the KL divergence at the old policy.
    for loss_pi in over_shards((pi_loss(batch)[0] for batch in batches), ac.pi, shards):
        loss_pi.backward()
    g = core.flat_grad(ac.pi)
    kl = partial(compute_kl, ac)
    hvp = core.hessian_vector_product(kl, ac.pi, batches, shards, damping_coeff)
    x = core.conjugate_gradient(hvp, g, cg_iters)
    full_step = torch.sqrt(2 * delta / (x @ hvp(x) + 1e-8)) * x  # reaches KL = delta to 2nd order

    if algo == "trpo":
        loss_pi, info, backtracks = line_search(
            ac, pi_loss, batches, shards, full_step, delta, backtrack_iters, backtrack_coeff
        )
    else:  # natural policy gradient: take the full step without checking it
        core.set_flat_params(ac.pi, core.flat_params(ac.pi) - full_step)
        (loss_pi, info), backtracks = evaluate(pi_loss, batches, shards), 0

    for _ in range(train_v_iters):
        for loss_v in over_shards((v_loss(batch) for batch in batches), ac.v, shards):
            loss_v.backward()
        vf_optimizer.step()
    loss_v, _ = evaluate(v_loss, batches, shards)
    return {
        "LossPi": loss_pi_old,
        "LossV": loss_v_old,
        "DeltaLossPi": loss_pi - loss_pi_old,
        "DeltaLossV": loss_v - loss_v_old,
        **info,
        "BacktrackIters": backtracks,
    }


@training_function
def trpo(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., nn.Module] = core.MLPActorCritic,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.99,
    delta: float = 0.01,
    vf_lr: float = 1e-3,
    train_v_iters: int = 80,
    damping_coeff: float = 0.1,
    cg_iters: int = 10,
    backtrack_iters: int = 10,
    backtrack_coeff: float = 0.8,
    lam: float = 0.97,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 10,
    algo: Literal["trpo", "npg"] = "trpo",
    *,
    num_test_episodes: int = 0,
    **options: Unpack[TorchOptions],
) -> nn.Module:
    """Train a policy with TRPO, or with the natural policy gradient.

    Args:
        delta: largest mean KL divergence of one update. Higher values move the policy faster and
            less safely; 0.005 to 0.05.
        damping_coeff: multiple of the identity added to the Hessian. Higher values are safer and
            bring the step closer to the plain gradient; 0.01 to 1.
        cg_iters: number of conjugate gradient iterations. More iterations are more accurate;
            10 to 20.
        backtrack_iters: maximum number of steps that the line search tries; 10 is usual.
        backtrack_coeff: each step that the line search tries is this fraction of the one before;
            0.5 to 0.8.
        algo: 'trpo', or 'npg' to take the full step without a line search.

    Returns:
        The trained actor-critic.
    """
    with TorchRun("trpo") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        vf_optimizer = Adam(ac.v.parameters(), lr=vf_lr)
        run.track(vf_optimizer=vf_optimizer)
        policy = make_policy(ac, run.device)
        loop = Loop(run)
        buffer = EpochBuffer(run, loop)

        # ---------------------------- Gradient update rule ----------------------------
        fixed = {"shards": run.shards, **run.arguments_for(trpo_update)}
        update = partial(trpo_update, ac, vf_optimizer, **fixed)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            for _ in loop.steps():
                a, v, logp = loop.act(policy)  # if v and logp are None, `get` computes them
                o, a, r, _, _ = loop.step(a)
                buffer.store(o, a, r, v, logp)
                for path in loop.paths:
                    # Terminated: last_obs is None. Truncated: bootstrap from V(last_obs).
                    buffer.finish_path(path.i, path.last_obs)
            batches = buffer.get(ac, gamma, lam)  # values and GAE, one batch per shard
            info = update(batches)
            update_normalizer(ac, batches, run.shards)
            if num_test_episodes:
                loop.evaluate(make_get_action(ac, deterministic=True), num_test_episodes)
            loop.log(info, VVals=[batch["val"] for batch in batches])
    return ac


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(trpo)
