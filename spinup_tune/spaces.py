"""Search spaces: which values of which arguments a study tries.

    pi_lr=log:1e-4:1e-2            a range, evenly distributed on a logarithmic scale
    clip_ratio=0.1:0.3             a range; whole numbers if the argument takes only those
    train_v_iters=int:5:80         whole numbers in a range
    minibatch_size=64,128,256      one of these
    hid=[64,64],[256,256]          one of these lists
    space.json                     a file: {"pi_lr": "log:1e-4:1e-2", "minibatch_size": [64, 128]}

A dimension maps a number between 0 and 1 to a value, so that any sampler of the unit cube can be
used. Which values an argument accepts is known to the caller, who passes a function that checks
and converts them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinup.runs.arguments.config import as_json
from spinup.utils.argparsing import parse_value
from spinup.utils.errors import SpinupError
from spinup.utils.reading import read_object

SHIPPED = Path(__file__).with_name("spaces.json")
DIGITS = 4  # significant digits of a sampled number, except in a narrow range: short to read
# Checks and converts one value of an argument: (key, value) -> value.
Check = Callable[[str, Any], Any]

_SYNTAX = "write a range (0.1:0.3, log:1e-4:1e-2, int:5:80) or choices (64,128,256)"
_RANGE = re.compile(r"(?:(?P<kind>log|int):)?(?P<low>[^:,\[\]]+):(?P<high>[^:,\[\]]+)")


@dataclass(frozen=True)
class Dimension:
    """The values that a study tries for one argument: a range of numbers, or choices.

    Attributes:
        key: the argument; `a:b` means entry `b` of the dict argument `a`.
        text: the values as typed.
        low, high: the ends of a range, inclusive.
        log: whether the range is on a logarithmic scale.
        whole: whether it has only whole numbers.
        choices: the values, if it is not a range.
    """

    key: str
    text: str
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    whole: bool = False
    choices: tuple[Any, ...] = ()

    def at(self, u: float) -> Any:
        """Return the value at position `u` of the dimension, from 0 to 1."""
        u = min(max(u, 0.0), math.nextafter(1.0, 0.0))
        if self.choices:
            return self.choices[int(u * len(self.choices))]
        low, high = self.low, self.high
        if self.whole:  # each whole number, also the first and the last, has its share
            low, high = low - 0.5, high + 0.5
        if self.log:
            value = math.exp(math.log(low) + u * (math.log(high) - math.log(low)))
        else:
            value = low + u * (high - low)
        if self.whole:
            return int(min(max(round(value), self.low), self.high))
        return self.rounded(value)

    def rounded(self, value: float) -> float:
        """Round a number to a few digits, more of them in a range such as 0.999:0.99995."""
        narrow = math.log10(max(abs(self.low), abs(self.high)) / (self.high - self.low))
        digits = DIGITS + max(0, math.floor(narrow) - 1)
        return min(max(float(f"{value:.{digits}g}"), self.low), self.high)

    def restored(self, value: Any) -> Any:
        """Return a value as it was before it became JSON, where an activation is a name.

        Raises `ValueError` if the dimension has no such value.
        """
        for choice in self.choices:
            # equal and of the same kinds: JSON tells 1, 1.0 and true apart
            if as_json(choice) == value and json.dumps(as_json(choice)) == json.dumps(value):
                return choice
        number = not self.choices and type(value) is (int if self.whole else float)
        inside = number and self.low <= value <= self.high
        if inside and (self.whole or self.rounded(value) == value):
            return value
        raise ValueError(f"{self.text} has no such value")

    @property
    def count(self) -> float:
        """The number of different values."""
        if self.choices:
            return len(self.choices)
        return self.high - self.low + 1 if self.whole else math.inf


# ----------------------------------------------------------------------------------------- reading


def read_space(
    words: Sequence[str], check: Check, rename: Callable[[str], str] = str
) -> list[Dimension]:
    """Read the words after `--space`: `key=values`, or names of JSON files.

    `rename` turns an abbreviation such as `hid` into the argument that it stands for.
    """
    texts: dict[str, Any] = {}
    for word in words:
        key, equals, text = word.partition("=")
        found = {key: text} if equals else _read_file(word)
        for key, text in found.items():
            key = rename(key)
            if key in texts:
                raise SpinupError(f"the space sets '{key}' twice: keep one of them")
            texts[key] = text
    if not texts:
        raise SpinupError(f"the space is empty: {_SYNTAX}")
    return [read_dimension(key, text, check) for key, text in texts.items()]


def shipped_space(algo: str, check: Check) -> list[Dimension]:
    """Return the space that is shipped for an algorithm."""
    every = json.loads(SHIPPED.read_text(encoding="utf-8"))
    if algo not in every:
        raise SpinupError(
            f"no search space is shipped for {algo}: add one, such as --space pi_lr=log:1e-4:1e-2"
        )
    return [read_dimension(key, text, check) for key, text in every[algo].items()]


def _read_file(word: str) -> dict[str, Any]:
    if not word.endswith(".json"):
        raise SpinupError(
            f"'{word}' does not say what to search: write ARGUMENT=VALUES, such as "
            "pi_lr=log:1e-4:1e-2, or name a .json file"
        )
    content = 'a text such as "log:1e-4:1e-2" or a list of choices for each argument'
    found = read_object(word, "space", content)
    if not all(isinstance(value, str | list) for value in found.values()):
        raise SpinupError(f"the space '{word}' must contain {content}")
    return found


def read_dimension(key: str, given: Any, check: Check) -> Dimension:
    """Read the values of one argument: a text as typed, or a list of choices from a file."""
    text = given if isinstance(given, str) else json.dumps(given)
    if isinstance(given, str):
        match = _RANGE.fullmatch(given)
        if match is not None:
            return _read_range(key, text, match, check)
    choices = given if isinstance(given, list) else [parse_value(w) for w in _split(given, key)]
    if not choices or any(choice == "" for choice in choices):
        raise SpinupError(f"'{key}' has no values: {_SYNTAX}")
    if len(choices) == 1:
        raise SpinupError(
            f"'{key}' has one value, {text}, so there is nothing to choose: {_SYNTAX}"
        )
    values = [check(key, choice) for choice in choices]
    if any(value in values[:i] for i, value in enumerate(values)):
        raise SpinupError(f"'{key}' has the same value twice in {text}: remove one")
    return Dimension(key, text, choices=tuple(values))


def _read_range(key: str, text: str, match: re.Match[str], check: Check) -> Dimension:
    ends = [parse_value(match[end]) for end in ("low", "high")]
    for end in ends:
        number = isinstance(end, int | float) and not isinstance(end, bool)
        if not number or not math.isfinite(end):
            raise SpinupError(f"'{key}' must be a range of numbers, not {text}: {_SYNTAX}")
    low, high = (check(key, end) for end in ends)
    whole = isinstance(low, int) and isinstance(high, int)
    if match["kind"] == "int" and not whole:
        if not float(low).is_integer() or not float(high).is_integer():
            raise SpinupError(f"'{key}' must have whole numbers as its ends, not {text}")
        whole = True
    # 0:1 is a range of an argument that takes fractions as well
    if whole and match["kind"] != "int":
        whole = not _takes_fractions(key, low, high, check)
    if not low < high:
        raise SpinupError(f"'{key}' must go from a lower to a higher number, not {text}")
    if match["kind"] == "log" and low <= 0:
        raise SpinupError(f"'{key}' cannot begin at {low} on a logarithmic scale: use one above 0")
    return Dimension(key, text, float(low), float(high), match["kind"] == "log", whole)


def _takes_fractions(key: str, low: float, high: float, check: Check) -> bool:
    try:
        check(key, low + 0.5 * (high - low) + 0.25)
    except SpinupError:
        return False
    return True


def _split(text: str, key: str) -> list[str]:
    """Split at the commas outside of brackets."""
    words, depth = [""], 0
    for c in text:
        depth += (c in "[(") - (c in "])")
        if c == "," and depth == 0:
            words.append("")
        else:
            words[-1] += c
    if depth:
        raise SpinupError(f"'{key}' has a bracket without its counterpart: {text}")
    return words
