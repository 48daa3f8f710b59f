"""Environments, policies and buffers whose steps a test of the loop can recognize."""

import math
from fractions import Fraction

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from spinup import registry

KINDS = ("terminated", "truncated")
NAMES = ("o", "a", "r", "o2", "d")
POLICY = np.float32(0.123)  # an action that is never drawn at random
ROWS = [row for row in registry.ROWS if not row.on_policy]
OFF_POLICY = [row.name for row in ROWS]
# ACER keeps trajectories, in a buffer of its own.
CONTINUOUS = [r.name for r in ROWS if r.action_spaces[0] == "Box" and r.observation == "vector"]


class Tape(gym.Env):
    """The observation tells environment, episode and step; the reward is ten times the step."""

    def __init__(self, length=5, end="terminated"):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.length, self.end = length, end
        self.episode, self.t, self.seeds, self.actions = -1, 0, [], []

    def obs(self):
        # The first seed tells environments apart, in whatever process they live.
        return np.array([self.seeds[0] % 2**20, self.episode, self.t], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode, self.t = self.episode + 1, 0
        return self.obs(), {}

    def step(self, action):
        self.actions.append(np.array(action))
        self.t += 1
        over = self.t == self.length
        terminated, truncated = (over and self.end in (kind, "both") for kind in KINDS)
        return self.obs(), 10.0 * (self.t - 1), terminated, truncated, {}


class Fixed:
    """A policy whose actions are recognised."""

    def __init__(self):
        self.begun = 0

    def begin(self, rng):
        self.begun += 1

    def renew(self):
        raise AssertionError("nothing was restored")

    def __call__(self, obs, rng):
        return np.full((len(obs), 2), POLICY)


class Numbers:
    """A buffer whose batches are numbers."""

    def __init__(self, size=1):
        self.size, self.asked = size, []

    def __len__(self):
        return self.size

    def sample_batches(self, n, batch_size, **options):
        self.asked.append((n, batch_size, options))
        return iter(range(n))


def updates_by_the_rule(steps, n, after, every, ratio):
    """Gradient steps in `steps` steps, n at a time, in exact arithmetic.

    Each block of `every` steps is worth every x ratio gradient steps, done when the block is
    complete; blocks that were complete before `after` steps are worth nothing.
    """
    each = every * Fraction(ratio).limit_denominator(1000)
    lost = max((t // every for t in range(0, steps + 1, n) if t < after), default=0)
    return max(0, math.floor(steps // every * each) - math.floor(lost * each))


def read(run):
    lines = (run.dir / "progress.txt").read_text().splitlines()
    names = lines[0].split("\t")
    return [dict(zip(names, map(float, x.split("\t")), strict=True)) for x in lines[1:]]


def vectorized(mode=AutoresetMode.NEXT_STEP, cls=SyncVectorEnv, n=3, **kwargs):
    """An env_fn whose environment is a vector of n tapes."""
    return lambda: cls([lambda: Tape(**kwargs)] * n, autoreset_mode=mode)


class Whole(SyncVectorEnv):
    """A vector environment of a user's own, which is not taken apart."""
