"""Turn the words of a command line into runs of a training function.

`python -m spinup.run ppo` and an algorithm's own file (`python -m spinup.algos.pytorch.ppo.ppo`)
share this module: every keyword of the function is a flag, and several values make a grid. The
whole command line is checked before anything is created; a mistake raises a one-sentence
SpinupError. `flags` reads the words, `usage` explains them, and `estimate` predicts the cost.
"""

from __future__ import annotations

import itertools
import json
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
    Flag,
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
    call_experiment,
    check_shorthand,
    env_maker,
    nested,
    process_count,
    setup_logger_kwargs,
)
from spinup.parallel.mpi import Shards, mpi_fork, num_procs, proc_id, under_launcher
from spinup.runs.arguments.domains import Number
from spinup.runs.arguments.table import check_sizes, opens_a_run
from spinup.runs.logger import table_name
from spinup.runs.screen import OUTPUT_DIR
from spinup.runs.sinks import check_sinks
from spinup.utils.errors import SpinupError
from spinup.utils.importing import import_from_here
from spinup.utils.memory import check_memory
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


# Flags that are passed to `ExperimentGrid.run` unchanged.
_LAUNCH = (
    *("num_workers", "executor", "cpus_per_cell", "gpus_per_cell"),
    *("ray_address", "slurm_options"),
)
# Flags that are passed to `mpi_fork`.
_MPI = ("hosts", "hostfile", "max_restarts", "mpi_timeout", "log_all_ranks")
_MOST_LAYERS = 1000  # of a network
_SMALL_NETWORK = 1_000_000  # weights; one of this size fits anywhere


@dataclass(frozen=True)
class Plan:
    """A checked command line: the runs, and how to run them."""

    exp_name: str
    values: dict[str, list[Any]]  # of each argument, by key
    flags: Sequence[Flag]  # that were typed
    num_cpu: int | str
    mpi: dict[str, Any]
    data_dir: str | None
    datestamp: bool
    launch: dict[str, Any]
    dry_run: bool
    source: str  # where the hyperparameters come from
    alone: bool  # whether this is one run, in this process or its own MPI processes

    @property
    def grid(self) -> ExperimentGrid:
        """All runs, with their names."""
        grid = ExperimentGrid(name=self.exp_name)
        shorthands = {flag.key: flag.shorthand for flag in self.flags}
        # A preset's arguments have one value each, so they are never part of a name.
        for key in dict.fromkeys([*naming_order(self.flags), *self.values]):
            if key in self.values:
                grid.add(key, self.values[key], shorthand=shorthands.get(key))
        return grid


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
    flags = translate(split_flags(words), algo_fn)
    values: dict[str, list[Any]] = {}
    for flag in flags:
        found = values_of(flag, parameter_of(algo_fn, flag.key, flag.typed), backend)
        about_run = flag.key in RUN_KEYS or flag.key.startswith("slurm_options:")
        if flag.shorthand is not None:
            if about_run:
                raise SpinupError(
                    f"'{flag.typed}' is never part of a run's name: leave out the shorthand"
                )
            check_shorthand(flag.key, flag.shorthand)
        if len(found) > 1 and (about_run or flag.key in ONCE_KEYS) and flag.key != "track":
            raise SpinupError(f"'{flag.typed}' takes one value, not {len(found)}")
        values[flag.key] = found
    source = f"the defaults of {algo_fn.__name__}"
    if preset is not None or not values.keys().isdisjoint(("config", "preset")):
        source = f"{_add_preset(algo_fn, values, backend, preset)}, then {source}"
    if "track" in values or "logger_kwargs:sinks" in values:
        _sinks(values)
    for name in values.get("logger_kwargs:output_fname", []):
        table_name(name)
    how = _run_options(values)
    exp_name, data_dir = how.get("exp_name", exp_name), how.get("data_dir")
    setup_logger_kwargs(exp_name, None, data_dir)  # raises if these cannot be names of folders
    mpi = _mpi_options(algo_fn, how, exp_name) if how.keys() & {"num_cpu", *_MPI} else {}
    launch = _launch_options(how) if how.keys() & {*_LAUNCH} else {}
    if "l" in how or any(map(is_width, values.get("ac_kwargs:hidden_sizes", []))):
        _expand_layers(algo_fn, values, how.get("l"))
    for sizes in values.get("ac_kwargs:hidden_sizes", []):
        _check_size(sizes)
    if "env_name" not in values:
        raise SpinupError(
            f"{algo_fn.__name__} needs an environment: add one such as --env CartPole-v1"
        )
    if values.get("resume") == [True] or how.get("datestamp"):
        _check_continuing(values, how)
    here = launch.get("num_workers", 1) == 1 and launch.get("executor", "local") == "local"
    return Plan(
        exp_name=exp_name,
        values=values,
        flags=flags,
        num_cpu=how.get("num_cpu", 1),
        mpi=mpi,
        data_dir=data_dir,
        datestamp=how.get("datestamp", False),
        launch=launch,
        dry_run=how.get("dry_run", False),
        source=source,
        alone=here and all(len(found) == 1 for found in values.values()),
    )


def _add_preset(
    algo_fn: Callable[..., Any],
    values: dict[str, list[Any]],
    backend: str,
    beside: str | Path | None,
) -> str | Path:
    """Add the values of a preset that no flag sets, and return its file.

    A file that the user names may only do what is harmless, unless `--trust` is given.
    """
    algo = algo_fn.__name__
    (trusted,) = values.get("trust", [False])
    (config,), (named,) = values.pop("config", [None]), values.pop("preset", [None])
    if config is not None and named is not None:
        raise SpinupError("'--config' and '--preset' both name a preset: choose one")
    if config is not None:
        shipped = presets.shipped(algo, config)
        chosen, trusted = shipped or config, trusted or shipped is not None
    elif named is None:
        chosen, trusted = beside, True  # the file beside the algorithm's code
    elif Path(named).is_file():
        chosen = named
    else:
        chosen, trusted = presets.find(algo, named), True
    for key, value in preset_keys(read_preset(chosen), chosen).items():
        typed = f"{key} in {Path(chosen).name}"
        if not trusted and key not in values:
            _check_harmless(key, value, typed)
        parameter = parameter_of(algo_fn, key, typed)
        if key not in values:
            values[key] = [value_of(key, value, parameter, backend, typed)]
    return chosen


def _sinks(values: dict[str, list[Any]]) -> None:
    """Turn `--track tensorboard wandb` into the Logger's argument, and check that it can work."""
    key = "logger_kwargs:sinks"
    if "track" in values:
        if key in values:
            raise SpinupError(f"'--track' and '--{key}' set the same argument: choose one")
        names = [name for word in values.pop("track") for name in word.split(",") if name]
        values[key] = [list(dict.fromkeys(names))]
    if proc_id() == 0:
        for sinks in values[key]:
            check_sinks(sinks)


def _run_options(values: dict[str, list[Any]]) -> dict[str, Any]:
    """Take the flags that say how to run out of `values`, and check them."""
    how: dict[str, Any] = {}
    for key in [key for key in RUN_KEYS if key in values]:
        domain, (value,) = RUN_KEYS[key], values.pop(key)
        typed = {"num_cpu": "--cpu", "datestamp": "--dt"}.get(key, f"--{key}")
        if value is True and isinstance(domain, Number):
            raise SpinupError(f"'{typed}' needs a value")
        if value not in domain:
            raise SpinupError(f"'{typed}' must be {domain}, not {value!r}")
        how[key] = domain.convert(value)
    slurm = [key for key in values if key.startswith("slurm_options:")]
    if slurm:
        how["slurm_options"] = {key.partition(":")[2]: values.pop(key)[0] for key in slurm}
    return how


def _mpi_options(
    algo_fn: Callable[..., Any], how: Mapping[str, Any], exp_name: str
) -> dict[str, Any]:
    """Return the flags that say how the processes of `--cpu N` are launched."""
    several = how.get("num_cpu", 1) == "auto" or how.get("num_cpu", 1) > 1
    row = registry.find(algo_fn.__name__)
    if several and row is not None and not row.mpi:
        raise SpinupError(
            f"{algo_fn.__name__} learns from one replay buffer in one process: leave out --cpu, "
            "or use --num_envs for several environments"
        )
    for key in ("hosts", "hostfile", "max_restarts"):
        if key in how and not several and not under_launcher():
            raise SpinupError(
                f"'--{key}' applies only to several processes: set their number with --cpu"
            )
    if "hostfile" in how and not Path(how["hostfile"]).is_file():
        raise SpinupError(f"the hostfile '{how['hostfile']}' does not exist")
    if several and (how.get("num_workers", 1) > 1 or how.get("executor", "local") != "local"):
        raise SpinupError(
            "runs in parallel have one process each: use either --cpu, or --num_workers and "
            "--executor"
        )
    options = {key.removeprefix("mpi_"): how[key] for key in _MPI if key in how}
    if options.pop("log_all_ranks", False):
        folder = Path(how.get("data_dir", user_config.DEFAULT_DATA_DIR)) / exp_name
        options["log_all_ranks"] = str(folder / "rank_logs")
    return options


def _launch_options(how: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flags that say how a grid is launched."""
    executor = how.get("executor", "local")
    for key, needed in (("ray_address", "ray"), ("slurm_options", "slurm")):
        if key in how and executor != needed:
            raise SpinupError(f"'--{key}' needs --executor {needed}, not {executor}")
    if how.get("gpus_per_cell") and executor == "local":
        raise SpinupError(
            "'--gpus_per_cell' requests GPUs from a cluster: add --executor ray or slurm, or use "
            "--device cuda on this machine"
        )
    return {key: how[key] for key in _LAUNCH if key in how}


def _check_continuing(values: Mapping[str, list[Any]], how: Mapping[str, Any]) -> None:
    """Raise for flags about earlier runs that contradict each other."""
    resume = values.get("resume") == [True]
    if resume and values.get("overwrite") == [True]:
        raise SpinupError(
            "'--resume' continues the earlier run and '--overwrite' deletes it: choose one"
        )
    for name, given in (("--resume", resume), ("--max_restarts", how.get("max_restarts"))):
        if given and how.get("datestamp"):
            raise SpinupError(
                f"'{name}' cannot find a run whose name has an earlier date: leave out --dt"
            )


def _expand_layers(algo_fn: Callable[..., Any], values: dict[str, list[Any]], layers: Any) -> None:
    """Expand `--hid 64` (one width for every layer) and `--l 2` (number of layers) to a list."""
    key = "ac_kwargs:hidden_sizes"
    usual = usual_sizes(algo_fn) or (64, 64)
    if layers is None:
        values[key] = [[v] * len(usual) if is_width(v) else v for v in values[key]]
        return
    parameter_of(algo_fn, key, "--l")
    if layers > _MOST_LAYERS:
        raise SpinupError(f"'--l' must be at most {_MOST_LAYERS} layers, not {layers}")
    known = values.get(key, [usual])
    if any(not is_width(v) and len(set(v)) != 1 for v in known):
        raise SpinupError("'--l' needs one width for all layers, as in --hid 64 --l 2")
    values[key] = [[v if is_width(v) else v[0]] * layers for v in known]


def _check_size(sizes: Sequence[int]) -> None:
    """Raise for a network that would not fit into memory or would take minutes to create."""
    if len(sizes) > _MOST_LAYERS:
        raise SpinupError(f"'--hid' must be at most {_MOST_LAYERS} layers, not {len(sizes)}")
    weights = sum(a * b for a, b in itertools.pairwise([1, *sizes, 1]))
    if weights > _SMALL_NETWORK:
        # each float32 weight has a gradient and two averages of Adam
        what = f"a network with hidden_sizes {str(sizes)[:60]}"
        check_memory(what, 16 * weights, "use fewer units")


def execute(algo_fn: Callable[..., Any], ready: Plan, typed: Sequence[str] = ()) -> None:
    """Run what was planned, or (`--dry_run`) report what would run.

    The environments of a grid are tried before it starts, because a misspelled one at its end would
    surface only after hours. One run alone checks its own before it creates anything.

    `typed` are all words of the command line, which a stopped run repeats with `--resume`.
    """
    # Under an external launcher, several processes are already running.
    processes = max(process_count(ready.num_cpu), num_procs())
    # Only a trial can tell wrong `env_kwargs` from a bug of the environment.
    plain = not any(key.startswith("env_kwargs:") for key in ready.values)
    by_itself = ready.alone and plain and processes == 1 and opens_a_run(algo_fn)
    if ready.dry_run or not by_itself:
        cells = ready.grid.cells(algo_fn)
        check_cells(algo_fn.__name__, cells, processes)
        if ready.dry_run:
            from spinup.cli.estimate import report

            print(report(algo_fn.__name__, cells, ready))
            return
    mpi_fork(process_count(ready.num_cpu), **ready.mpi)
    source = f"{ready.source}{_edited(algo_fn, ready)}"
    if proc_id() == 0 and not by_itself:
        print(f"Hyperparameters: {source}", flush=True)
    words = _to_continue(typed, ready) if typed else None
    origin: dict[str, Any] = {} if words is None else {"resume_with": words}
    if by_itself:
        origin["source"] = source
    place = {name: getattr(ready, name) for name in ("num_cpu", "data_dir", "datestamp")}
    if not ready.alone:
        grid = ready.grid
        grid.origin = origin
        grid.run(algo_fn, **place, **ready.launch)
        return
    kwargs = nested({key: value for key, (value,) in ready.values.items()})
    if ":" in kwargs["env_name"]:
        import_from_here()
    if opens_a_run(algo_fn):
        kwargs["logger_kwargs"] = {**kwargs.get("logger_kwargs", {}), "origin": origin}
    # In this process, so that debuggers and tracebacks work as usual.
    call_experiment(ready.exp_name, algo_fn, **place, **kwargs)


def _edited(algo_fn: Callable[..., Any], ready: Plan) -> str:
    """Return a remark if somebody edited the preset beside the algorithm's code, which is unused.

    The file is shipped with the defaults of the function, so that a difference is an edit.
    """
    path = source_of(algo_fn).with_name("config.json")
    if str(path) in ready.source or not path.is_file():
        return ""
    defaults = {name: p.default for name, p in arguments(algo_fn).items()}
    known = json.loads(json.dumps(defaults, default=str))
    try:
        preset = json.loads(path.read_text(encoding="utf-8"))
        same = known == {**known, **{k: v for k, v in preset.items() if k in known}}
    except (OSError, ValueError, AttributeError):  # damaged
        same = False
    return "" if same else f" (not {path}, which was edited: add --config with its path to use it)"


def _to_continue(typed: Sequence[str], ready: Plan) -> list[str] | None:
    """Return the command line that continues stopped runs; None if no command line does.

    A grid continues by itself, unless the names of its runs contain the date.
    """
    dated = ready.datestamp or user_config.FORCE_DATESTAMP
    if dated and not ready.alone:
        return None
    words: list[str] = []
    dropped = False
    for word in typed:
        if word.startswith("--") or word == "-s":
            dropped = word.partition("=")[0] in ("--overwrite", "--resume", "--dt", "--datestamp")
        if not dropped:
            words.append(word)
    if ready.alone and dated:
        words += ["--logger_kwargs:output_dir", OUTPUT_DIR]
    return [*words, "--resume"] if ready.alone else words


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
