"""Adapts any environment that `env_fn()` returns to the interface that the algorithms expect.

    env = adapt_env(env_fn())
    o, info = env.reset(seed=0)
    o2, r, terminated, truncated, info = env.step(a)

There are two small wrappers, each applied only where it is needed:

- `InterfaceAdapter` (`spinup.envs.old_interface`) is for the old interface, where `step` returns
  four values and `reset` returns only an observation and takes no seed, and for objects that are
  not a `gymnasium.Env`.
- `SpaceAdapter` converts observations to one float array (Discrete
  to one-hot, Dict and others flattened) and numbers discrete actions from zero.

An environment that needs neither is returned unchanged, because a wrapper costs time on every step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from spinup.envs.layers import Adapter, defining_class, is_trusted, layers
from spinup.envs.spaces import observation_fault
from spinup.utils.errors import SpinupError


def adapt_env(env: Any) -> Any:
    """Return an environment with Gymnasium's interface, Box observations and zero-based actions.

    Args:
        env: a `gymnasium.Env`; an environment with the old interface; an object that has
            `observation_space`, `action_space`, `reset` and `step`; or a `VectorEnv`, which is
            returned unchanged.

    Returns:
        `env` itself if it needs no adapter, else a `gymnasium.Env` around it. If Gymnasium's own
        wrappers (such as the `TimeLimit` from `gymnasium.make`) surround an environment that may
        have the old interface, the adapter is inserted below them, in place.

    Raises:
        SpinupError: `env` is not an environment.
    """
    if isinstance(env, VectorEnv):
        return env
    _check_is_env(env)
    if not isinstance(env, gymnasium.Env) or not all(map(_is_modern, layers(env))):
        from spinup.envs.old_interface import adapt_interface

        env = adapt_interface(env)
    if _needs_space_adapter(env.observation_space, env.action_space):
        env = SpaceAdapter(env)
    return env


def _check_is_env(env: Any) -> None:
    if isinstance(env, type):
        raise SpinupError(
            f"env_fn() returned the class {env.__name__}: return an environment, "
            f"{env.__name__}(...), or pass the class itself as env_fn"
        )
    missing = [
        name
        for name in ("observation_space", "action_space", "reset", "step")
        if getattr(env, name, None) is None
    ]
    if missing:
        raise SpinupError(
            f"env_fn() returned {'None' if env is None else 'a ' + type(env).__name__}, which is "
            f"not an environment because it has no {' and no '.join(missing)}: return one, for "
            "example from gymnasium.make"
        )


def _is_modern(layer: Any) -> bool:
    """Return whether Gymnasium (or this library) defines the layer's `reset` and `step`."""
    return isinstance(layer, gymnasium.Env) and all(
        is_trusted(defining_class(type(layer), method)) for method in ("reset", "step")
    )


def _needs_space_adapter(observation_space: spaces.Space, action_space: spaces.Space) -> bool:
    discrete = isinstance(action_space, spaces.Discrete | spaces.MultiDiscrete)
    if discrete and np.any(action_space.start):  # type: ignore[attr-defined]
        return True
    return is_flattened(observation_space)


def is_flattened(space: spaces.Space) -> bool:
    """Return whether `SpaceAdapter` converts this space's observations to one array."""
    if isinstance(space, spaces.Box):
        return space.shape == ()
    # Spaces unsuitable for networks (Text, Graph) are rejected by `check_spaces` with a message.
    return observation_fault(space) is None


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
