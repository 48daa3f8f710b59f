"""The standard deviation with which Gaussian policies start."""

from typing import Any

from gymnasium import spaces

from spinup.envs.spaces import name_of
from spinup.utils.errors import SpinupError


def check_log_std(space: Any, value: Any) -> None:
    """Reject a `log_std_init` that is no sensible number, or where actions have no deviation."""
    if not isinstance(space, spaces.Box):
        raise SpinupError(
            f"log_std_init={value!r} is for actions in a Box, but the action space is "
            f"{name_of(space)}: leave it out"
        )
    if not isinstance(value, int | float) or not -20 <= value <= 5:
        raise SpinupError(f"log_std_init={value!r} must be a number from -20 to 5, usually -2 to 0")
