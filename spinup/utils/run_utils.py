"""Experiments: where a run's files go, one run, and grids of runs.

    from spinup import ppo_pytorch
    from spinup.utils.run_utils import ExperimentGrid

    eg = ExperimentGrid(name="ppo-bench")
    eg.add("env_name", ["CartPole-v1", "Acrobot-v1"], "env")
    eg.add("seed", [0, 10, 20])
    eg.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    eg.run(ppo_pytorch)

Runs happen in this process, one after the other, so that a debugger works and a traceback is the
real one.
"""

from __future__ import annotations

import functools
import itertools
import json
import os
import string
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinup import user_config
from spinup.utils.errors import SpinupError
from spinup.utils.mpi_launch import TIME_VARIABLE

_LETTERS_AND_DIGITS = frozenset(string.ascii_letters + string.digits)
_NAME_CHARACTERS = _LETTERS_AND_DIGITS | frozenset("-_")
_LINE = "-" * 80


def setup_logger_kwargs(
    exp_name: str,
    seed: int | None = None,
    data_dir: str | os.PathLike[str] | None = None,
    datestamp: bool = False,
) -> dict[str, str]:
    """Choose a run's directory and return the keyword arguments for its Logger.

    Without a datestamp it is `<data_dir>/<exp_name>/<exp_name>_s<seed>`; with one,
    `<data_dir>/YYYY-MM-DD_<exp_name>/YYYY-MM-DD_HH-MM-SS-<exp_name>_s<seed>`. With `seed=None` the
    outer folder alone. Nothing is created here.

    Args:
        exp_name: name of the experiment.
        seed: the run's seed, which names its folder inside the experiment's.
        data_dir: where experiments live; by default `spinup.user_config.DEFAULT_DATA_DIR`.
        datestamp: put the date and time into the names (`FORCE_DATESTAMP` does so always).
    """
    if not isinstance(exp_name, str) or not exp_name:
        raise SpinupError(f"an experiment's name must be a non-empty string, not {exp_name!r}.")
    # Read once: the two folders must not disagree around midnight, nor the processes of a job (or a
    # second start of it) about the second.
    now = time.localtime(float(os.environ.get(TIME_VARIABLE, time.time())))
    day, moment = "", ""
    if datestamp or user_config.FORCE_DATESTAMP:
        day = time.strftime("%Y-%m-%d_", now)
        moment = time.strftime("%Y-%m-%d_%H-%M-%S-", now)
    folder = Path(user_config.DEFAULT_DATA_DIR if data_dir is None else data_dir)
    folder = folder / f"{day}{exp_name}"
    if seed is not None:
        folder = folder / f"{moment}{exp_name}_s{seed}"
    return {"output_dir": str(folder), "exp_name": exp_name}


def valid_str(v: Any) -> str:
    """`v` as a piece of a file name: lower case, only letters, digits, `-` and `_`.

    Functions and classes go by their name, lists and tuples are joined by `-`, every other
    character becomes `-`.
    """
    if isinstance(v, functools.partial):
        return valid_str(v.func)  # its own repr holds a memory address
    if hasattr(v, "__name__"):
        return valid_str(v.__name__)
    if isinstance(v, list | tuple):
        return "-".join(valid_str(x) for x in v)
    return "".join(c if c in _NAME_CHARACTERS else "-" for c in str(v).lower())


def call_experiment(
    exp_name: str,
    thunk: Callable[..., Any],
    seed: int = 0,
    num_cpu: int | str = 1,
    data_dir: str | os.PathLike[str] | None = None,
    datestamp: bool = False,
    **kwargs: Any,
) -> Any:
    """Run one experiment in this process and return what `thunk` returns.

    `thunk` is called with `seed`, `logger_kwargs` and `**kwargs`. An `env_name` among them becomes
    `env_fn`, made with `env_kwargs` if there are any. Entries of a `logger_kwargs` given here win
    over the chosen ones.

    Args:
        exp_name: name of the experiment and of its folder.
        thunk: a training function, or anything called like one.
        seed: the run's seed.
        num_cpu: number of processes; 'auto' takes one a physical core, 1 or less this one alone.
        data_dir, datestamp: see `setup_logger_kwargs`.
        **kwargs: the other arguments of `thunk`.
    """
    if not callable(thunk):
        raise SpinupError(f"an experiment needs a function to run, not {thunk!r}.")
    from spinup.utils.mpi_tools import mpi_fork, proc_id

    mpi_fork(process_count(num_cpu))
    chosen = setup_logger_kwargs(exp_name, seed, data_dir, datestamp)
    kwargs["logger_kwargs"] = {**chosen, **kwargs.get("logger_kwargs", {})}
    kwargs["seed"] = seed
    output_dir = kwargs["logger_kwargs"]["output_dir"]
    if proc_id() == 0:
        shown = {k: v for k, v in kwargs.items() if k != "logger_kwargs"}
        print(f"Running experiment {exp_name} in {output_dir}\n{_as_json(shown)}", flush=True)
    if "env_name" in kwargs:
        kwargs["env_fn"] = env_maker(kwargs.pop("env_name"), kwargs.pop("env_kwargs", None))
    result = thunk(**kwargs)
    if proc_id() == 0:
        print(
            f"{_LINE}\nThis run is in {output_dir}. Look at it with\n"
            f"    python -m spinup.run plot {output_dir}\n"
            f"    python -m spinup.run test_policy {output_dir}\n{_LINE}",
            flush=True,
        )
    return result


def env_maker(env_name: str, env_kwargs: Mapping[str, Any] | None = None) -> Callable[[], Any]:
    """A picklable `env_fn` that makes a fresh `env_name` with every call."""
    from spinup.envs import make_env  # imports gymnasium: not before it is needed

    return functools.partial(make_env, env_name, dict(env_kwargs or {}))


def process_count(num_cpu: int | str) -> int:
    """`num_cpu` as a number; 'auto' is one process for each physical core that we may use."""
    if num_cpu == "auto":
        from spinup.utils.mpi_launch import physical_cores

        return physical_cores()
    if isinstance(num_cpu, bool) or not isinstance(num_cpu, int):
        raise SpinupError(f"num_cpu must be a whole number or 'auto', not {num_cpu!r}.")
    return num_cpu


def _as_json(value: Any) -> str:
    from spinup.utils.serialization_utils import convert_json

    return json.dumps(convert_json(value), indent=4, sort_keys=True)


@dataclass(frozen=True)
class Cell:
    """One run of a grid: all that `call_experiment` needs to know about it."""

    exp_name: str
    thunk: Callable[..., Any]
    seed: int
    kwargs: Mapping[str, Any]


class ExperimentGrid:
    """Every combination of the values of several arguments, each run under a name of its own.

    The name of a run is the grid's name and, for each argument with several values, its shorthand
    followed by the value, joined by `_`. Seeds are never part of it: runs that differ in nothing
    but the seed are one experiment.
    """

    def __init__(self, name: str = "") -> None:
        if not isinstance(name, str):
            raise SpinupError(f"a grid's name must be a string, not {name!r}.")
        self.name = name
        self.keys: list[str] = []
        self.vals: list[list[Any]] = []
        self.shs: list[str | None] = []
        self.in_names: list[bool] = []

    def add(self, key: str, vals: Any, shorthand: str | None = None, in_name: bool = False) -> None:
        """Add an argument and the values it takes.

        Args:
            key: name of the argument; `a:b` is entry `b` of the dict argument `a`.
            vals: a list of values; anything else, a tuple too, is one value.
            shorthand: what stands for the key in names; by default made from the key.
            in_name: name the value even if there is only one.
        """
        if not isinstance(key, str) or not all(key.split(":")):
            raise SpinupError(f"a key of a grid must be a non-empty string, not {key!r}.")
        if key in self.keys:
            raise SpinupError(
                f"the key '{key}' is in the grid already: give all its values at once."
            )
        if shorthand is not None and (
            not isinstance(shorthand, str)
            or shorthand[:1] not in _LETTERS_AND_DIGITS - frozenset(string.digits)
            or not set(shorthand) <= _NAME_CHARACTERS
        ):
            raise SpinupError(
                f"the shorthand of '{key}' must start with a letter and hold only letters, digits, "
                f"'-' and '_', unlike {shorthand!r}."
            )
        values = list(vals) if isinstance(vals, list) else [vals]
        if not values:
            raise SpinupError(f"the key '{key}' has no values: give at least one.")
        if shorthand is None and user_config.DEFAULT_SHORTHAND:
            shorthand = self._default_shorthand(key)
        self.keys.append(key)
        self.vals.append(values)
        self.shs.append(shorthand)
        self.in_names.append(in_name)

    def _default_shorthand(self, key: str) -> str:
        """The letters and digits among the first three characters of each part of `a:b`."""
        parts = (
            "".join(c for c in part[:3] if c in _LETTERS_AND_DIGITS) for part in key.split(":")
        )
        return "-".join(parts)

    def variant_name(self, variant: Mapping[str, Any]) -> str:
        """The name of the experiment that `variant` (one of `variants()`) belongs to."""
        parts = [self.name]
        for key, vals, shorthand, in_name in zip(
            self.keys, self.vals, self.shs, self.in_names, strict=True
        ):
            if key == "seed" or not (in_name or len(vals) > 1):
                continue
            label = valid_str(key) if shorthand is None else shorthand
            value = _lookup(variant, key)
            if all(isinstance(v, bool) for v in vals):
                parts.append(label if value else "")
            else:
                parts.append(label + valid_str(value))
        return "_".join(part for part in parts if part)

    def _variants(self, keys: Sequence[str], vals: Sequence[list[Any]]) -> list[dict[str, Any]]:
        """All combinations as flat dicts; the last key changes fastest."""
        return [dict(zip(keys, row, strict=True)) for row in itertools.product(*vals)]

    def variants(self) -> list[dict[str, Any]]:
        """All combinations, `a:b` keys nested into dicts: the keyword arguments of each run."""
        return [_nested(flat) for flat in self._variants(self.keys, self.vals)]

    def print(self) -> None:
        """Print the grid: every key, its shorthand and its values, and the number of runs."""
        print(_LINE)
        print(f"Experiment grid {self.name}".rstrip())
        for key, vals, shorthand in zip(self.keys, self.vals, self.shs, strict=True):
            label = f" [{shorthand}]" if shorthand else ""
            print(f"  {key}{label}")
            for value in vals:
                print(f"      {value if isinstance(value, str) else _as_json(value)}")
        seeds = len(self.vals[self.keys.index("seed")]) if "seed" in self.keys else 1
        runs = len(self._variants(self.keys, self.vals))
        print(f"  {runs // seeds} experiment(s), {seeds} seed(s) each: {runs} run(s)")
        print(_LINE, flush=True)

    def cells(self, thunk: Callable[..., Any] | str) -> list[Cell]:
        """The runs of the grid, in order, checked not to share a directory.

        `thunk` is the function to run, or the key of this grid whose values are the functions.
        """
        if isinstance(thunk, str) and thunk not in self.keys:
            raise SpinupError(
                f"'{thunk}' is not a key of this grid: pass a function, or add the key "
                "with functions as its values."
            )
        cells: list[Cell] = []
        for variant in self.variants():
            name = self.variant_name(variant) or "experiment"
            function = variant.pop(thunk) if isinstance(thunk, str) else thunk
            if not callable(function):
                raise SpinupError(f"an experiment needs a function to run, not {function!r}.")
            cells.append(Cell(name, function, variant.pop("seed", 0), variant))
        taken: set[tuple[str, int]] = set()
        for cell in cells:
            if (cell.exp_name, cell.seed) in taken:
                raise SpinupError(
                    f"two runs of the grid would both be '{cell.exp_name}' with seed {cell.seed}: "
                    "remove the repeated value, or give values that differ in name."
                )
            taken.add((cell.exp_name, cell.seed))
        return cells

    def run(
        self,
        thunk: Callable[..., Any] | str,
        num_cpu: int | str = 1,
        data_dir: str | os.PathLike[str] | None = None,
        datestamp: bool = False,
    ) -> None:
        """Run every combination, one after the other; an exception in one ends the grid.

        Args:
            thunk: the function to run, or the key of this grid whose values are the functions.
            num_cpu: processes of each run, see `call_experiment`.
            data_dir, datestamp: see `setup_logger_kwargs`.
        """
        from spinup.utils.mpi_tools import mpi_fork, proc_id

        cells = self.cells(thunk)
        mpi_fork(process_count(num_cpu))  # before anything is printed: each process comes by here
        if proc_id() == 0 and len(cells) > 1:
            self.print()
            for name in dict.fromkeys(cell.exp_name for cell in cells):
                print(f"  {name}")
            print(_LINE, flush=True)
        if len(cells) > 1 and user_config.WAIT_BEFORE_LAUNCH > 0:
            time.sleep(user_config.WAIT_BEFORE_LAUNCH)
        for cell in cells:
            call_experiment(
                cell.exp_name,
                cell.thunk,
                seed=cell.seed,
                num_cpu=num_cpu,
                data_dir=data_dir,
                datestamp=datestamp,
                **cell.kwargs,
            )


def _lookup(variant: Mapping[str, Any], key: str) -> Any:
    """The value of `key` in a flat or a nested variant."""
    if key in variant:
        return variant[key]
    value: Any = variant
    for part in key.split(":"):
        value = value[part]
    return value


def _nested(flat: Mapping[str, Any]) -> dict[str, Any]:
    """`{'a:b': 1, 'a:c': 2}` -> `{'a': {'b': 1, 'c': 2}}`; the values themselves stay untouched."""
    nested: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split(":")
        level = nested
        for parent in parents:
            inner = level.get(parent, {})
            if not isinstance(inner, dict):
                raise SpinupError(f"the grid gives '{parent}' a value and also entries ('{key}').")
            level[parent] = dict(inner)  # a copy: it may be a dict that the user passed in
            level = level[parent]
        if last in level:
            raise SpinupError(f"the grid sets '{key}' twice.")
        level[last] = value
    return nested


def test_eg() -> ExperimentGrid:
    """Make and print a small grid that shows nesting, booleans, shorthands and names."""
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
