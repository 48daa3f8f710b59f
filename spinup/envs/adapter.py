"""Adapts any environment that `env_fn()` returns to the interface that the algorithms expect.

    env = adapt_env(env_fn())
    o, info = env.reset(seed=0)
    o2, r, terminated, truncated, info = env.step(a)

There are two small wrappers, each applied only where it is needed:

- `InterfaceAdapter` (`spinup.envs.old_interface`) is for the old interface, where `step` returns
  four values and `reset` returns only an observation and takes no seed, and for objects that are
  not a `gymnasium.Env`.
- `SpaceAdapter` (`spinup.envs.space_adapter`) converts observations to one float array (Discrete
  to one-hot, Dict and others flattened) and numbers discrete actions from zero.

An environment that needs neither is returned unchanged, because a wrapper costs time on every step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import VectorEnv

from spinup.envs.spaces import observation_fault
from spinup.utils.errors import SpinupError

# Classes from these packages are known to have the new interface; users' classes are inspected.
_TRUSTED_PACKAGES = ("gymnasium", "spinup")


class Adapter:
    """Marks the wrappers that `adapt_env` puts around an environment."""


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
        from spinup.envs.space_adapter import SpaceAdapter

        env = SpaceAdapter(env)
    return env


def layers(env: Any) -> Iterator[Any]:
    """Yield `env` and everything it wraps, from the outside in, including adapters."""
    while env is not None:
        yield env
        if isinstance(env, gymnasium.Wrapper | Adapter):
            env = env.env  # type: ignore[union-attr]
        elif isinstance(env, gymnasium.Env | VectorEnv):
            return  # a base environment may have an unrelated attribute `env`
        else:
            inner = getattr(env, "env", None)
            env = inner if hasattr(inner, "step") and hasattr(inner, "reset") else None


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


def is_trusted(cls: type) -> bool:
    """Return whether a class is from a package whose classes have the new interface."""
    package, _, rest = cls.__module__.partition(".")
    return package in _TRUSTED_PACKAGES and not rest.startswith("compat")  # the old interface


def defining_class(cls: type, method: str) -> type:
    """Return the class, among `cls` and its bases, that defines a method."""
    return next(base for base in cls.__mro__ if method in vars(base))


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
