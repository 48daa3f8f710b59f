"""Show a grid's progress: a live table on a terminal, plain lines elsewhere.

The numbers come from the last rows of each cell's `progress.txt`, whichever process runs the cell,
and the length of a run from its arguments or, for a function without such an argument, from its
`config.json`.
"""

from __future__ import annotations

import inspect
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

from spinup.grids.cells import Job, read_state
from spinup.runs.progress import hms
from spinup.utils.errors import printable_lines
from spinup.utils.reading import open_regular, read_json

_TAIL_BYTES = 16384
_MOST = 1e15  # larger numbers are not counts, times or returns
_WINDOW = 10  # number of recent epochs used to compute the speed
# A running cell may hang if it writes nothing for this many seconds, and for this many epochs.
_SILENCE, _SILENT_EPOCHS = 600.0, 10
_COLORS = {"running": 36, "done": 32, "failed": 31, "stopped": 33}
# Which cells to show first if the screen has no room for all of them.
_SHOWN_FIRST = ("failed", "running", "stopped", "waiting", "done")


@dataclass(frozen=True)
class Progress:
    """The latest numbers in a `progress.txt`; missing ones are None."""

    epoch: int | None = None
    ret: float | None = None
    rate: float | None = None  # environment steps per second
    epoch_seconds: float | None = None


def read_progress(run: str | os.PathLike[str]) -> Progress:
    """Read a run's progress from its last rows; numbers that cannot be read are None."""
    path = Path(run, "progress.txt")
    try:
        with open_regular(path) as file:
            header = file.readline(_TAIL_BYTES)
            start = len(header)
            size = os.fstat(file.fileno()).st_size
            file.seek(max(start, size - _TAIL_BYTES))
            cut = file.tell() > start
            lines = file.read(_TAIL_BYTES).decode("utf-8", "replace").split("\n")
    except OSError:
        return Progress()
    rows = lines[1 if cut else 0 : -1]  # drop a row that is still being written
    if not rows or not header.endswith(b"\n"):
        return Progress()
    names = header.decode("utf-8", "replace").rstrip("\n").split("\t")
    last = _numbers(names, rows[-1])
    earlier = rows[max(0, len(rows) - 1 - _WINDOW) : -1]  # epochs vary in duration
    before = _numbers(names, earlier[0]) if earlier else {}
    epoch, seconds, steps = (last.get(k) for k in ("Epoch", "Time", "TotalEnvInteracts"))
    rate = each = None
    if seconds is not None:
        seconds -= before.get("Time", 0.0)
        each = seconds / max(1, len(earlier))
        if steps is not None and seconds > 0:
            rate = (steps - before.get("TotalEnvInteracts", 0.0)) / seconds
    ret = last.get("AverageTestEpRet", last.get("AverageEpRet"))
    return Progress(None if epoch is None else int(epoch), ret, rate, each)


def _numbers(names: Sequence[str], row: str) -> dict[str, float]:
    values = row.split("\t")
    found: dict[str, float] = {}
    for name, text in zip(names, values, strict=False):
        try:
            number = float(text)
        except ValueError:
            continue
        if abs(number) < _MOST:
            found[name] = number
    return found


@dataclass
class Board:
    """The cells of a grid and their states; `refresh` shows them when an update is due."""

    title: str
    jobs: Sequence[Job]
    stream: TextIO = field(default_factory=lambda: sys.stdout)
    interval: float = 0.0  # seconds between updates; 0 is 1 for a table, and 60 for lines
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self.states = ["waiting"] * len(self.jobs)
        isatty = getattr(self.stream, "isatty", None)
        self.live = bool(isatty and isatty()) and os.environ.get("TERM") != "dumb"
        self.interval = self.interval or (1.0 if self.live else 60.0)
        self._epochs = [_epochs(job) for job in self.jobs]
        # cell -> its latest epoch, and when it was first seen here. A file's own time depends on
        # the wall clock, which may jump.
        self._last: dict[int, tuple[int, float]] = {}
        # cell -> the sizes of its files, when they last changed, and whether that was reported
        self._signs: dict[int, tuple[tuple[int, ...], float, bool]] = {}
        self._start = self._drawn = self.clock()
        self._height = 0

    def set(self, i: int, state: str, note: str = "") -> None:
        """Set the state of cell `i`: 'waiting', 'running', 'done', 'failed' or 'stopped'."""
        self.states[i] = state
        if self.live:
            self.refresh(now=True)
        else:
            shown = self._summary(i) if state in ("done", "failed", "stopped") else ""
            note = f" ({note})" if note else ""
            done = sum(s == "done" for s in self.states)
            self._print(f"[{done}/{len(self.jobs)} done] {self.jobs[i].name}: {state}{note}{shown}")

    def add(self, job: Job) -> int:
        """Add a cell that waits, or the later part of one that is shown; return its number."""
        names = [old.name for old in self.jobs]
        i = names.index(job.name) if job.name in names else len(names)
        self.jobs = [*self.jobs[:i], job, *self.jobs[i + 1 :]]
        self._epochs[i:] = [_epochs(job), *self._epochs[i + 1 :]]
        self.states[i:] = ["waiting", *self.states[i + 1 :]]
        return i

    def say(self, line: str) -> None:
        """Print a permanent line, above the table if there is one."""
        self._print(printable_lines(line))
        self.refresh(now=self.live)

    def refresh(self, now: bool = False) -> None:
        """Redraw the table if an update is due; with `now`, redraw it in any case."""
        if not now and self.clock() - self._drawn < self.interval:
            return
        self._drawn = self.clock()
        self._name_silent_cells()
        if not self.live:
            for i, state in enumerate(self.states):
                if state == "running":
                    self._print(f"    {self.jobs[i].name}: running{self._summary(i)}")
            return
        size = shutil.get_terminal_size()  # queries the terminal, and respects COLUMNS and LINES
        lines = self.lines(max(size.columns, 40), max(size.lines, 8))
        self._erase()
        self.stream.write("\n".join(lines) + "\n")
        self.stream.flush()
        self._height = len(lines)

    def _name_silent_cells(self) -> None:
        """Report once which running cells have written nothing for so long that they may hang."""
        for i, job in enumerate(self.jobs):
            if self.states[i] != "running":
                self._signs.pop(i, None)
                continue
            sizes = tuple(map(_size, (Path(job.output_dir, "progress.txt"), job.log)))
            before, since, said = self._signs.get(i, ((), 0.0, False))
            if sizes != before:
                self._signs[i] = (sizes, self.clock(), False)
                continue
            silence = self.clock() - since
            epoch = read_progress(job.output_dir).epoch_seconds or 0.0
            if not said and silence > max(_SILENCE, _SILENT_EPOCHS * epoch):
                self._signs[i] = (sizes, since, True)
                pid = read_state(job).get("pid")
                self._print(
                    f"{job.name} (process {pid}) has written nothing for {hms(silence)} and may "
                    f"hang; its output is in {job.log}."
                )

    def close(self) -> None:
        """Draw the table a last time and leave it on the terminal."""
        if self.live:
            self.refresh(now=True)
            self._height = 0

    def lines(self, columns: int, rows: int) -> list[str]:
        """Format the table for a screen with this many columns and rows."""
        left = self.seconds_left()
        counts = ", ".join(
            f"{self.states.count(state)} {state}"
            for state in ("done", "running", "waiting", "failed", "stopped")
            if self.states.count(state)
        )
        eta = "" if left is None else f", about {hms(left)} left"
        elapsed = hms(self.clock() - self._start)
        out = [f"{self.title}: {counts} ({elapsed} elapsed{eta})"[:columns]]
        room = rows - 4
        chosen = list(range(len(self.jobs)))
        if len(chosen) > room:
            order = sorted(chosen, key=lambda i: _SHOWN_FIRST.index(self.states[i]))
            chosen = sorted(order[: max(1, room - 1)])
        longest = max((len(self.jobs[i].name) for i in chosen), default=4)
        width = max(4, min(longest, columns - 50))
        heading = f"{'cell':<{width}}  {'state':<8} {'epoch':>9} {'return':>9} {'steps/s':>8}"
        out.append(f"{heading} {'ETA':>8}"[:columns])
        out += [self._row(i, width, columns) for i in chosen]
        hidden = len(self.jobs) - len(chosen)
        if hidden:
            out.append(f"... and {hidden} more")
        return out

    def _row(self, i: int, width: int, columns: int) -> str:
        name, state = self.jobs[i].name, self.states[i]
        if len(name) > width:  # cells' names differ at the end
            name = ".." + name[len(name) - width + 2 :]
        epoch, ret, rate, eta = self._numbers(i)
        row = f"{name:<{width}}  {state:<8} {epoch:>9} {ret:>9} {rate:>8} {eta:>8}"[:columns]
        if os.environ.get("NO_COLOR") or state not in _COLORS:
            return row
        at = width + 2
        return f"{row[:at]}\x1b[{_COLORS[state]}m{row[at : at + 8]}\x1b[0m{row[at + 8 :]}"

    def _numbers(self, i: int) -> tuple[str, str, str, str]:
        """Format a cell's epoch, return, steps per second and remaining time."""
        progress, total = read_progress(self.jobs[i].output_dir), self._total(i)
        running = self.states[i] == "running"
        if self.states[i] == "waiting":
            return "-", "-", "-", "-"
        done = None if progress.epoch is None else progress.epoch + 1
        epoch = "-" if done is None else f"{done}/{total if total is not None else '?'}"
        ret = "-" if progress.ret is None else f"{progress.ret:.4g}"
        rate = "-" if progress.rate is None or not running else f"{progress.rate:.0f}"
        left = self._cell_left(i, progress) if running else None
        return epoch, ret, rate, "-" if left is None else hms(left)

    def _total(self, i: int) -> int | None:
        """Return how many epochs a cell has; its run says so if its function does not."""
        if self._epochs[i] is None:
            self._epochs[i] = _recorded_epochs(self.jobs[i].output_dir)
        return self._epochs[i]

    def _cell_left(self, i: int, progress: Progress) -> float | None:
        total = self._total(i)
        if total is None or progress.epoch is None or progress.epoch_seconds is None:
            return None
        epochs = max(0, total - 1 - progress.epoch)
        if self._last.get(i, (None, 0.0))[0] != progress.epoch:
            self._last[i] = (progress.epoch, self.clock())
        age = self.clock() - self._last[i][1]
        return max(0.0, epochs * progress.epoch_seconds - min(age, progress.epoch_seconds))

    def seconds_left(self) -> float | None:
        """Estimate the remaining time from the running cells; None if unknown."""
        running = [i for i, state in enumerate(self.states) if state == "running"]
        known = [(i, read_progress(self.jobs[i].output_dir)) for i in running]
        left = [self._cell_left(i, progress) for i, progress in known]
        whole = [
            total * progress.epoch_seconds
            for i, progress in known
            if (total := self._total(i)) is not None and progress.epoch_seconds is not None
        ]
        if not running or any(seconds is None for seconds in left) or not whole:
            return None
        work = sum(seconds for seconds in left if seconds is not None)
        work += self.states.count("waiting") * sum(whole) / len(whole)
        return max(work / len(running), *(s for s in left if s is not None), 0.0)

    def _summary(self, i: int) -> str:
        epoch, ret, rate, eta = self._numbers(i)
        if epoch == "-":
            return ""
        speed = f", {rate} steps/s, ETA {eta}" if rate != "-" else ""
        return f", epoch {epoch}, return {ret}{speed}"

    def _print(self, line: str) -> None:
        """Print a line where the table was."""
        self._erase()
        print(line, file=self.stream, flush=True)

    def _erase(self) -> None:
        if self._height:
            self.stream.write(f"\x1b[{self._height}F\x1b[J")
            self._height = 0


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _epochs(job: Job) -> int | None:
    """Return how many epochs a cell runs to: its pause, its arguments or its function's default."""
    value = job.until if job.until is not None else job.cell.kwargs.get("epochs")
    if value is None:
        try:
            found = inspect.signature(job.cell.thunk).parameters.get("epochs")
        except (TypeError, ValueError):
            return None
        value = None if found is None else found.default
    return value if type(value) is int else None


def _recorded_epochs(run: str | os.PathLike[str]) -> int | None:
    """Return the number of epochs in a run's `config.json`; None if there is none yet."""
    try:
        config = read_json(Path(run, "config.json"))
    except (OSError, ValueError):
        return None
    value = config.get("epochs") if isinstance(config, dict) else None
    return value if type(value) is int else None
