"""What the files that people edit share: printing the verdict, and turning it into an exit code.

An exercise exits with 0 if the answer is right, 1 if it is wrong or still to be written, and 2 if
it cannot be judged. The judges are in the lab.
"""

import contextlib
import os
import sys
from unittest import mock

from spinup.utils.errors import SpinupError
from spinup.utils.forwarding import forward

RIGHT, WRONG, CANNOT_JUDGE = 0, 1, 2
__getattr__, __dir__ = forward("spinup_lab.exercises.judges_common")


def print_result(correct=False):
    """Print the verdict between two lines; scripts look for "Congratulations"."""
    line = "=" * 50
    verdict = "Your answer appears to be incorrect. Try again!"
    if correct:
        verdict = "Congratulations! Your answer is correct."
    print("\n" * 5 + line + "\n" * 3)
    print(verdict)
    print("\n" * 3 + line)


def exit_with(main):
    """Run an exercise as a program: exit with its code, or with 2 and one sentence on an error."""
    try:
        code = main()
    except SpinupError as error:
        print(f"spinup: {error}", file=sys.stderr)
        code = CANNOT_JUDGE
    sys.exit(code)


@contextlib.contextmanager
def losses(module, **functions):
    """Let an algorithm's module compute its losses with these functions instead of its own."""
    with mock.patch.multiple(module, **functions):
        yield


def beside_the_program(path):
    """Return a package's search path, with the folder of the running program before it.

    So a student's completed files find each other in any folder: exercise 1.2 needs 1.1.
    """
    file = getattr(sys.modules["__main__"], "__file__", None)
    folder = os.path.dirname(os.path.abspath(file)) if file else ""
    ours = os.path.dirname(os.path.abspath(__file__))
    if not folder or folder.startswith(ours):
        return list(path)
    if not os.path.isfile(os.path.join(folder, "exercise1_1.py")):
        return list(path)
    return [folder, *path]
