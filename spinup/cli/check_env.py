"""The command `spinup check_env`: can an agent learn in this environment?"""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Sequence

from spinup.cli.parsers import command_parser
from spinup.utils.errors import SpinupError, one_line
from spinup.utils.importing import import_from_here

_LABELS = {True: "PROBLEM", False: "warning"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run `spinup check_env ID ...`; return 0 (nothing serious), 1 (problems) or 2 (not made)."""
    parser = command_parser("check_env")
    try:
        args = parser.parse_args(argv)
    except SpinupError as error:
        print(f"spinup: {one_line(error)}", file=sys.stderr)
        return 2
    import_from_here()  # `module:id` may name a file in the working directory
    codes = []
    for i, env_id in enumerate(args.ids):
        if i:
            print()
        codes.append(_check(env_id, args.steps, args.seed))
    return max(codes)


def _check(env_id: str, steps: int, seed: int) -> int:
    from spinup.envs.checking import examine  # imports gymnasium

    try:
        found = examine(env_id, steps=steps, seed=seed)
    except SpinupError as error:
        print(f"spinup: {one_line(error)}", file=sys.stderr)
        return 2
    serious = sum(finding.serious for finding in found.findings)
    counts = [_count(serious, "problem"), _count(len(found.findings) - serious, "warning")]
    said = ", ".join(filter(None, counts)) or "nothing found"
    print(f"{env_id}: {said}")
    if found.summary:
        _print(f"  {found.summary}", 2)
    for finding in found.findings:
        print()
        indent = 11
        _print(f"  {_LABELS[finding.serious]}  {finding.sentence}.", indent)
        _print(f"{' ' * indent}{finding.why}.", indent)
        _print(f"{' ' * indent}-> {finding.advice}.", indent + 3)
    return int(serious > 0)


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}" if n else ""


def _print(text: str, indent: int) -> None:
    width = min(shutil.get_terminal_size().columns, 100)
    print(
        textwrap.fill(
            text,
            width,
            subsequent_indent=" " * indent,
            break_long_words=False,
            break_on_hyphens=False,
        )
    )
