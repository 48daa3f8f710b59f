"""Trust Region Policy Optimization (Schulman et al. 2015, arXiv:1502.05477) and natural gradient.

Idea: take the largest step that improves the policy while its mean KL divergence from the old
policy stays below `delta`. With the objective expanded to first order and the constraint to second
order, the direction of that step is H^-1 g. The conjugate gradient method computes it using only
products H v. A line search then ensures that the true objective improves and the true constraint
is satisfied. `algo='npg'` skips the line search, which gives the natural policy gradient (Kakade
2001) with steps of fixed KL.

    python -m spinup.run trpo_tf1 --env HalfCheetah-v5
    python -m spinup.algos.tf1.trpo.trpo --env CartPole-v1 --delta 0.02

This version builds a TensorFlow graph; the README next to this file explains how to read it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import numpy as np

from spinup.algos.common.loop import Loop
from spinup.algos.tf1.common.acting import GreedyAction, make_policy
from spinup.algos.tf1.common.advantages import EpochBuffer, update_normalizer
from spinup.algos.tf1.common.gradients import Adam
from spinup.algos.tf1.common.layers import flat
from spinup.algos.tf1.common.nets import entropy
from spinup.algos.tf1.common.objectives import evaluate, gradient_step, objective, shard_mean
from spinup.algos.tf1.common.run import TRUST_REGION, TfRun
from spinup.algos.tf1.trpo import core
from spinup.algos.tf1.trpo.core import GAEBuffer as GAEBuffer
from spinup.runs.arguments import TfOptions, Unpack, training_function
from spinup.utils.tf import tf


def compute_loss_pi(ac, batch):
    """Return the negated surrogate objective (eq. 14), the new policy's gain on the old data.

    `d_kl` is the mean KL(old || new). The order matters; the line search uses the same order.
    """
    ratio = tf.exp(flat(ac.logp) - batch["logp"])  # (B,)
    return -tf.reduce_mean(ratio * batch["adv"]), {"KL": ac.d_kl, "Entropy": entropy(ac)}


def compute_loss_v(ac, batch):
    """Return the value function's mean squared error against the rewards-to-go."""
    return tf.reduce_mean((flat(ac.v) - batch["ret"]) ** 2)


def line_search(
    pi_loss, params, batches, shards, full_step, delta, backtrack_iters, backtrack_coeff
):
    """Line 9: take the longest step among s, c s, c^2 s, ... that improves within the constraint.

    Returns the loss and info after the step, and how often it was shortened. If no step is good
    enough, the policy stays unchanged.
    """
    old_params = params.get()
    loss_pi_old, info_old = evaluate(pi_loss, batches, shards)
    for j in range(backtrack_iters):
        params.set(old_params - backtrack_coeff**j * full_step)
        loss_pi, info = evaluate(pi_loss, batches, shards)
        if info["KL"] <= delta and loss_pi <= loss_pi_old:
            return loss_pi, info, j
    params.set(old_params)
    return loss_pi_old, info_old, backtrack_iters


def trpo_update(
    pi_loss,
    v_loss,
    kl,
    params,
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
    batches = core.with_old_policy(kl, batches)
    loss_pi_old, _ = evaluate(pi_loss, batches, shards)
    loss_v_old, _ = evaluate(v_loss, batches, shards)

    # Search direction x = H^-1 g, where H is the Hessian of the KL divergence at the old policy.
    g = shard_mean([pi_loss.gradient(batch)["grad"] for batch in batches], shards)

    def hvp(v):
        return core.averaged_product(kl, batches, v, shards) + damping_coeff * v

    x = core.conjugate_gradient(hvp, g, cg_iters)
    # reaches KL = delta to 2nd order
    full_step = np.sqrt(np.float32(2 * delta) / (x @ hvp(x) + np.float32(1e-8))) * x

    if algo == "trpo":
        loss_pi, info, backtracks = line_search(
            pi_loss, params, batches, shards, full_step, delta, backtrack_iters, backtrack_coeff
        )
    else:  # natural policy gradient: take the full step without checking it
        params.set(params.get() - full_step)
        (loss_pi, info), backtracks = evaluate(pi_loss, batches, shards), 0

    for _ in range(train_v_iters):
        gradient_step(v_loss, batches, shards)
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
    actor_critic: Callable[..., Any] = core.mlp_actor_critic,
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
    **options: Unpack[TfOptions],
) -> None:
    """Train a policy with TRPO, or with the natural policy gradient.

    Args:
        actor_critic: function that adds the networks to the graph; called with (x, a, **ac_kwargs,
            action_space=...), where x and a are placeholders. Returns pi, logp, logp_pi,
            info, info_phs, d_kl and v.
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
    """
    with TfRun("trpo") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs, TRUST_REGION)
        vf_optimizer = Adam(vf_lr, "vf")
        policy, greedy = make_policy(ac), GreedyAction(ac, run.action_space)
        loop = Loop(run)
        buffer = EpochBuffer(run, loop, ac)

        # ---------------------------- Gradient update rule ----------------------------
        batch = {**run.batch("adv", "ret", "logp"), **core.old_policy(ac)}  # placeholders
        pi_loss = objective(compute_loss_pi(ac, batch), batch)
        v_loss = objective(compute_loss_v(ac, batch), batch, vf_optimizer)
        kl, params = core.TrustRegion(ac, batch, pi_loss.params), core.FlatParams(pi_loss.params)
        fixed = {"shards": run.shards, **run.arguments_for(trpo_update)}
        update = partial(trpo_update, pi_loss, v_loss, kl, params, **fixed)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            for _ in loop.steps():
                a, v, logp = loop.act(policy)  # v and logp are None: `get` computes them
                o, a, r, _, _ = loop.step(a)
                buffer.store(o, a, r, v, logp)
                for path in loop.paths:
                    # Terminated: last_obs is None. Truncated: bootstrap from V(last_obs).
                    buffer.finish_path(path.i, path.last_obs)
            batches = buffer.get(gamma, lam)  # values and GAE, one batch per shard
            info = update(batches)
            update_normalizer(run, batches)
            if num_test_episodes:
                loop.evaluate(greedy.renewed(), num_test_episodes)
            loop.log(info, VVals=[batch["val"] for batch in batches])


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(trpo)
