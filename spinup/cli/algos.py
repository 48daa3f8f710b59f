"""`spinup algos`: the table of algorithms."""

from __future__ import annotations

from collections.abc import Sequence

from spinup import registry
from spinup.cli.parsers import command_parser
from spinup.cli.presets import names


def main(argv: Sequence[str] | None = None) -> int:
    """Print what each algorithm can learn from, and where it runs."""
    command_parser("algos").parse_args(argv)
    rows = [("algorithm", "learns", "actions", "observations", "--cpu", "backends", "presets")]
    for row in registry.ROWS:
        rows.append(
            (
                row.name,
                "on-policy" if row.on_policy else "off-policy",
                actions(row),
                "goals" if row.observation == "goal" else "any",
                "yes" if row.mpi else "no",
                " ".join(row.backends),
                str(len(names(row.name))),
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for line in rows:
        print(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        )
    for name in registry.outside():  # not imported here: a broken package must not break the list
        print(f"{name.ljust(widths[0])}  installed separately")
    print("\n'spinup ALGO --help' explains the arguments, 'spinup presets ALGO' its presets.")
    return 0


def actions(row: registry.Algorithm) -> str:
    """Return the kinds of actions that an algorithm supports, in a few letters."""
    return "any" if len(row.action_spaces) == 4 else " ".join(row.action_spaces)
