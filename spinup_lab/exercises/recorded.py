"""Runs that are shipped with the exercises: logs as text, packed into JSON files.

A file in `recorded_runs` holds some runs: their columns, and for each run its group (such as
"healthy", or the value of a hyperparameter), its seed, its `config.json` and its rows. `unpack`
writes them as run directories, which `spinup plot` and `spinup compare` read like any others. The
files are made by `benchmarks/record_exercises.py`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("recorded_runs")


@dataclass(frozen=True)
class RecordedRun:
    """One run: the group that it belongs to, its seed, its configuration and its log."""

    group: str
    seed: int
    config: Mapping[str, Any]
    columns: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]

    def files(self) -> Iterator[tuple[str, str]]:
        """Yield the names and contents of the files of a run directory."""
        name = slug(self.group)
        place = f"{name}/{name}_s{self.seed}"
        yield f"{place}/progress.txt", table(self.columns, self.rows)
        config = {**self.config, "exp_name": name, "seed": self.seed}
        yield f"{place}/config.json", json.dumps(config, indent=4) + "\n"


def exists(name: str) -> bool:
    """Return whether runs were recorded under this name."""
    return FOLDER.joinpath(f"{name}.json").is_file()


def load(name: str) -> list[RecordedRun]:
    """Return the runs that were recorded under a name."""
    content = json.loads(FOLDER.joinpath(f"{name}.json").read_text(encoding="utf-8"))
    columns = tuple(content["columns"])
    return [
        RecordedRun(
            run["group"],
            run["seed"],
            content["configs"][run["group"]],
            columns,
            tuple(tuple(row) for row in run["rows"]),
        )
        for run in content["runs"]
    ]


def save(name: str, runs: Sequence[RecordedRun]) -> Path:
    """Write runs that have the same columns into one file, and return its path."""
    columns = runs[0].columns
    if any(run.columns != columns for run in runs):
        raise ValueError(f"the runs of {name} have different columns")
    content = {
        "columns": list(columns),
        "configs": {run.group: dict(run.config) for run in runs},
        "runs": [
            {"group": run.group, "seed": run.seed, "rows": [list(map(_short, r)) for r in run.rows]}
            for run in runs
        ],
    }
    FOLDER.mkdir(exist_ok=True)
    path = FOLDER / f"{name}.json"
    # one line per row keeps the file small and a diff of it readable
    text = json.dumps(content, ensure_ascii=False)
    text = text.replace('{"group"', '\n{"group"').replace("], [", "],\n[")
    path.write_text(text + "\n", encoding="utf-8")
    return path


def unpack(runs: Sequence[RecordedRun], folder: Path) -> None:
    """Write runs as run directories: FOLDER/group/group_s0/progress.txt and so on."""
    for run in runs:
        for name, content in run.files():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")


def table(columns: Sequence[str], rows: Sequence[Sequence[float]]) -> str:
    """Return the text of a `progress.txt`."""
    lines = ["\t".join(columns), *("\t".join(str(x) for x in row) for row in rows)]
    return "\n".join(lines) + "\n"


def slug(text: str) -> str:
    """Return a text as a name of a folder."""
    return "".join(c if c.isalnum() or c in "-_.=" else "-" for c in text)


def _short(x: float) -> float | int:
    """Return a number with seven digits: the exact rules of `spinup doctor` need six decimals."""
    rounded = float(f"{x:.7g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded
