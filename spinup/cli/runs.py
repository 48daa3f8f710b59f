"""`spinup runs [DIR ...]`: the runs in a folder, how far they are, and how to continue them.

Reads only tables and `config.json`, so hundreds of runs take a second.
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinup import registry, user_config
from spinup.analysis.curves import CHANGED, checked_table, one_line, run_folders
from spinup.cli.main import TOOLS
from spinup.cli.parsers import command_parser
from spinup.utils.command import AS_MODULE, is_console_script, spinup_command
from spinup.utils.errors import SpinupError, printable
from spinup.utils.importing import import_named
from spinup.utils.reading import open_regular, read_json

_MOST_COMMANDS = 10


@dataclass(frozen=True)
class Row:
    """One run: `status` is running, finished, stopped (it has a checkpoint) or broken."""

    folder: Path
    status: str
    done: int
    epochs: int | None
    performance: float
    age: float
    command: str
    intact: bool = True  # whether the table matches its hash


def main(argv: Sequence[str] | None = None) -> int:
    """List the runs in some folders."""
    parser = command_parser("runs")
    folders = [Path(f) for f in parser.parse_args(argv).folder or [user_config.DEFAULT_DATA_DIR]]
    for folder in folders:
        if not folder.is_dir():
            raise SpinupError(f"{folder} is not a folder: pass a folder that contains runs")
    found = [look_at(run) for folder in folders for run in run_folders(folder)]
    if not found:
        raise SpinupError(f"there are no runs in {', '.join(map(str, folders))}")
    print(f"{'status':<9} {'epochs':>9} {'return':>9} {'age':>7}  run")
    for row in found:
        epochs = f"{row.done}/{'?' if row.epochs is None else row.epochs}"
        shown = "-" if math.isnan(row.performance) else f"{row.performance:.4g}"
        print(
            f"{row.status:<9} {epochs:>9} {shown:>9} {_age(row.age):>7}  "
            f"{one_line(str(row.folder))}"
        )
    for row in found:
        if not row.intact:
            print(f"runs: {printable(row.folder)}: {CHANGED}.", file=sys.stderr)
    line = ill_runs(row.folder for row in found)
    if line is not None:
        print(f"\n{printable(line)}")
    stopped = [row for row in found if row.status == "stopped"]
    commands = list(dict.fromkeys(row.command for row in stopped))
    if commands:
        print(f"\nTo continue {'it' if len(stopped) == 1 else 'the stopped runs'}:")
        print("\n".join(f"    {printable(line)}" for line in commands[:_MOST_COMMANDS]))
        if len(commands) > _MOST_COMMANDS:
            print(f"    ... and {len(commands) - _MOST_COMMANDS} more")
    return 0


def ill_runs(folders: Iterable[Path]) -> str | None:
    """Return the doctor's line about runs; None if it has nothing to say, or is not installed."""
    try:
        line: str | None = import_named(TOOLS["doctor"][0]).mention(folders)
    except SpinupError:
        return None
    return line


def look_at(folder: Path) -> Row:
    """Read the state of one run."""
    config = _config(folder)
    path = folder / "progress.txt"
    header, last, done, intact = _ends(path)
    cells = dict(zip(header, last, strict=False))
    value = cells.get("AverageTestEpRet", cells.get("AverageEpRet", "nan"))
    if (folder / ".finished").is_file():
        status = "finished"
    elif _is_locked(folder / ".lock"):
        status = "running"
    else:
        status = "stopped" if any(folder.glob("checkpoints/step-*")) else "broken"
    epochs = config.get("epochs")
    return Row(
        folder,
        status,
        done,
        epochs if isinstance(epochs, int) else None,
        _float(value),
        time.time() - path.lstat().st_mtime,
        _command(config, folder),
        intact,
    )


def _is_locked(path: Path) -> bool:
    """Return whether a process holds the lock of a run directory; False where nobody can tell."""
    try:
        import fcntl

        with open_regular(path) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # released when the file is closed
    except BlockingIOError:
        return True
    except (ImportError, OSError, ValueError):  # Windows; no lock; a file system without locks
        return False
    return False


def _config(folder: Path) -> dict[str, Any]:
    try:
        found = read_json(folder / "config.json")
    except (OSError, ValueError):  # missing, damaged, or not a regular file
        return {}
    return found if isinstance(found, dict) else {}


def _ends(path: Path) -> tuple[list[str], list[str], int, bool]:
    """Return a table's header, last complete row and number of rows, and whether it is intact."""
    try:
        text, changed = checked_table(path)
    except OSError:
        return [], [], 0, True
    header, *rows = text.split("\n")[:-1] or [""]  # what follows the last line break is incomplete
    return header.split("\t"), (rows or [""])[-1].split("\t"), len(rows), not changed


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _command(config: dict[str, Any], folder: Path) -> str:
    """Return the command that continues a run.

    `config.json` may come from somebody else: only a plain `spinup ALGO ...` is repeated, quoted.
    """
    words = config.get("resume_with")
    if isinstance(words, list) and all(isinstance(w, str) and w.isprintable() for w in words):
        start = 3 if words[:3] == AS_MODULE else 1 if is_console_script(*words[:1]) else len(words)
        if words[start : start + 1] and words[start] in registry.exports():
            return spinup_command(*words[start:])
    algo = config.get("algo")
    name = algo if algo in registry.algorithms() else "the same function"
    call = f'logger_kwargs={{"output_dir": {json.dumps(one_line(str(folder)))}}}'
    return f"call {name} with the same arguments, resume=True and {call}"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(0, seconds):.0f} s"
