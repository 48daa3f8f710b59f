"""The one exception for wrong input."""


class SpinupError(ValueError):
    """Something the user gave us cannot work; the message is one sentence that says what to do.

    The command line prints the message alone and exits with a non-zero status; anything else that
    escapes an algorithm is a bug of ours and keeps its traceback.
    """
