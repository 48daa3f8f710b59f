"""Commands that also start as programs of their own: how they report invalid input."""

import functools
import sys
from collections.abc import Callable, Sequence

from spinup.utils.errors import SpinupError, one_line


def command(run: Callable[[Sequence[str] | None], None]) -> Callable[..., int]:
    """Make a command's `main(argv=None)`: invalid input prints one sentence, and gives status 2."""

    @functools.wraps(run)
    def main(argv: Sequence[str] | None = None) -> int:
        try:
            run(argv)
        except SpinupError as error:
            print(f"spinup: {one_line(error)}", file=sys.stderr)
            return int(getattr(error, "exit_code", 2))
        return 0

    return main
