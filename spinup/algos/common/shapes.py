"""Shapes of buffers."""

from typing import Any

import numpy as np


def combined_shape(length: int | None, shape: Any = None) -> tuple[Any, ...]:
    """Return a buffer's shape: `length` entries of `shape` (None, an int or a tuple)."""
    if shape is None:
        return (length,)
    return (length, shape) if np.isscalar(shape) else (length, *shape)
