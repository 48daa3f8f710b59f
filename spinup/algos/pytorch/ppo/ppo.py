"""Proximal Policy Optimization, the clipped variant (Schulman et al. 2017, arXiv:1707.06347).

Idea: take several gradient steps on the data of one epoch, but give the policy no incentive to move
far. The objective stops growing once a good action has become 1 + clip_ratio times as likely as it
was (or a bad one 1 - clip_ratio times), and the steps stop early when the KL divergence from the
old policy exceeds 1.5 times `target_kl`.

    python -m spinup.run ppo --env HalfCheetah-v5
    python -m spinup.algos.pytorch.ppo.ppo --env CartPole-v1 --epochs 25

The README next to this file lists the differences from the paper.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import torch
from torch import nn

from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common.acting import make_get_action, make_policy
from spinup.algos.pytorch.common.advantages import EpochBuffer, update_normalizer
from spinup.algos.pytorch.common.gradients import (
    Adam,
    clip_grad_norm,
    evaluate,
    over_shards,
    shard_mean,
)
from spinup.algos.pytorch.common.nets import approx_kl, entropy, pi_and_logp, values
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.ppo import core
from spinup.algos.pytorch.ppo.core import PPOBuffer as PPOBuffer
from spinup.runs.arguments import TorchOptions, Unpack, training_function


def compute_loss_pi(ac, batch, clip_ratio, ent_coef=0.0):
    """Return the negated clipped surrogate objective (eq. 7), and how far the policy has moved."""
    adv, logp_old = batch["adv"], batch["logp"]
    pi, logp = pi_and_logp(ac, batch)
    ratio = torch.exp(logp - logp_old)  # (B,)
    clip_adv = torch.clamp(ratio, 1 - clip_ratio, 1 + clip_ratio) * adv
    loss_pi = -torch.min(ratio * adv, clip_adv).mean()
    ent = entropy(pi)
    clipped = (ratio - 1).abs() > clip_ratio
    info = {"KL": approx_kl(logp_old, logp), "Entropy": ent, "ClipFrac": clipped.float().mean()}
    return loss_pi - ent_coef * ent, info


def compute_loss_v(ac, batch, clip_vf=None):
    """Return the value function's mean squared error against the rewards-to-go."""
    v, ret = values(ac, batch), batch["ret"]  # (B,)
    error = (v - ret) ** 2
    if clip_vf is not None:  # no gain from moving further than clip_vf from the old value
        v_clip = batch["val"] + torch.clamp(v - batch["val"], -clip_vf, clip_vf)
        error = torch.max(error, (v_clip - ret) ** 2)
    return error.mean()


def ppo_update(
    ac,
    pi_optimizer,
    vf_optimizer,
    batches,
    shards,
    clip_ratio=0.2,
    train_pi_iters=80,
    train_v_iters=80,
    target_kl=0.01,
    ent_coef=0.0,
    clip_vf=None,
    max_grad_norm=None,
    minibatch_size=None,
    rngs=None,
):
    """Lines 6 and 7 of the pseudocode: update the policy, then fit the value function."""
    pi_loss = partial(compute_loss_pi, ac, clip_ratio=clip_ratio, ent_coef=ent_coef)
    v_loss = partial(compute_loss_v, ac, clip_vf=clip_vf)
    loss_pi_old, _ = evaluate(pi_loss, batches, shards)
    loss_v_old, _ = evaluate(v_loss, batches, shards)

    # If both read images through one encoder, the policy's steps are also the value function's.
    net, pi_optimizer, step_loss, v_passes = core.policy_steps(
        ac, (pi_optimizer, vf_optimizer), (pi_loss, v_loss), train_v_iters, max_grad_norm
    )
    pi_steps = 0
    for small_batches in core.minibatches(batches, train_pi_iters, minibatch_size, rngs, shards):
        losses, infos = zip(*(step_loss(batch) for batch in small_batches), strict=True)
        if target_kl is not None:
            kl = shard_mean([info["KL"].detach() for info in infos], shards)
            if kl > 1.5 * target_kl:
                break  # the policy has moved too far from the one that collected the data
        for loss_pi in over_shards(losses, net, shards):
            loss_pi.backward()
        clip_grad_norm(pi_optimizer, max_grad_norm)
        pi_optimizer.step()
        pi_steps += 1

    for small_batches in core.minibatches(batches, v_passes, minibatch_size, rngs, shards):
        for loss_v in over_shards((v_loss(batch) for batch in small_batches), ac.v, shards):
            loss_v.backward()
        clip_grad_norm(vf_optimizer, max_grad_norm)
        vf_optimizer.step()

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
    actor_critic: Callable[..., nn.Module] = core.MLPActorCritic,
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
    **options: Unpack[TorchOptions],
) -> nn.Module:
    """Train a policy with PPO-clip.

    Args:
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

    Returns:
        The trained actor-critic.
    """
    with TorchRun("ppo") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr)
        vf_optimizer = Adam(ac.v.parameters(), lr=vf_lr)
        run.track(pi_optimizer=pi_optimizer, vf_optimizer=vf_optimizer)
        policy = make_policy(ac, run.device)
        loop = Loop(run)
        buffer = EpochBuffer(run, loop)

        # ---------------------------- Gradient update rule ----------------------------
        fixed = {"shards": run.shards, "rngs": run.minibatch_rngs, **run.arguments_for(ppo_update)}
        update = partial(ppo_update, ac, pi_optimizer, vf_optimizer, **fixed)

        # -------------------------------- Training loop -------------------------------
        for epoch in run.epochs():
            if anneal_lr:
                pi_optimizer.set_lr(pi_lr * (1 - epoch / epochs))
                vf_optimizer.set_lr(vf_lr * (1 - epoch / epochs))
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

    run_file(ppo)
