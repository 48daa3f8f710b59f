"""The questions an algorithm asks about spaces before it trains.

check_spaces("ppo", env.observation_space, env.action_space, ("Box", "Discrete"))
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup.utils.errors import SpinupError

# Supported observation spaces; `adapt_env` flattens all but Box.
OBSERVATIONS = "Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple"


def name_of(space: Any) -> str:
    """A space in a sentence: its repr, cut if the bounds of many dimensions would fill a screen."""
    text = " ".join(repr(space).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def _and(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


# ---------------------------------------------------------------------------------------------
# What an algorithm supports
# ---------------------------------------------------------------------------------------------


def observation_fault(space: Any) -> str | None:
    """Why networks cannot take these observations, as words after "which"; None if they can."""
    if isinstance(space, spaces.Box):
        return "has no elements" if 0 in space.shape else None
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return None
    if isinstance(space, spaces.Dict | spaces.Tuple):
        subspaces = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        if not subspaces:
            return "has no elements"
        return next(filter(None, map(observation_fault, subspaces)), None)
    return f"is or holds a {type(space).__name__}"


def check_spaces(
    algo: str, observation_space: Any, action_space: Any, allowed: tuple[str, ...]
) -> None:
    """Refuse spaces that `algo` cannot work with, before training.

    Args:
        algo: the algorithm's name, for the message.
        observation_space: the environment's, before or after `adapt_env`.
        action_space: the environment's.
        allowed: kinds of action spaces the algorithm supports, e.g. `("Box", "Discrete")`.

    Raises:
        SpinupError: names the algorithm, the space and what is supported.
    """
    fault = observation_fault(observation_space)
    if fault:
        raise SpinupError(
            f"{algo} cannot use the observation space {name_of(observation_space)}, which {fault}: "
            f"it supports {OBSERVATIONS} spaces with at least one element"
        )

    kind = type(action_space).__name__
    # A subclass of Box is a Box.
    kinds = [name for name in allowed if isinstance(action_space, getattr(spaces, name))]
    fault = None
    if not kinds:
        fault = f"is a {kind}"
    elif isinstance(action_space, spaces.Box):
        if action_space.dtype.kind != "f":
            fault = f"holds {action_space.dtype} values"
        elif action_space.shape == ():
            fault = "has the shape () instead of (1,)"
        elif 0 in action_space.shape:
            fault = "has no elements"
    if fault:
        supported = _and("Box (floating-point)" if name == "Box" else name for name in allowed)
        raise SpinupError(
            f"{algo} cannot use the action space {name_of(action_space)}, which {fault}: "
            f"it supports {supported} actions with at least one element"
        )


def require_finite_bounds(algo: str, space: spaces.Box) -> None:
    """Refuse a Box whose bounds are infinite, for algorithms that squash actions into them.

    Bounds so wide that their difference overflows float32 count as infinite, because the scale of
    the squash would be (`np.finfo(np.float32).max` is a common way to write "none").
    """
    with np.errstate(over="ignore", invalid="ignore"):
        width = space.high.astype(np.float32) - space.low.astype(np.float32)
    bad = np.flatnonzero(~np.isfinite(width.ravel()))
    if bad.size:
        i = int(bad[0])
        raise SpinupError(
            f"{algo} scales its actions to the bounds of the action space, but dimension {i} of "
            f"{name_of(space)} is unbounded ([{space.low.ravel()[i]}, {space.high.ravel()[i]}]): "
            "give the space finite bounds, for example with gymnasium.wrappers.RescaleAction "
            "or in the environment itself"
        )


# Off-policy algorithms whose policy over a Box is a density.
DENSITIES = ("sac", "acer")


def require_width(algo: str, space: spaces.Box) -> None:
    """Refuse a dimension with a single value, for policies that have a density over it."""
    equal = np.flatnonzero((space.high <= space.low).ravel())
    if equal.size:
        i = int(equal[0])
        raise SpinupError(
            f"{algo} needs a density over its actions, but dimension {i} of {name_of(space)} has "
            f"only one value ({space.low.ravel()[i]}): remove it from the action space"
        )


# ---------------------------------------------------------------------------------------------
# How a buffer stores observations and actions
# ---------------------------------------------------------------------------------------------


def stored_dtype(space: Any) -> np.dtype[Any]:
    """The dtype of stored observations: float32 for floats, the space's own for all others."""
    return np.dtype(np.float32) if np.issubdtype(space.dtype, np.floating) else space.dtype


def action_shape(space: spaces.Space[Any]) -> tuple[int, ...]:
    """Shape of one action in a buffer."""
    return tuple(space.shape or ())


def act_dtype(space: spaces.Space[Any]) -> Any:
    """The dtype of stored actions: float32 for continuous ones, integers for all others."""
    return np.float32 if isinstance(space, spaces.Box) else np.int64


def transition_bytes(observation_space: Any, action_space: Any) -> int:
    """Bytes of one transition `obs, act, rew, obs2, done` in a replay buffer."""
    obs = math.prod(observation_space.shape) * stored_dtype(observation_space).itemsize
    act = math.prod(action_shape(action_space)) * np.dtype(act_dtype(action_space)).itemsize
    return 2 * obs + act + 4 + 1  # rew is a float32, done a bool
