"""Watching an algorithm from inside its environments: every reset, observation, action and reward.

What a training function really did can be seen without knowing anything about it. The recorder
also notes what the environment refused (an action outside the space, a step after the end), and
stops a function that never stops.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import gymnasium
import numpy as np


class Overrun(Exception):
    """The function took many more steps than it was asked to take."""


class Step(NamedTuple):
    """One step of one environment."""

    obs: Any
    act: Any
    rew: float
    obs2: Any
    terminated: bool
    truncated: bool
    first: bool  # the first step of an episode


class Record:
    """All steps of one training run, by environment, in the order of their creation.

    Args:
        make: makes one probe environment.
        limit: total number of steps after which `Overrun` is raised.
    """

    def __init__(self, make: Callable[[], gymnasium.Env], limit: int) -> None:
        self.make, self.limit = make, limit
        self.envs: list[Watched] = []
        self.total = 0
        self.refused: Exception | None = None  # what the environment raised

    def env_fn(self) -> gymnasium.Env:
        """Make an environment that is watched."""
        env = Watched(self.make(), self)
        self.envs.append(env)
        return env

    def stepped(self, training: int = 1) -> list[Watched]:
        """Return the environments of training: the first `training` ones in which steps were taken.

        Algorithms make them before those of their tests.
        """
        return [env for env in self.envs if env.steps][:training]

    def steps(self, training: int = 1) -> list[Step]:
        """Return the steps of training; of several environments, interleaved as they were taken."""
        rounds = itertools.zip_longest(*(env.steps for env in self.stepped(training)))
        return [step for each in rounds for step in each if step is not None]

    def episodes(self, training: int = 1) -> list[tuple[float, int, int]]:
        """Return (return, length, step of its end) of every finished episode of training."""
        done = []
        for env in self.stepped(training):
            ret, length = 0.0, 0
            for t, step in enumerate(env.steps):
                if step.first:
                    ret, length = 0.0, 0
                ret, length = ret + step.rew, length + 1
                if step.terminated or step.truncated:
                    done.append((ret, length, t))
        return sorted(done, key=lambda x: x[2])


class Watched(gymnasium.Wrapper):
    """An environment that writes down what happens in it."""

    def __init__(self, env: gymnasium.Env, record: Record) -> None:
        super().__init__(env)
        self.record = record
        self.steps: list[Step] = []
        self._obs: Any = None
        self._first = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Reset, and note that an episode begins."""
        self._obs, info = self.env.reset(seed=seed, options=options)
        self._first = True
        return _copy(self._obs), info

    def step(self, action: Any) -> Any:
        """Step, and note everything."""
        self.record.total += 1
        if self.record.total > self.record.limit:
            raise Overrun(f"more than {self.record.limit} steps")
        try:
            o2, r, terminated, truncated, info = self.env.step(action)
        except (ValueError, RuntimeError, gymnasium.error.Error) as error:
            self.record.refused = error
            raise
        given = np.array(action)
        self.steps.append(Step(self._obs, given, float(r), o2, terminated, truncated, self._first))
        self._obs, self._first = o2, False
        return _copy(o2), r, terminated, truncated, info


def _copy(obs: Any) -> Any:
    if isinstance(obs, dict):
        return {key: np.array(value) for key, value in obs.items()}
    return np.array(obs)
