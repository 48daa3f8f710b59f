"""Proximal Policy Optimization, the clipped variant (Schulman et al. 2017, arXiv:1707.06347).

Idea: take several gradient steps on the data of one epoch, but give the policy no reason to move
far. The objective stops growing once an action has become 1 + clip_ratio times as likely as it was
(or 1 - clip_ratio times), and the steps end early when the policy has moved by about `target_kl`.

    python -m spinup.run ppo --env HalfCheetah-v5
    python -m spinup.algos.pytorch.ppo.ppo --env CartPole-v1 --epochs 25

What differs from the paper is listed in the README beside this file.
"""

from functools import partial

import torch
from torch.optim import Adam

from spinup.algos.pytorch.ppo import core
from spinup.algos.pytorch.ppo.core import PPOBuffer as PPOBuffer
from spinup.algos.pytorch.ppo.core import advantages, backward, clipped_step, evaluate, minibatches
from spinup.cli.plan import main
from spinup.utils.errors import SpinupError


def compute_loss_pi(ac, batch, clip_ratio, ent_coef=0.0):
    """The clipped surrogate objective (eq. 7), negated, and how far the policy has moved."""
    adv, logp_old = batch["adv"], batch["logp"]
    pi, logp = core.policy(ac, batch)
    ratio = torch.exp(logp - logp_old)  # (B,)
    clip_adv = torch.clamp(ratio, 1 - clip_ratio, 1 + clip_ratio) * adv
    loss_pi = -torch.min(ratio * adv, clip_adv).mean()
    ent = core.entropy(pi)
    clipped = (ratio - 1).abs() > clip_ratio
    info = {
        "KL": core.approx_kl(logp_old, logp),
        "Entropy": ent,
        "ClipFrac": clipped.float().mean(),
    }
    return loss_pi - ent_coef * ent, info


def compute_loss_v(ac, batch, clip_vf=None):
    """Squared error of the value function against the rewards-to-go."""
    v, ret = core.values(ac, batch), batch["ret"]  # (B,)
    error = (v - ret) ** 2
    if clip_vf is not None:  # moving further than clip_vf from the old value gains nothing
        v_clip = batch["val"] + torch.clamp(v - batch["val"], -clip_vf, clip_vf)
        error = torch.max(error, (v_clip - ret) ** 2)
    return error.mean(), {}


def ppo_update(
    ac,
    pi_optimizer,
    vf_optimizer,
    data,
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
    """Lines 6 and 7 of the pseudocode: fit the policy, then the value function, to an epoch."""
    pi_loss = partial(compute_loss_pi, ac, clip_ratio=clip_ratio, ent_coef=ent_coef)
    v_loss = partial(compute_loss_v, ac, clip_vf=clip_vf)
    loss_pi_old, _ = evaluate(pi_loss, data, shards)
    loss_v_old, _ = evaluate(v_loss, data, shards)
    pi_steps = 0
    for batch in minibatches(data, train_pi_iters, minibatch_size, rngs, shards):
        _, info = backward(pi_loss, ac.pi, batch, shards)
        if target_kl is not None and info["KL"] > 1.5 * target_kl:
            break  # the policy has moved far enough: the data says little about where it is now
        clipped_step(pi_optimizer, max_grad_norm)
        pi_steps += 1

    for batch in minibatches(data, train_v_iters, minibatch_size, rngs, shards):
        backward(v_loss, ac.v, batch, shards)
        clipped_step(vf_optimizer, max_grad_norm)

    # Measured again after the last step: these are the values that were reached.
    loss_pi, info = evaluate(pi_loss, data, shards)
    loss_v, _ = evaluate(v_loss, data, shards)
    return {
        "LossPi": loss_pi_old,
        "LossV": loss_v_old,
        "DeltaLossPi": loss_pi - loss_pi_old,
        "DeltaLossV": loss_v - loss_v_old,
        **info,
        "StopIter": pi_steps,
    }


def ppo(
    env_fn,
    actor_critic=core.MLPActorCritic,
    ac_kwargs={},
    seed=0,
    steps_per_epoch=4000,
    epochs=50,
    gamma=0.99,
    clip_ratio=0.2,
    pi_lr=3e-4,
    vf_lr=1e-3,
    train_pi_iters=80,
    train_v_iters=80,
    lam=0.97,
    max_ep_len=1000,
    target_kl=0.01,
    logger_kwargs={},
    save_freq=10,
    *,
    minibatch_size=None,
    ent_coef=0.0,
    clip_vf=None,
    max_grad_norm=None,
    anneal_lr=False,
    num_envs=1,
    vector="sync",
    shards=None,
    num_threads=None,
    device="cpu",
    resume=False,
    overwrite=False,
    progress=False,
):
    """Train a policy with PPO-clip.

    Args:
        env_fn: function of no arguments that makes a fresh environment (Gymnasium interface).
        actor_critic: class whose instances have `step`, `act`, `pi` and `v`; called with
            (observation_space, action_space, **ac_kwargs).
        ac_kwargs: keyword arguments of the actor-critic. The default class takes `hidden_sizes`,
            `activation`, `normalize_obs`, `normalize_ret` and `orthogonal_init`.
        seed: decides every random number of the run; zero or more.
        steps_per_epoch: environment steps between two updates, over all environments. More gives
            less noisy updates and fewer of them; 1000 to 10000 is usual.
        epochs: number of updates; 50 to 1000 is usual.
        gamma: discount factor. Closer to 1 looks further ahead and is noisier; 0.9 to 0.999.
        clip_ratio: how far the probability ratio may move before the objective stops rewarding it.
            Larger moves faster and less safely; 0.1 to 0.3.
        pi_lr: learning rate of the policy (Adam); 1e-4 to 1e-3.
        vf_lr: learning rate of the value function (Adam); 3e-4 to 3e-3.
        train_pi_iters: most passes over the data to fit the policy; early stopping may end sooner.
            3 to 10 with minibatches, 40 to 80 without.
        train_v_iters: passes over the data to fit the value function; 3 to 10 with minibatches,
            40 to 80 without.
        lam: lambda of GAE. Lower leans more on the value function: less variance, more bias;
            0.9 to 1.
        max_ep_len: steps after which an episode is cut and its rest estimated; 200 to 1000.
        target_kl: policy steps end when the KL divergence from the old policy exceeds 1.5 times
            this. Larger lets the policy move further in an epoch; 0.003 to 0.05, None never stops.
        logger_kwargs: keyword arguments of `EpochLogger`: output_dir, exp_name, sinks and others.
        save_freq: epochs between two saves of policy and checkpoint; at least one a minute anyway.
        minibatch_size: rows in a gradient step. None takes all of them; 64 to 512 learns more from
            fewer steps of the environment and needs few passes.
        ent_coef: weight of an entropy bonus in the objective. Raising it keeps the policy random
            for longer; 0 to 0.01.
        clip_vf: how far a value may move from its old estimate in one update, in units of return.
            None does not clip; 0.2 with `normalize_ret` is usual.
        max_grad_norm: longer gradients are shortened to this. None never does; 0.5 is usual.
        anneal_lr: let both learning rates fall linearly to zero over the run.
        num_envs: environments stepped side by side in each shard; must divide the steps. 1 to 64.
        vector: 'sync' steps them one after the other in this process, 'async' each in its own.
        shards: parts the data is split into; decides rounding. None means one for each process.
        num_threads: threads of torch and BLAS. None means 1, or 2 by a rule (docs/adr/0008).
        device: where the networks live, 'cpu' or 'cuda'.
        resume: continue the run in logger_kwargs['output_dir'] exactly where it was saved.
        overwrite: delete a run that is already there instead of keeping its files aside.
        progress: show a progress bar instead of the table of each epoch.

    Returns:
        The trained actor-critic.
    """
    if minibatch_size is not None and not minibatch_size >= 1:
        raise SpinupError(
            f"minibatch_size={minibatch_size} must be at least 1, or None for all rows"
        )
    with core.TorchRun("ppo", locals()) as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr, fused=True)
        vf_optimizer = Adam(ac.v.parameters(), lr=vf_lr, fused=True)
        run.track(pi_optimizer=pi_optimizer, vf_optimizer=vf_optimizer)

        # ---------------------------- Gradient update rule ----------------------------
        def update(data):
            return ppo_update(
                ac,
                pi_optimizer,
                vf_optimizer,
                data,
                run.shards,
                clip_ratio=clip_ratio,
                train_pi_iters=train_pi_iters,
                train_v_iters=train_v_iters,
                target_kl=target_kl,
                ent_coef=ent_coef,
                clip_vf=clip_vf,
                max_grad_norm=max_grad_norm,
                minibatch_size=minibatch_size,
                rngs=run.minibatch_rngs,
            )

        # -------------------------------- Training loop -------------------------------
        for epoch in run.epochs():
            if anneal_lr:
                left = core.linear_schedule(1.0, 0.0, epoch / epochs)
                pi_optimizer.param_groups[0]["lr"] = pi_lr * left
                vf_optimizer.param_groups[0]["lr"] = vf_lr * left
            rollouts = run.collect(run.policy)
            data = advantages(rollouts, ac, gamma, lam, run.shards, run.device)
            info = update(data)
            core.update_normalizer(ac, data, run.shards)
            run.log(rollouts, info, val=[batch["val"] for batch in data])
    return ac


if __name__ == "__main__":
    main(ppo)
