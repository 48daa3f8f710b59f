"""The wrapper for environments with spaces that networks cannot use directly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from spinup.envs.layers import Adapter
from spinup.envs.spaces import is_flattened
from spinup.utils.errors import SpinupError


class SpaceAdapter(Adapter, gymnasium.Wrapper, gymnasium.utils.RecordConstructorArgs):
    """Converts observations to one float32 array and numbers discrete actions from zero.

    A Discrete observation becomes a one-hot vector; MultiDiscrete, MultiBinary, Dict and Tuple are
    flattened in Gymnasium's order. A Box of any shape but () keeps its shape and dtype.
    Networks number discrete actions from 0; for action `a`, the environment receives `start + a`.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        gymnasium.utils.RecordConstructorArgs.__init__(self)
        gymnasium.Wrapper.__init__(self, env)
        self._raw = env.observation_space
        self._convert: Callable[[Any], Any] | None = None
        if is_flattened(self._raw):
            self._convert = (
                self._one_hot if isinstance(self._raw, spaces.Discrete) else self._flatten
            )
            flat = spaces.flatten_space(self._raw)
            assert isinstance(flat, spaces.Box)
            with np.errstate(over="ignore"):  # a bound beyond float32 becomes infinite
                low, high = flat.low.astype(np.float32), flat.high.astype(np.float32)
            self.observation_space = spaces.Box(low, high, dtype=np.float32)
        actions = env.action_space
        self._start: Any = None
        if isinstance(actions, spaces.Discrete) and actions.start != 0:
            self._start = int(actions.start)
            self.action_space = spaces.Discrete(int(actions.n))
        elif isinstance(actions, spaces.MultiDiscrete) and np.any(actions.start):
            self._start = actions.start.copy()
            self.action_space = spaces.MultiDiscrete(actions.nvec, dtype=actions.dtype.type)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Reset the environment and convert the observation."""
        o, info = self.env.reset(seed=seed, options=options)
        return (o if self._convert is None else self._convert(o)), info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Shift the action, step the environment and convert the observation."""
        if self._start is not None:
            action = action + self._start
        o, r, terminated, truncated, info = self.env.step(action)
        if self._convert is not None:
            o = self._convert(o)
        return o, r, terminated, truncated, info

    def _one_hot(self, o: Any) -> np.ndarray:
        space = self._raw
        assert isinstance(space, spaces.Discrete)
        index = int(o) - int(space.start)
        if not 0 <= index < space.n:  # a negative index would silently select another state
            raise SpinupError(
                f"the environment returned the observation {o}, which is not in its "
                f"observation space {space}: correct one of them"
            )
        vector = np.zeros(int(space.n), dtype=np.float32)
        vector[index] = 1.0
        return vector

    def _flatten(self, o: Any) -> np.ndarray:
        return np.asarray(spaces.flatten(self._raw, o), dtype=np.float32)
