"""More probes: sequences, neighboring episodes, and rewards that mislead.

    env = gymnasium.make("spinup/ProbeNeighbours-v0").unwrapped

They have `true_value` and `optimal_action` as in `environments.py`, and find what probes of one
step or one kind of episode cannot:

- `ActionSequence`: actions that are chosen for another observation than the current one.
- `DelayedAction`: a reward that is credited to the wrong step.
- `Neighbours`: values that leak from one episode into another.
- `NoisyReward`: learning a median, or mostly from rare rewards, instead of the mean.
- `Scale`: large observations and rewards, which a normalizer must handle.
- `ManyActions`: the maximum over many noisy estimates.
- `Temperature`: the entropy of a choice that does not matter, and its share in the values.
- `OldData`: learning from actions that the current policy would no longer take.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup_lab.probe.environments import (
    ActionObservationReward,
    ActionReward,
    EpisodeEnd,
    ProbeEnv,
)


def _number(obs: Any) -> float:
    return float(np.asarray(obs).reshape(-1)[0])


def _annuity(gamma: float, steps: int) -> float:
    """Return 1 + gamma + ... + gamma^(steps - 1)."""
    return float(sum(gamma**i for i in range(steps)))


class ActionSequence(ActionReward):
    """Steps with a new random sign each; the sign decides the best action, rewarded at once.

    The observation is the sign times (number of the step) / `length`, starting with step 1, so the
    value is known: the best reward for each remaining step, 1 (discrete) or 0 (Box).
    """

    length = 5

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the discounted sum of the best rewards of the remaining steps."""
        step = round(abs(_number(obs)) * self.length)
        return super().true_value(obs, gamma) * _annuity(gamma, self.length + 1 - step)

    def true_q(self, obs: Any, action: Any, gamma: float) -> float:
        """Return the action's reward, plus the value of the steps after it."""
        step = round(abs(_number(obs)) * self.length)
        later = super().true_value(obs, gamma) * _annuity(gamma, self.length - step)
        return super().true_q(obs, action, gamma) + gamma * later

    def optimal_action(self, obs: Any) -> Any:
        """Return the target for the observation's sign."""
        return self._target(_number(obs) > 0)

    def _first_obs(self) -> float:
        return float(self.np_random.choice([-1.0, 1.0])) / self.length

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        r = ActionReward.true_q(self, self._array(), action, gamma=1.0)
        over = self._t == self.length
        sign = float(self.np_random.choice([-1.0, 1.0]))
        self._obs = sign * min(self._t + 1, self.length) / self.length
        return r, over, False


class DelayedAction(ActionReward):
    """Three steps: the first action decides the reward of the last one, and no other action counts.

    The observation is (the coming reward, the fraction of steps taken); it starts with (0, 0). The
    reward is 1 for the best action; for a Box, it decreases with the squared distance.
    """

    length = 3

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the reward that is still to come, discounted."""
        coming, taken = (float(x) for x in np.asarray(obs))
        left = self.length - round(taken * self.length)
        return gamma ** (left - 1) * (1.0 if left == self.length else coming)

    def true_q(self, obs: Any, action: Any, gamma: float) -> float:
        """Return the value of `action`; after the first step, all actions are equal."""
        if self.optimal_action(obs) is None:
            return self.true_value(obs, gamma)
        return gamma ** (self.length - 1) * self._reward_of(action)

    def optimal_action(self, obs: Any) -> Any:
        """Return the target at the first observation, None at the others."""
        return self._target(True) if np.asarray(obs)[1] == 0.0 else None

    def _reward_of(self, action: Any) -> float:
        """Return 1 or -1 for discrete actions; for a Box, 1 minus the squared distance, from -1."""
        r = super().true_q(np.zeros(2), action, gamma=1.0)
        return max(-1.0, 1.0 + r) if isinstance(self.action_space, spaces.Box) else r

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        if self._t == 1:
            self._obs = self._reward_of(action)
        over = self._t == self.length
        return self._obs if over else 0.0, over, False

    def _array(self) -> np.ndarray:
        return np.array([self._obs, self._t / self.length], dtype=np.float32)


class Neighbours(ProbeEnv):
    """Rich and poor episodes in random order: 2 or 0 on each of `length` steps.

    end="terminated": the observation is the step's number / `length`, negative in poor episodes,
    and the value is that of the remaining steps.
    end="truncated": the observation is 1 or -1 throughout, and the episode is only truncated, so
    the value is 2 / (1 - gamma) or 0.

    Whatever a poor episode is worth, it has received from its neighbors.
    """

    end, ends = "terminated", ("truncated", "terminated")
    length = 2

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the discounted rewards of this episode alone."""
        x = _number(obs)
        if x < 0:
            return 0.0
        if self.end == "truncated":
            return 2.0 / (1.0 - gamma) if gamma < 1.0 else float("inf")
        return 2.0 * _annuity(gamma, self.length + 1 - round(x * self.length))

    def _first_obs(self) -> float:
        self._sign = float(self.np_random.choice([-1.0, 1.0]))
        return self._sign if self.end == "truncated" else self._sign / self.length

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        over = self._t == self.length
        if self.end == "terminated":
            self._obs = self._sign * min(self._t + 1, self.length) / self.length
        r = 2.0 if self._sign > 0 else 0.0
        return r, over and self.end == "terminated", over and self.end == "truncated"


class NoisyReward(ProbeEnv):
    """One step; the reward is 2.5 in one of five episodes and 0 in the others.

    The value is the mean, 0.5, and the standard deviation is 1. The median is 0, and whoever learns
    more often from what surprises without correcting for it, learns too high a value.
    """

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the mean reward."""
        return 0.5

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        return (2.5 if self.np_random.random() < 0.2 else 0.0), True, False


class Scale(ActionObservationReward):
    """`ActionObservationReward` in other units: far from 0, and with large rewards.

    The observation is `center` - `spread` or `center` + `spread`.
    """

    center, spread, reward = 0.0, 1000.0, 100.0

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        low, high = self.center - self.spread, self.center + self.spread
        self.observation_space = spaces.Box(low, high, (1,), np.float32)

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the best action's reward."""
        return self.reward * super().true_value(obs, gamma)

    def true_q(self, obs: Any, action: Any, gamma: float) -> float:
        """Return the action's reward."""
        return self.reward * super().true_q(obs, action, gamma)

    def optimal_action(self, obs: Any) -> Any:
        """Return the target for the side of the center."""
        return self._target(_number(obs) > self.center)

    def _first_obs(self) -> float:
        return self.center + self.spread * float(self.np_random.choice([-1.0, 1.0]))


class ManyActions(ProbeEnv):
    """Two steps: the first is worth nothing; in the second, every action has a random reward.

    There are 20 actions (or a Box). The second reward is standard normal whatever the action, so
    all values are 0. The largest of 20 noisy estimates is not.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.actions == "Discrete":
            self.action_space = spaces.Discrete(20)

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return 0."""
        return 0.0

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        self._obs = 1.0
        over = self._t == 2
        return float(self.np_random.standard_normal()) if over else 0.0, over, False


class Temperature(EpisodeEnd):
    """Actions do not matter, the reward is 1, and episodes are only truncated.

    The entropy of an indifferent policy is log 2, for two actions and for a Box from -1 to 1.
    """

    entropy = math.log(2.0)

    def true_soft_value(self, gamma: float, alpha: float) -> float:
        """Return Q of maximum-entropy learning: the entropy of this step's action is not in it."""
        return (1.0 + gamma * alpha * self.entropy) / (1.0 - gamma)


class OldData(ActionReward):
    """Two steps; only the second action counts, and the first observation's value depends on it.

    A learner without correction gives the first observation the value of its old actions.
    """

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the best reward, discounted at the first observation."""
        best = super().true_value(obs, gamma)
        return best if _number(obs) > 0.5 else gamma * best

    def true_q(self, obs: Any, action: Any, gamma: float) -> float:
        """Return the value of `action`: at the first observation, any is as good as another."""
        if _number(obs) > 0.5:
            return super().true_q(obs, action, gamma)
        return self.true_value(obs, gamma)

    def optimal_action(self, obs: Any) -> Any:
        """Return the target at the second observation, None at the first."""
        return self._target(True) if _number(obs) > 0.5 else None

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        over = self._t == 2
        r = ActionReward.true_q(self, np.ones(1), action, gamma=1.0) if over else 0.0
        self._obs = 1.0
        return r, over, False
