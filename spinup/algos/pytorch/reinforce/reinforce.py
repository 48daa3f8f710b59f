"""REINFORCE with the average return as its baseline (Williams 1992).

Idea: play, then make every action more likely in proportion to how much more reward followed it
than usual. There is no value function; "usual" is the average return of the epoch.

    python -m spinup.run reinforce --env CartPole-v1
    python -m spinup.algos.pytorch.reinforce.reinforce --env CartPole-v1 --pi_lr 0.01

What differs from the paper is listed in the README beside this file.
"""

from functools import partial

from torch.optim import Adam

from spinup.algos.pytorch.reinforce import core
from spinup.algos.pytorch.reinforce.core import backward, evaluate, rewards_to_go
from spinup.cli.plan import main


def compute_loss_pi(ac, batch):
    """A loss whose gradient is REINFORCE's, negated. Its value itself means nothing."""
    pi, logp = core.policy(ac, batch)
    loss_pi = -(logp * batch["adv"]).mean()
    return loss_pi, {"KL": core.approx_kl(batch["logp"], logp), "Entropy": core.entropy(pi)}


def reinforce_update(ac, pi_optimizer, data, shards):
    """Line 6 of the pseudocode: one gradient step on one epoch of data."""
    pi_loss = partial(compute_loss_pi, ac)

    loss_pi_old, _ = backward(pi_loss, ac.pi, data, shards)
    pi_optimizer.step()

    # Measured after the step: before it, the KL divergence from the old policy is always zero.
    loss_pi, info = evaluate(pi_loss, data, shards)
    return {"LossPi": loss_pi_old, "DeltaLossPi": loss_pi - loss_pi_old, **info}


def reinforce(
    env_fn,
    actor_critic=core.MLPPolicy,
    ac_kwargs={},
    seed=0,
    steps_per_epoch=4000,
    epochs=50,
    gamma=0.99,
    pi_lr=1e-2,
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
    """Train a policy with REINFORCE.

    Args:
        env_fn: function of no arguments that makes a fresh environment (Gymnasium interface).
        actor_critic: class whose instances have `step`, `act` and `pi`; called with
            (observation_space, action_space, **ac_kwargs). Its value function, if any, is not used.
        ac_kwargs: keyword arguments of the actor-critic. The default class takes `hidden_sizes`,
            `activation`, `normalize_obs` and `orthogonal_init`.
        seed: decides every random number of the run; zero or more.
        steps_per_epoch: environment steps between two updates, over all environments. More gives
            less noisy updates and fewer of them; 1000 to 10000 is usual.
        epochs: number of updates; 50 to 1000 is usual.
        gamma: discount factor. Closer to 1 looks further ahead and is noisier; 0.9 to 0.999.
        pi_lr: learning rate of the policy (Adam), which takes one step an epoch; 1e-3 to 3e-2.
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
    with core.TorchRun("reinforce", locals()) as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr, fused=True)
        baseline = core.Scalar(0.0)  # the average return: all this algorithm knows about values
        run.track(pi_optimizer=pi_optimizer, baseline=baseline)

        # ---------------------------- Gradient update rule ----------------------------
        def update(data):
            return reinforce_update(ac, pi_optimizer, data, run.shards)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            rollouts = run.collect(run.policy)
            data = rewards_to_go(rollouts, ac, gamma, baseline, run.shards, run.device)
            info = update(data)
            core.update_normalizer(ac, data, run.shards)
            run.log(rollouts, {**info, "Baseline": baseline.value})
    return ac


if __name__ == "__main__":
    main(reinforce)
