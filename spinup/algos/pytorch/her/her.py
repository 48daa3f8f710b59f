"""Hindsight Experience Replay (Andrychowicz et al. 2017, arXiv:1707.01495).

Idea: an episode that missed its goal still shows how to reach the states that it visited.
Store its transitions again, as if one of those states had been the goal all along. An off-policy
algorithm (DQN, DDPG, TD3 or SAC, whose networks also see the goal) then learns even from episodes
that never reach the true goal and whose reward never changes.

    python -m spinup.run her --env spinup/BitFlip-v0
    python -m spinup.algos.pytorch.her.her --env spinup/BitFlip-v0 --env_kwargs:n 8 --epochs 5

The README next to this file lists the differences from the paper.
"""

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np
from torch import nn

from spinup.algos.pytorch.common.buffers import make_replay_buffer
from spinup.algos.pytorch.her import core
from spinup.runs.arguments import TorchOptions, Unpack, training_function


def hindsight_goals(achieved, strategy, k, rng, past=None):
    """Draw hindsight goals for an episode: k for each of its T transitions, (T, k, goal).

    `achieved` (T, goal) contains the goals that the transitions achieved. 'future' draws from the
    goals of the same and later transitions, 'final' takes the last goal, 'episode' draws from all
    of them, and 'random' draws from `past` (n, goal), the achieved goals that are still stored.
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
    raise ValueError(f"there is no strategy {strategy!r}: use future, final, episode or random")


def relabel(episode, goals, strategy, k, rng, past=None):
    """Relabel an episode's transitions as if other goals had been desired.

    `episode` contains `obs, act, rew, obs2, done`, T rows each. `goals` locates the goals in an
    observation and computes rewards. Returns the same fields with k rows for each row.
    """
    copies = {name: np.repeat(x, k, axis=0) for name, x in episode.items()}  # (T * k, ...)
    # The goal that an action achieved is in the NEXT observation.
    achieved, was_desired = (copies["obs2"][:, part] for part in (goals.achieved, goals.desired))
    new = hindsight_goals(episode["obs2"][:, goals.achieved], strategy, k, rng, past)
    new = new.reshape(achieved.shape)
    copies["rew"] = goals.reward(achieved, new)
    copies["done"] = goals.terminated(achieved, new, was_desired, copies["done"])
    for name in ("obs", "obs2"):
        copies[name][:, goals.desired] = new
    return copies


def her_update(base_update, inputs, batch, step):
    """Line 11 of the pseudocode: one update of the base on observations and desired goals.

    `inputs` selects the columns that the networks see; `step` counts the updates so far.
    """
    seen = {name: inputs(batch[name]) for name in ("obs", "obs2")}
    return base_update({**batch, **seen}, step)


@training_function
def her(
    env_fn: str | Callable[[], Any],
    actor_critic: Callable[..., nn.Module] | None = None,
    ac_kwargs: Mapping[str, Any] = {},
    seed: int = 0,
    steps_per_epoch: int = 4000,
    epochs: int = 50,
    replay_size: int | float = 1000000,
    gamma: float = 0.98,
    polyak: float = 0.995,
    lr: float = 1e-3,
    batch_size: int = 128,
    start_steps: int = 1000,
    update_after: int = 1000,
    update_every: int = 50,
    strategy: Literal["future", "final", "episode", "random"] = "future",
    k: int = 4,
    base: Literal["dqn", "ddpg", "td3", "sac"] | None = None,
    base_kwargs: Mapping[str, Any] = {},
    num_test_episodes: int = 10,
    max_ep_len: int | float = 1000,
    logger_kwargs: Mapping[str, Any] = {},
    save_freq: int = 1,
    *,
    updates_per_step: float = 1.0,
    **options: Unpack[TorchOptions],
) -> nn.Module:
    """Train a policy with hindsight experience replay.

    Args:
        env_fn: function of no arguments that makes a fresh goal environment. Its observations are a
            dict of `observation`, `achieved_goal` and `desired_goal`, and it has the method
            `compute_reward(achieved_goal, desired_goal, info)`.
        actor_critic: class of the networks, as for the base; called with (space of the observation
            joined with the desired goal, action_space, **ac_kwargs). None means the base's default.
        ac_kwargs: keyword arguments of the networks. The base's default class takes `hidden_sizes`
            and `activation`; `normalize_obs` works with every class and is True by default.
        replay_size: capacity of the replay buffer in transitions, including relabeled copies; the
            oldest are overwritten. 1e5 to 1e6.
        gamma: discount factor. Values closer to 1 look further ahead and are noisier; 0.9 to 0.99.
        polyak: fraction of the target networks that each update keeps. Values closer to 1 move them
            more slowly: more stable, slower learning; 0.95 to 0.999.
        lr: learning rate of all networks (Adam); 3e-4 to 1e-3.
        strategy: where hindsight goals come from: 'future' (the rest of the same episode), 'final'
            (its last state), 'episode' (all of it) or 'random' (all goals in the buffer).
        k: number of relabeled copies per transition. 0 is the base alone; 4 to 8 are usual.
        base: the algorithm that learns: 'dqn', 'ddpg', 'td3' or 'sac'. None means 'dqn' for
            Discrete actions and 'ddpg' for Box.
        base_kwargs: hyperparameters that only the base has, such as `act_noise` (ddpg, td3),
            `alpha` (sac) or `eps_steps` (dqn). The others keep the base's defaults.

    Returns:
        The trained networks, a `core.GoalActorCritic`; its `net` contains the base's networks.
    """
    with core.GoalRun("her") as run:
        # ------------------------------- Initialization -------------------------------
        ac = run.build(actor_critic, ac_kwargs)
        learner = run.base.learner(run, ac.net, gamma=gamma, polyak=polyak, **run.base_options(lr))
        policy = core.GoalPolicy(learner.policy, ac)
        buffer = make_replay_buffer(run, replay_size)
        episodes = core.Episodes(run)
        loop = core.GoalLoop(run, learner)

        # -------------------------------- Training loop -------------------------------
        for _epoch in run.epochs():
            for t in loop.steps():
                learner.begin_step(t)  # sets epsilon, if the learner is DQN's
                a = loop.act(policy, start_steps)
                for episode in episodes.add(loop.step(a), loop.ended):
                    buffer.store_many(**episode)
                    past = core.achieved_goals(buffer, run.goals)
                    copies = relabel(episode, run.goals, strategy, k, episodes.rng, past)
                    buffer.store_many(**copies)
                    core.update_normalizer(ac, episode, copies)
                    loop.finished(episode)
                n = loop.updates_due(update_after, update_every, updates_per_step)
                for batch in loop.sample(buffer, n, batch_size):
                    loop.record(her_update(learner.update, ac.inputs, batch, loop.updates))
            loop.evaluate(ac.make_get_action(deterministic=True), num_test_episodes)
            loop.log(learner.columns(loop.t))
    return ac


if __name__ == "__main__":
    from spinup.cli.main import run_file

    run_file(her)
