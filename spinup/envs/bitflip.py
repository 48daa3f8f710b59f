"""Flip bits until they match the goal: the smallest task that needs hindsight.

    env = gymnasium.make("spinup/BitFlip-v0", n=15)

The state is `n` bits, and action i flips bit i (Andrychowicz et al. 2017, section 3.1). Every step
has reward -1, except that reaching the goal has reward 0 and terminates the episode; after `n`
steps, the episode is truncated. Random flips practically never reach a goal of more than a dozen
bits, so without hindsight there is nothing to learn from. With hindsight, every episode shows how
to reach the states that it visited.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from spinup.utils.errors import SpinupError

__all__ = ["BitFlip"]


class BitFlip(gymnasium.Env):
    """A goal environment in which every action flips one bit.

    Observations are a dict: `observation` and `achieved_goal` are both the current bits, and
    `desired_goal` is the target bits.

    Args:
        n: number of bits, and of steps per episode; at least 1.
        render_mode: None; no other mode is supported.
    """

    metadata = {"render_modes": []}

    def __init__(self, n: int = 15, render_mode: str | None = None) -> None:
        if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1:
            raise SpinupError(f"n={n!r} must be a whole number of bits, at least 1")
        self.n = int(n)
        self.render_mode = render_mode
        bits = spaces.MultiBinary(self.n)
        self.observation_space = spaces.Dict(
            {"observation": bits, "achieved_goal": bits, "desired_goal": bits}
        )
        self.action_space = spaces.Discrete(self.n)
        self._bits = self._goal = np.zeros(self.n, np.int8)
        self._t = 0
        self._running = False

    def true_value(self, obs: Any, gamma: float) -> float:
        """Return the value of an observation under the best policy: -1 for each step but the last.

        `obs` is the dict of an observation. At the goal, where episodes end, the value is 0.
        """
        wrong = int(np.sum(np.asarray(obs["observation"]) != np.asarray(obs["desired_goal"])))
        return -float(sum(gamma**i for i in range(wrong - 1)))

    def optimal_action(self, obs: Any) -> int | None:
        """Return the first wrong bit; flipping any of the wrong bits is as good."""
        wrong = np.flatnonzero(np.asarray(obs["observation"]) != np.asarray(obs["desired_goal"]))
        return int(wrong[0]) if len(wrong) else None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Draw the bits, and a different goal, both uniformly."""
        super().reset(seed=seed)
        self._bits = self.np_random.integers(2, size=self.n, dtype=np.int8)
        self._goal = self._bits
        while np.array_equal(self._goal, self._bits):  # do not start at the goal
            self._goal = self.np_random.integers(2, size=self.n, dtype=np.int8)
        self._t = 0
        self._running = True
        return self._observation(), {}

    def step(self, action: Any) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Flip one bit."""
        if not self._running:
            raise RuntimeError("step was called on an episode that is over: call reset first")
        if not self.action_space.contains(action):
            raise ValueError(f"the action {action!r} is not one of the {self.n} bits")
        self._bits = self._bits.copy()  # do not modify earlier observations
        self._bits[int(action)] ^= 1
        self._t += 1
        r = float(self.compute_reward(self._bits, self._goal, {}))
        terminated = bool(self.compute_terminated(self._bits, self._goal, {}))
        truncated = self._t >= self.n and not terminated
        self._running = not (terminated or truncated)
        return self._observation(), r, terminated, truncated, {"is_success": terminated}

    def compute_reward(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return 0 if the goal is achieved, else -1: one number, or one per row of a batch."""
        return self.compute_terminated(achieved_goal, desired_goal, info).astype(np.float32) - 1.0

    def compute_terminated(self, achieved_goal: Any, desired_goal: Any, info: Any) -> Any:
        """Return whether the goal is achieved: one value, or one per row of a batch."""
        return np.all(np.asarray(achieved_goal) == np.asarray(desired_goal), axis=-1)

    def _observation(self) -> dict[str, np.ndarray]:
        bits = self._bits
        return {
            "observation": bits.copy(),
            "achieved_goal": bits.copy(),
            "desired_goal": self._goal.copy(),
        }
