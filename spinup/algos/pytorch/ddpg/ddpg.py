"""Deep Deterministic Policy Gradient (Lillicrap et al. 2016, arXiv:1509.02971).

Idea: learn Q(s, a) by Q-learning, with a policy that stands in for the maximum over actions, and
improve that policy by following the gradient of Q through its action. Everything is learned from a
replay buffer of past transitions, and targets come from slowly moving copies of both networks.

    python -m spinup.run ddpg --env HalfCheetah-v5
    python -m spinup.algos.pytorch.ddpg.ddpg --env Pendulum-v1 --epochs 5

What differs from the paper is listed in the README beside this file.
"""

import torch
from torch.optim import Adam

from spinup.algos.pytorch.ddpg import core
from spinup.algos.pytorch.ddpg.core import ReplayBuffer as ReplayBuffer
from spinup.algos.pytorch.ddpg.core import flat, frozen, minimize, polyak_update, target_copy
from spinup.cli.plan import main


def compute_loss_q(ac, ac_targ, batch, gamma):
    """Squared error of the critic against the one-step backup from the target networks."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    with torch.no_grad():
        a2 = ac_targ.pi(o2)
        q_targ = flat(ac_targ.q(o2, a2))  # (B,)
        backup = r + gamma * (1 - d) * q_targ
    q = flat(ac.q(o, a))
    loss_q = ((q - backup) ** 2).mean()
    return loss_q, {"QVals": q.detach()}


def compute_loss_pi(ac, batch):
    """Minus the value that the critic gives to the policy's own actions."""
    o = batch["obs"]
    return -ac.q(o, ac.pi(o)).mean()


def ddpg_update(ac, ac_targ, pi_optimizer, q_optimizer, batch, gamma=0.99, polyak=0.995):
    """Lines 8 to 11 of the pseudocode: one step of the critic, one of the policy, then targets."""
    loss_q, info = compute_loss_q(ac, ac_targ, batch, gamma)
    minimize(loss_q, q_optimizer)
    info["LossQ"] = loss_q.detach()

    with frozen(ac.q):  # the gradient passes through Q to the action and leaves Q alone
        loss_pi = compute_loss_pi(ac, batch)
        minimize(loss_pi, pi_optimizer)
    info["LossPi"] = loss_pi.detach()

    polyak_update(ac, ac_targ, polyak)
    return info


def ddpg(
    env_fn,
    actor_critic=core.MLPActorCritic,
    ac_kwargs={},
    seed=0,
    steps_per_epoch=4000,
    epochs=100,
    replay_size=1000000,
    gamma=0.99,
    polyak=0.995,
    pi_lr=1e-3,
    q_lr=1e-3,
    batch_size=100,
    start_steps=10000,
    update_after=1000,
    update_every=50,
    act_noise=0.1,
    num_test_episodes=10,
    max_ep_len=1000,
    logger_kwargs={},
    save_freq=1,
    *,
    updates_per_step=1.0,
    num_envs=1,
    vector="sync",
    shards=None,
    num_threads=None,
    device="cpu",
    compile=None,
    resume=False,
    overwrite=False,
    progress=False,
):
    """Train a policy with DDPG.

    Args:
        env_fn: function of no arguments that makes a fresh environment (Gymnasium interface).
        actor_critic: class whose instances have `act`, `pi` and `q`; called with
            (observation_space, action_space, **ac_kwargs).
        ac_kwargs: keyword arguments of the actor-critic. The default class takes `hidden_sizes`
            and `activation`.
        seed: decides every random number of the run; zero or more.
        steps_per_epoch: steps between two rows of the log, over all environments; 1000 to 10000.
        epochs: number of epochs; the run takes epochs x steps_per_epoch steps. 20 to 1000 is usual.
        replay_size: transitions kept for learning; the oldest give way. 1e5 to 1e6.
        gamma: discount factor. Closer to 1 looks further ahead and is noisier; 0.9 to 0.999.
        polyak: how much of the target networks stays at each update. Closer to 1 moves them more
            slowly: more stable, slower; 0.99 to 0.999.
        pi_lr: learning rate of the policy (Adam); 1e-4 to 1e-3.
        q_lr: learning rate of the action-value function (Adam); 3e-4 to 1e-3.
        batch_size: transitions in a gradient step. Larger is less noisy and slower; 64 to 256.
        start_steps: exactly so many first steps take uniformly random actions, for exploration;
            1e3 to 1e4.
        update_after: environment steps before the first gradient step; 1e3 to 1e4.
        update_every: environment steps between two rounds of gradient steps. Raising it makes
            rounds rarer and longer, at the same number of gradient steps a step; 1 to 50.
        act_noise: standard deviation of the noise on actions while training, in units of half the
            range of each dimension. More explores more; 0.05 to 0.3.
        num_test_episodes: episodes without noise at the end of each epoch, in an environment of
            their own; 5 to 20.
        max_ep_len: steps after which an episode is cut and its rest estimated; 200 to 1000.
        logger_kwargs: keyword arguments of `EpochLogger`: output_dir, exp_name, sinks and others.
        save_freq: epochs between two saves of policy and checkpoint; at least one a minute anyway.
        updates_per_step: gradient steps for each environment step, over all environments: the
            update-to-data ratio. More learns more from the same steps and is slower; 0.25 to 4.
        num_envs: environments stepped side by side in each shard; must divide the steps. 1 to 64.
        vector: 'sync' steps them one after the other in this process, 'async' each in its own.
        shards: parts the data is split into; decides rounding. None means one for each process.
        num_threads: threads of torch and BLAS. None means 1, or 2 by a rule (docs/adr/0008).
        device: where the networks live, 'cpu' or 'cuda'.
        compile: turn the whole update into machine code first, about a minute, for faster and
            differently rounded steps. None does so from 200,000 gradient steps on.
        resume: continue the run in logger_kwargs['output_dir'] exactly where it was saved.
        overwrite: delete a run that is already there instead of keeping its files aside.
        progress: show a progress bar instead of the table of each epoch.

    Returns:
        The trained actor-critic.
    """
    with core.TorchRun("ddpg", locals()) as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        ac_targ = target_copy(ac)
        pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr, fused=True)
        q_optimizer = Adam(ac.q.parameters(), lr=q_lr, fused=True)
        run.track(ac_targ=ac_targ, pi_optimizer=pi_optimizer, q_optimizer=q_optimizer)
        buffer = core.make_replay_buffer(run, replay_size)
        policy = core.NoisyPolicy(run.policy, run.action_space, act_noise)
        loop = core.Interaction(run, values=("QVals",), losses=("LossPi", "LossQ"))

        # ---------------------------- Gradient update rule ----------------------------
        rule = core.compiled(run, ddpg_update, pi_optimizer, q_optimizer)

        def update(batch):
            return rule(ac, ac_targ, pi_optimizer, q_optimizer, batch, gamma, polyak)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            for _t in loop.steps():
                a = loop.act(policy, start_steps)
                o, a, r, o2, d = loop.step(a)
                buffer.store_many(o, a, r, o2, d)
                n = loop.updates_due(update_after, update_every, updates_per_step)
                for batch in buffer.sample_batches(n, batch_size):
                    loop.record(update(batch))
            loop.evaluate(core.make_get_action(ac, deterministic=True), num_test_episodes)
            loop.log()
    return ac


if __name__ == "__main__":
    main(ddpg)
