"""Convert any object into data that `json.dumps(..., allow_nan=False)` accepts.

A configuration contains a training function's arguments: numbers, but also classes, lambdas,
partials, spaces, environments, even the logger. A reader of `config.json` wants a short name for
each. Writing the file must never fail.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import os
import re
import reprlib
from collections.abc import Mapping
from enum import Enum
from typing import Any

import numpy as np

MAX_DEPTH = 12  # deeper than any sane configuration; deeper objects are shown by their repr
MAX_ITEMS = 1000  # in one list, dict or array
MAX_NODES = 20_000  # in the whole result
MAX_TEXT = 300  # characters of a repr

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def is_json_serializable(v: Any) -> bool:
    """Test whether `v` is strict JSON, without NaN and infinity, which other parsers reject."""
    try:
        json.dumps(v, allow_nan=False)
    except (TypeError, ValueError, OverflowError, RecursionError):
        return False
    return True


def convert_json(obj: Any) -> Any:
    """Convert `obj` to JSON-serializable data; never raise and never take long.

    Tuples and sets become lists, and keys become strings. Functions and classes become their names.
    Partials show their bound arguments. NumPy values become numbers and lists. NaN and infinity
    become `"nan"`, `"inf"` and `"-inf"`. Other objects are shown by their own text or their
    attributes. Cycles, and objects that are too large or too deep, become a short `repr`.
    """
    return _Converter().convert(obj, depth=0)


class _Converter:
    """State of one conversion: the objects being visited (for cycles) and the size so far."""

    def __init__(self) -> None:
        self.open_ids: set[int] = set()
        self.nodes = 0

    def convert(self, obj: Any, depth: int) -> Any:
        self.nodes += 1
        if obj is None or isinstance(obj, bool):
            return obj
        if isinstance(obj, str):
            return str.__str__(obj)  # a plain str, also for np.str_ and string enums
        if isinstance(obj, int) and not isinstance(obj, Enum):
            # Python does not print integers with more than a few thousand digits
            return int(obj) if obj.bit_length() <= 4096 else f"<int of {obj.bit_length()} bits>"
        if isinstance(obj, float):
            return float(obj) if math.isfinite(obj) else str(float(obj))
        if id(obj) in self.open_ids or depth >= MAX_DEPTH or self.nodes > MAX_NODES:
            return short_repr(obj)
        self.open_ids.add(id(obj))
        try:
            return self.convert_compound(obj, depth + 1)
        finally:
            self.open_ids.discard(id(obj))

    def convert_compound(self, obj: Any, depth: int) -> Any:
        if isinstance(obj, (np.ndarray, np.generic)) or _is_tensor(obj):
            return self.convert_array(obj, depth)
        if isinstance(obj, functools.partial):
            shown = {"partial": self.convert(obj.func, depth)}
            if obj.args:
                shown["args"] = self.convert(list(obj.args), depth)
            if obj.keywords:
                shown["keywords"] = self.convert(dict(obj.keywords), depth)
            return shown
        if isinstance(obj, Mapping):
            return self.convert_mapping(obj, depth)
        if isinstance(obj, (list, tuple)):
            if len(obj) > MAX_ITEMS:
                return short_repr(obj)
            return [self.convert(v, depth) for v in obj]
        if isinstance(obj, (set, frozenset)):
            if len(obj) > MAX_ITEMS:
                return short_repr(obj)
            # the order of a set of strings differs between processes
            return [self.convert(v, depth) for v in sorted(obj, key=short_repr)]
        if isinstance(obj, os.PathLike):
            return os.fsdecode(os.fspath(obj))
        if dataclasses.is_dataclass(obj) and not isinstance(obj, type):
            return {type(obj).__name__: self.convert_mapping(vars_of(obj), depth)}
        name = _name_of(obj)
        if name is not None:
            return name
        if _has_own_text(obj) or not vars_of(obj):
            return short_repr(obj)
        return {type(obj).__name__: self.convert_mapping(vars_of(obj), depth)}

    def convert_mapping(self, obj: Mapping[Any, Any], depth: int) -> Any:
        if len(obj) > MAX_ITEMS:
            return short_repr(obj)
        out: dict[str, Any] = {}
        for key, value in obj.items():
            name = key if type(key) is str else (_name_of(key) or short_repr(key))
            while name in out:  # 1 and "1" are different keys and must stay different
                name += "'"
            out[name] = self.convert(value, depth)
        return out

    def convert_array(self, obj: Any, depth: int) -> Any:
        if math.prod(obj.shape) > MAX_ITEMS:
            kind = "array" if isinstance(obj, np.ndarray) else "tensor"
            return f"{kind}(shape={tuple(obj.shape)}, dtype={obj.dtype})"
        if isinstance(obj, np.generic) and not isinstance(obj, (np.number, np.bool_)):
            return str(obj)  # dates, text, records
        plain = obj.tolist()
        if isinstance(plain, np.generic):  # a longdouble has no equivalent Python number
            return str(plain)
        return self.convert(plain, depth)


def short_repr(obj: Any) -> str:
    """Return the text of `obj` on one line of limited length, without memory addresses."""
    try:
        if isinstance(obj, (dict, list, tuple, set, frozenset, str, bytes)):
            text = _reprlib().repr(obj)
        else:
            text = str(obj)
    # A user's __repr__ can raise anything, and writing a configuration must not fail.
    except Exception as error:
        text = f"<{type(obj).__name__}: its repr raised {type(error).__name__}>"
    text = " ".join(_ADDRESS.sub("", text).split())
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


def vars_of(obj: Any) -> dict[str, Any]:
    """Return the instance attributes of `obj`; empty if it has no `__dict__`."""
    try:
        return dict(vars(obj))
    except TypeError:
        return {}


def _reprlib() -> reprlib.Repr:
    short = reprlib.Repr()
    short.maxlevel = 3
    short.maxstring = short.maxother = 80
    return short


def _name_of(obj: Any) -> str | None:
    """Return the name of a function, class or module; None for an instance."""
    try:
        name = getattr(obj, "__name__", None)
    except Exception as error:  # a user's __getattr__ can raise anything
        return f"<{type(obj).__name__}: its attributes raised {type(error).__name__}>"
    return name if isinstance(name, str) else None


def _has_own_text(obj: Any) -> bool:
    return type(obj).__repr__ is not object.__repr__ or type(obj).__str__ is not object.__str__


def _is_tensor(obj: Any) -> bool:
    """Test whether `obj` is a torch tensor, without importing torch."""
    return any(c.__module__ == "torch" and c.__name__ == "Tensor" for c in type(obj).__mro__)
