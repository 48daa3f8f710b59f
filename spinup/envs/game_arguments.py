"""Checks of the arguments with which a game of Atari or MinAtar is made."""

from __future__ import annotations

from typing import Any

import numpy as np

from spinup.utils.errors import SpinupError

__all__ = ["check_count", "check_flag", "check_probability"]


def check_count(name: str, value: Any, least: int, most: int) -> None:
    """Raise SpinupError unless `value` is an integer from `least` to `most`."""
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    if not whole or not least <= value <= most:
        raise _wrong(name, f"an integer from {least} to {most}", value)


def check_flag(name: str, value: Any) -> None:
    """Raise SpinupError unless `value` is a boolean: the word 'false' would count as true."""
    if not isinstance(value, bool | np.bool_):
        raise _wrong(name, "true or false", value)


def check_probability(name: str, value: Any) -> None:
    """Raise SpinupError unless `value` is a number from 0 to 1."""
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not number or not 0 <= value <= 1:
        raise _wrong(name, "a number from 0 to 1", value)


def _wrong(name: str, wanted: str, value: Any) -> SpinupError:
    return SpinupError(f"{name} must be {wanted}, not {value!r}: correct env_kwargs")
