"""The one exception for wrong input, and the end of a sentence about a misspelled word."""

import difflib
from collections.abc import Iterable


class SpinupError(ValueError):
    """The user's input cannot work; the message is one sentence that says what to do.

    The command line prints the message alone and exits with a non-zero status. Any other exception
    that leaves an algorithm is a bug in this library and keeps its traceback.
    """


def nearest(word: str, known: Iterable[str]) -> str:
    """The end of an error message, "; did you mean X?", or '' if no known word is close."""
    close = closest(word, known)
    return f"; did you mean {close}?" if close else ""


def closest(word: str, known: Iterable[str]) -> str:
    """The known word that `word` may be a misspelling of; '' if none is close.

    Neither case nor leading dashes count, so that `cartpole-v1` finds `CartPole-v1`.
    """
    plain = {name.lower().lstrip("-"): name for name in sorted(known)}
    close = difflib.get_close_matches(word.lower().lstrip("-"), plain, n=1, cutoff=0.55)
    return plain[close[0]] if close else ""
