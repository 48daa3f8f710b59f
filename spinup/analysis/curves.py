"""Learning curves as arrays: find run directories, read them and align their x values.

`plot` and `compare` use this module. It opens only `progress.txt`, `config.json` and, for columns
that are not in `progress.txt`, `diagnostics.txt`, all as text.
Reading 1,000 runs takes seconds, because only the requested columns are converted to numbers
(`benchmarks/plot_reading.py`).
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from spinup.runs.storage.tables import matches, read_record
from spinup.utils import errors
from spinup.utils.errors import SpinupError, closest, nearest
from spinup.utils.reading import read_json, read_table

# `Performance` means the first of these columns that a run logged.
PERFORMANCE = ("AverageTestEpRet", "AverageEpRet", "Performance")
CHANGED = "progress.txt was changed after the run wrote it (it does not match its hash)"
# Runs that logged at different x are interpolated at the union of their x. If the union has more
# points than this, an even grid, which looks the same, is used instead.
MAX_GRID = 2000

# The environment of a run whose `config.json` names none.
UNKNOWN_ENV = "unknown environment"

# Larger values, whose squares and sums overflow, are ignored, as infinite ones are.
LARGEST = 1e100

# Subfolders of a run directory that never contain other runs.
_NO_RUNS = ("checkpoints", "pyt_save", "tf1_save", "simple_save")

Curve = tuple[np.ndarray, np.ndarray]


@dataclass
class Run:
    """The contents of a run directory; `columns` maps the requested names to numbers.

    `problems` lists what is wrong with the run; `length` is its number of complete rows. `table`
    has all of its columns, if `plot.get_datasets` read the run.
    """

    folder: Path
    exp_name: str
    length: int
    problems: list[str]
    config: dict[str, Any] = field(repr=False)
    header: list[str] = field(repr=False)
    columns: dict[str, np.ndarray] = field(repr=False, default_factory=dict)
    table: Any = field(repr=False, default=None)

    @property
    def env(self) -> str:
        """The run's environment according to its `config.json`."""
        return env_of(self.config)


# ------------------------------------------------------------------------------------------ finding


def complete(all_logdirs: str | Sequence[str | os.PathLike[str]]) -> list[str]:
    """Expand prefixes to the folders that begin with them, in order and without duplicates."""
    found: list[str] = []
    for given in [all_logdirs] if isinstance(all_logdirs, str) else all_logdirs:
        logdir = os.path.expanduser(str(given))
        base, prefix = os.path.split(logdir)
        if prefix in ("", ".", ".."):
            if not os.path.isdir(logdir):
                raise SpinupError(f"{given} is not a folder: pass a run directory")
            matches = [logdir]
        else:
            where = base or os.curdir
            names = sorted(os.listdir(where)) if os.path.isdir(where) else []
            matches = [
                os.path.join(base, name)
                for name in names
                if name.startswith(prefix)
                and (prefix.startswith(".") or not name.startswith("."))
                and os.path.isdir(os.path.join(where, name))
            ]
            if not matches and os.path.isfile(logdir):
                raise SpinupError(f"{given} is a file: pass its run directory")
            if not matches:
                raise SpinupError(f"no folder begins with {given}{_similar(logdir)}")
        found += [m for m in matches if m not in found]
    return found


def _similar(logdir: str) -> str:
    """Suggest a folder with a similar name, or else advise to check the path."""
    base, prefix = os.path.split(logdir)
    where = base or os.curdir
    names = [n for n in os.listdir(where) if not n.startswith(".")] if os.path.isdir(where) else []
    names = [n for n in names if os.path.isdir(os.path.join(where, n))]
    near = closest(prefix, names)
    return f"; did you mean {os.path.join(base, near)}?" if near else ": check the path"


def run_folders(logdir: Path) -> Iterator[Path]:
    """Yield each run directory at or below `logdir`, sorted; skip names that begin with a dot."""
    if not logdir.is_dir():
        raise SpinupError(f"{logdir} is not a folder: pass a run directory or a folder of runs")
    for folder, subfolders, files in os.walk(logdir):
        # Sorted, so that the numbering of the runs does not depend on the file system.
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        if "progress.txt" in files:
            # Skip saved replay buffers, which consist of hundreds of files.
            subfolders[:] = [name for name in subfolders if name not in _NO_RUNS]
            yield Path(folder)


# ------------------------------------------------------------------------------------------ reading


def read_run(folder: Path, wanted: Collection[str]) -> Run:
    """Read a run and those of the `wanted` columns that it has."""
    run, rows = _load(folder)
    places = {name: run.header.index(source) for name, source in _sources(run, wanted).items()}
    last = max(places.values(), default=0) + 1
    fields = [row.split("\t", last) for row in rows]  # only as far as the last column needed
    for name, place in places.items():
        run.columns[name] = _numbers([row[place] for row in fields], name, run.problems)
    missing = [name for name in wanted if name not in places and name != "Performance"]
    if missing and rows and "Epoch" in run.header:
        _add_diagnostics(run, rows, missing)
    return run


def _add_diagnostics(run: Run, rows: list[str], missing: Collection[str]) -> None:
    """Add columns of `diagnostics.txt`; its rows belong to those of the same epochs."""
    if not (run.folder / "diagnostics.txt").is_file():
        return
    header, lines, problems = _complete_rows(run.folder / "diagnostics.txt")
    run.problems += problems
    there = {fields[0]: fields for fields in (line.split("\t") for line in lines)}
    place = run.header.index("Epoch")
    epochs = [row.split("\t", place + 1)[place] for row in rows]
    for name in (name for name in missing if name in header):
        cells = [there[e][header.index(name)] if e in there else "nan" for e in epochs]
        run.columns[name] = _numbers(cells, name, run.problems)
    run.header += [name for name in header if name not in run.header]


def read_rows(folder: Path) -> tuple[Run, list[str]]:
    """Return a run with its `Performance` column as numbers, and its complete rows as text."""
    run, rows = _load(folder)
    for name, source in _sources(run, ["Performance"]).items():
        place = run.header.index(source)
        fields = [row.split("\t")[place] for row in rows]
        run.columns[name] = _numbers(fields, name, run.problems)
    return run, rows


def read_runs(logdirs: Iterable[str | os.PathLike[str]], wanted: Collection[str]) -> list[Run]:
    """Read all runs below several folders, including runs without a complete row."""
    folders = [folder for logdir in logdirs for folder in run_folders(Path(logdir))]
    return [read_run(folder, wanted) for folder in folders]


def report(runs: Iterable[Run], tool: str) -> None:
    """Print each run that has problems to standard error, one line per run."""
    for run in runs:
        if run.problems:
            line = f"{tool}: {run.folder}: {'; '.join(run.problems)}."
            print(errors.one_line(line), file=sys.stderr)


def _load(folder: Path) -> tuple[Run, list[str]]:
    header, rows, problems = _complete_rows(folder / "progress.txt")
    config, exp_name = _read_config(folder, problems)
    if not rows:
        problems.append("the run is left out")
    return Run(folder, exp_name, len(rows), problems, config, header), rows


def checked_table(path: Path) -> tuple[str, bool]:
    """Read a `progress.txt`, and whether it was changed after the run wrote it.

    Raises `OSError` if it is not a text file.
    """
    record = read_record(path)
    text = read_table(path)
    wrong = record is not None and not matches(record, text.encode())
    # A record that has changed in the meantime belongs to a run that is just being resumed.
    return text, wrong and record == read_record(path)


def _complete_rows(path: Path) -> tuple[list[str], list[str], list[str]]:
    """Read a table: its header, its complete rows and its problems."""
    try:
        text, changed = checked_table(path)
    except OSError as error:
        return [], [], [f"{path.name} cannot be read ({error.strerror or error})"]
    problems = [CHANGED.replace("progress.txt", path.name)] if changed else []
    lines = text.split("\n")
    # A line without a newline is still being written: 12.3 may be the start of 12.345.
    if lines.pop():
        problems.append(f"{path.name} ends in a half-written line, which is ignored")
    if not lines:
        return [], [], problems or [f"{path.name} is empty"]
    first = lines[0]
    tabs = first.count("\t")
    rows = [row for row in lines[1:] if row.count("\t") == tabs and row and row != first]
    if len(rows) < len(lines) - 1:
        bad = [
            number
            for number, row in enumerate(lines[1:], start=2)
            if row.strip() and (row.count("\t") != tabs or row == first)
        ]
        if bad:
            problems.append(f"{path.name} has damaged lines ({_few(bad)}), which are ignored")
    if not rows:
        problems.append("there is no complete row yet")
    return first.split("\t"), rows, problems


def _read_config(folder: Path, problems: list[str]) -> tuple[dict[str, Any], str]:
    """Read `config.json` and determine the experiment's name."""
    config: dict[str, Any] = {}
    problem = None
    try:
        content = read_json(folder / "config.json")
        if isinstance(content, dict):
            config = content
    except FileNotFoundError:
        problem = "there is no config.json"
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        problem = f"config.json cannot be read ({one_line(reason)})"
    if config.get("exp_name"):
        return config, one_line(config["exp_name"])
    # Runs of one experiment differ only in the suffix _s<seed>: strip it to get a common name.
    name = one_line(re.sub(r"_s\d+$", "", folder.resolve().name)) or "exp"
    if problem:
        problems.append(f"{problem}, so the run is counted as part of '{name}'")
    return config, name


def env_of(config: dict[str, Any]) -> str:
    """Return the environment named in a `config.json`: its id, and its arguments if any."""
    record = config.get("env")
    kwargs: Any = config.get("env_kwargs")
    name: Any = config.get("env_name")
    if isinstance(record, dict):
        kwargs = record.get("kwargs", kwargs)
        name = record.get("id") or str(record.get("class") or "").rpartition(":")[2] or name
    elif isinstance(record, str):
        name = record
    name = one_line(name) if name else UNKNOWN_ENV
    if isinstance(kwargs, dict) and kwargs:
        name += f" {one_line(json.dumps(kwargs, sort_keys=True))}"
    return name


def _sources(run: Run, wanted: Collection[str]) -> dict[str, str]:
    """Map each requested name to the column that contains it."""
    found = {}
    for name in wanted:
        sources = PERFORMANCE if name == "Performance" else (name,)
        source = next((s for s in sources if s in run.header), None)
        if source is not None:
            found[name] = source
    return found


def _numbers(fields: list[str], name: str, problems: list[str]) -> np.ndarray:
    values = _converted(fields, name, problems)
    large = np.abs(values) > LARGEST  # not NaN, which means that no episode ended
    if large.any():
        values[large] = np.nan
        problems.append(
            f"{large.sum()} of {len(fields)} values of {name} are larger than {LARGEST:g}, and are "
            "ignored"
        )
    return values


def _converted(fields: list[str], name: str, problems: list[str]) -> np.ndarray:
    try:
        return np.array([float(text) for text in fields])
    except ValueError:
        values = np.array([_number(text) for text in fields])
        wrong = sum(1 for text, v in zip(fields, values, strict=True) if text and v is None)
        if wrong:
            problems.append(f"{wrong} of {len(fields)} values of {name} are not numbers")
        return np.array([np.nan if v is None else v for v in values], dtype=float)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return {"True": 1.0, "False": 0.0}.get(text)


def one_line(value: Any) -> str:
    """Return text from a file as one line of limited length that is safe to print."""
    return errors.one_line(value)[:200]


def _few(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:5]))
    return shown + (f" and {len(numbers) - 5} more" if len(numbers) > 5 else "")


def no_column(runs: Iterable[Collection[str]], xaxis: str, value: str) -> str:
    """Compose the message for a column that no run has; `runs` has each run's column names."""
    known = {name for names in runs for name in names}
    if known.intersection(PERFORMANCE):
        known.add("Performance")
    for wanted in (xaxis, value):
        if wanted not in known:
            hint = nearest(wanted, known) or f": choose from {_names(known)}"
            return f"no run has a column {wanted}{hint}"
    return f"no run has a finite {value} over {xaxis} yet: wait for the first episodes to end"


def _names(known: Collection[str]) -> str:
    return ", ".join(sorted(known)) or "none"


# ------------------------------------------------------------------------------------------ numbers


def smooth_values(values: Any, window: int) -> np.ndarray:
    """Compute a centered moving average over `window` values, or over fewer near the ends.

    Returns a new array. NaN (an epoch in which no episode ended) is ignored.
    """
    if window < 1:
        raise SpinupError(f"the smoothing window must be a positive integer, not {window}")
    y = np.array(values, dtype=float)
    if window == 1 or not len(y):
        return y
    window = min(window, 2 * len(y))  # a wider window makes no difference
    there = np.isfinite(y)
    kernel = np.ones(window)
    middle = slice((window - 1) // 2, (window - 1) // 2 + len(y))
    total = np.convolve(np.where(there, y, 0.0), kernel)[middle]
    count = np.convolve(there.astype(float), kernel)[middle]
    with np.errstate(invalid="ignore"):
        return np.where(count > 0.5, total / np.maximum(count, 0.5), np.nan)


def clean_curve(x: Any, y: Any, smooth: int = 1) -> Curve:
    """Clean a run's curve: smooth it, sort it by x and keep only finite values.

    Values at the same x are averaged.
    """
    x = np.asarray(x, dtype=float)
    y = smooth_values(y, smooth)
    keep = np.isfinite(x) & np.isfinite(y)
    x, y = x[keep], y[keep]
    if len(x) < 2 or (np.diff(x) > 0).all():
        return x, y
    grid, inverse, counts = np.unique(x, return_inverse=True, return_counts=True)
    return grid, np.bincount(inverse, weights=y) / counts


def curve_of(
    run: Run, xaxis: str, value: str, smooth: int = 1, until: float | None = None
) -> Curve | None:
    """Return a run's cleaned curve, up to `until`; None, and a problem of the run, without one."""
    missing = [c for c in (xaxis, value) if c not in run.columns]
    if missing:
        run.problems.append(f"there is no column {missing[0]}, so the run is left out")
        return None
    x, y = clean_curve(run.columns[xaxis], run.columns[value], smooth)
    if until is not None and len(x):
        x, y = x[x <= until], y[x <= until]
        if not len(x):
            run.problems.append(
                f"there are no rows before --until {until:g}, so the run is left out"
            )
            return None
    if not len(x):
        run.problems.append(f"there is no finite {value} yet, so the run is left out")
        return None
    return x, y


def align(curves: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Resample curves at common x values.

    If all curves have the same x, nothing is interpolated. Otherwise each curve is interpolated
    linearly at the union of their x (or at `MAX_GRID` evenly spaced points, if the union is
    larger). Nothing is extrapolated: outside its own range, a curve is NaN.

    Returns:
        The x values, and a matrix with one row per curve.
    """
    first = curves[0][0]
    if all(np.array_equal(first, x) for x, _ in curves):
        return first, np.stack([y for _, y in curves])
    grid = np.unique(np.concatenate([x for x, _ in curves]))
    if len(grid) > MAX_GRID:
        grid = np.linspace(grid[0], grid[-1], MAX_GRID)
    return grid, at(curves, grid)


def at(curves: Sequence[Curve], grid: np.ndarray) -> np.ndarray:
    """Interpolate curves at `grid`, one row per curve; NaN outside a curve's own range."""
    return np.stack([np.interp(grid, x, y, left=np.nan, right=np.nan) for x, y in curves])


def alike(matrix: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Group the columns of a matrix by the rows that have a value there: yield (rows, columns).

    Runs may have different lengths, so that a curve's statistics differ in what they are over.
    """
    patterns, group = np.unique(np.isfinite(matrix), axis=1, return_inverse=True)
    for k, rows in enumerate(patterns.T):
        if rows.any():
            yield rows, np.flatnonzero(group.reshape(-1) == k)
