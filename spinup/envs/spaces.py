"""Checks and properties of spaces that algorithms need before training.

check_spaces("ppo", env.observation_space, env.action_space, ("Box", "Discrete"))
"""

from __future__ import annotations

import math
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


def check_spaces(
    algo: str, observation_space: Any, action_space: Any, allowed: tuple[str, ...]
) -> None:
    """Reject spaces that `algo` does not support, before training.

    Args:
        algo: the algorithm's name, for the message.
        observation_space: the environment's observation space, before or after `adapt_env`.
        action_space: the environment's action space.
        allowed: kinds of action spaces the algorithm supports, e.g. `("Box", "Discrete")`.

    Raises:
        SpinupError: names the algorithm, the space and the supported spaces.
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


# ---------------------------------------------------------------------------------------------
# What an algorithm needs of continuous actions
# ---------------------------------------------------------------------------------------------

# Off-policy algorithms whose policy over a Box is a density.
DENSITIES = ("sac", "acer")


def unbounded(space: spaces.Box) -> np.ndarray:
    """Return the dimensions without finite bounds, as indices of the flattened space.

    Bounds so wide that their difference overflows float32 count as infinite, because the squashing
    scale would be infinite (`np.finfo(np.float32).max` is a common way to write "no bound").
    """
    with np.errstate(over="ignore", invalid="ignore"):
        width = space.high.astype(np.float32) - space.low.astype(np.float32)
    return np.flatnonzero(~np.isfinite(width))


def single_valued(space: spaces.Box) -> np.ndarray:
    """Return the dimensions that have only one value, as indices of the flattened space."""
    return np.flatnonzero(space.high <= space.low)


def check_bounds(algo: str, space: spaces.Box) -> None:
    """Reject a Box that the off-policy algorithm `algo` cannot learn in."""
    require_finite_bounds(algo, space)
    if algo in DENSITIES:
        require_width(algo, space)


def require_finite_bounds(algo: str, space: spaces.Box) -> None:
    """Reject a Box with infinite bounds, for algorithms that squash actions into the bounds."""
    for i in unbounded(space)[:1]:
        raise SpinupError(
            f"{algo} scales its actions to the bounds of the action space, but dimension {i} of "
            f"{name_of(space)} is unbounded ([{space.low.ravel()[i]}, {space.high.ravel()[i]}]): "
            "give the space finite bounds, for example with gymnasium.wrappers.RescaleAction "
            "or in the environment itself"
        )


def require_width(algo: str, space: spaces.Box) -> None:
    """Reject a dimension with a single value, for policies that need a density over it."""
    for i in single_valued(space)[:1]:
        raise SpinupError(
            f"{algo} needs a density over its actions, but dimension {i} of {name_of(space)} has "
            f"only one value ({space.low.ravel()[i]}): remove it from the action space"
        )


def check_log_std(space: Any, value: Any) -> None:
    """Reject a `log_std_init` that is no sensible number, or where actions have no deviation."""
    if not isinstance(space, spaces.Box):
        raise SpinupError(
            f"log_std_init={value!r} is for actions in a Box, but the action space is "
            f"{name_of(space)}: leave it out"
        )
    if not isinstance(value, int | float) or not -20 <= value <= 5:
        raise SpinupError(f"log_std_init={value!r} must be a number from -20 to 5, usually -2 to 0")


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


# Frames that a replay buffer has room for, per transition whose observations are stacks of them:
# one, and some more for the beginnings and ends of episodes.
FRAMES_PER_TRANSITION = 33 / 32


def transition_bytes(observation_space: Any, action_space: Any, frame_stack: int = 1) -> int:
    """Return the size in bytes of one transition `obs, act, rew, obs2, done` in a replay buffer.

    If an observation is a stack of frames, each frame is stored once, and a transition refers to
    the frames of `obs` and `obs2`.
    """
    obs = math.prod(observation_space.shape) * stored_dtype(observation_space).itemsize
    act = math.prod(action_shape(action_space)) * np.dtype(act_dtype(action_space)).itemsize
    both = 2 * obs
    if frame_stack > 1:
        both = int(obs // frame_stack * FRAMES_PER_TRANSITION) + 8 * frame_stack + 8
    return both + act + 4 + 1  # rew is a float32, done a bool


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
