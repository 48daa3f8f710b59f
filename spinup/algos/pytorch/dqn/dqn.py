"""Deep Q-Network with double Q-learning (Mnih et al. 2015; van Hasselt et al. 2016).

Idea: learn the value Q(s, a) of every discrete action by regression on its own estimate one step
later, and act by taking the best one, or a random one now and then. Two things keep this from
running away: transitions are replayed in random order from a large buffer, and the targets come
from a copy of the network that stands still for a while.

    python -m spinup.run dqn --env CartPole-v1
    python -m spinup.algos.pytorch.dqn.dqn --env Acrobot-v1 --n_step 3 --epochs 20

What differs from the papers is listed in the README beside this file.
"""

import torch
from torch.nn.functional import huber_loss, mse_loss
from torch.optim import Adam

from spinup.algos.pytorch.dqn import core
from spinup.algos.pytorch.dqn.core import ReplayBuffer as ReplayBuffer
from spinup.algos.pytorch.dqn.core import minimize, polyak_update, target_copy
from spinup.cli.plan import main


def compute_loss_q(ac, ac_targ, batch, gamma, double_q=True, loss="huber"):
    """Error of Q against the backup from the target network; also the error of every row."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    with torch.no_grad():
        q_targ = ac_targ.q(o2)  # (B, actions)
        # Double Q: one network chooses, the other judges. A maximum over noisy estimates prefers
        # those that are too high.
        a2 = (ac.q(o2) if double_q else q_targ).argmax(-1, keepdim=True)
        q2 = q_targ.gather(-1, a2).squeeze(-1)  # (B,)
        backup = r + batch.get("discount", gamma) * (1 - d) * q2  # n steps: gamma^n
    q = ac.q(o).gather(-1, a.unsqueeze(-1)).squeeze(-1)
    error = (huber_loss if loss == "huber" else mse_loss)(q, backup, reduction="none")
    if "weight" in batch:  # of prioritised replay: undoes that some rows are drawn more often
        error = batch["weight"] * error
    q = q.detach()
    return error.mean(), {"QVals": q}, q - backup


def dqn_update(
    ac,
    ac_targ,
    q_optimizer,
    batch,
    update_target=True,
    gamma=0.99,
    polyak=0.0,
    double_q=True,
    loss="huber",
    max_grad_norm=None,
):
    """Lines 8 to 10 of the pseudocode: one gradient step of Q, perhaps move the target.

    Returns what is logged, and the temporal difference error of each row of the batch.
    """
    loss_q, info, td_error = compute_loss_q(ac, ac_targ, batch, gamma, double_q, loss)
    minimize(loss_q, q_optimizer, max_grad_norm)
    if update_target:
        polyak_update(ac, ac_targ, polyak)
    return {**info, "LossQ": loss_q.detach()}, td_error


def dqn(
    env_fn,
    actor_critic=core.MLPQNetwork,
    ac_kwargs={},
    seed=0,
    steps_per_epoch=4000,
    epochs=100,
    replay_size=100000,
    gamma=0.99,
    polyak=0.0,
    q_lr=1e-3,
    batch_size=64,
    start_steps=1000,
    update_after=1000,
    update_every=4,
    target_update_every=250,
    eps_start=1.0,
    eps_end=0.05,
    eps_steps=10000,
    double_q=True,
    loss="huber",
    num_test_episodes=10,
    max_ep_len=1000,
    logger_kwargs={},
    save_freq=1,
    *,
    n_step=1,
    prioritized=False,
    prio_alpha=0.6,
    prio_beta=0.4,
    prio_beta_steps=100000,
    max_grad_norm=None,
    anneal_lr=False,
    updates_per_step=0.25,
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
    """Train a policy with DQN.

    Args:
        env_fn: function of no arguments that makes a fresh environment (Gymnasium interface).
        actor_critic: class whose instances have `act` and `q`, the values of all actions; called
            with (observation_space, action_space, **ac_kwargs).
        ac_kwargs: keyword arguments of the network. The default class takes `hidden_sizes`,
            `activation` and `dueling`.
        seed: decides every random number of the run; zero or more.
        steps_per_epoch: steps between two rows of the log, over all environments; 1000 to 10000.
        epochs: number of epochs; the run takes epochs x steps_per_epoch steps. 20 to 1000 is usual.
        replay_size: transitions kept for learning; the oldest give way. 1e4 to 1e6.
        gamma: discount factor. Closer to 1 looks further ahead and is noisier; 0.9 to 0.999.
        polyak: how much of the target network stays when it is updated. 0 copies; with 0.99 to
            0.999 and target_update_every=1 it moves slowly all the time.
        q_lr: learning rate (Adam); 1e-4 to 1e-3.
        batch_size: transitions in a gradient step. Larger is less noisy and slower; 32 to 256.
        start_steps: exactly so many first steps take uniformly random actions, for exploration;
            1e3 to 1e4.
        update_after: environment steps before the first gradient step; 1e3 to 1e4.
        update_every: environment steps between two rounds of gradient steps. Raising it makes
            rounds rarer and longer, at the same number of gradient steps a step; 1 to 50.
        target_update_every: gradient steps between two updates of the target network. More is more
            stable and slower; 100 to 10000 with polyak=0.
        eps_start: probability of a random action at the beginning; 1 is usual.
        eps_end: the same at the end of the schedule and after it; 0.01 to 0.1.
        eps_steps: environment steps over which it falls from one to the other in a straight line;
            a tenth of the run is usual.
        double_q: choose the next action by the network itself and judge it by the target network;
            False lets the target network do both and overestimates.
        loss: 'huber', quadratic up to an error of 1 and linear beyond it, or 'squared'.
        num_test_episodes: greedy episodes at the end of each epoch, in an environment of their
            own; 5 to 20.
        max_ep_len: steps after which an episode is cut and its rest estimated; 200 to 1000.
        logger_kwargs: keyword arguments of `EpochLogger`: output_dir, exp_name, sinks and others.
        save_freq: epochs between two saves of policy and checkpoint; at least one a minute anyway.
        n_step: rewards summed up before the estimate takes over. More is faster where rewards are
            rare, and biased by old actions; 1 to 5.
        prioritized: replay transitions with a large error more often.
        prio_alpha: how much more often; 0 is uniform, 1 in proportion to the error; 0.4 to 0.7.
        prio_beta: how much of that the weights of the loss undo at first; 1 is all; 0.4 to 1.
        prio_beta_steps: environment steps over which prio_beta rises to 1; the whole run is usual.
        max_grad_norm: longer gradients are shortened to this. None never does; 10 is usual.
        anneal_lr: let the learning rate fall linearly to zero over the run.
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
        The trained network.
    """
    shares = {"polyak": polyak, "eps_start": eps_start, "eps_end": eps_end}
    shares.update(prio_alpha=prio_alpha, prio_beta=prio_beta)
    counts = {"target_update_every": target_update_every, "n_step": n_step}
    counts.update(eps_steps=eps_steps, prio_beta_steps=prio_beta_steps)
    core.check_arguments(loss, shares, counts, max_grad_norm)
    with core.TorchRun("dqn", locals()) as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        ac_targ = target_copy(ac)
        q_optimizer = Adam(ac.q.parameters(), lr=q_lr, fused=True)
        run.track(ac_targ=ac_targ, q_optimizer=q_optimizer)
        replay = core.Replay(run, replay_size, n_step, gamma, prio_alpha if prioritized else None)
        policy = core.EpsilonGreedy(run.policy, int(run.action_space.n))
        loop = core.Interaction(run, values=("QVals",), losses=("LossQ",))

        def epsilon(t):
            return core.linear_schedule(eps_start, eps_end, t / eps_steps)

        def beta(t):
            return core.linear_schedule(prio_beta, 1.0, t / prio_beta_steps)

        # ---------------------------- Gradient update rule ----------------------------
        rule = core.compiled(run, dqn_update, q_optimizer)

        def update(batch):
            return rule(
                ac,
                ac_targ,
                q_optimizer,
                batch,
                update_target=(loop.updates + 1) % target_update_every == 0,
                gamma=gamma,
                polyak=polyak,
                double_q=double_q,
                loss=loss,
                max_grad_norm=max_grad_norm,
            )

        # -------------------------------- Training loop -------------------------------
        for epoch in run.epochs():
            if anneal_lr:
                q_optimizer.param_groups[0]["lr"] = q_lr * (1 - epoch / epochs)
            for t in loop.steps():
                policy.epsilon = epsilon(t)
                a = loop.act(policy, start_steps)
                o, a, r, o2, d = loop.step(a)
                replay.store(o, a, r, o2, d, loop.streams)
                n = loop.updates_due(update_after, update_every, updates_per_step)
                for batch in replay.sample_batches(n, batch_size, beta(t)):
                    info, td_error = update(batch)
                    replay.update_priorities(batch, td_error)
                    loop.record(info)
            loop.evaluate(core.make_get_action(ac, deterministic=True), num_test_episodes)
            loop.log(Epsilon=epsilon(loop.t))
    return ac


if __name__ == "__main__":
    main(dqn)
