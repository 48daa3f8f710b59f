"""A learner's record: `progress.json` in the folder of the exercises. Plain text, no server.

It holds per exercise: when it was started, how often it was checked, how many hints were shown,
when it was first passed (with the hash of the file and the version of spinup), and when the
solution was seen.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

from spinup import __version__
from spinup.utils.errors import SpinupError, one_line, printable
from spinup.utils.files import atomic_write
from spinup.utils.reading import read_json
from spinup_lab.exercises.exercise import CANNOT_JUDGE, Result, Task, wrapped
from spinup_lab.exercises.tasks import load

FOLDER = "spinup-exercises"
NAME = "progress.json"
_FIELDS: dict[str, tuple[type, ...]] = {
    "started": (str,),
    "attempts": (int,),
    "hints": (int,),
    "passed": (str,),
    "solution_seen": (str,),
    "spinup": (str,),
    "sha256": (str,),
    "quiz": (dict,),
    "answers": (dict,),
}


def default_folder() -> str:
    """Return the folder of the learner's exercises, also from inside it."""
    here = Path.cwd()
    for folder, name in ((here, "."), (here.parent, "..")):
        if folder.name == FOLDER and (folder / NAME).is_file():
            return name
    return FOLDER


class Progress:
    """The record in one folder."""

    def __init__(self, folder: str | os.PathLike[str] = FOLDER) -> None:
        self.folder = Path(folder)
        self.path = self.folder / NAME

    def read(self) -> dict[str, dict[str, Any]]:
        """Return the entries by exercise, or raise an error that says how the file is damaged."""
        try:
            found = read_json(self.path)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise self._damaged(one_line(error)) from error
        entries = found.get("exercises") if isinstance(found, dict) else None
        if not isinstance(entries, dict):
            raise self._damaged("it has no table of exercises")
        for name, entry in entries.items():
            if not isinstance(entry, dict):
                raise self._damaged(f"its entry '{printable(name)}' is not a table")
            for key, value in entry.items():
                if key in _FIELDS and (
                    not isinstance(value, _FIELDS[key]) or isinstance(value, bool)
                ):
                    raise self._damaged(f"'{printable(key)}' of '{printable(name)}' is wrong")
        return entries

    def _damaged(self, why: str) -> SpinupError:
        return SpinupError(
            f"{printable(self.path)} is damaged ({why}): repair it, or move it away to start a new "
            "record; your answers are in other files and remain"
        )

    def entry(self, name: str) -> dict[str, Any]:
        """Return what is recorded of one exercise."""
        return self.read().get(name, {})

    def update(self, name: str, change: Callable[[dict[str, Any]], None]) -> None:
        """Change the entry of one exercise and write the file."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = open(self.folder / ".lock", "a", encoding="utf-8")  # noqa: SIM115
        except OSError as error:
            raise SpinupError(
                f"{printable(self.folder)} cannot be written ({error.strerror}): choose another "
                "folder with --dir"
            ) from error
        with lock, _locked(lock):
            entries = self.read()
            change(entries.setdefault(name, {}))
            content = {"format": 1, "exercises": dict(sorted(entries.items()))}
            text = json.dumps(content, indent=2, ensure_ascii=False)
            atomic_write(self.path, f"{text}\n".encode())


@contextlib.contextmanager
def _locked(file: IO[str]) -> Iterator[None]:
    """Wait for other processes that change the record, where the system has locks."""
    with contextlib.suppress(ImportError, OSError):  # Windows; a file system without locks
        import fcntl

        fcntl.flock(file, fcntl.LOCK_EX)  # released when the file is closed
    yield


def now() -> str:
    """Return the time as text: UTC, to the second."""
    return datetime.now(timezone.utc).isoformat(timespec="seconds")


def state(entry: dict[str, Any]) -> str:
    """Return an exercise's state in words."""
    seen = ", solution seen" if "solution_seen" in entry else ""
    if "passed" in entry:
        return f"passed{seen}"
    if entry.get("attempts"):
        return f"tried {entry['attempts']}{seen}"
    return f"started{seen}" if "started" in entry else seen[2:] or "new"


def recorded(
    task: Task, result: Result, progress: Progress | None = None, file: Path | None = None
) -> Result:
    """Record a verdict, and return it with the next command to type.

    Without a folder of exercises, as in a notebook, nothing is recorded.
    """
    progress = progress or Progress()
    if progress.folder.is_dir() and result.exit_code != CANNOT_JUDGE:

        def change(entry: dict[str, Any]) -> None:
            entry["attempts"] = entry.get("attempts", 0) + 1
            if result.passed and "passed" not in entry:
                entry["passed"] = now()
                entry["spinup"] = __version__
                if file is not None:
                    entry["sha256"] = hashlib.sha256(file.read_bytes()).hexdigest()

        progress.update(task.id, change)
    if result.passed:
        return replace(result, next=_next(task, progress))
    return result


def _next(task: Task, progress: Progress) -> str:
    """Return the command that starts the next exercise that is not passed yet."""
    entries = progress.read()
    names = list(load())
    after = names[names.index(task.id) + 1 :] if task.id in names else []
    left = [name for name in after if "passed" not in entries.get(name, {})]
    return f"spinup exercise start {left[0]}" if left else "spinup exercise progress"


def next_hint(task: Task, progress: Progress, number: int | None = None) -> str:
    """Return the next hint as text, or the one of this number (from 1), and record that."""
    count = len(task.hints)
    shown = progress.entry(task.id).get("hints", 0)
    if number is None:
        number = min(shown + 1, count)
    if not 1 <= number <= count:
        raise SpinupError(f"{task.id} has hints 1 to {count}, not {number}")
    seen = max(shown, number)

    def change(entry: dict[str, Any]) -> None:
        entry["hints"] = seen

    progress.update(task.id, change)
    return _hint(task, number)


def _hint(task: Task, number: int) -> str:
    kinds = ("the idea", "the formula", "almost the code")
    text = task.hints[number - 1]
    text = text if "\n" in text else wrapped(text)  # code, which has several lines, stays as it is
    after = ""
    if number == len(task.hints):
        after = f"\n\nLast hint. After it: spinup exercise solution {task.id}"
    return f"Hint {number} of {len(task.hints)} ({kinds[number - 1]}):\n\n{text}{after}"
