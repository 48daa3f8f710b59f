"""Parsing values written as text (numbers, names, lists and dicts) without executing anything."""

import ast
import warnings
from typing import Any


def parse_value(word: str) -> Any:
    """Return a Python literal's value, or any other word as a string; nothing is executed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            value = ast.literal_eval(word.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return word
    return value if _is_plain(value) else word


def _is_plain(value: Any) -> bool:
    """Test whether `value` is plain JSON data: no bytes, sets, complex numbers or Ellipsis."""
    if isinstance(value, list | tuple):
        return all(_is_plain(v) for v in value)
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    return value is None or isinstance(value, bool | int | float | str)
