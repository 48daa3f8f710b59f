"""Values written as text: numbers, names, lists and dicts, read without executing anything."""

import ast
import warnings
from typing import Any


def parse_value(word: str) -> Any:
    """A Python literal as its value, any other word as the text it is; nothing is executed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            value = ast.literal_eval(word.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return word
    return value if _is_plain(value) else word


def _is_plain(value: Any) -> bool:
    """Whether `value` is made of what JSON knows: no bytes, sets, complex numbers, Ellipsis."""
    if isinstance(value, list | tuple):
        return all(_is_plain(v) for v in value)
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    return value is None or isinstance(value, bool | int | float | str)
