"""An argument parser that reports invalid input in one sentence."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import NoReturn

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
