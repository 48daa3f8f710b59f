"""Run a program with a fault: python -m spinup_lab.bugs ID -- MODULE [ARGUMENTS...]

Without arguments, this lists the mutants. `--source ID` prints the change that a mutant makes.
"""

import difflib
import subprocess
import sys

from spinup.utils.errors import SpinupError
from spinup_lab.bugs.applying import child_environment
from spinup_lab.bugs.mutants import find, healthy_source, load, mutated

_USAGE = "use python -m spinup_lab.bugs [--source] ID [-- MODULE ARGUMENTS...]"


def change(name: str) -> str:
    """Return a mutant's change as a unified diff."""
    mutant = find(name)
    lines: list[str] = []
    for module in mutant.modules:
        healthy = healthy_source(module)
        faulty = mutated(mutant, module, healthy)
        before, after = (text.splitlines(keepends=True) for text in (healthy, faulty))
        names = (f"{module} (healthy)", f"{module} ({name})")
        lines += difflib.unified_diff(before, after, *names, n=2)
    return "".join(lines)


def main(argv: list[str] | None = None) -> int:
    """List the mutants, show one, or run a program with one; return the exit code."""
    try:
        return _run(sys.argv[1:] if argv is None else argv)
    except SpinupError as error:
        print(f"spinup: {error}", file=sys.stderr)
        return 2


def _run(argv: list[str]) -> int:
    if not argv:
        for mutant in load().values():
            print(f"{mutant.id:28} {mutant.part:16} {mutant.title}")
        return 0
    if argv[0] == "--source" and len(argv) == 2:
        print(change(argv[1]), end="")
        return 0
    if len(argv) < 3 or argv[1] != "--":
        raise SpinupError(f"the zoo cannot run {' '.join(argv)!r}: {_USAGE}")
    command = [sys.executable, "-m", *argv[2:]]
    return subprocess.run(command, env=child_environment(argv[0]), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
