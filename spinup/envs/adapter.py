"""Adapts any environment that `env_fn()` returns to the interface that the algorithms expect.

    env = adapt_env(env_fn())
    o, info = env.reset(seed=0)
    o2, r, terminated, truncated, info = env.step(a)

Two small wrappers are applied where they are needed, because a wrapper costs time on every step:

- `InterfaceAdapter` (`spinup.envs.old_interface`) for the old interface and for objects that are no
  `gymnasium.Env`. It is inserted, in place, below those of Gymnasium's own wrappers (such as the
  `TimeLimit` from `gymnasium.make`) that need the new interface.
- `SpaceAdapter` (`spinup.envs.space_adapter`) converts observations to one float array (Discrete to
  one-hot, Dict and others flattened) and numbers discrete actions from zero.
"""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from spinup.envs.layers import defining_class, is_trusted, layers
from spinup.envs.spaces import is_flattened
from spinup.utils.errors import SpinupError


def adapt_env(env: Any) -> Any:
    """Return an environment with Gymnasium's interface, Box observations and zero-based actions.

    `env` is a `gymnasium.Env`, an environment with the old interface, or an object that has
    `observation_space`, `action_space`, `reset` and `step`. A `VectorEnv`, and an environment that
    needs no adapter, is returned unchanged. Raises SpinupError for anything else.
    """
    if isinstance(env, VectorEnv):
        return env
    _check_is_env(env)
    if not isinstance(env, gymnasium.Env) or not all(map(_is_modern, layers(env))):
        from spinup.envs.old_interface import adapt_interface

        env = adapt_interface(env)
    if is_flattened(env.observation_space) or np.any(getattr(env.action_space, "start", 0)):
        from spinup.envs.space_adapter import SpaceAdapter

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
