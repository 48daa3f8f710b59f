"""Soft Actor-Critic (Haarnoja et al. 2018, arXiv:1801.01290 and arXiv:1812.05905).

Idea: reward the policy for its entropy as well, so that it goes on exploring and stays random where
the choice matters little. The critics learn the value that includes this bonus; the policy is
stochastic and improved through its own samples (reparameterisation). The smaller of two critics
counts, as in TD3; the noise of the policy itself takes the place of target smoothing.

    python -m spinup.run sac --env HalfCheetah-v5
    python -m spinup.algos.pytorch.sac.sac --env Pendulum-v1 --epochs 5

What differs from the paper is listed in the README beside this file.
"""

import torch
from torch.optim import Adam

from spinup.algos.pytorch.sac import core
from spinup.algos.pytorch.sac.core import ReplayBuffer as ReplayBuffer
from spinup.algos.pytorch.sac.core import (
    flat,
    frozen,
    minimize,
    polyak_update,
    target_copy,
    twin_q,
)
from spinup.cli.plan import main


def soft_value(ac, ac_q, o, alpha):
    """E[min Q_i(o, a) - alpha log pi(a|o)] with a from the policy of `ac` and Q_i of `ac_q`.

    One sample stands for the expectation over continuous actions; over discrete ones it is exact.
    Returns the values (B,) and log pi, (B,) as well.
    """
    if getattr(ac, "discrete", False):
        probs, logp = core.action_probs(ac, o)  # (B, n)
        q = torch.min(ac_q.q1(o), ac_q.q2(o))
        return (probs * (q - alpha * logp)).sum(-1), (probs * logp).sum(-1)
    a, logp = ac.pi(o)
    logp = flat(logp)  # (B,)
    return torch.min(*twin_q(ac_q, o, a)) - alpha * logp, logp


def compute_loss_q(ac, ac_targ, batch, gamma, alpha):
    """Squared errors of both critics against the same one-step backup from the target networks."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    with torch.no_grad():
        v_targ, _ = soft_value(ac, ac_targ, o2, alpha)  # actions of the current policy
        backup = r + gamma * (1 - d) * v_targ  # (B,)
    q1, q2 = twin_q(ac, o, a)
    loss_q = ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()
    return loss_q, {"Q1Vals": q1.detach(), "Q2Vals": q2.detach()}


def compute_loss_pi(ac, batch, alpha):
    """Minus the soft value of the policy's own actions."""
    v, logp = soft_value(ac, ac, batch["obs"], alpha)
    return -v.mean(), logp.detach()


def compute_loss_alpha(log_alpha, logp, target_entropy):
    """Raises the temperature while the entropy, -log pi, is below its target (eq. 18)."""
    return -(log_alpha.exp() * (logp + target_entropy)).mean()


def sac_update(
    ac,
    ac_targ,
    pi_optimizer,
    q_optimizer,
    alpha_optimizer,
    batch,
    log_alpha,
    target_entropy,
    gamma=0.99,
    polyak=0.995,
):
    """Lines 8 to 12 of the pseudocode: one step of the critics, policy, temperature, targets."""
    alpha = log_alpha.detach().exp()
    loss_q, info = compute_loss_q(ac, ac_targ, batch, gamma, alpha)
    minimize(loss_q, q_optimizer)
    info["LossQ"] = loss_q.detach()

    with frozen(ac.q1, ac.q2):  # the gradient passes through Q to the action and leaves Q alone
        loss_pi, logp = compute_loss_pi(ac, batch, alpha)
        minimize(loss_pi, pi_optimizer)
    info["LossPi"], info["LogPi"] = loss_pi.detach(), logp

    if alpha_optimizer is not None:
        minimize(compute_loss_alpha(log_alpha, logp, target_entropy), alpha_optimizer)

    polyak_update(ac, ac_targ, polyak)
    return info


def sac(
    env_fn,
    actor_critic=core.MLPActorCritic,
    ac_kwargs={},
    seed=0,
    steps_per_epoch=4000,
    epochs=100,
    replay_size=1000000,
    gamma=0.99,
    polyak=0.995,
    lr=1e-3,
    alpha=0.2,
    batch_size=100,
    start_steps=10000,
    update_after=1000,
    update_every=50,
    num_test_episodes=10,
    max_ep_len=1000,
    logger_kwargs={},
    save_freq=1,
    *,
    target_entropy=None,
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
    """Train a policy with SAC.

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
        lr: learning rate of policy, action-value functions and temperature (Adam); 3e-4 to 1e-3.
        alpha: weight of the entropy in the objective. More keeps the policy more random; 0.05 to
            0.3 for rewards around 1, or 'auto' to learn it.
        batch_size: transitions in a gradient step. Larger is less noisy and slower; 64 to 256.
        start_steps: exactly so many first steps take uniformly random actions, for exploration;
            1e3 to 1e4.
        update_after: environment steps before the first gradient step; 1e3 to 1e4.
        update_every: environment steps between two rounds of gradient steps. Raising it makes
            rounds rarer and longer, at the same number of gradient steps a step; 1 to 50.
        num_test_episodes: episodes with the most likely actions at the end of each epoch, in an
            environment of their own; 5 to 20.
        max_ep_len: steps after which an episode is cut and its rest estimated; 200 to 1000.
        logger_kwargs: keyword arguments of `EpochLogger`: output_dir, exp_name, sinks and others.
        save_freq: epochs between two saves of policy and checkpoint; at least one a minute anyway.
        target_entropy: with alpha='auto', the entropy to aim at. None means minus the number of
            dimensions of a Box, and half the entropy of uniform choice for discrete actions.
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
    core.check_temperature(alpha, target_entropy)
    with core.TorchRun("sac", locals()) as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        core.check_actor_critic(ac, run.action_space)
        ac_targ = target_copy(ac)
        pi_optimizer = Adam(ac.pi.parameters(), lr=lr, fused=True)
        critics = torch.nn.ModuleList([ac.q1, ac.q2])
        q_optimizer = Adam(critics.parameters(), lr=lr, fused=True)
        temperature = core.Temperature(alpha).to(run.device)
        log_alpha = temperature.log_alpha
        alpha_optimizer = Adam([log_alpha], lr=lr) if temperature.learned else None
        if target_entropy is None:
            target_entropy = core.default_target_entropy(run.action_space)
        run.track(ac_targ=ac_targ, pi_optimizer=pi_optimizer, q_optimizer=q_optimizer)
        run.track(temperature=temperature)
        if alpha_optimizer is not None:
            run.track(alpha_optimizer=alpha_optimizer)
        buffer = core.make_replay_buffer(run, replay_size)
        policy = core.SampledPolicy(run.policy)
        values = ("Q1Vals", "Q2Vals", "LogPi")
        loop = core.Interaction(run, values=values, losses=("LossPi", "LossQ"))

        # ---------------------------- Gradient update rule ----------------------------
        rule = core.compiled(run, sac_update, pi_optimizer, q_optimizer, alpha_optimizer)

        def update(batch):
            return rule(
                ac,
                ac_targ,
                pi_optimizer,
                q_optimizer,
                alpha_optimizer,
                batch,
                log_alpha,
                target_entropy,
                gamma=gamma,
                polyak=polyak,
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
            loop.log(Alpha=log_alpha.detach().exp())
    return ac


if __name__ == "__main__":
    main(sac)
