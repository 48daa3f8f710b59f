"""The environments of runs that tests kill and resume, by the names in a run's description.

Each of them holds something that a checkpoint could miss: draws from a global generator, a count,
statistics of a wrapper, an observation of several parts.
"""

import functools
import random

import gymnasium as gym
import numpy as np
import torch
from gymnasium import spaces

from spinup.envs import make_env


class DictObservation(gym.ObservationWrapper):
    """CartPole with its observation spread over a Dict, in two dtypes."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))
        self.observation_space = spaces.Dict(
            {
                "state": spaces.Box(-10, 10, (2, 2), np.float32),
                "side": spaces.Discrete(2),
            }
        )

    def observation(self, obs):
        return {"state": np.clip(obs, -10, 10).reshape(2, 2), "side": int(obs[2] > 0)}


class FromGlobal(gym.Wrapper):
    """Draws from NumPy's global generator, which no reset seed reaches."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        noise = (0.01 * np.random.standard_normal(obs.shape)).astype(obs.dtype)
        return obs + noise, rew, terminated, truncated, info


class Unrepeatable(FromGlobal):
    """Draws from a generator whose state nobody can save."""

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        return obs, rew + random.SystemRandom().random(), terminated, truncated, info


class Draws(gym.Wrapper):
    """Its rewards are noisy, and its first observations too, from both global generators."""

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        return obs + np.float32(0.01 * random.random()), info

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        return obs, rew + random.gauss(0, 1) + np.random.rand(), terminated, truncated, info


class AddsCounts(gym.Wrapper):
    """What `RecordEpisodeStatistics` has counted so far is part of the reward."""

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        counted = self.env.episode_count + 0.01 * sum(self.env.return_queue)
        return obs, rew + 0.1 * counted, terminated, truncated, info


class Curriculum(gym.Wrapper):
    """Pays more in every episode, and offers no way to save how much."""

    level = 0

    def reset(self, **kwargs):
        self.level += 1
        return self.env.reset(**kwargs)

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        return obs, rew * self.level, terminated, truncated, info


class SavedCurriculum(Curriculum):
    """The same with the methods that save it."""

    def get_state(self):
        return {"level": self.level}

    def set_state(self, state):
        self.level = state["level"]


class DrawsWhenMade(gym.Wrapper):
    """Draws from the global generators in its constructor."""

    def __init__(self):
        super().__init__(make_env("Hopper-v5"))
        random.random(), np.random.rand(), torch.rand(1)


@functools.cache
def shared_cheetah():
    """The one environment of this process, for training and testing."""
    return make_env("HalfCheetah-v5")


def stacked_up(env):
    """All of Gymnasium's wrappers that keep something, around one another."""
    env = AddsCounts(gym.wrappers.RecordEpisodeStatistics(SavedCurriculum(env)))
    env = gym.wrappers.NormalizeReward(gym.wrappers.NormalizeObservation(env))
    return gym.wrappers.FlattenObservation(gym.wrappers.FrameStackObservation(env, 3))


def wrapped(wrapper, env_id):
    """A function that makes this environment in this wrapper."""
    return lambda: wrapper(gym.make(env_id))


KEEPERS = {
    "NormalizeObservation": gym.wrappers.NormalizeObservation,
    "NormalizeReward": gym.wrappers.NormalizeReward,
    "ClipReward": lambda env: gym.wrappers.ClipReward(env, -1, 0.5),
    "Curriculum": Curriculum,
    "Draws": Draws,
    "Stacked": stacked_up,
    "Plain": lambda env: env,
    "Unsaid": lambda env: gym.wrappers.TransformReward(env, lambda r: r),
    "UnsaidTwice": lambda env: gym.wrappers.TransformReward(env, lambda r: 2 * r),
}


ENVIRONMENTS = {
    "bits": lambda: make_env("spinup/BitFlip-v0", n=5),  # goals that are reached now and then
    "draws_when_made": DrawsWhenMade,
    "shared": shared_cheetah,
    "dict": DictObservation,
    "discrete": lambda: gym.make("FrozenLake-v1"),
    "from_global": FromGlobal,
    "unrepeatable": Unrepeatable,
    **{
        f"{name}:{env_id}": wrapped(wrapper, env_id)
        for name, wrapper in KEEPERS.items()
        for env_id in ("CartPole-v1", "Pendulum-v1")
    },
}


class At(gym.Wrapper):
    """CartPole that calls `trouble` before its n-th step."""

    def __init__(self, n, trouble):
        super().__init__(make_env("CartPole-v1"))
        self.left, self.trouble = n, trouble

    def step(self, action):
        self.left -= 1
        if self.left == 0:
            self.trouble()
        return super().step(action)


def at(n, trouble):
    """A function that makes environments whose n-th step calls `trouble`; only one of them does."""
    once = functools.cache(trouble)
    return lambda: At(n, once)


def undisturbed():
    """Make such an environment without trouble."""
    return At(0, None)
