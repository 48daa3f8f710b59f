"""Twin Delayed DDPG (Fujimoto et al. 2018, arXiv:1802.09477).

Idea: DDPG, whose policy exploits every overestimate of its critic, with three remedies: the smaller
of two critics makes the target (clipped double Q), noise on the target action smooths Q over
similar actions (target smoothing), and the policy moves less often than the critics (delay).

    python -m spinup.run td3 --env HalfCheetah-v5
    python -m spinup.algos.pytorch.td3.td3 --env Pendulum-v1 --epochs 5

What differs from the paper is listed in the README beside this file.
"""

import torch
from torch.optim import Adam

from spinup.algos.pytorch.td3 import core
from spinup.algos.pytorch.td3.core import ReplayBuffer as ReplayBuffer
from spinup.algos.pytorch.td3.core import frozen, minimize, polyak_update, target_copy, twin_q
from spinup.cli.plan import main


def smoothed_action(ac_targ, o2, target_noise, noise_clip, low, high):
    """The target policy's action plus clipped noise, in units of half the range (section 5.3)."""
    a2 = ac_targ.pi(o2)  # (B, act_dim)
    noise = (target_noise * torch.randn_like(a2)).clamp(-noise_clip, noise_clip)
    return (a2 + noise * (high - low) / 2).clamp(low, high)


def compute_loss_q(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits):
    """Squared errors of both critics against the same one-step backup from the target networks."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    with torch.no_grad():
        a2 = smoothed_action(ac_targ, o2, target_noise, noise_clip, *limits)
        q_targ = torch.min(*twin_q(ac_targ, o2, a2))  # (B,)
        backup = r + gamma * (1 - d) * q_targ
    q1, q2 = twin_q(ac, o, a)
    loss_q = ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()
    return loss_q, {"Q1Vals": q1.detach(), "Q2Vals": q2.detach()}


def compute_loss_pi(ac, batch):
    """Minus the value that the first critic gives to the policy's own actions."""
    o = batch["obs"]
    return -ac.q1(o, ac.pi(o)).mean()


def td3_update(
    ac,
    ac_targ,
    pi_optimizer,
    q_optimizer,
    batch,
    limits,
    update_policy=True,
    gamma=0.99,
    polyak=0.995,
    target_noise=0.2,
    noise_clip=0.5,
):
    """Lines 8 to 13 of the pseudocode: one step of the critics, perhaps policy and targets."""
    loss_q, info = compute_loss_q(ac, ac_targ, batch, gamma, target_noise, noise_clip, limits)
    minimize(loss_q, q_optimizer)
    info["LossQ"] = loss_q.detach()

    if update_policy:
        with frozen(ac.q1):  # the gradient passes through Q to the action and leaves Q alone
            loss_pi = compute_loss_pi(ac, batch)
            minimize(loss_pi, pi_optimizer)
        info["LossPi"] = loss_pi.detach()

        polyak_update(ac, ac_targ, polyak)
    return info


def td3(
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
    target_noise=0.2,
    noise_clip=0.5,
    policy_delay=2,
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
    """Train a policy with TD3.

    Args:
        env_fn: function of no arguments that makes a fresh environment (Gymnasium interface).
        actor_critic: class whose instances have `act`, `pi`, `q1` and `q2`; called with
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
        q_lr: learning rate of both action-value functions (Adam); 3e-4 to 1e-3.
        batch_size: transitions in a gradient step. Larger is less noisy and slower; 64 to 256.
        start_steps: exactly so many first steps take uniformly random actions, for exploration;
            1e3 to 1e4.
        update_after: environment steps before the first gradient step; 1e3 to 1e4.
        update_every: environment steps between two rounds of gradient steps. Raising it makes
            rounds rarer and longer, at the same number of gradient steps a step; 1 to 50.
        act_noise: standard deviation of the noise on actions while training, in units of half the
            range of each dimension. More explores more; 0.05 to 0.3.
        target_noise: standard deviation of the noise on the target policy's action, in the same
            units. More smooths Q over a wider neighbourhood; 0.1 to 0.3.
        noise_clip: largest size of that noise, in the same units; 0.3 to 0.5.
        policy_delay: gradient steps of the critics for one of the policy and of the targets,
            counted over the whole run. More gives the critics more time; 1 to 3.
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
    core.check_count("policy_delay", policy_delay, 1)
    with core.TorchRun("td3", locals()) as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        ac_targ = target_copy(ac)
        pi_optimizer = Adam(ac.pi.parameters(), lr=pi_lr, fused=True)
        critics = torch.nn.ModuleList([ac.q1, ac.q2])
        q_optimizer = Adam(critics.parameters(), lr=q_lr, fused=True)
        run.track(ac_targ=ac_targ, pi_optimizer=pi_optimizer, q_optimizer=q_optimizer)
        buffer = core.make_replay_buffer(run, replay_size)
        policy = core.NoisyPolicy(run.policy, run.action_space, act_noise)
        limits = core.action_limits(run.action_space, run.device)
        loop = core.Interaction(run, values=("Q1Vals", "Q2Vals"), losses=("LossPi", "LossQ"))

        # ---------------------------- Gradient update rule ----------------------------
        rule = core.compiled(run, td3_update, pi_optimizer, q_optimizer)

        def update(batch):
            return rule(
                ac,
                ac_targ,
                pi_optimizer,
                q_optimizer,
                batch,
                limits,
                update_policy=loop.updates % policy_delay == 0,
                gamma=gamma,
                polyak=polyak,
                target_noise=target_noise,
                noise_clip=noise_clip,
            )

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
    main(td3)
