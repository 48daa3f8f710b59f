"""Proximal Policy Optimization, the clipped variant (Schulman et al. 2017, arXiv:1707.06347).

Idea: take several gradient steps on the data of one epoch, but give the policy no incentive to move
far. The objective stops growing once a good action has become 1 + clip_ratio times as likely as it
was (or a bad one 1 - clip_ratio times), and the steps stop early when the KL divergence from the
old policy exceeds 1.5 times `target_kl`.

    python -m spinup.run ppo_tf1 --env HalfCheetah-v5
    python -m spinup.algos.tf1.ppo.ppo --env CartPole-v1 --epochs 25

This version builds a TensorFlow graph; the README next to this file explains how to read it.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from spinup.algos.common.loop import Loop
from spinup.algos.tf1.common.acting import GreedyAction, make_policy
from spinup.algos.tf1.common.advantages import EpochBuffer, update_normalizer
from spinup.algos.tf1.common.gradients import Adam
from spinup.algos.tf1.common.layers import flat
from spinup.algos.tf1.common.nets import approx_kl, entropy
from spinup.algos.tf1.common.objectives import evaluate, gradient_step, objective, shard_mean
from spinup.algos.tf1.common.run import TfRun
from spinup.algos.tf1.ppo import core
from spinup.algos.tf1.ppo.core import PPOBuffer as PPOBuffer
from spinup.runs.arguments import TfOptions, Unpack, training_function
from spinup.utils.tf import tf


def compute_loss_pi(ac, batch, clip_ratio, ent_coef=0.0):
    """Return the negated clipped surrogate objective (eq. 7), and how far the policy has moved."""
    adv, logp_old = batch["adv"], batch["logp"]
    logp = flat(ac.logp)
    ratio = tf.exp(logp - logp_old)  # (B,)
    clip_adv = tf.clip_by_value(ratio, 1 - clip_ratio, 1 + clip_ratio) * adv
    loss_pi = -tf.reduce_mean(tf.minimum(ratio * adv, clip_adv))
    ent = entropy(ac, ent_coef)
    clipped = tf.cast(tf.abs(ratio - 1) > clip_ratio, tf.float32)
    info = {"KL": approx_kl(logp_old, logp), "Entropy": ent, "ClipFrac": tf.reduce_mean(clipped)}
    return loss_pi - ent_coef * ent if ent_coef else loss_pi, info


def compute_loss_v(ac, batch, clip_vf=None):
    """Return the value function's mean squared error against the rewards-to-go."""
    v, ret = flat(ac.v), batch["ret"]  # (B,)
    error = (v - ret) ** 2
    if clip_vf is not None:  # no gain from moving further than clip_vf from the old value
        v_clip = batch["val"] + tf.clip_by_value(v - batch["val"], -clip_vf, clip_vf)
        error = tf.maximum(error, (v_clip - ret) ** 2)
    return tf.reduce_mean(error)


def ppo_update(
    pi_loss,
    v_loss,
    batches,
    shards,
    train_pi_iters=80,
    train_v_iters=80,
    target_kl=0.01,
    minibatch_size=None,
    rngs=None,
):
    """Lines 6 and 7 of the pseudocode: update the policy, then fit the value function."""
    loss_pi_old, _ = evaluate(pi_loss, batches, shards)
    loss_v_old, _ = evaluate(v_loss, batches, shards)

    pi_steps = 0
    for small_batches in core.minibatches(batches, train_pi_iters, minibatch_size, rngs, shards):
        found = [pi_loss.gradient(batch) for batch in small_batches]  # one dict per local shard
        if target_kl is not None:
            kl = shard_mean([info["KL"] for info in found], shards)
            if kl > 1.5 * target_kl:
                break  # the policy has moved too far from the one that collected the data
        pi_loss.step({"grad": shard_mean([info["grad"] for info in found], shards)})
        pi_steps += 1

    for small_batches in core.minibatches(batches, train_v_iters, minibatch_size, rngs, shards):
        gradient_step(v_loss, small_batches, shards)

    # Measure again after the last step, to log the final values.
    loss_pi, info = evaluate(pi_loss, batches, shards)
    loss_v, _ = evaluate(v_loss, batches, shards)
    return {
        "LossPi": loss_pi_old,
        "LossV": loss_v_old,
        "DeltaLossPi": loss_pi - loss_pi_old,
        "DeltaLossV": loss_v - loss_v_old,
        **info,
        "StopIter": pi_steps,
    }


@training_function
def ppo(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., Any] = core.mlp_actor_critic,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    gamma: float = 0.99,
    clip_ratio: float = 0.2,
    pi_lr: float = 3e-4,
    vf_lr: float = 1e-3,
    train_pi_iters: int = 80,
    train_v_iters: int = 80,
    lam: float = 0.97,
    max_ep_len: int | float = 1000,
    target_kl: float | None = 0.01,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 10,
    *,
    minibatch_size: int | None = None,
    ent_coef: float = 0.0,
    clip_vf: float | None = None,
    max_grad_norm: float | None = None,
    anneal_lr: bool = False,
    num_test_episodes: int = 0,
    **options: Unpack[TfOptions],
) -> None:
    """Train a policy with PPO-clip.

    Args:
        actor_critic: function that adds the networks to the graph; called with (x, a, **ac_kwargs,
            action_space=...), where x and a are placeholders. Returns pi, logp, logp_pi and v.
        clip_ratio: how far the probability ratio may move from 1 before the objective stops
            rewarding it. Higher values move the policy faster and less safely; 0.1 to 0.3.
        train_pi_iters: maximum number of passes over the data to update the policy; `target_kl`
            may stop them earlier. 3 to 10 with minibatches, 40 to 80 without.
        train_v_iters: number of passes over the data to fit the value function; 3 to 10 with
            minibatches, 40 to 80 without.
        target_kl: policy steps stop when the KL divergence from the old policy exceeds 1.5 times
            this. Higher values let the policy move further per epoch; 0.003 to 0.05. None never
            stops early.
        minibatch_size: rows per gradient step. None uses the whole batch. With 64 to 512, PPO
            learns more from the same environment steps, in fewer passes.
        clip_vf: how far a value may move from its old estimate in one update, in units of return.
            None does not clip; 0.2 is usual with `normalize_ret`.
    """
    with TfRun("ppo") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        pi_optimizer = Adam(pi_lr, "pi")
        vf_optimizer = Adam(vf_lr, "vf")
        policy, greedy = make_policy(ac), GreedyAction(ac, run.action_space)
        loop = Loop(run)
        buffer = EpochBuffer(run, loop, ac)

        # ---------------------------- Gradient update rule ----------------------------
        batch = run.batch("adv", "ret", "val", "logp")  # placeholders
        pi_loss = objective(
            compute_loss_pi(ac, batch, clip_ratio, ent_coef), batch, pi_optimizer, max_grad_norm
        )
        v_loss = objective(compute_loss_v(ac, batch, clip_vf), batch, vf_optimizer, max_grad_norm)
        fixed = {"shards": run.shards, "rngs": run.minibatch_rngs, **run.arguments_for(ppo_update)}
        update = partial(ppo_update, pi_loss, v_loss, **fixed)

        # -------------------------------- Training loop -------------------------------
        for epoch in run.epochs():
            if anneal_lr:
                pi_optimizer.set_lr(pi_lr * (1 - epoch / epochs))
                vf_optimizer.set_lr(vf_lr * (1 - epoch / epochs))
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

    run_file(ppo)
