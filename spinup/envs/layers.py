"""What is around an environment: its wrappers, and the classes that they come from."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv

__all__ = ["Adapter", "defining_class", "is_trusted", "layers"]


class Adapter:
    """Marks the wrappers that `adapt_env` puts around an environment."""


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


def is_trusted(cls: type) -> bool:
    """Return whether a class comes from a package that has the new interface throughout."""
    package, _, rest = cls.__module__.partition(".")
    return package in ("gymnasium", "spinup") and not rest.startswith("compat")  # which is old


def defining_class(cls: type, method: str) -> type:
    """Return the class, among `cls` and its bases, that defines a method."""
    return next(base for base in cls.__mro__ if method in vars(base))
