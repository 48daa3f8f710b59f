"""Run experiments: choose their directories, run one of them, or run a grid.

    from spinup import ppo_pytorch
    from spinup.grids.experiments import ExperimentGrid

    eg = ExperimentGrid(name="ppo-bench")
    eg.add("env_name", ["CartPole-v1", "Acrobot-v1"], "env")
    eg.add("seed", [0, 10, 20])
    eg.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    eg.run(ppo_pytorch)

One experiment runs in this process, so that debuggers and tracebacks work as usual. A grid runs its
cells sequentially in this process, in parallel in `num_workers` processes, or on a cluster. When it
is launched again, it skips finished cells and resumes partial ones.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import secrets
import string
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spinup import user_config
from spinup.grids.board import Board
from spinup.grids.cells import Cell, CellsFailed, Job, make_jobs
from spinup.grids.launching import EXECUTORS, Launch, check_place, run_here, survey
from spinup.grids.single import (
    DIV_LINE_WIDTH,
    LINE,
    call_experiment,
    env_maker,
    process_count,
    setup_logger_kwargs,
)
from spinup.grids.summary import print_summary, report_failures, say_how_to_continue
from spinup.parallel.job import ID_VARIABLE
from spinup.parallel.mpi import mpi_fork, proc_id
from spinup.runs.arguments.table import opens_a_run
from spinup.utils.errors import SpinupError, printable
from spinup.utils.serialization_utils import convert_json

_LETTERS_AND_DIGITS = frozenset(string.ascii_letters + string.digits)
_NAME_CHARACTERS = _LETTERS_AND_DIGITS | frozenset("-_")

# Arguments of `call_experiment` that the grid itself sets, so they cannot be keys.
_OF_RUN = ("exp_name", "thunk", "num_cpu", "data_dir", "datestamp")

__all__ = [
    "DIV_LINE_WIDTH",
    "EXECUTORS",
    "Cell",
    "CellsFailed",
    "ExperimentGrid",
    "all_bools",
    "call_experiment",
    "env_maker",
    "process_count",
    "setup_logger_kwargs",
    "valid_str",
]


def valid_str(v: Any) -> str:
    """Convert `v` to a part of a file name: only lower-case letters, digits, `-` and `_`.

    Functions and classes are replaced by their name, lists and tuples are joined by `-`, and any
    other character becomes `-`.
    """
    if isinstance(v, functools.partial):
        return valid_str(v.func)  # its own repr contains a memory address
    if hasattr(v, "__name__"):
        return valid_str(v.__name__)
    if isinstance(v, list | tuple):
        return "-".join(valid_str(x) for x in v)
    return "".join(c if c in _NAME_CHARACTERS else "-" for c in str(v).lower())


def all_bools(vals: Iterable[Any]) -> bool:
    """Return whether every value is a boolean; names show such keys only where they are true."""
    return all(isinstance(v, bool) for v in vals)


def check_shorthand(key: str, shorthand: Any) -> None:
    """Raise unless a key's abbreviation can be part of a name; '' leaves the key out."""
    if (
        not isinstance(shorthand, str)
        or shorthand[:1] not in {"", *string.ascii_letters}
        or not set(shorthand) <= _NAME_CHARACTERS
    ):
        raise SpinupError(
            f"the shorthand of '{key}' must start with a letter and contain only letters, "
            f"digits, '-' and '_', unlike {shorthand!r}"
        )


class ExperimentGrid:
    """All combinations of several arguments' values, each run under its own name.

    A run's name consists of the grid's name and, for each argument with several values, its
    shorthand and value, joined by `_`. Seeds are never part of the name: runs that differ only in
    the seed belong to the same experiment.
    """

    def __init__(self, name: str = "") -> None:
        if not isinstance(name, str):
            raise SpinupError(f"a grid's name must be a string, not {name!r}")
        if name:
            setup_logger_kwargs(name)  # raises if it cannot be the name of a folder
        self.name = name
        self.keys: list[str] = []
        self.vals: list[list[Any]] = []
        self.shs: list[str | None] = []
        self.in_names: list[bool] = []
        self.origin: Mapping[str, Any] = {}  # of a command line: see `Run.origin`

    def add(self, key: str, vals: Any, shorthand: str | None = None, in_name: bool = False) -> None:
        """Add an argument and the values it takes.

        Args:
            key: name of the argument; `a:b` means entry `b` of the dict argument `a`.
            vals: a list of values; anything else, including a tuple, is one value.
            shorthand: abbreviates the key in names; derived from the key by default. If it is
                empty (`''`), names contain only the value.
            in_name: include the value in names even if there is only one.
        """
        if not isinstance(key, str) or not all(key.split(":")):
            raise SpinupError(f"a key of a grid must be a non-empty string, not {key!r}")
        if key in self.keys:
            raise SpinupError(f"the key '{key}' is already in the grid: add all its values at once")
        if shorthand is not None:
            check_shorthand(key, shorthand)
        values = list(vals) if isinstance(vals, list) else [vals]
        if not values:
            raise SpinupError(f"the key '{key}' has no values: add at least one")
        if shorthand is None and user_config.DEFAULT_SHORTHAND:
            shorthand = self._default_shorthand(key)
        self.keys.append(key)
        self.vals.append(values)
        self.shs.append(shorthand)
        self.in_names.append(in_name)

    def _default_shorthand(self, key: str) -> str:
        """Keep the letters and digits among the first three characters of each part of `a:b`."""
        parts = (
            "".join(c for c in part[:3] if c in _LETTERS_AND_DIGITS) for part in key.split(":")
        )
        return "-".join(parts)

    def variant_name(self, variant: Mapping[str, Any]) -> str:
        """Return the name of the experiment that `variant` (from `variants()`) belongs to."""
        parts = [self.name]
        for key, vals, shorthand, in_name in zip(
            self.keys, self.vals, self.shs, self.in_names, strict=True
        ):
            if key == "seed" or not (in_name or len(vals) > 1):
                continue
            label = valid_str(key if shorthand is None else shorthand)
            value = _lookup(variant, key)
            if label and all_bools(vals):
                parts.append(label if value else "")
            else:
                parts.append(label + valid_str(value))
        return "_".join(part for part in parts if part)

    def _variants(self, keys: Sequence[str], vals: Sequence[list[Any]]) -> list[dict[str, Any]]:
        """Return all combinations as flat dicts; the last key varies fastest."""
        return [dict(zip(keys, row, strict=True)) for row in itertools.product(*vals)]

    def variants(self) -> list[dict[str, Any]]:
        """Return each run's keyword arguments, with `a:b` keys nested into dicts."""
        return [nested(flat) for flat in self._variants(self.keys, self.vals)]

    def print(self) -> None:
        """Print the grid: every key, its shorthand and its values, and the number of runs."""
        print(LINE)
        print(f"Experiment grid {self.name}".rstrip())
        for key, vals, shorthand in zip(self.keys, self.vals, self.shs, strict=True):
            label = f" [{shorthand}]" if shorthand else ""
            print(f"  {printable(key)}{label}")
            for value in vals:
                as_json = json.dumps(convert_json(value), sort_keys=True)
                print(f"      {printable(value) if isinstance(value, str) else as_json}")
        seeds = len(self.vals[self.keys.index("seed")]) if "seed" in self.keys else 1
        runs = len(self._variants(self.keys, self.vals))
        print(f"  {runs // seeds} experiment(s), {seeds} seed(s) each: {runs} run(s)")
        print(LINE, flush=True)

    def cells(self, thunk: Callable[..., Any] | str) -> list[Cell]:
        """Return the grid's runs, in order; raise if two of them would share a directory.

        `thunk` is the function to run, or the name of a key whose values are functions.
        """
        if isinstance(thunk, str) and thunk not in self.keys:
            raise SpinupError(
                f"'{thunk}' is not a key of this grid: pass a function, or add the key "
                "with functions as its values"
            )
        cells: list[Cell] = []
        for variant in self.variants():
            name = self.variant_name(variant) or "experiment"
            function = _pop(variant, thunk) if isinstance(thunk, str) else thunk
            for key in _OF_RUN:
                if key in variant:
                    raise SpinupError(
                        f"'{key}' cannot be a key of a grid because it is the same for all runs: "
                        "pass it to the grid itself (its name) or to run()"
                    )
            if not callable(function):
                raise SpinupError(f"an experiment must be a function, not {function!r}")
            if self.origin and opens_a_run(function):
                given = variant.get("logger_kwargs", {})
                variant["logger_kwargs"] = {**given, "origin": self.origin}
            cells.append(Cell(name, function, variant.pop("seed", 0), variant))
        taken: set[Any] = set()
        for cell in cells:
            given = cell.kwargs.get("logger_kwargs", {}).get("output_dir")
            place = None if given is None else os.path.abspath(given)
            if place is not None and place in taken:
                raise SpinupError(
                    f"two runs of the grid would both be in {os.fspath(given)}: leave out "
                    "logger_kwargs:output_dir, or use a different one for every run"
                )
            if (cell.exp_name, cell.seed) in taken:
                raise SpinupError(
                    f"two runs of the grid would both be '{cell.exp_name}' with seed {cell.seed}: "
                    "remove the repeated value, or give values that differ in name"
                )
            taken |= {place, (cell.exp_name, cell.seed)}
        return cells

    def run(
        self,
        thunk: Callable[..., Any] | str,
        num_cpu: int | str = 1,
        data_dir: str | os.PathLike[str] | None = None,
        datestamp: bool = False,
        *,
        num_workers: int = 1,
        executor: str = "local",
        cpus_per_cell: int | None = None,
        gpus_per_cell: float = 0,
        ray_address: str | None = None,
        slurm_options: Mapping[str, Any] | None = None,
    ) -> None:
        """Run every combination that is not done yet.

        A single cell with `num_workers=1` is run by `call_experiment`. In larger grids, cells that
        an earlier launch has finished are skipped, and partial ones are resumed. A failed cell does
        not stop the others; `CellsFailed` is raised at the end.

        Args:
            thunk: the function to run, or the name of a key whose values are functions.
            num_cpu: MPI processes per run, see `call_experiment`.
            data_dir, datestamp: see `setup_logger_kwargs`.
            num_workers: number of cells to run in parallel, each in its own process; 1 runs them
                sequentially in this process. With ray and slurm, it is a maximum, and 1 means no
                limit.
            executor: 'local' (this machine), 'ray' or 'slurm'.
            cpus_per_cell: threads for each cell with its own process, and CPUs to request for it
                from a cluster; None means 1.
            gpus_per_cell: GPUs to request from a cluster for each cell.
            ray_address: address of the Ray cluster; None uses RAY_ADDRESS, or a cluster running on
                this machine, or else starts one here.
            slurm_options: additional `sbatch` options, such as `{"partition": "gpu"}`.
        """
        started = time.monotonic()
        cells = self.cells(thunk)
        launch = Launch(
            num_workers, executor, cpus_per_cell, gpus_per_cell, ray_address, slurm_options
        )
        launch.check(num_cpu)
        mpi_fork(process_count(num_cpu))  # before printing: every process gets here
        if proc_id() == 0 and len(cells) > 1:
            self.print()
            for name in dict.fromkeys(cell.exp_name for cell in cells):
                print(f"  {name}")
            print(LINE, flush=True)
        if len(cells) > 1 and user_config.WAIT_BEFORE_LAUNCH > 0:
            time.sleep(user_config.WAIT_BEFORE_LAUNCH)
        if launch.here and len(cells) == 1:
            place: Any = {"data_dir": data_dir, "datestamp": datestamp}
            (cell,) = cells
            call_experiment(cell.exp_name, cell.thunk, cell.seed, num_cpu, **place, **cell.kwargs)
            return
        where = Path(user_config.DEFAULT_DATA_DIR if data_dir is None else data_dir)
        if executor != "local":
            where = where.absolute()  # other machines may use another working directory
        jobs = self._jobs(cells, where, datestamp, None if launch.here else cpus_per_cell or 1)
        folder = Path(jobs[0].folder).parent
        if proc_id() == 0:
            check_place(folder)
        if launch.here:
            failures = run_here(jobs, num_cpu)
        elif executor == "slurm":
            launch.submit(survey(jobs), folder)
            return
        else:
            todo = survey(jobs)
            board = Board(self.name or "grid", jobs)
            names = {job.name for job in todo}
            board.states = ["waiting" if job.name in names else "done" for job in jobs]
            try:
                failures = launch.run(todo, board)
            except (KeyboardInterrupt, SystemExit):
                say_how_to_continue(jobs)
                raise
        if proc_id() == 0:
            sentence = report_failures(failures, jobs) if failures else ""
            print_summary(self.name or "grid", jobs, failures, time.monotonic() - started)
            if failures:
                raise CellsFailed(sentence)

    def _jobs(
        self,
        cells: Sequence[Cell],
        where: Path,
        datestamp: bool,
        threads: int | None,
    ) -> list[Job]:
        """Create a job for each cell, with its location on disk."""
        folder = where
        if self.name:
            folder = Path(setup_logger_kwargs(self.name, None, where, datestamp)["output_dir"])
        outputs = [
            setup_logger_kwargs(cell.exp_name, cell.seed, where, datestamp)["output_dir"]
            for cell in cells
        ]
        # an MPI job restarted after losing a process is still the same launch of the grid
        launch = os.environ.get(ID_VARIABLE) or secrets.token_hex(8)
        dated = datestamp or user_config.FORCE_DATESTAMP
        return make_jobs(cells, folder / ".grid", outputs, launch, threads, dated)


def _lookup(variant: Mapping[str, Any], key: str) -> Any:
    """Return the value of `key` in a flat or nested variant."""
    if key in variant:
        return variant[key]
    value: Any = variant
    for part in key.split(":"):
        value = value[part]
    return value


def _pop(variant: dict[str, Any], key: str) -> Any:
    """Remove and return the value of `key` in a nested variant; delete emptied dicts."""
    first, _, rest = key.partition(":")
    if not rest:
        return variant.pop(first)
    value = _pop(variant[first], rest)
    if not variant[first]:
        del variant[first]
    return value


def nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """Convert `{'a:b': 1, 'a:c': 2}` to `{'a': {'b': 1, 'c': 2}}` without changing values."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split(":")
        level = nested
        for parent in parents:
            inner = level.get(parent, {})
            if not isinstance(inner, dict):
                raise SpinupError(
                    f"the grid sets both '{parent}' and its entry '{key}': keep one of them"
                )
            level[parent] = dict(inner)  # a copy: it may be a dict that the user passed in
            level = level[parent]
        if last in level:
            raise SpinupError(f"the grid sets '{key}' twice: remove one of them")
        level[last] = value
    return nested


def test_eg() -> ExperimentGrid:
    """Create and print a small grid that shows nesting, booleans, shorthands and names."""
    eg = ExperimentGrid(name="demo")
    eg.add("test:a", [1, 2, 3], "ta", True)
    eg.add("test:b", [True, False])
    eg.add("steps", 4000)
    eg.add("seed", [0, 10])
    eg.print()
    for name in dict.fromkeys(eg.variant_name(variant) for variant in eg.variants()):
        print(name)
    return eg


test_eg.__test__ = False  # type: ignore[attr-defined]  # the name is public; pytest must not run it
