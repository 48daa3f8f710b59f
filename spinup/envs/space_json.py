"""Converting spaces to and from JSON: `space_from_json(space_to_json(space)) == space`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup.envs.spaces import OBSERVATIONS, name_of
from spinup.utils.errors import SpinupError

MAX_ELEMENTS = 3 * 10**7  # of all spaces in a Dict or Tuple together


def _bound_to_json(values: np.ndarray, bounded: np.ndarray, unbounded: str) -> Any:
    """Return one number if all are equal, else a flat list; infinities become strings.

    An integer Box stores "unbounded" separately, because its dtype cannot represent an infinity.
    """
    flat = [
        value if is_bounded else unbounded
        for value, is_bounded in zip(values.ravel().tolist(), bounded.ravel(), strict=True)
    ]
    # compare as text, because 0.0 == -0.0 although their bits differ
    return flat[0] if len({repr(value) for value in flat}) == 1 else flat


def _bound_from_json(value: Any, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    values = value if isinstance(value, list) else [value]
    if any(isinstance(v, str) for v in values):
        # Box accepts infinite bounds of integer spaces as floats and marks them as unbounded.
        dtype = dtype if dtype.kind == "f" else np.dtype(np.float64)
    array = np.array([float(v) if isinstance(v, str) else v for v in values], dtype=dtype)
    return array.reshape(shape) if isinstance(value, list) else np.full(shape, array[0])


def space_to_json(space: spaces.Space) -> dict[str, Any]:
    """Convert a space to a dict of strict JSON data; `space_from_json` converts it back.

    Raises:
        SpinupError: the space is not a Box, Discrete, MultiDiscrete, MultiBinary, Dict or Tuple,
            or is a Dict with a key that is neither a string nor an integer.
    """
    if isinstance(space, spaces.Box):
        return {
            "type": "Box",
            "shape": list(space.shape),
            "dtype": space.dtype.name,
            "low": _bound_to_json(space.low, space.bounded_below, "-inf"),
            "high": _bound_to_json(space.high, space.bounded_above, "inf"),
        }
    if isinstance(space, spaces.Discrete):
        dtype = np.dtype(space.dtype).name
        return {"type": "Discrete", "n": int(space.n), "start": int(space.start), "dtype": dtype}
    if isinstance(space, spaces.MultiDiscrete):
        nvec, start = space.nvec.tolist(), space.start.tolist()
        return {"type": "MultiDiscrete", "nvec": nvec, "start": start, "dtype": space.dtype.name}
    if isinstance(space, spaces.MultiBinary):
        n = space.n
        return {"type": "MultiBinary", "n": n if isinstance(n, int) else [int(i) for i in n]}
    if isinstance(space, spaces.Dict):
        for key in space.spaces:
            if not isinstance(key, str | int):
                raise SpinupError(
                    f"the key {key!r} of {name_of(space)} cannot be saved: use strings as keys"
                )
        # Pairs, not an object: the order of the keys is the order of the flattened observation.
        pairs = [[key, space_to_json(sub)] for key, sub in space.spaces.items()]
        return {"type": "Dict", "spaces": pairs}
    if isinstance(space, spaces.Tuple):
        return {"type": "Tuple", "spaces": [space_to_json(sub) for sub in space.spaces]}
    raise SpinupError(
        f"{name_of(space)} cannot be saved, only {OBSERVATIONS} can: describe the environment "
        "with those"
    )


def space_from_json(d: Mapping[str, Any]) -> spaces.Space:
    """Rebuild the space that `space_to_json` described; nothing in `d` is executed.

    Raises:
        SpinupError: `d` does not describe a space.
    """
    try:
        if _elements(d) > MAX_ELEMENTS:  # the bounds' arrays would fill the memory
            raise SpinupError(
                f"a space of {_elements(d):.1g} elements is too large to be real: save the policy "
                "again"
            )
        return _space_from_json(d)
    except SpinupError:
        raise
    except Exception as error:  # a damaged description can make a constructor raise anything
        raise SpinupError(
            f"{str(d)[:100]} does not describe a space ({error!r}): save the policy again"
        ) from error


def _elements(d: Mapping[str, Any]) -> float:
    """Return how many numbers a space has, counting each value of a discrete one."""
    kind = d["type"]
    if kind == "Dict":
        return sum(_elements(sub) for _, sub in d["spaces"])
    if kind == "Tuple":
        return sum(_elements(sub) for sub in d["spaces"])
    if kind == "MultiDiscrete":
        return float(np.sum(np.abs(np.array(d["nvec"], np.float64))))
    sizes = d["shape"] if kind == "Box" else d.get("n", 0)
    return math.prod(abs(float(n)) for n in (sizes if isinstance(sizes, list) else [sizes]))


def _space_from_json(d: Mapping[str, Any]) -> spaces.Space:
    kind = d["type"]
    if kind == "Box":
        shape, dtype = tuple(d["shape"]), np.dtype(d["dtype"])
        low, high = (_bound_from_json(d[end], shape, dtype) for end in ("low", "high"))
        return spaces.Box(low, high, shape=shape, dtype=dtype.type)
    if kind == "Discrete":
        dtype = np.dtype(d.get("dtype", "int64"))
        # Older Gymnasium releases have no `dtype` argument and support only int64.
        extra = {} if dtype == np.int64 else {"dtype": dtype.type}
        return spaces.Discrete(int(d["n"]), start=int(d["start"]), **extra)
    if kind == "MultiDiscrete":
        dtype = np.dtype(d["dtype"])
        nvec, start = np.array(d["nvec"], dtype), np.array(d["start"], dtype)
        return spaces.MultiDiscrete(nvec, dtype=dtype.type, start=start)
    if kind == "MultiBinary":
        return spaces.MultiBinary(d["n"])
    if kind == "Dict":
        return spaces.Dict([(key, _space_from_json(sub)) for key, sub in d["spaces"]])
    if kind == "Tuple":
        return spaces.Tuple([_space_from_json(sub) for sub in d["spaces"]])
    raise SpinupError(f"there is no kind of space called {kind!r}: save the policy again")
