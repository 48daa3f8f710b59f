"""What algorithms need of continuous actions: bounds, and a deviation to start with."""

from __future__ import annotations

from typing import Any

import numpy as np
from gymnasium import spaces

from spinup.envs.spaces import name_of
from spinup.utils.errors import SpinupError

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
