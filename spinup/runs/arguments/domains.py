"""Allowed values of an argument: a range of numbers, a list of values, or any value of one kind.

`value in domain` tests whether a value is allowed. `str(domain)` describes the allowed values in
words that can follow "must be", such as `a number between 0 and 1`. `convert` turns an allowed
value into the form that the training function receives. `words` lists individually allowed values,
such as None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from spinup.utils.errors import nearest


class _Values:
    """What the kinds of domains share."""

    def convert(self, value: Any) -> Any:
        """Return an allowed value in the form that the training function receives."""
        return value


@dataclass(frozen=True)
class Number(_Values):
    """The numbers from `least` to `most`, and the values in `words`.

    Attributes:
        least, most: the ends of the range, inclusive.
        whole: allow only whole numbers, including floats such as 1e6.
        above: exclude `least` itself.
        endless: include infinity, as a limit that is never reached.
        words: values allowed besides numbers, such as None.
    """

    least: float = 0.0
    most: float = math.inf
    whole: bool = False
    above: bool = False
    endless: bool = False
    words: tuple[Any, ...] = ()

    def __contains__(self, value: Any) -> bool:
        if _listed(value, self.words):
            return True
        number = _number(value)
        if number is None or math.isnan(number):
            return False
        if math.isinf(number):
            return self.endless and (number > 0 or self.least == -math.inf)
        if self.whole and not number.is_integer():
            return False
        return number > self.least if self.above else self.least <= number <= self.most

    def convert(self, value: Any) -> Any:
        """Convert a whole number to an int: 1e6 becomes 1000000."""
        whole = self.whole and isinstance(value, float) and value.is_integer()
        return int(value) if whole else value

    def __str__(self) -> str:
        text = "a whole number" if self.whole else "a number"
        if self.most < math.inf:
            text += f" between {self.least:g} and {self.most:g}"
        elif self.above:
            text += f" above {self.least:g}"
        elif self.least > -math.inf:
            text += f", at least {self.least:g}" if self.whole else ", zero or more"
        comma = "" if text == "a number" else ","
        words = (math.inf, *self.words) if self.whole and self.endless else self.words
        return text + "".join(f"{comma} or {word!r}" for word in words)


@dataclass(frozen=True)
class OneOf(_Values):
    """A list of values.

    Attributes:
        words: the values.
        numbered: whether a name may be followed by a number, as in `cuda:1`.
    """

    words: tuple[Any, ...]
    numbered: bool = False

    def __contains__(self, value: Any) -> bool:
        if not self.numbered:
            return _listed(value, self.words)
        name, colon, number = str(value).partition(":")  # also accepts a torch.device
        return name in self.words and (not colon or number.isdecimal())

    def __str__(self) -> str:
        return alternatives([repr(word) for word in self.words])


@dataclass(frozen=True)
class Kind(_Values):
    """Any value that passes `test`; `text` describes such values."""

    test: Callable[[Any], bool]
    text: str
    words: tuple[Any, ...] = ()

    def __contains__(self, value: Any) -> bool:
        return _listed(value, self.words) or self.test(value)

    def __str__(self) -> str:
        return self.text + "".join(f", or {word!r}" for word in self.words)


Domain: TypeAlias = Number | OneOf | Kind


def hint(value: Any, domain: Domain) -> str:
    """Return an error message's suffix: the closest name to `value`, if there are three or more.

    Devices are left out: 'gpu' resembles 'cpu', but nobody means that.
    """
    if getattr(domain, "numbered", False):
        return ""
    names = [word for word in domain.words if isinstance(word, str)]
    return nearest(value, names) if isinstance(value, str) and len(names) > 2 else ""


def alternatives(words: Sequence[str]) -> str:
    """Join words as `a, b or c`."""
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last


def _listed(value: Any, words: tuple[Any, ...]) -> bool:
    """Test whether `value` is one of `words`; True is not 1, but NumPy's True equals True."""
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, str):
        return any(isinstance(word, str) and value == word for word in words)
    return any(value is word for word in words)


def _number(value: Any) -> float | None:
    """Convert a number, or a NumPy or torch scalar, to a float; return None for other values."""
    if isinstance(value, bool | str | bytes) or value is None:
        return None
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None
