"""Small environments with known values and best actions, to locate the broken part of an algorithm.

    env = gymnasium.make("spinup/ProbeTwoStep-v0").unwrapped
    env.true_value(obs, gamma)     # what the critic must learn
    env.optimal_action(obs)        # what the policy must learn; None if all are equal

Each probe adds one aspect to the previous ones, so the first one that is not learned identifies the
fault:

- `ConstantReward`: the value of one observation (the critic's loss and optimizer).
- `ObservationReward`: values that depend on the observation.
- `TwoStep`: discounting over one step.
- `EpisodeEnd`: bootstrapping where an episode is truncated, but not where it terminates.
- `ActionReward`: a policy that prefers the better action; the bounds of each dimension of a Box.
- `ActionObservationReward`: a policy that depends on the observation.
- `ImageReward`: the same, with an observation that is an image.

All randomness comes from the seed passed to `reset`. Misuse raises an error: an action outside the
action space (as from an on-policy algorithm that does not clip), or a step after the end of an
episode.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

_LOW, _HIGH = np.array([-1.0, 0.0], np.float32), np.array([3.0, 0.5], np.float32)


# For each kind of actions: the space, the best action for a positive observation, and the best one
# for any other. The bounds of "Asymmetric" differ by dimension and sign.
_KINDS: Mapping[str, tuple[Callable[[], spaces.Space], Any, Any]] = MappingProxyType(
    {
        "Discrete": (lambda: spaces.Discrete(2), 1, 0),
        "DiscreteFrom5": (lambda: spaces.Discrete(2, start=5), 6, 5),
        "MultiDiscrete": (lambda: spaces.MultiDiscrete([3, 2]), (2, 0), (0, 1)),
        "MultiBinary": (lambda: spaces.MultiBinary(3), (1, 0, 1), (0, 1, 1)),
        "Box": (lambda: spaces.Box(-1.0, 1.0, (1,), np.float32), (0.5,), (-0.5,)),
        "Asymmetric": (lambda: spaces.Box(_LOW, _HIGH), (2.5, 0.4), (-0.5, 0.1)),
    }
)


class ProbeEnv(gymnasium.Env):
    """The probes' base class: observations of shape (1,), checks of actions, and known answers.

    `settings` replace attributes of the class, such as the `length` of episodes and their `end`,
    which is one of the class's `ends`.
    """

    metadata = {"render_modes": []}
    ends: tuple[str, ...] = ()

    def __init__(
        self, actions: str = "Discrete", render_mode: str | None = None, **settings: Any
    ) -> None:
        for name, value in settings.items():
            if not hasattr(type(self), name):
                raise TypeError(f"{type(self).__name__} has no setting {name!r}")
            if name == "end" and value not in self.ends:
                raise ValueError(f"an episode ends {' or '.join(self.ends)}, not {value!r}")
            setattr(self, name, value)
        if actions not in _KINDS:
            raise ValueError(f"a probe has no actions of the kind {actions!r}: see `_KINDS`")
        self.actions, self.render_mode = actions, render_mode
        self.observation_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.action_space = _KINDS[actions][0]()
        self._running = False

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the value of `obs` under the best policy (any policy if actions do not matter)."""
        raise NotImplementedError

    def optimal_action(self, obs: Any) -> Any:
        """Return the best action at `obs`, in the environment's format; None if all are equal."""
        return None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self._running = True
        self._t = 0
        self._obs = self._first_obs()
        return self._array(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Take a step; the action must be in the action space."""
        if not self._running:
            raise RuntimeError("step was called on an episode that is over: call reset first")
        self._check(action)
        self._t += 1
        r, terminated, truncated = self._advance(action)
        self._running = not (terminated or truncated)
        return self._array(), r, terminated, truncated, {}

    def _first_obs(self) -> float:
        return 0.0

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        """Set the next observation; return reward, terminated, truncated."""
        raise NotImplementedError

    def _array(self) -> np.ndarray:
        return np.array([self._obs], dtype=np.float32)

    def _check(self, action: Any) -> None:
        # Not `contains`, which rejects a float64 action in a float32 Box.
        space = self.action_space
        a = np.asarray(action)
        if isinstance(space, spaces.Box):
            fits = a.shape == space.shape and bool(np.all((a >= space.low) & (a <= space.high)))
        elif isinstance(space, spaces.Discrete):
            fits = a.size == 1 and space.contains(np.int64(a.item())) and a.item() == int(a.item())
        else:
            fits = a.shape == space.shape and space.contains(a.astype(space.dtype))
        if not fits:
            raise ValueError(f"the action {action!r} is not in the action space {space}")


class ConstantReward(ProbeEnv):
    """One step, one observation, reward 1: the value is 1."""

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return 1 for every observation and discount."""
        return 1.0

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        return 1.0, True, False


class ObservationReward(ProbeEnv):
    """One step; observation and reward are both -1 or both +1, at random: V(obs) = obs."""

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the observation itself."""
        return float(np.asarray(obs).item())

    def _first_obs(self) -> float:
        return float(self.np_random.choice([-1.0, 1.0]))

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        return self._obs, True, False


class TwoStep(ProbeEnv):
    """Observation 0 and no reward, then observation 1 and reward 1: the values are gamma and 1."""

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return `gamma` at the first observation, 1 at the second."""
        return 1.0 if np.asarray(obs).item() > 0.5 else gamma

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        self._obs = 1.0
        return float(self._t == 2), self._t == 2, False


class EpisodeEnd(ProbeEnv):
    """Reward 1 on each of `length` steps, then an end of the specified kind.

    end="truncated": the observation never changes and the episode is only truncated, so the value
    is that of an endless episode, `1 / (1 - gamma)`, everywhere.
    end="terminated": the observation is the fraction of steps taken so far, and the value is the
    sum of the remaining rewards, `1 + gamma + ...`, with zero value after the last step.
    end="none": like "truncated", but a time limit around the environment truncates the episode.
    """

    end, ends = "truncated", ("truncated", "terminated", "none")
    length = 5

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the discounted sum of future rewards; 0 at the observation after a termination."""
        if self.end != "terminated":
            return 1.0 / (1.0 - gamma) if gamma < 1.0 else float("inf")
        left = self.length - round(float(np.asarray(obs).item()) * self.length)
        return float(sum(gamma**i for i in range(left)))

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        if self.end == "terminated":
            self._obs = self._t / self.length
        over = self._t == self.length
        return 1.0, over and self.end == "terminated", over and self.end == "truncated"


class ActionReward(ProbeEnv):
    """One step, one observation; the reward measures how good the action was.

    Discrete kinds: the fraction of correct components, scaled to -1 (none) .. +1 (all).
    Box kinds: minus the squared distance to the target, so the best value is 0.
    """

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the best action's reward."""
        return 0.0 if isinstance(self.action_space, spaces.Box) else 1.0

    def true_q(self, obs: Any, action: Any, gamma: float) -> float:
        """Return the value of `action` at `obs`: its reward, because the episode then ends."""
        a = np.asarray(action, dtype=np.float64).reshape(-1)
        target = np.asarray(self.optimal_action(obs), dtype=np.float64).reshape(-1)
        if isinstance(self.action_space, spaces.Box):
            return -float(np.sum((a - target) ** 2))
        return 2.0 * float(np.mean(a == target)) - 1.0

    def optimal_action(self, obs: Any) -> Any:
        """Return the target, regardless of the observation."""
        return self._target(True)

    def _target(self, positive: bool) -> Any:
        target = _KINDS[self.actions][1:][0 if positive else 1]
        if isinstance(self.action_space, spaces.Discrete):
            return int(target)
        return np.array(target, dtype=self.action_space.dtype)

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        return self.true_q(self._array(), action, gamma=1.0), True, False


class ActionObservationReward(ActionReward):
    """Like `ActionReward`, but the target depends on the random observation, -1 or +1."""

    def optimal_action(self, obs: Any) -> Any:
        """Return the target for the observation's sign."""
        return self._target(bool(np.asarray(obs).item() > 0))

    def _first_obs(self) -> float:
        return float(self.np_random.choice([-1.0, 1.0]))


class ImageReward(ActionObservationReward):
    """Like `ActionObservationReward`; the target depends on where the dot is in an image.

    The image is as large as MinAtar's. Its first channel has one dot, in the right half (positive)
    or in the left half. The dot in the second channel means nothing.
    """

    def __init__(self, actions: str = "Discrete", render_mode: str | None = None) -> None:
        super().__init__(actions, render_mode)
        self.observation_space = spaces.Box(0, 1, (10, 10, 4), np.bool_)

    def optimal_action(self, obs: Any) -> Any:
        """Return the target for the dot's half."""
        return self._target(bool(np.asarray(obs)[:, 5:, 0].any()))

    def _first_obs(self) -> float:
        self._image = np.zeros((10, 10, 4), np.bool_)
        for channel in (0, 1):
            row, column = self.np_random.integers(10, size=2)
            self._image[row, column, channel] = True
        return 0.0

    def _array(self) -> np.ndarray:
        return self._image.copy()
