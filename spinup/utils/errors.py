"""The exception for invalid input, text that is safe to print, and suggestions for typos."""

import difflib
import re
from collections.abc import Iterable
from typing import Any

# Control characters (a terminal obeys them), marks that reorder text, and halves of characters.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class SpinupError(ValueError):
    """The user's input is invalid; the message is one sentence that suggests a fix.

    The command line prints only the message and exits with a non-zero status. Any other exception
    raised by an algorithm is a bug in this library and keeps its traceback.
    """


def printable(text: Any) -> str:
    """Return text from a file or a folder as one line that a terminal shows and does not obey."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode(), str(text))


def printable_lines(text: str) -> str:
    """Return text of several lines, such as a program's output, with each line safe to print."""
    return "\n".join(printable(line.expandtabs()) for line in text.split("\n"))


def one_line(error: Any) -> str:
    """Return an error's message as one line that is safe to print."""
    return printable(" ".join(str(error).split()))


def check_name(text: Any, what: str) -> None:
    """Raise an error if a name or a path contains characters that cannot be shown or quoted."""
    if _UNSEEN.search(str(text)):
        raise SpinupError(
            f"{what} contains a line break or another control character ({printable(text)}): use "
            "only printable characters"
        )


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the suffix "; did you mean X?" for an error message, or '' if no word is close."""
    close = closest(word, known)
    return f"; did you mean {close}?" if close else ""


def closest(word: str, known: Iterable[str]) -> str:
    """Return the known word that `word` may be a misspelling of, or '' if none is close.

    Case and leading dashes are ignored, so that `cartpole-v1` finds `CartPole-v1`.
    """
    plain = {name.lower().lstrip("-"): name for name in sorted(known)}
    close = difflib.get_close_matches(word.lower().lstrip("-"), plain, n=1, cutoff=0.55)
    return plain[close[0]] if close else ""
