"""One experiment: choose its directory, and call its function in this process.

    call_experiment("ppo-try", ppo_pytorch, seed=0, env_name="CartPole-v1", epochs=10)

A run needs no more than this. Grids call it for each of their cells.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from spinup import user_config
from spinup.parallel.job import TIME_VARIABLE
from spinup.parallel.launch import physical_cores
from spinup.parallel.mpi import mpi_fork, proc_id
from spinup.runs.arguments.table import opens_a_run
from spinup.utils.command import spinup_command
from spinup.utils.errors import SpinupError, check_name

DIV_LINE_WIDTH = 80  # user code reads this name
LINE = "-" * DIV_LINE_WIDTH


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
    import spinup.envs.make as make  # imports gymnasium, so delay it until needed

    if not callable(thunk):
        raise SpinupError(f"an experiment must be a function, not {thunk!r}")
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
        folder = os.fspath(output_dir)
        print(
            f"{LINE}\nThis run is in {folder}. To see its results:\n"
            f"    {spinup_command('plot', folder)}\n"
            f"    {spinup_command('test_policy', folder)}\n{LINE}",
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
        return physical_cores()
    if isinstance(num_cpu, bool) or not isinstance(num_cpu, int):
        raise SpinupError(f"num_cpu must be a whole number or 'auto', not {num_cpu!r}")
    return num_cpu
