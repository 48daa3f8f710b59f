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
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spinup import user_config
from spinup.grids.cells import (
    Cell,
    CellBusy,
    CellFailed,
    CellsFailed,
    Job,
    decide,
    make_jobs,
    read_state,
    run_cell,
)
from spinup.parallel.job import ID_VARIABLE, TIME_VARIABLE
from spinup.runs.arguments.table import opens_a_run
from spinup.utils.errors import SpinupError, check_name, printable
from spinup.utils.files import own_folder

_LETTERS_AND_DIGITS = frozenset(string.ascii_letters + string.digits)
_NAME_CHARACTERS = _LETTERS_AND_DIGITS | frozenset("-_")
DIV_LINE_WIDTH = 80  # user code reads this name
_LINE = "-" * DIV_LINE_WIDTH

EXECUTORS = ("local", "ray", "slurm")
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


def setup_logger_kwargs(
    exp_name: str,
    seed: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    datestamp: bool = False,
) -> dict[str, str]:
    """Choose a run's directory and return the keyword arguments for its Logger.

    Without a datestamp, it is `<data_dir>/<exp_name>/<exp_name>_s<seed>`; with one, it is
    `<data_dir>/YYYY-MM-DD_<exp_name>/YYYY-MM-DD_HH-MM-SS-<exp_name>_s<seed>`. With `seed=None`, it
    is the outer folder. This function creates nothing.

    Args:
        exp_name: name of the experiment.
        seed: the run's seed, which is part of its folder's name.
        data_dir: folder for all experiments; by default `spinup.user_config.DEFAULT_DATA_DIR`.
        datestamp: add the date and time to the names (`FORCE_DATESTAMP` always adds them).
    """
    if not isinstance(exp_name, str) or not exp_name:
        raise SpinupError(f"an experiment's name must be a non-empty string, not {exp_name!r}")
    check_name(exp_name, "the experiment's name")
    if Path(exp_name).anchor or ".." in Path(exp_name).parts:
        raise SpinupError(
            f"the experiment's name '{exp_name}' leads out of data_dir: use a name such as ppo or "
            "bench/ppo, and choose the folder with data_dir"
        )
    # Read the clock once, so that both folders agree around midnight. All processes and restarts of
    # a job use the same time.
    now = time.localtime(float(os.environ.get(TIME_VARIABLE, time.time())))
    day, moment = "", ""
    if datestamp or user_config.FORCE_DATESTAMP:
        day = time.strftime("%Y-%m-%d_", now)
        moment = time.strftime("%Y-%m-%d_%H-%M-%S-", now)
    folder = Path(user_config.DEFAULT_DATA_DIR if data_dir is None else data_dir)
    check_name(folder, "data_dir")
    folder = folder / f"{day}{exp_name}"
    if seed is not None:
        folder = folder / f"{moment}{exp_name}_s{seed}"
    return {"output_dir": str(folder), "exp_name": exp_name}


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


def call_experiment(
    exp_name: str,
    thunk: Callable[..., Any],
    seed: int = 0,
    num_cpu: int | str = 1,
    data_dir: str | os.PathLike[str] | None = None,
    datestamp: bool = False,
    **kwargs: Any,
) -> Any:
    """Run one experiment in this process and return the result of `thunk`.

    `thunk` is called with `seed`, `logger_kwargs` and `**kwargs`. If `kwargs` contains `env_name`,
    it is replaced by an `env_fn` that uses `env_kwargs`; an `env_fn` may be an id as well. If
    `kwargs` contains `logger_kwargs`, its entries override the defaults.

    Args:
        exp_name: name of the experiment and of its folder.
        thunk: a training function, or any callable with the same signature.
        seed: the run's seed.
        num_cpu: number of processes; 'auto' means one per physical core, and 1 or less means only
            this process.
        data_dir, datestamp: see `setup_logger_kwargs`.
        **kwargs: the other arguments of `thunk`.
    """
    if not callable(thunk):
        raise SpinupError(f"an experiment must be a function, not {thunk!r}")
    import spinup.envs.make as make  # imports gymnasium, so delay it until needed
    from spinup.parallel.mpi import mpi_fork, proc_id

    mpi_fork(process_count(num_cpu))
    chosen = setup_logger_kwargs(exp_name, seed, data_dir, datestamp)
    kwargs["logger_kwargs"] = {**chosen, **kwargs.get("logger_kwargs", {})}
    kwargs["seed"] = seed
    output_dir = kwargs["logger_kwargs"]["output_dir"]
    if proc_id() == 0 and not opens_a_run(thunk):
        print(f"Running experiment {exp_name} in {output_dir}", flush=True)
    if "env_name" in kwargs:
        kwargs["env_fn"] = make.env_maker(kwargs.pop("env_name"), kwargs.pop("env_kwargs", None))
    elif "env_fn" in kwargs:
        kwargs["env_fn"] = make.env_fn_of(kwargs["env_fn"])
    result = thunk(**kwargs)
    if proc_id() == 0:
        from spinup.utils.command import spinup_command

        folder = os.fspath(output_dir)
        print(
            f"{_LINE}\nThis run is in {folder}. To see its results:\n"
            f"    {spinup_command('plot', folder)}\n"
            f"    {spinup_command('test_policy', folder)}\n{_LINE}",
            flush=True,
        )
    return result


def env_maker(env_name: str, env_kwargs: Mapping[str, Any] | None = None) -> Callable[[], Any]:
    """Return a picklable `env_fn` that creates a new `env_name` on every call."""
    from spinup.envs import make  # imports gymnasium, so delay it until needed

    return make.env_maker(env_name, env_kwargs)


def process_count(num_cpu: int | str) -> int:
    """Return `num_cpu` as a number; 'auto' means one process per available physical core."""
    if num_cpu == "auto":
        from spinup.parallel.launch import physical_cores

        return physical_cores()
    if isinstance(num_cpu, bool) or not isinstance(num_cpu, int):
        raise SpinupError(f"num_cpu must be a whole number or 'auto', not {num_cpu!r}")
    return num_cpu


def _as_json(value: Any) -> str:
    from spinup.utils.serialization_utils import convert_json

    return json.dumps(convert_json(value), sort_keys=True)


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
        print(_LINE)
        print(f"Experiment grid {self.name}".rstrip())
        for key, vals, shorthand in zip(self.keys, self.vals, self.shs, strict=True):
            label = f" [{shorthand}]" if shorthand else ""
            print(f"  {printable(key)}{label}")
            for value in vals:
                print(f"      {printable(value) if isinstance(value, str) else _as_json(value)}")
        seeds = len(self.vals[self.keys.index("seed")]) if "seed" in self.keys else 1
        runs = len(self._variants(self.keys, self.vals))
        print(f"  {runs // seeds} experiment(s), {seeds} seed(s) each: {runs} run(s)")
        print(_LINE, flush=True)

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
        taken: set[tuple[str, int]] = set()
        places: set[str] = set()
        for cell in cells:
            given = cell.kwargs.get("logger_kwargs", {}).get("output_dir")
            place = None if given is None else os.path.abspath(given)
            if place in places:
                raise SpinupError(
                    f"two runs of the grid would both be in {os.fspath(given)}: leave out "
                    "logger_kwargs:output_dir, or use a different one for every run"
                )
            if place is not None:
                places.add(place)
            if (cell.exp_name, cell.seed) in taken:
                raise SpinupError(
                    f"two runs of the grid would both be '{cell.exp_name}' with seed {cell.seed}: "
                    "remove the repeated value, or give values that differ in name"
                )
            taken.add((cell.exp_name, cell.seed))
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
        from spinup.parallel.mpi import mpi_fork, proc_id

        started = time.monotonic()
        cells = self.cells(thunk)
        _check_options(executor, num_workers, cpus_per_cell, gpus_per_cell, num_cpu)
        if executor == "slurm":
            from spinup.grids.slurm_executor import check_options, run_slurm

            check_options(slurm_options, gpus_per_cell)
        mpi_fork(process_count(num_cpu))  # before printing: every process gets here
        if proc_id() == 0 and len(cells) > 1:
            self.print()
            for name in dict.fromkeys(cell.exp_name for cell in cells):
                print(f"  {name}")
            print(_LINE, flush=True)
        if len(cells) > 1 and user_config.WAIT_BEFORE_LAUNCH > 0:
            time.sleep(user_config.WAIT_BEFORE_LAUNCH)
        here = executor == "local" and num_workers == 1
        if here and len(cells) == 1:
            (cell,) = cells
            call_experiment(
                cell.exp_name,
                cell.thunk,
                seed=cell.seed,
                num_cpu=num_cpu,
                data_dir=data_dir,
                datestamp=datestamp,
                **cell.kwargs,
            )
            return
        where = Path(user_config.DEFAULT_DATA_DIR if data_dir is None else data_dir)
        if executor != "local":
            where = where.absolute()  # other machines may use another working directory
        jobs = self._jobs(cells, where, datestamp, None if here else cpus_per_cell or 1)
        if proc_id() == 0:
            check_place(Path(jobs[0].folder).parent)
        if here:
            failures = _run_here(jobs, num_cpu)
        else:
            todo = _survey(jobs)
            if executor == "slurm":
                folder = Path(jobs[0].folder).parent
                run_slurm(todo, folder, num_workers, cpus_per_cell, gpus_per_cell, slurm_options)
                return
            failures = self._run_side_by_side(
                jobs, todo, executor, num_workers, cpus_per_cell, gpus_per_cell, ray_address
            )
        if proc_id() == 0:
            from spinup.grids.summary import print_summary, report_failures

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

    def _run_side_by_side(
        self,
        jobs: Sequence[Job],
        todo: Sequence[Job],
        executor: str,
        num_workers: int,
        cpus_per_cell: int | None,
        gpus_per_cell: float,
        ray_address: str | None,
    ) -> dict[str, str]:
        """Run the jobs in `todo` in other processes; return a message for each failed one."""
        from spinup.grids.board import Board
        from spinup.grids.workers import run_jobs

        board = Board(self.name or "grid", jobs)
        names = {job.name for job in todo}
        board.states = ["waiting" if job.name in names else "done" for job in jobs]
        try:
            return run_jobs(
                todo, board, executor, num_workers, cpus_per_cell, gpus_per_cell, ray_address
            )
        except (KeyboardInterrupt, SystemExit):
            _say_how_to_continue(jobs)
            raise


def _check_options(
    executor: Any, num_workers: Any, cpus_per_cell: Any, gpus_per_cell: Any, num_cpu: int | str
) -> None:
    """Raise for options that do not work together, before anything is created."""
    from spinup.parallel.mpi import num_procs

    if executor not in EXECUTORS:
        raise SpinupError(f"executor must be one of {', '.join(EXECUTORS)}, not {executor!r}")
    for name, value in (("num_workers", num_workers), ("cpus_per_cell", cpus_per_cell)):
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (whole and value >= 1) and not (name == "cpus_per_cell" and value is None):
            raise SpinupError(f"{name} must be a positive integer, not {value!r}")
    number = isinstance(gpus_per_cell, int | float) and not isinstance(gpus_per_cell, bool)
    if not number or not 0 <= gpus_per_cell < float("inf"):
        raise SpinupError(f"gpus_per_cell must be a non-negative number, not {gpus_per_cell!r}")
    if executor == "local" and gpus_per_cell:
        raise SpinupError(
            "gpus_per_cell requests GPUs from a cluster: use it with executor 'ray' or 'slurm', "
            "or use device='cuda' on this machine"
        )
    several = process_count(num_cpu) > 1 or num_procs() > 1
    if several and (executor != "local" or num_workers > 1):
        raise SpinupError(
            "cells in their own processes cannot have several MPI processes each: use either "
            "num_cpu (--cpu), or num_workers and executor"
        )


def check_place(folder: Path) -> None:
    """Create a folder if it is missing; raise if it is not writable."""
    try:
        own_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SpinupError(
            f"cannot write in {folder} ({error.strerror}): choose another data_dir"
        ) from error


def _survey(jobs: Sequence[Job]) -> list[Job]:
    """Print which cells are already done or partial; return the jobs that remain."""
    decisions = [decide(job) for job in jobs]
    for decision in decisions:
        if decision.note:
            print(printable(decision.note))
    if any(job.dated for job in jobs):
        print(
            "Every run has a date in its name, so all runs are new: nothing is skipped or resumed."
        )
    count = {action: sum(d.action == action for d in decisions) for action in ("skip", "resume")}
    if any(count.values()):
        again = f" To run all again, delete {Path(jobs[0].folder).parent}." if count["skip"] else ""
        print(
            f"Of {len(jobs)} cells, {count['skip']} are already done and are skipped, and "
            f"{count['resume']} continue from their checkpoints.{again}"
        )
    sys.stdout.flush()
    return [job for job, decision in zip(jobs, decisions, strict=True) if decision.action != "skip"]


def _run_here(jobs: Sequence[Job], num_cpu: int | str) -> dict[str, str]:
    """Run jobs sequentially in this process; return a message for each failed one."""
    from spinup.parallel.mpi import broadcast_object, num_procs, proc_id

    if proc_id() == 0:
        names = [job.name for job in _survey(jobs)]
        if num_procs() > 1:
            # A failed cell ends all processes and thus the grid. When the grid is launched again,
            # cells that have not run yet come first.
            names.sort(key=lambda name: bool(read_state(_named(jobs, name))))
    todo = broadcast_object(names if proc_id() == 0 else None)
    failures: dict[str, str] = {}
    for name in todo:
        try:
            run_cell(_named(jobs, name), num_cpu)
        except (KeyboardInterrupt, SystemExit):
            if proc_id() == 0:
                _say_how_to_continue(jobs)
            raise
        except (CellFailed, CellBusy, OSError) as error:  # OSError: its state cannot be written
            failures[name] = str(error)
            last = printable(str(error).splitlines()[-1])
            print(f"{name} failed: {last}", file=sys.stderr, flush=True)
    return failures


def _say_how_to_continue(jobs: Sequence[Job]) -> None:
    from spinup.grids.summary import say_how_to_continue

    say_how_to_continue(jobs)


def _named(jobs: Sequence[Job], name: str) -> Job:
    return next(job for job in jobs if job.name == name)


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
