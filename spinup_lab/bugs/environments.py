"""Environments with typical faults, and healthy ones with unusual actions; all are Pendulums.

    gymnasium.make("spinup_lab.bugs.environments:zoo/LateReward-v0")

Importing this module registers them. `environments.toml` describes the faulty ones.
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.pendulum import PendulumEnv

EPISODE = 200


class LateReward(PendulumEnv):
    """Pays each action for what the one before it did."""

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode."""
        self._reward = 0.0
        return super().reset(**kwargs)

    def step(self, u: Any) -> Any:
        """Move, and return the reward of the step before."""
        obs, reward, *rest = super().step(u)
        late, self._reward = self._reward, float(reward)
        return obs, late, *rest


class LimitIsDeath(PendulumEnv):
    """Sets `terminated` when its own clock runs out."""

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode."""
        self._steps = 0
        return super().reset(**kwargs)

    def step(self, u: Any) -> Any:
        """Move, and call the time limit a death."""
        obs, reward, _, truncated, info = super().step(u)
        self._steps += 1
        return obs, reward, self._steps >= EPISODE, truncated, info


class SharedArray(PendulumEnv):
    """Returns the same array from every step, and changes it in the next."""

    def _shared(self, obs: np.ndarray) -> np.ndarray:
        if not hasattr(self, "_array"):
            self._array = np.zeros_like(obs)
        self._array[:] = obs
        return self._array

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode."""
        obs, info = super().reset(**kwargs)
        return self._shared(obs), info

    def step(self, u: Any) -> Any:
        """Move."""
        obs, *rest = super().step(u)
        return self._shared(obs), *rest


class Unseeded(PendulumEnv):
    """Draws its first states from a generator that nobody can seed."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode anywhere."""
        return super().reset(seed=int(np.random.default_rng().integers(2**31)), options=options)


class RescaledPendulum(PendulumEnv):
    """A healthy Pendulum whose actions range from `low` to `high`."""

    def __init__(self, low: float, high: float, **kwargs: Any):
        super().__init__(**kwargs)
        self.action_space = gymnasium.spaces.Box(low, high, (1,), np.float32)
        self._low, self._high = low, high

    def step(self, u: Any) -> Any:
        """Move by the torque that the action stands for."""
        share = (np.asarray(u) - self._low) / (self._high - self._low)
        return super().step(self.max_torque * (2 * share - 1))


class TwoPendulums(gymnasium.Env[np.ndarray, np.ndarray]):
    """Two healthy Pendulums at once, with one torque each."""

    def __init__(self) -> None:
        self.envs = (PendulumEnv(), PendulumEnv())
        bound = np.tile(np.array([1.0, 1.0, self.envs[0].max_speed], np.float32), 2)
        self.observation_space = gymnasium.spaces.Box(-bound, bound, dtype=np.float32)
        self.action_space = gymnasium.spaces.Box(-2.0, 2.0, (2,), np.float32)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        """Start an episode of both."""
        super().reset(seed=seed)
        seeds = self.np_random.integers(2**31, size=2)
        found = [env.reset(seed=int(s)) for env, s in zip(self.envs, seeds, strict=True)]
        return np.concatenate([obs for obs, _ in found]), {}

    def step(self, u: Any) -> Any:
        """Move both; the reward is the sum of theirs."""
        steps = [env.step(u[i : i + 1]) for i, env in enumerate(self.envs)]
        obs = np.concatenate([step[0] for step in steps])
        return obs, float(sum(step[1] for step in steps)), False, False, {}


_FAULTY: dict[str, tuple[str, dict[str, float]]] = {
    cls.__name__: (cls.__name__, {}) for cls in (LateReward, LimitIsDeath, SharedArray, Unseeded)
}
_BOUNDS = {"Wide": (-100.0, 100.0), "Narrow": (-0.2, 0.2), "Lopsided": (-1.0, 9.0)}
_HEALTHY = {
    f"{name}Pendulum": ("RescaledPendulum", {"low": low, "high": high})
    for name, (low, high) in _BOUNDS.items()
}
_HEALTHY["TwoPendulums"] = ("TwoPendulums", {})
for _name, (_class, _kwargs) in {**_FAULTY, **_HEALTHY}.items():
    gymnasium.register(
        f"zoo/{_name}-v0",
        f"{__name__}:{_class}",
        max_episode_steps=None if _class == "LimitIsDeath" else EPISODE,
        kwargs=_kwargs,
    )
