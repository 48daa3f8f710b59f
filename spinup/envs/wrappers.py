"""Rebuilding an environment's wrappers from the records of `spinup.envs.record`.

    records = wrapper_records(env)                 # innermost first
    env, missing = rewrap(make, records)           # `make(-1)` creates the inner environment

Gymnasium's own wrappers record their arguments. Those in `REBUILT` only transform data that passes
through them, so rebuilding one from a file can do no harm. Any other class must be imported by
name, which executes its module and therefore requires the caller's consent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from spinup.envs.record import wrapper_records
from spinup.utils.errors import SpinupError
from spinup.utils.importing import import_object

__all__ = ["REBUILT", "UNNEEDED", "rewrap"]

# Wrappers that can be rebuilt from their arguments.
REBUILT = frozenset(
    {
        "AddRenderObservation",
        "AtariPreprocessing",
        "Autoreset",
        "ClipAction",
        "ClipReward",
        "DelayObservation",
        "DiscretizeAction",
        "DiscretizeObservation",
        "DtypeObservation",
        "FilterObservation",
        "FlattenObservation",
        "FrameStackObservation",
        "GrayscaleObservation",
        "MaxAndSkipObservation",
        "RecordEpisodeStatistics",
        "RepeatAction",
        "RescaleAction",
        "RescaleObservation",
        "ReshapeObservation",
        "ResizeObservation",
        "StickyAction",
        "TimeAwareObservation",
        "TimeLimit",
    }
)
# The largest whole number that an argument of the others may be, unless it is a limit or a bound.
_MOST = 10_000
_WITH_LARGE_NUMBERS = frozenset(
    {"ClipReward", "RescaleAction", "RescaleObservation", "TimeAwareObservation", "TimeLimit"}
)
# Wrappers that do not affect a policy: left out silently.
UNNEEDED = frozenset(
    {"PassiveEnvChecker", "OrderEnforcing", "RecordVideo", "HumanRendering", "RenderCollection"}
)


def rewrap(
    make: Callable[[int], Any], records: Sequence[Any], trust: bool = False
) -> tuple[Any, list[str]]:
    """Create an environment with the wrappers that `records` describe.

    Args:
        make: creates the environment, with the time limit -1: none.
        records: the result of `wrapper_records`, as read from a file.
        trust: import classes other than Gymnasium's by the names in the records.

    Returns:
        `(env, missing)`: `missing` names the wrappers that could not be rebuilt, outermost first.
    """
    wanted = [record for record in map(_checked, records) if record["name"] not in UNNEEDED]
    env = make(-1)  # a saved limit is among the wrappers
    there = [record["name"] for record in wrapper_records(env)]
    there = [name for name in there if name not in UNNEEDED]  # those of gymnasium.make itself
    if there != [record["name"] for record in wanted[: len(there)]]:
        return env, [record["name"] for record in reversed(wanted)]
    missing: list[str] = []
    for record in wanted[len(there) :]:
        cls = _class_of(record, trust)
        if cls is None or record["kwargs"] is None:
            missing.insert(0, record["name"])
            continue
        if not trust:
            _check_sizes(record)
        try:
            env = cls(env, **{name: _decode(value) for name, value in record["kwargs"].items()})
        except Exception as error:  # arguments from a file can make a class raise anything
            raise SpinupError(
                f"the wrapper {record['name']} cannot be applied to {env} with the saved arguments "
                f"({type(error).__name__}: {error}): pass the environment with env=... (--env)"
            ) from error
    return env, missing


def _check_sizes(record: dict[str, Any]) -> None:
    """Refuse to stack, repeat or skip so often that it would fill the memory or never end."""
    for name, value in record["kwargs"].items():
        counts = value if isinstance(value, list) else [value]
        large = any(type(n) is int and abs(n) > _MOST for n in counts)
        if large and record["name"] not in _WITH_LARGE_NUMBERS:
            raise SpinupError(
                f"the saved wrapper {record['name']} has a {name} of more than {_MOST}, which is "
                "too large to be real: pass the environment with env=... (--env)"
            )


def _checked(record: Any) -> dict[str, Any]:
    known = isinstance(record, dict) and {"name", "class", "kwargs"} <= set(record)
    texts = known and isinstance(record["name"], str) and isinstance(record["class"], str)
    if not texts or not isinstance(record["kwargs"], dict | None):
        raise SpinupError(
            f"the file contains {str(record)[:80]}, which does not describe a wrapper: "
            "pass the environment with env=... (--env)"
        )
    return record


def _class_of(record: dict[str, Any], trust: bool) -> Any:
    name, path = record["name"], record["class"]
    if name in REBUILT and path.startswith("gymnasium.wrappers."):
        return getattr(gymnasium.wrappers, name, None)
    if not trust or path.startswith("gymnasium."):
        return None
    module, _, qualname = path.partition(":")
    try:
        return import_object(module, qualname)
    except ImportError as error:
        raise SpinupError(
            f"the wrapper {path} that the file names cannot be imported ({error}): run where it "
            "can be, or pass the environment with env=... (--env)"
        ) from error


# ---------------------------------------------------------------------------------------------
# Arguments: arrays, tuples and dtypes are restored as such
# ---------------------------------------------------------------------------------------------


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "float" in value:
        return float(value["float"])
    if "tuple" in value:
        return tuple(_decode(v) for v in value["tuple"])
    if "array" in value:
        flat = np.array([_decode(v) for v in value["array"]], dtype=np.dtype(value["dtype"]))
        return flat.reshape(value["shape"])[()]
    return np.dtype(value["dtype"]).type
