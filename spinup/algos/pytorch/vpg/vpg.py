"""Vanilla Policy Gradient with GAE-lambda advantages (Sutton et al. 2000; Schulman et al. 2016).

Idea: make actions that turned out better than the value function expected more likely, the others
less likely. Each epoch's data gives one gradient step of the policy, because the gradient is that
of the policy which collected the data and of no other; then the value function is fitted to the
returns.

    python -m spinup.run vpg --env HalfCheetah-v5
    python -m spinup.algos.pytorch.vpg.vpg --env CartPole-v1 --pi_lr 0.01

What differs from the papers is listed in the README beside this file.
"""

from functools import partial

from torch.optim import Adam

from spinup.algos.pytorch.vpg import core
from spinup.algos.pytorch.vpg.core import VPGBuffer as VPGBuffer
from spinup.algos.pytorch.vpg.core import advantages, backward, evaluate
from spinup.cli.plan import main


def compute_loss_pi(ac, batch):
    """A loss whose gradient is the policy gradient, negated. Its value itself means nothing."""
    pi, logp = core.policy(ac, batch)
    loss_pi = -(logp * batch["adv"]).mean()
    return loss_pi, {"KL": core.approx_kl(batch["logp"], logp), "Entropy": core.entropy(pi)}


def compute_loss_v(ac, batch):
    """Squared error of the value function against the rewards-to-go."""
    return ((core.values(ac, batch) - batch["ret"]) ** 2).mean(), {}


def vpg_update(ac, pi_optimizer, vf_optimizer, data, shards, train_v_iters=80):
    """Lines 6 to 8 of the pseudocode: one step of the policy, then fit the value function."""
    pi_loss, v_loss = partial(compute_loss_pi, ac), partial(compute_loss_v, ac)

    loss_v_old, _ = evaluate(v_loss, data, shards)

    loss_pi_old, _ = backward(pi_loss, ac.pi, data, shards)
    pi_optimizer.step()

    for _ in range(train_v_iters):
        backward(v_loss, ac.v, data, shards)
        vf_optimizer.step()

    # Measured after the step: before it, the KL divergence from the old policy is always zero.
    loss_pi, info = evaluate(pi_loss, data, shards)
    loss_v, _ = evaluate(v_loss, data, shards)
    return {
        "LossPi": loss_pi_old,
        "LossV": loss_v_old,
        "DeltaLossPi": loss_pi - loss_pi_old,
        "DeltaLossV": loss_v - loss_v_old,
        **info,
    }


def vpg(
    env_fn,
    actor_critic=core.MLPActorCritic,
    ac_kwargs={},
    seed=0,
    steps_per_epoch=4000,
    epochs=50,
    gamma=0.99,
    pi_lr=3e-4,
    vf_lr=1e-3,
    train_v_iters=80,
    lam=0.97,
    max_ep_len=1000,
    logger_kwargs={},
    save_freq=10,
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
    """Train a policy with the vanilla policy gradient.

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
        pi_lr: learning rate of the policy (Adam), which takes one step an epoch; 3e-4 to 1e-2.
        vf_lr: learning rate of the value function (Adam); 3e-4 to 3e-3.
        train_v_iters: gradient steps of the value function in an epoch; 20 to 80.
        lam: lambda of GAE. Lower leans more on the value function: less variance, more bias;
            0.9 to 1.
        max_ep_len: steps after which an episode is cut and its rest estimated; 200 to 1000.
        logger_kwargs: keyword arguments of `EpochLogger`: output_dir, exp_name, sinks and others.
        save_freq: epochs between two saves of policy and checkpoint; at least one a minute anyway.
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
    with core.TorchRun("vpg", locals()) as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr, fused=True)
        vf_optimizer = Adam(ac.v.parameters(), lr=vf_lr, fused=True)
        run.track(pi_optimizer=pi_optimizer, vf_optimizer=vf_optimizer)

        # ---------------------------- Gradient update rule ----------------------------
        def update(data):
            return vpg_update(ac, pi_optimizer, vf_optimizer, data, run.shards, train_v_iters)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            rollouts = run.collect(run.policy)
            data = advantages(rollouts, ac, gamma, lam, run.shards, run.device)
            info = update(data)
            core.update_normalizer(ac, data, run.shards)
            run.log(rollouts, info, val=[batch["val"] for batch in data])
    return ac


if __name__ == "__main__":
    main(vpg)
