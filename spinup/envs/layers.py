"""The wrappers around an environment: which there are, and what they do to observations."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv
from gymnasium.wrappers import FrameStackObservation

__all__ = ["Adapter", "defining_class", "frame_stack", "is_trusted", "layers"]

# Classes from these packages are known to have the new interface; users' classes are inspected.
_TRUSTED_PACKAGES = ("gymnasium", "spinup")


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
    """Return whether a class is from a package whose classes have the new interface."""
    package, _, rest = cls.__module__.partition(".")
    return package in _TRUSTED_PACKAGES and not rest.startswith("compat")  # the old interface


def defining_class(cls: type, method: str) -> type:
    """Return the class, among `cls` and its bases, that defines a method."""
    return next(base for base in cls.__mro__ if method in vars(base))


def frame_stack(env: Any) -> int:
    """Return how many frames along the first axis make up one observation; 1 if it is no stack.

    Gymnasium's `FrameStackObservation` says so, and so does any environment or wrapper with an
    attribute `frame_stack`. Wrappers around it may change anything but the observations. Only
    frames with two or more axes count: for others, storing each once saves next to nothing.

    Args:
        env: an environment, or a vector environment.
    """
    space = getattr(env, "single_observation_space", env.observation_space)
    for layer in layers(env):
        stacks = isinstance(layer, FrameStackObservation)
        count = layer.stack_size if stacks else getattr(layer, "frame_stack", None)
        if count is not None:
            shape: tuple[int, ...] = getattr(space, "shape", None) or ()
            return int(count) if len(shape) > 2 and shape[0] == count else 1
        inner = getattr(getattr(layer, "env", None), "observation_space", None)
        if isinstance(layer, gymnasium.ObservationWrapper) or inner != layer.observation_space:
            break
    return 1
