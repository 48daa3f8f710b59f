"""Spaces: what an algorithm supports, what a buffer stores, and what an environment receives.

check_spaces("ppo", env.observation_space, env.action_space, ("Box", "Discrete"))
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup.utils.errors import SpinupError

# Supported observation spaces; `adapt_env` flattens all but Box.
OBSERVATIONS = "Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple"


def name_of(space: Any) -> str:
    """Describe a space in a message: its repr, truncated if many bounds would fill a screen."""
    text = " ".join(repr(space).split())
    return text if len(text) <= 100 else f"{text[:97]}..."


def _and(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def number(reward: Any) -> float:
    """Return a reward as a number; some environments return it as an array of one element."""
    try:
        return float(reward)
    except TypeError:
        return float(np.asarray(reward, dtype=float).item())


# ---------------------------------------------------------------------------------------------
# What an algorithm supports
# ---------------------------------------------------------------------------------------------


def observation_fault(space: Any) -> str | None:
    """Return why networks cannot use these observations (a clause after "which"), or None."""
    if isinstance(space, spaces.Box):
        return "has no elements" if 0 in space.shape else None
    if isinstance(space, spaces.Discrete | spaces.MultiDiscrete | spaces.MultiBinary):
        return None
    if isinstance(space, spaces.Dict | spaces.Tuple):
        subspaces = space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces
        if not subspaces:
            return "has no elements"
        return next(filter(None, map(observation_fault, subspaces)), None)
    return f"is or contains a {type(space).__name__}"


def is_flattened(space: spaces.Space) -> bool:
    """Return whether `SpaceAdapter` converts this space's observations to one array."""
    if isinstance(space, spaces.Box):
        return space.shape == ()
    # Spaces unsuitable for networks (Text, Graph) are rejected by `check_spaces` with a message.
    return observation_fault(space) is None


def check_spaces(
    algo: str, observation_space: Any, action_space: Any, allowed: tuple[str, ...]
) -> None:
    """Reject spaces that `algo` does not support, before training.

    `allowed` names the kinds of action spaces that it supports, e.g. `("Box", "Discrete")`. The
    error names the algorithm, the space and the supported spaces.
    """
    fault = observation_fault(observation_space)
    if fault:
        raise SpinupError(
            f"{algo} cannot use the observation space {name_of(observation_space)}, which {fault}: "
            f"it supports {OBSERVATIONS} spaces with at least one element"
        )

    if not any(isinstance(action_space, getattr(spaces, name)) for name in allowed):
        fault = f"is a {type(action_space).__name__}"
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


# ---------------------------------------------------------------------------------------------
# How a buffer stores observations and actions
# ---------------------------------------------------------------------------------------------


def is_image(space: Any) -> bool:
    """Return whether observations are images: a Box with three axes of bytes or flags."""
    if not isinstance(space, spaces.Box) or len(space.shape) != 3:
        return False
    return space.dtype in (np.uint8, np.bool_)


def stored_dtype(space: Any) -> np.dtype[Any]:
    """Return the dtype of stored observations: float32 for floats, otherwise the space's own."""
    return np.dtype(np.float32) if np.issubdtype(space.dtype, np.floating) else space.dtype


def action_shape(space: spaces.Space[Any]) -> tuple[int, ...]:
    """Return the shape of one action in a buffer."""
    return tuple(space.shape or ())


def act_dtype(space: spaces.Space[Any]) -> Any:
    """Return the dtype of stored actions: float32 for continuous ones, otherwise integers."""
    return np.float32 if isinstance(space, spaces.Box) else np.int64


# ---------------------------------------------------------------------------------------------
# Actions on their way to the environment
# ---------------------------------------------------------------------------------------------


def env_actions(space: spaces.Space[Any]) -> Callable[[Any], Sequence[Any]]:
    """Return a function that converts a policy's batch of actions to the environments' format.

    Continuous actions are clipped to the bounds. An on-policy buffer stores the action as sampled,
    before clipping, because the policy can compute the probability only of the unclipped action.
    """
    if isinstance(space, spaces.Box):
        low, high, shape, dtype = space.low, space.high, space.shape, space.dtype

        def clip(act: np.ndarray) -> Any:
            if act.dtype != dtype:
                act = act.astype(dtype)
            if act.ndim != 2 or len(shape) != 1:
                act = act.reshape(-1, *shape)
            return act.clip(low, high)

        return clip
    start = np.asarray(getattr(space, "start", 0))
    if isinstance(space, spaces.Discrete):
        if not start:
            return lambda act: act
        return lambda act: act + start
    sizes, kind = action_shape(space), space.dtype
    return lambda act: (np.reshape(act, (-1, *sizes)) + start).astype(kind)


def random_actions(space: spaces.Space[Any], n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `n` actions uniformly from a Box or a Discrete space."""
    if isinstance(space, spaces.Box):
        return rng.uniform(space.low, space.high, (n, *space.shape)).astype(np.float32)
    return rng.integers(space.n, size=n)  # type: ignore[attr-defined]
