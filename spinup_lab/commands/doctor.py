"""`spinup doctor RUN ...`: examine runs and say what is likely wrong with them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from spinup.analysis.curves import complete, run_folders
from spinup.cli.parsers import command_parser
from spinup.utils.command import spinup_command
from spinup.utils.errors import SpinupError, nearest, one_line

if TYPE_CHECKING:
    from spinup_lab.doctor.examination import Examination


_QUICK_BYTES = 1 << 20  # larger tables are left out of the quick look at every run
_MOST_NAMED = 3  # runs in the line about ill ones


def main(argv: Sequence[str] | None = None) -> int:
    """Examine runs; return 0 if nothing is wrong, 1 for warnings and 3 for errors."""
    args = command_parser("doctor", beside=__file__).parse_args(argv)
    if args.explain is not None:
        return _explain(args.explain)
    if not args.run:
        raise SpinupError("name a run to examine: spinup doctor RUN (or --explain ID)")
    from spinup_lab.doctor.printing import as_json, as_text, exit_code

    found = examined(args.run, args.play)
    print(as_json(found) if args.json else as_text(found, args.all))
    return exit_code(found)


def examined(given: Sequence[str], play: int) -> list[Examination]:
    """Examine all runs at or below these folders or prefixes of folders."""
    from spinup_lab.doctor.examination import examinations

    folders = [folder for path in complete(given) for folder in run_folders(Path(path))]
    if not folders:
        raise SpinupError(
            f"there are no runs in {', '.join(given)}: pass a run directory or a folder of runs"
        )
    return examinations(list(dict.fromkeys(folders)), play)


def mention(folders: Iterable[Path]) -> str | None:
    """Return a line about the runs that violate an exact rule on tables, or None.

    Only these rules are applied, and not to large tables: it is quick enough for every run.
    """
    from spinup_lab.doctor.examination import apply
    from spinup_lab.doctor.record import Record
    from spinup_lab.doctor.rules import RULES

    rules = [rule for rule in RULES.values() if rule.id.startswith("X") and rule.tier == 1]
    ill: dict[Path, list[str]] = {}
    for folder in folders:
        tables = [folder / name for name in ("progress.txt", "diagnostics.txt")]
        if 0 < sum(table.stat().st_size for table in tables if table.is_file()) <= _QUICK_BYTES:
            found = apply(Record(folder), rules).findings
            if ids := [finding.id for finding in found if finding.level == "error"]:
                ill[folder] = ids
    if not ill:
        return None
    names = ", ".join(sorted({name for ids in ill.values() for name in ids}))
    which = "1 run looks" if len(ill) == 1 else f"{len(ill)} runs look"
    some = [one_line(str(folder)) for folder in list(ill)[:_MOST_NAMED]]
    return f"{which} ill ({names}): {spinup_command('doctor', *some)}"


def _explain(name: str) -> int:
    from spinup_lab.doctor.printing import explanation
    from spinup_lab.doctor.rules import RULES

    rule = RULES.get(name.upper())
    if rule is None:
        known = f"the rules are {', '.join(RULES)}"
        raise SpinupError(f"there is no rule {name!r}: {known}{nearest(name, RULES)}")
    print(explanation(rule))
    return 0
