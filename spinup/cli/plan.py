"""Turn the words of a command line into runs of a training function.

`python -m spinup.run ppo` and an algorithm's own file (`python -m spinup.algos.pytorch.ppo.ppo`)
share this module: every keyword of the function is a flag, and several values make a grid. The
whole command line is checked before anything is created; a mistake raises a one-sentence
SpinupError. `flags` reads the words, `usage` explains them, and `estimate` predicts the cost.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinup import registry, user_config
from spinup.cli import presets
from spinup.cli.flags import (
    ALIASES,
    NOT_FLAGS,
    ONCE_KEYS,
    RUN_KEYS,
    activation,
    arguments,
    backend_of,
    is_width,
    naming_order,
    parameter_of,
    source_of,
    split_flags,
    translate,
    usual_sizes,
    value_of,
    values_of,
)
from spinup.grids.experiments import (
    EXECUTORS,
    Cell,
    ExperimentGrid,
    env_maker,
    process_count,
    setup_logger_kwargs,
)
from spinup.parallel.mpi import Shards, mpi_fork, num_procs, proc_id, under_launcher
from spinup.runs.arguments.config import as_json
from spinup.runs.arguments.domains import Number
from spinup.runs.arguments.table import check_sizes
from spinup.runs.logger import table_name
from spinup.runs.screen import OUTPUT_DIR, continued_by
from spinup.runs.sinks import check_sinks
from spinup.utils.errors import SpinupError
from spinup.utils.importing import import_from_here
from spinup.utils.reading import read_object

__all__ = [
    "NOT_FLAGS",
    "Plan",
    "activation",
    "arguments",
    "execute",
    "plan",
    "preset_keys",
    "read_preset",
    "split_flags",
]


# Flags that are passed to `ExperimentGrid.run` unchanged, and the domains of their numbers.
LAUNCH = {
    "num_workers": Number(1, whole=True),
    "executor": None,
    "cpus_per_cell": Number(1, whole=True),
    "gpus_per_cell": Number(),
    "ray_address": None,
}


# mpirun passes the names on to ssh, which would take one that begins with a dash for an option.
_HOSTS = re.compile(r"[\w.:\[\]][\w.:\[\]-]*(,[\w.:\[\]][\w.:\[\]-]*)*")
_MOST_LAYERS = 1000  # of a network


@dataclass(frozen=True)
class Plan:
    """A checked command line: the grid and how to run it."""

    grid: ExperimentGrid
    num_cpu: int | str
    mpi: dict[str, Any]
    data_dir: str | None
    datestamp: bool
    launch: dict[str, Any]
    dry_run: bool
    source: str  # where the hyperparameters come from

    @property
    def spread(self) -> bool:
        """Whether the runs have processes of their own."""
        return self.launch.get("num_workers", 1) > 1 or self.launch.get("executor") in EXECUTORS[1:]


# ------------------------------------------------------------------------------------------- preset


def read_preset(path: str | Path) -> dict[str, Any]:
    """Read the JSON object in a preset file."""
    return read_object(path, "preset", "arguments")


def preset_keys(preset: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """Flatten a preset: write dict entries as `a:b` and resolve aliases.

    `provenance` says where a preset comes from, and sets nothing.
    """
    keys: dict[str, Any] = {}
    for name, value in preset.items():
        if name == "provenance":
            continue
        flat = {f"{name}:{k}": v for k, v in value.items()} if isinstance(value, dict) else None
        for key, inner in ({name: value} if flat is None else flat).items():
            key = ALIASES.get(key, key)
            if key in keys:
                raise SpinupError(f"the preset '{path}' sets '{key}' twice")
            if key == "config":
                raise SpinupError(f"the preset '{path}' cannot name another preset")
            if key == "trust":
                raise SpinupError(
                    f"the preset '{path}' cannot set trust: add --trust to the command"
                )
            keys[key] = inner
    return keys


def _check_harmless(key: str, value: Any, typed: str) -> None:
    """Raise unless a value is safe in a downloaded file: it stays on this machine, in data_dir."""
    from spinup.policies.environments import names_module

    if key in ("env_name", "env_kwargs:env_id") and names_module(str(value)):
        action = f"imports a module to make {value}"
    elif key in ("hosts", "hostfile", "ray_address") or key.startswith("slurm_options"):
        action = "sends the run to other machines"
    elif key == "executor" and value in EXECUTORS[1:]:
        action = "sends the run to a cluster"
    elif key in ("track", "logger_kwargs:sinks") and not _stays_in_the_run(value):
        action = "sends the run's results to a service"
    elif key in ("data_dir", "logger_kwargs:output_dir"):
        action = "chooses the folder that the run writes to"
    else:
        return
    raise SpinupError(f"'{typed}' {action}: if you trust that file, add --trust")


def _stays_in_the_run(sinks: Any) -> bool:
    """Return whether sinks write into the run directory only, as far as they are sinks at all."""
    names = sinks.split(",") if isinstance(sinks, str) else sinks
    return not isinstance(names, list) or all(name in ("", "tensorboard") for name in names)


# --------------------------------------------------------------------------------------------- plan


def plan(
    algo_fn: Callable[..., Any],
    words: Sequence[str],
    exp_name: str,
    backend: str | None = None,
    preset: str | Path | None = None,
) -> Plan:
    """Check a whole command line and turn it into the grid to run.

    Args:
        algo_fn: the training function.
        words: the command line after the algorithm's name.
        exp_name: name of the experiment, unless --exp_name sets it.
        backend: backend of the activations; by default, inferred from the function's folder.
        preset: JSON file of arguments, which flags override.
    """
    backend = backend_of(algo_fn) if backend is None else backend
    flags = {flag.key: flag for flag in translate(split_flags(words), algo_fn)}
    values: dict[str, list[Any]] = {}
    for key, flag in flags.items():
        values[key] = values_of(flag, parameter_of(algo_fn, key, flag.typed), backend)
        about_run = key in RUN_KEYS or key.startswith("slurm_options:")
        if flag.shorthand is not None and about_run:
            raise SpinupError(
                f"'{flag.typed}' is never part of a run's name: leave out the shorthand"
            )
        if len(values[key]) > 1 and (about_run or key in ONCE_KEYS) and key != "track":
            raise SpinupError(f"'{flag.typed}' takes one value, not {len(values[key])}")

    def once(key: str, default: Any) -> Any:
        return values.pop(key)[0] if key in values else default

    trusted = _switch("--trust", once("trust", False))
    source, chosen = f"the defaults of {algo_fn.__name__}", preset
    if "config" in values and "preset" in values:
        raise SpinupError("'--config' and '--preset' both name a preset: choose one")
    if "preset" in values and not Path(values["preset"][0]).is_file():
        chosen, trusted = presets.find(algo_fn.__name__, once("preset", "")), True
    elif "preset" in values:
        chosen = once("preset", "")
    elif "config" in values:
        chosen = once("config", "")
        shipped = presets.shipped(algo_fn.__name__, chosen)
        chosen, trusted = shipped or chosen, trusted or shipped is not None
    else:
        trusted = True  # the file beside the algorithm's code
    if chosen is not None:
        source = f"{chosen}, then {source}"
        for key, value in preset_keys(read_preset(chosen), chosen).items():
            typed = f"{key} in {Path(chosen).name}"
            if not trusted and key not in values:
                _check_harmless(key, value, typed)
            parameter = parameter_of(algo_fn, key, typed)
            if key not in values:
                values[key] = [value_of(key, value, parameter, backend, typed)]
    _sinks(values)
    for name in values.get("logger_kwargs:output_fname", []):
        table_name(name)
    exp_name = once("exp_name", exp_name)
    data_dir = once("data_dir", None)
    setup_logger_kwargs(exp_name, None, data_dir)  # raises if these cannot be names of folders
    num_cpu = once("num_cpu", 1)
    if num_cpu != "auto" and (isinstance(num_cpu, bool) or not isinstance(num_cpu, int)):
        raise SpinupError(f"'--cpu' must be a whole number or 'auto', not {num_cpu!r}")
    row = registry.find(algo_fn.__name__)
    if row is not None and not row.mpi and (num_cpu == "auto" or num_cpu > 1):
        raise SpinupError(
            f"{algo_fn.__name__} learns from one replay buffer in one process: leave out --cpu, "
            "or use --num_envs for several environments"
        )
    for key in ("hosts", "hostfile", "max_restarts"):
        if key in values and num_cpu != "auto" and num_cpu <= 1 and not under_launcher():
            raise SpinupError(
                f"'--{key}' applies only to several processes: set their number with --cpu"
            )
    mpi = _mpi_options(once, Path(data_dir or user_config.DEFAULT_DATA_DIR) / exp_name)
    datestamp = _switch("--dt", once("datestamp", False))
    dry_run = _switch("--dry_run", once("dry_run", False))
    launch = _launch_options(values)
    spread = launch.get("num_workers", 1) > 1 or launch.get("executor", "local") != "local"
    if spread and (num_cpu == "auto" or num_cpu > 1):
        raise SpinupError(
            "runs in parallel have one process each: use either --cpu, or --num_workers and "
            "--executor"
        )
    _layers(algo_fn, values, once("l", None))
    if "env_name" not in values:
        raise SpinupError(
            f"{algo_fn.__name__} needs an environment: add one such as --env CartPole-v1"
        )
    resume, overwrite = values.get("resume", [False])[0], values.get("overwrite", [False])[0]
    if resume and overwrite:
        raise SpinupError(
            "'--resume' continues the earlier run and '--overwrite' deletes it: choose one"
        )
    if resume and datestamp:
        raise SpinupError(
            "'--resume' cannot find a run whose name has an earlier date: leave out --dt"
        )

    grid = ExperimentGrid(name=exp_name)
    # A preset's arguments have one value each, so they are never part of a name.
    for key in dict.fromkeys([*naming_order(flags.values()), *values]):
        if key in values:
            grid.add(key, values[key], shorthand=flags[key].shorthand if key in flags else None)
    if mpi.get("max_restarts") and datestamp:
        raise SpinupError(
            "'--max_restarts' cannot find a run whose name has an earlier date: leave out --dt"
        )
    return Plan(grid, num_cpu, mpi, data_dir, datestamp, launch, dry_run, source)


def _sinks(values: dict[str, list[Any]]) -> None:
    """Turn `--track tensorboard wandb` into the Logger's argument, and check that it can work."""
    key = "logger_kwargs:sinks"
    if "track" in values:
        if key in values:
            raise SpinupError(f"'--track' and '--{key}' set the same argument: choose one")
        names = [name for word in values.pop("track") for name in word.split(",") if name]
        values[key] = [list(dict.fromkeys(names))]
    if key in values and proc_id() == 0:
        for sinks in values[key]:
            check_sinks(sinks)


def _switch(typed: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise SpinupError(f"'{typed}' must be True or False, not {value!r}")
    return value


def _launch_options(values: dict[str, list[Any]]) -> dict[str, Any]:
    """Among the flags that control how a grid is launched, return those that were set."""
    given = {key: values.pop(key)[0] for key in LAUNCH if key in values}
    for key, domain in LAUNCH.items():
        if given.get(key) is True:
            raise SpinupError(f"'--{key}' needs a value")
        if domain and key in given and given[key] not in domain:
            raise SpinupError(f"'--{key}' must be {domain}, not {given[key]!r}")
    executor = given.get("executor", "local")
    if executor not in EXECUTORS:
        raise SpinupError(f"'--executor' must be local, ray or slurm, not {executor!r}")
    slurm = [key for key in values if key.startswith("slurm_options:")]
    if slurm:
        given["slurm_options"] = {key.partition(":")[2]: values.pop(key)[0] for key in slurm}
    for key, needed in (("ray_address", "ray"), ("slurm_options", "slurm")):
        if key in given and executor != needed:
            raise SpinupError(f"'--{key}' needs --executor {needed}, not {executor}")
    if given.get("gpus_per_cell") and executor == "local":
        raise SpinupError(
            "'--gpus_per_cell' requests GPUs from a cluster: add --executor ray or slurm, or use "
            "--device cuda on this machine"
        )
    return given


def _mpi_options(once: Callable[[str, Any], Any], folder: Path) -> dict[str, Any]:
    """Return the flags that control how the processes of `--cpu N` are launched."""
    options: dict[str, Any] = {}
    for key in ("hosts", "hostfile"):
        value = once(key, None)
        if value is not None:
            options[key] = value
    if "hosts" in options and not _HOSTS.fullmatch(options["hosts"]):
        raise SpinupError(
            f"'--hosts' must be names of machines, such as a,b or a:4,b:4, not {options['hosts']!r}"
        )
    if "hostfile" in options and not Path(options["hostfile"]).is_file():
        raise SpinupError(f"the hostfile '{options['hostfile']}' does not exist")
    restarts, timeout = once("max_restarts", 0), once("mpi_timeout", 300)
    if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
        raise SpinupError(f"'--max_restarts' must be a whole number, not {restarts!r}")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
        raise SpinupError(f"'--mpi_timeout' must be a number of seconds, not {timeout!r}")
    log_all = _switch("--log_all_ranks", once("log_all_ranks", False))
    options.update(max_restarts=restarts, timeout=timeout)
    options["log_all_ranks"] = str(folder / "rank_logs") if log_all else None
    return options


def _layers(algo_fn: Callable[..., Any], values: dict[str, list[Any]], layers: Any) -> None:
    """Expand `--hid 64` (one width for every layer) and `--l 2` (number of layers) to a list."""
    key = "ac_kwargs:hidden_sizes"
    usual = usual_sizes(algo_fn) or (64, 64)
    if layers is not None:
        if not is_width(layers):
            raise SpinupError(f"'--l' must be the number of layers, not {layers!r}")
        parameter_of(algo_fn, key, "--l")
        known = values.get(key, [usual])
        if layers > _MOST_LAYERS:
            raise SpinupError(f"'--l' must be at most {_MOST_LAYERS} layers, not {layers}")
        if any(not is_width(v) and len(set(v)) != 1 for v in known):
            raise SpinupError("'--l' needs one width for all layers, as in --hid 64 --l 2")
        values[key] = [[v if is_width(v) else v[0]] * layers for v in known]
    elif key in values:
        values[key] = [[v] * len(usual) if is_width(v) else v for v in values[key]]
    for sizes in values.get(key, []):
        _check_size(sizes)


def _check_size(sizes: Sequence[int]) -> None:
    """Raise for a network that would not fit into memory or would take minutes to create."""
    from spinup.utils.memory import check_memory

    if len(sizes) > _MOST_LAYERS:
        raise SpinupError(f"'--hid' must be at most {_MOST_LAYERS} layers, not {len(sizes)}")
    weights = sum(a * b for a, b in itertools.pairwise([1, *sizes, 1]))
    # each float32 weight has a gradient and two averages of Adam
    check_memory(f"a network with hidden_sizes {str(sizes)[:60]}", 16 * weights, "use fewer units")


def execute(algo_fn: Callable[..., Any], ready: Plan, typed: Sequence[str] = ()) -> None:
    """Try every environment once, then run the grid or (`--dry_run`) report what it would do.

    Without the trial, a misspelled environment at the end of a grid would surface only after hours.

    Args:
        algo_fn: the training function.
        ready: the checked command line.
        typed: all words of the command line, which a stopped run repeats with `--resume`.
    """
    cells = ready.grid.cells(algo_fn)
    # Under an external launcher, several processes are already running.
    check_cells(algo_fn.__name__, cells, max(process_count(ready.num_cpu), num_procs()))
    if ready.dry_run:
        from spinup.cli.estimate import report

        print(report(algo_fn.__name__, cells, ready))
        return
    mpi_fork(process_count(ready.num_cpu), **ready.mpi)
    words = _to_continue(typed, ready, len(cells)) if typed else None
    if proc_id() == 0:
        print(f"Hyperparameters: {ready.source}{_edited(algo_fn, ready)}", flush=True)
    with contextlib.nullcontext() if words is None else continued_by(words):
        ready.grid.run(
            algo_fn,
            num_cpu=ready.num_cpu,
            data_dir=ready.data_dir,
            datestamp=ready.datestamp,
            **ready.launch,
        )


def _edited(algo_fn: Callable[..., Any], ready: Plan) -> str:
    """Return a remark if somebody edited the preset beside the algorithm's code, which is unused.

    The file is shipped with the defaults of the function, so that a difference is an edit.
    """
    path = source_of(algo_fn).with_name("config.json")
    if str(path) in ready.source or not path.is_file():
        return ""
    known = {name: p.default for name, p in arguments(algo_fn).items()}
    try:
        preset = read_preset(path)
    except SpinupError:
        preset = dict.fromkeys(known, "damaged")
    if all(as_json(known[k]) == as_json(v) for k, v in preset.items() if k in known):
        return ""
    return f" (not {path}, which was edited: add --config with its path to use it)"


def _to_continue(typed: Sequence[str], ready: Plan, cells: int) -> list[str] | None:
    """Return the command line that continues stopped runs; None if no command line does.

    A grid continues by itself, unless the names of its runs contain the date.
    """
    alone = cells == 1 and not ready.spread
    dated = ready.datestamp or user_config.FORCE_DATESTAMP
    if dated and not alone:
        return None
    words: list[str] = []
    dropped = False
    for word in typed:
        if word.startswith("--") or word == "-s":
            dropped = word.partition("=")[0] in ("--overwrite", "--resume", "--dt", "--datestamp")
        if not dropped:
            words.append(word)
    if alone and dated:
        words += ["--logger_kwargs:output_dir", OUTPUT_DIR]
    return [*words, "--resume"] if alone else words


def check_cells(algo: str, cells: Sequence[Cell], processes: int) -> None:
    """Raise SpinupError if an environment cannot be created or `algo` cannot learn in it.

    An environment that several runs share is tried only once.
    """
    row = registry.find(algo)
    tried: list[tuple[Any, Any]] = []
    for cell in cells:
        wanted = (cell.kwargs["env_name"], cell.kwargs.get("env_kwargs"))
        if wanted not in tried:
            tried.append(wanted)
            env = try_env(*wanted)
            if row is not None:
                check_env(row, env)
            env.close()
        if row is not None:
            _check_sizes(cell, processes if row.mpi else 1)


def try_env(env_name: str, env_kwargs: Mapping[str, Any] | None) -> Any:
    """Create the environment; raise SpinupError if its id or arguments are invalid."""
    if ":" in env_name:
        import_from_here()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the run itself will warn
            return env_maker(env_name, env_kwargs)()
    except SpinupError:
        raise
    except Exception as error:  # each environment rejects values in its own way
        if not env_kwargs:
            raise  # a bug in the environment: the traceback shows where
        given = ", ".join(f"{key}={value!r}" for key, value in env_kwargs.items())
        raise SpinupError(
            f"{env_name} cannot be made with {given} ({type(error).__name__}: {error}): correct "
            "env_kwargs"
        ) from error


def check_env(row: registry.Algorithm, env: Any) -> None:
    """Raise SpinupError unless an algorithm can learn in this environment."""
    from spinup.envs.adapter import adapt_env
    from spinup.envs.bounds import check_bounds
    from spinup.envs.goals import Goals
    from spinup.envs.spaces import check_spaces

    seen = adapt_env(env)
    check_spaces(row.name, seen.observation_space, seen.action_space, row.action_spaces)
    if not row.on_policy and type(seen.action_space).__name__ == "Box":
        check_bounds(row.name, seen.action_space)
    if row.observation == "goal":
        Goals(env, row.name)


def _check_sizes(cell: Cell, processes: int) -> None:
    """Check early, before the run does, that the sizes of batches and buffers fit together."""
    defaults = {name: p.default for name, p in arguments(cell.thunk).items()}
    settings = {**defaults, **cell.kwargs}
    steps, envs = settings.get("steps_per_epoch"), settings.get("num_envs")
    if steps is None or envs is None:
        return  # a custom algorithm
    shards = settings.get("shards") or max(1, processes)
    Shards(shards).split("steps_per_epoch", steps)
    each = envs * shards
    if steps % each:
        raise SpinupError(
            f"steps_per_epoch={steps} does not divide among {each} environments (shards x "
            f"num_envs): use a multiple of {each}"
        )
    check_sizes(settings, shards, envs)


def main(algo_fn: Callable[..., Any], argv: Sequence[str] | None = None) -> None:
    """Call `spinup.cli.main.run_file`; the algorithms' files still use this name."""
    from spinup.cli.main import run_file

    run_file(algo_fn, argv)
