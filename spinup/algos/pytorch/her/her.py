"""Hindsight Experience Replay (Andrychowicz et al. 2017, arXiv:1707.01495).

Idea: an episode that missed its goal still shows how to reach the states it went through. Store its
transitions a second time as if one of those had been the goal all along, and an off-policy
algorithm (DQN, DDPG, TD3 or SAC, which see the goal beside the observation) learns from failures,
where the true goal is never met and its reward never changes.

    python -m spinup.run her --env spinup/BitFlip-v0
    python -m spinup.algos.pytorch.her.her --env spinup/BitFlip-v0 --env_kwargs:n 8 --epochs 5

What differs from the paper is listed in the README beside this file.
"""

import numpy as np

from spinup.algos.pytorch.her import core
from spinup.cli.plan import main
from spinup.utils.errors import SpinupError


def hindsight_goals(achieved, strategy, k, rng, past=None):
    """Goals to replay an episode with: k for each of its T transitions, (T, k, goal).

    `achieved` (T, goal) are the goals that the transitions led to. 'future' draws among those of
    the same transition and the later ones, 'final' takes the last, 'episode' draws among all of
    them, and 'random' among `past` (n, goal), the goals achieved so far in the whole training.
    """
    n = len(achieved)
    if strategy == "future":
        return achieved[rng.integers(np.arange(n)[:, None], n, size=(n, k))]
    if strategy == "final":
        return achieved[np.full((n, k), n - 1)]
    if strategy == "episode":
        return achieved[rng.integers(n, size=(n, k))]
    if strategy == "random":
        return past[rng.integers(len(past), size=(n, k))]
    raise SpinupError(f"strategy={strategy!r} must be one of {', '.join(core.STRATEGIES)}")


def relabel(episode, goals, strategy, k, rng, past=None):
    """An episode's transitions as they would have been, had other goals been desired.

    `episode` holds `obs, act, rew, obs2, done`, T rows each; `goals` says which columns of
    observations are goals and what they pay. Returns the same, with k rows for each of those rows.
    """
    copies = {name: np.repeat(x, k, axis=0) for name, x in episode.items()}  # (T * k, ...)
    # What an action achieved is in the NEXT observation.
    achieved, was_desired = (copies["obs2"][:, part] for part in (goals.achieved, goals.desired))
    new = hindsight_goals(episode["obs2"][:, goals.achieved], strategy, k, rng, past)
    new = new.reshape(achieved.shape)
    copies["rew"] = goals.reward(achieved, new)
    copies["done"] = goals.terminated(achieved, new, was_desired, copies["done"])
    for name in ("obs", "obs2"):
        copies[name][:, goals.desired] = new
    return copies


def her_update(base_update, inputs, batch, step):
    """Line 11 of the pseudocode: one update of the base, shown observations and desired goals.

    `inputs` picks what the networks see from the rows of the batch; `step` counts updates so far.
    """
    seen = {name: inputs(batch[name]) for name in ("obs", "obs2")}
    return base_update({**batch, **seen}, step)


def her(
    env_fn,
    actor_critic=None,
    ac_kwargs={},
    seed=0,
    steps_per_epoch=4000,
    epochs=50,
    replay_size=1000000,
    gamma=0.98,
    polyak=0.995,
    lr=1e-3,
    batch_size=128,
    start_steps=1000,
    update_after=1000,
    update_every=50,
    strategy="future",
    k=4,
    base=None,
    base_kwargs={},
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
    resume=False,
    overwrite=False,
    progress=False,
):
    """Train a policy with hindsight experience replay.

    Args:
        env_fn: function of no arguments that makes a fresh goal environment: observations are a
            dict of `observation`, `achieved_goal` and `desired_goal`, and it has the method
            `compute_reward(achieved_goal, desired_goal, info)`.
        actor_critic: class of the networks as the base takes it, called with (space of observation
            and desired goal joined, action_space, **ac_kwargs). None means the base's own.
        ac_kwargs: keyword arguments of the networks, those of the base's own being `hidden_sizes`
            and `activation`, and `normalize_obs`, which is True if not given.
        seed: decides every random number of the run; zero or more.
        steps_per_epoch: steps between two rows of the log, over all environments; 1000 to 10000.
        epochs: number of epochs; the run takes epochs x steps_per_epoch steps. 20 to 1000 is usual.
        replay_size: transitions kept for learning, copies included; the oldest give way. 1e5 to
            1e6.
        gamma: discount factor. Closer to 1 looks further ahead and is noisier; 0.9 to 0.99.
        polyak: how much of the target networks stays at each update. Closer to 1 moves them more
            slowly: more stable, slower; 0.95 to 0.999.
        lr: learning rate of all networks (Adam); 3e-4 to 1e-3.
        batch_size: transitions in a gradient step. Larger is less noisy and slower; 64 to 256.
        start_steps: exactly so many first steps take uniformly random actions, for exploration;
            1e3 to 1e4.
        update_after: environment steps before the first gradient step; 1e3 to 1e4.
        update_every: environment steps between two rounds of gradient steps. Raising it makes
            rounds rarer and longer, at the same number of gradient steps a step; 1 to 50.
        strategy: where goals in hindsight come from: 'future' (the rest of the same episode),
            'final' (its last state), 'episode' (all of it) or 'random' (everything seen so far).
        k: copies with such a goal for each transition. 0 is the base alone; 4 to 8 are usual.
        base: algorithm underneath: 'dqn', 'ddpg', 'td3' or 'sac'. None means 'dqn' for Discrete
            actions and 'ddpg' for Box.
        base_kwargs: hyperparameters that only the base has, with its own defaults, such as
            `act_noise` (ddpg, td3), `alpha` (sac) or `eps_steps` (dqn).
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
        resume: continue the run in logger_kwargs['output_dir'] exactly where it was saved.
        overwrite: delete a run that is already there instead of keeping its files aside.
        progress: show a progress bar instead of the table of each epoch.

    Returns:
        The trained networks, a `core.GoalActorCritic`: `net` in it are those of the base.
    """
    with core.GoalRun("her", locals()) as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        learner = core.make_learner(run, ac, lr, gamma, polyak)
        buffer = core.make_replay_buffer(run, replay_size)
        episodes = core.Episodes(run)
        loop = core.GoalInteraction(run, learner)
        goals = run.goals

        # ---------------------------- Gradient update rule ----------------------------
        def update(batch):
            return her_update(learner.update, ac.inputs, batch, loop.updates)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            for t in loop.steps():
                learner.begin_step(t)
                a = loop.act(learner.policy, start_steps)
                for episode in episodes.add(loop.step(a), loop.streams.ended):
                    buffer.store_many(**episode)
                    past = core.achieved_goals(buffer, goals)
                    copies = relabel(episode, goals, strategy, k, episodes.rng, past)
                    buffer.store_many(**copies)
                    core.update_normalizer(ac, episode, copies)
                    loop.finished(episode)
                n = loop.updates_due(update_after, update_every, updates_per_step)
                if n and len(buffer):  # the first episode may not be over yet
                    for batch in buffer.sample_batches(n, batch_size):
                        loop.record(update(batch))
            loop.evaluate(core.make_goal_get_action(ac), num_test_episodes)
            loop.log(**learner.columns())
    return ac


if __name__ == "__main__":
    main(her)
