"""The exception for invalid input, and suggestions for misspelled words."""

import difflib
from collections.abc import Iterable


class SpinupError(ValueError):
    """The user's input is invalid; the message is one sentence that suggests a fix.

    The command line prints only the message and exits with a non-zero status. Any other exception
    raised by an algorithm is a bug in this library and keeps its traceback.
    """


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
