"""Words of a command line: their values, and a parser that reports errors in one sentence."""

from __future__ import annotations

import argparse
import ast
import re
import warnings
from collections.abc import Callable
from typing import Any, NoReturn

from spinup.utils.errors import SpinupError, nearest


class Parser(argparse.ArgumentParser):
    """An argument parser that suggests flags and raises `SpinupError` instead of printing usage."""

    def error(self, message: str) -> NoReturn:
        """Raise a `SpinupError`; argparse calls this for every invalid command line."""
        hint = f"; '{self.prog} --help' explains the arguments"
        unknown = re.match(r"unrecognized arguments: (-\S+)", message)
        if unknown:
            flag = unknown[1].partition("=")[0]
            message = f"there is no argument {flag}"
            hint = nearest(flag, self._option_string_actions) or hint
        raise SpinupError(f"{message}{hint}")


def whole(least: int) -> Callable[[str], int]:
    """Return the type of a flag whose value is a whole number of at least `least`."""

    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            number = least - 1
        if number < least:
            # argparse prepends the flag's name
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return number

    return convert


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
