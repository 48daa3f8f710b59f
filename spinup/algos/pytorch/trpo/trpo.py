"""Trust Region Policy Optimization (Schulman et al. 2015, arXiv:1502.05477) and natural gradient.

Idea: take the largest step that improves the policy while its average KL divergence from the old
one stays below `delta`. To first order in the objective and second order in the constraint that
step is along H^-1 g, found by conjugate gradients from products H v alone; a line search then makes
sure that the real objective improves and the real constraint holds. `algo='npg'` leaves the line
search out, which is the natural policy gradient (Kakade 2001) with a step of fixed KL.

    python -m spinup.run trpo --env HalfCheetah-v5
    python -m spinup.algos.pytorch.trpo.trpo --env CartPole-v1 --delta 0.02

What differs from the paper is listed in the README beside this file.
"""

from functools import partial

import torch
from torch.optim import Adam

from spinup.algos.pytorch.trpo import core
from spinup.algos.pytorch.trpo.core import GAEBuffer as GAEBuffer
from spinup.algos.pytorch.trpo.core import advantages, backward, conjugate_gradient, evaluate
from spinup.cli.plan import main
from spinup.utils.errors import SpinupError


def compute_loss_pi(ac, batch):
    """The surrogate objective (eq. 14), negated: what the new policy gains on the old data."""
    pi, logp = core.policy(ac, batch)
    ratio = torch.exp(logp - batch["logp"])  # (B,)
    kl = core.mean_kl(batch["pi_old"], pi, batch["logp"], logp)
    return -(ratio * batch["adv"]).mean(), {"KL": kl, "Entropy": core.entropy(pi)}


def compute_kl(ac, batch):
    """Mean KL(old || new): the direction matters, and is the same here and in the line search."""
    pi, logp = core.policy(ac, batch)
    return core.mean_kl(batch["pi_old"], pi, batch["logp"], logp)


def compute_loss_v(ac, batch):
    """Squared error of the value function against the rewards-to-go."""
    return ((core.values(ac, batch) - batch["ret"]) ** 2).mean(), {}


def line_search(ac, pi_loss, data, shards, full_step, delta, backtrack_iters, backtrack_coeff):
    """Line 9: the longest of the steps s, c s, c^2 s, ... that improves and keeps the constraint.

    Returns loss and info after it, and how often it was shortened. Where no step is good enough the
    policy stays exactly as it was.
    """
    old_params = core.flat_params(ac.pi)
    loss_pi_old, info_old = evaluate(pi_loss, data, shards)
    for j in range(backtrack_iters):
        core.set_flat_params(ac.pi, old_params - backtrack_coeff**j * full_step)
        loss_pi, info = evaluate(pi_loss, data, shards)
        if info["KL"] <= delta and loss_pi <= loss_pi_old:
            return loss_pi, info, j
    core.set_flat_params(ac.pi, old_params)
    return loss_pi_old, info_old, backtrack_iters


def trpo_update(
    ac,
    vf_optimizer,
    data,
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
    data = core.with_old_policy(ac, data)
    pi_loss, v_loss = partial(compute_loss_pi, ac), partial(compute_loss_v, ac)

    # Search direction x = H^-1 g, where H is the Hessian of the KL divergence at the old policy.
    loss_pi_old, _ = backward(pi_loss, ac.pi, data, shards)
    g = core.flat_grad(ac.pi)
    hvp = core.hessian_vector_product(partial(compute_kl, ac), ac.pi, data, shards, damping_coeff)
    x = conjugate_gradient(hvp, g, cg_iters)
    full_step = torch.sqrt(2 * delta / (x @ hvp(x) + 1e-8)) * x  # reaches KL = delta if H is right

    if algo == "trpo":
        loss_pi, info, backtracks = line_search(
            ac, pi_loss, data, shards, full_step, delta, backtrack_iters, backtrack_coeff
        )
    else:  # natural policy gradient: the full step, wherever it leads
        core.set_flat_params(ac.pi, core.flat_params(ac.pi) - full_step)
        (loss_pi, info), backtracks = evaluate(pi_loss, data, shards), 0
    loss_v_old, _ = evaluate(v_loss, data, shards)
    for _ in range(train_v_iters):
        backward(v_loss, ac.v, data, shards)
        vf_optimizer.step()
    loss_v, _ = evaluate(v_loss, data, shards)
    return {
        "LossPi": loss_pi_old,
        "LossV": loss_v_old,
        "DeltaLossPi": loss_pi - loss_pi_old,
        "DeltaLossV": loss_v - loss_v_old,
        **info,
        "BacktrackIters": backtracks,
    }


def trpo(
    env_fn,
    actor_critic=core.MLPActorCritic,
    ac_kwargs={},
    seed=0,
    steps_per_epoch=4000,
    epochs=50,
    gamma=0.99,
    delta=0.01,
    vf_lr=1e-3,
    train_v_iters=80,
    damping_coeff=0.1,
    cg_iters=10,
    backtrack_iters=10,
    backtrack_coeff=0.8,
    lam=0.97,
    max_ep_len=1000,
    logger_kwargs={},
    save_freq=10,
    algo="trpo",
    *,
    num_envs=1,
    vector="sync",
    shards=None,
    num_threads=None,
    device="cpu",
    resume=False,
    overwrite=False,
    progress=False,
):
    """Train a policy with TRPO, or with the natural policy gradient.

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
        delta: largest mean KL divergence of one update. Larger moves faster and less safely;
            0.005 to 0.05.
        vf_lr: learning rate of the value function (Adam); 3e-4 to 3e-3.
        train_v_iters: gradient steps of the value function in an epoch; 20 to 80.
        damping_coeff: multiple of the identity added to the Hessian. Larger makes the solution
            safer and closer to the plain gradient; 0.01 to 1.
        cg_iters: conjugate gradient iterations. More solve the system better; 10 to 20.
        backtrack_iters: most tries of the line search; 10 is usual.
        backtrack_coeff: each try is this fraction of the one before; 0.5 to 0.8.
        lam: lambda of GAE. Lower leans more on the value function: less variance, more bias;
            0.9 to 1.
        max_ep_len: steps after which an episode is cut and its rest estimated; 200 to 1000.
        logger_kwargs: keyword arguments of `EpochLogger`: output_dir, exp_name, sinks and others.
        save_freq: epochs between two saves of policy and checkpoint; at least one a minute anyway.
        algo: 'trpo', or 'npg' to take the full step without a line search.
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
    if algo not in ("trpo", "npg"):
        raise SpinupError(f"algo={algo!r} must be 'trpo' or 'npg'")
    with core.TorchRun("trpo", locals()) as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        vf_optimizer = Adam(ac.v.parameters(), lr=vf_lr, fused=True)
        run.track(vf_optimizer=vf_optimizer)

        # ---------------------------- Gradient update rule ----------------------------
        def update(data):
            return trpo_update(
                ac,
                vf_optimizer,
                data,
                run.shards,
                delta=delta,
                train_v_iters=train_v_iters,
                damping_coeff=damping_coeff,
                cg_iters=cg_iters,
                backtrack_iters=backtrack_iters,
                backtrack_coeff=backtrack_coeff,
                algo=algo,
            )

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            rollouts = run.collect(run.policy)
            data = advantages(rollouts, ac, gamma, lam, run.shards, run.device)
            info = update(data)
            core.update_normalizer(ac, data, run.shards)
            run.log(rollouts, info, val=[batch["val"] for batch in data])
    return ac


if __name__ == "__main__":
    main(trpo)
