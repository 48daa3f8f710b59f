"""Bounds of continuous actions that off-policy algorithms need."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from spinup.envs.spaces import name_of
from spinup.utils.errors import SpinupError

# Off-policy algorithms whose policy over a Box is a density.
DENSITIES = ("sac", "acer")


def check_bounds(algo: str, space: spaces.Box) -> None:
    """Reject a Box that the off-policy algorithm `algo` cannot learn in."""
    require_finite_bounds(algo, space)
    if algo in DENSITIES:
        require_width(algo, space)


def require_finite_bounds(algo: str, space: spaces.Box) -> None:
    """Reject a Box with infinite bounds, for algorithms that squash actions into the bounds.

    Bounds so wide that their difference overflows float32 count as infinite, because the squashing
    scale would be infinite (`np.finfo(np.float32).max` is a common way to write "no bound").
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


def require_width(algo: str, space: spaces.Box) -> None:
    """Reject a dimension with a single value, for policies that need a density over it."""
    equal = np.flatnonzero((space.high <= space.low).ravel())
    if equal.size:
        i = int(equal[0])
        raise SpinupError(
            f"{algo} needs a density over its actions, but dimension {i} of {name_of(space)} has "
            f"only one value ({space.low.ravel()[i]}): remove it from the action space"
        )
