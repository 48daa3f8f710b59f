"""`spinup tune ALGO --env ENV`: choose hyperparameters, and test the choice on fresh seeds."""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spinup import registry, user_config
from spinup.cli import plan as cli
from spinup.cli.flags import ALIASES, arguments, is_width, parameter_of, usual_sizes, value_of
from spinup.cli.parsers import command_parser
from spinup.envs.spaces import is_image
from spinup.runs.arguments.config import FREE_ON_RESUME
from spinup.runs.arguments.synonyms import same
from spinup.utils.command import join, program
from spinup.utils.errors import SpinupError
from spinup_tune import halving, sampling
from spinup_tune.spaces import Dimension, read_space, shipped_space

# Arguments that cannot be searched: they say how a run is executed, what an epoch is, or how its
# score is measured.
_MEASURE = ("max_ep_len", "num_test_episodes")
_FIXED = (*FREE_ON_RESUME, "env_name", "seed", "steps_per_epoch", "save_best", *_MEASURE)
_UNNAMED = "an unnamed study"  # until its environment is known


def main(argv: Sequence[str] | None = None) -> int:
    """Run `spinup tune`; return 0 once the study is complete or its runs are submitted."""
    parser = command_parser("tune", {"--sampler": sampling.SAMPLERS}, beside=__file__)
    args, words = parser.parse_known_args(argv)
    name, backend = registry.resolve(args.algo)
    cli.split_flags(words)  # reject malformed words before loading a framework
    function = registry.load(name, backend)
    ready = _plan(function, words, args, backend)
    study = _study(function, f"{name}_{backend}", ready, args, backend, argv)
    study.refuse = functools.partial(cli.check_cells, name, processes=1)
    study.refuse([cell for t in study.trials for cell in study.cells(t, [args.seed])])
    return execute(study, ready, argv)


def execute(study: Any, ready: cli.Plan, argv: Sequence[str] | None) -> int:
    """Run a checked study to its report, or (`--dry_run`) say what it would cost."""
    from spinup_tune import figure, report
    from spinup_tune.runs import Waiting

    if ready.dry_run:
        print(_estimate(study, ready))
        return 0
    try:
        print(_beginning(study), flush=True)
        result = report.finish(study)
    except Waiting as waiting:
        print(waiting, flush=True)
        return 0
    except (KeyboardInterrupt, SystemExit):  # the runs have saved their state
        said = f"Stopped. This command continues the study:\n    {study.command}"
        print(said, file=sys.stderr, flush=True)
        raise
    figure.draw(study, result)
    print(report.text(study, result), flush=True)
    return 0


# ----------------------------------------------------------------------------------- what to run


def _plan(function: Callable[..., Any], words: Sequence[str], args: Any, backend: str) -> cli.Plan:
    """Check the flags of the algorithm, which set the default configuration."""
    ready = cli.plan(function, words, _UNNAMED, backend)
    if ready.num_cpu != 1:
        raise SpinupError(
            "the runs of a study have one process each: leave out --cpu, and use --num_workers"
        )
    if ready.datestamp:
        raise SpinupError(
            "a study is continued by its name, which cannot have a date: leave out --dt"
        )
    for key, values in zip(ready.grid.keys, ready.grid.vals, strict=True):
        if len(values) > 1:
            raise SpinupError(
                f"'--{key}' has {len(values)} values, but the default configuration needs one: "
                f"search the others with --space {key}={','.join(map(str, values))}"
            )
        if key in ("resume", "overwrite"):
            raise SpinupError(
                f"'--{key}' cannot be used here: a study continues by itself, and starts anew with "
                "another --exp_name"
            )
        if key in ("logger_kwargs:output_dir", "logger_kwargs:output_fname"):
            raise SpinupError(f"'--{key}' cannot be used here: the study chooses its folders")
    if args.asynchronous and ready.launch.get("executor", "local") != "local":
        raise SpinupError(
            "'--asynchronous' works with --executor local only: leave one of them out"
        )
    if args.seeds > 1000:
        raise SpinupError(f"'--seeds' must be at most 1000, not {args.seeds}")
    return ready


def _study(
    function: Callable[..., Any],
    algo: str,
    ready: cli.Plan,
    args: Any,
    backend: str,
    argv: Sequence[str] | None,
) -> Any:
    from spinup_tune.runs import launch
    from spinup_tune.study import Settings, Study

    base = dict(zip(ready.grid.keys, (v[0] for v in ready.grid.vals), strict=True))
    base.pop("seed", None)
    epochs = base.pop("epochs", arguments(function)["epochs"].default)
    rungs = args.rungs or halving.default_rungs(args.trials, args.eta, epochs)
    if args.eta ** (rungs - 1) > epochs:
        raise SpinupError(
            f"{rungs} rungs with eta {args.eta} need at least {args.eta ** (rungs - 1)} epochs, "
            f"not {epochs}: use fewer rungs or more epochs"
        )
    space = _space(function, algo.partition("_")[0], args.space, backend)
    if args.space is None and _sees_images(base):
        space = [d for d in space if d.key != "ac_kwargs:normalize_obs"]  # it is for vectors
    settings = Settings(
        algo=algo,
        base=base,
        space=space,
        trials=args.trials,
        epochs=epochs,
        seeds=args.seeds,
        seed=args.seed,
        eta=args.eta,
        rungs=rungs,
        sampler=args.sampler,
        last=args.last,
        asynchronous=args.asynchronous,
        finalists=args.finalists,
        test_seeds=args.test_seeds,
    )
    where = Path(user_config.DEFAULT_DATA_DIR if ready.data_dir is None else ready.data_dir)
    if ready.launch.get("executor", "local") != "local":
        where = where.absolute()  # other machines may use another working directory
    env = str(base["env_name"]).rpartition(":")[2].replace("/", "-")
    words = [*program(), "tune", *(sys.argv[2:] if argv is None else argv)]
    study = Study(
        settings,
        function,
        where / (f"tune_{args.algo}_{env}" if ready.grid.name == _UNNAMED else ready.grid.name),
        functools.partial(launch, **ready.launch),
        threads=ready.launch.get("cpus_per_cell", 1),
        defaults={d.key: _default_entry(function, d.key) for d in space if ":" in d.key},
        command=join(words),
        origin={"resume_with": words},
    )
    study.open()
    return study


def _space(
    function: Callable[..., Any], algo: str, words: Sequence[str] | None, backend: str
) -> list[Dimension]:
    known = arguments(function)

    def rename(key: str) -> str:
        key = ALIASES.get(key, key)
        return key if key in known else same(key, known) or key

    def check(key: str, value: Any) -> Any:
        outer = key.partition(":")[0]
        if outer in _FIXED or outer in ("logger_kwargs", "env_kwargs"):
            raise SpinupError(
                f"'{key}' cannot be searched: it must be the same for all runs, so set it with "
                f"--{key}"
            )
        if key in cli.RUN_KEYS or outer == "slurm_options":
            raise SpinupError(f"'{key}' is not an argument of {algo}: it says how to run it")
        value = value_of(key, value, parameter_of(function, key, key), backend, key)
        if key == "ac_kwargs:hidden_sizes" and is_width(value):
            return [value] * len(usual_sizes(function) or (64, 64))
        return value

    if words is None:
        return shipped_space(algo, check)
    return read_space(words, check, rename)


def _default_entry(function: Callable[..., Any], key: str) -> Any:
    """Return the default of an entry of a dict argument; None if it is unknown."""
    if key == "ac_kwargs:hidden_sizes":
        return usual_sizes(function)
    default = parameter_of(function, key, key).default
    return None if default is inspect.Parameter.empty else default


def _sees_images(base: Mapping[str, Any]) -> bool:
    words = {k.partition(":")[2]: v for k, v in base.items() if k.startswith("env_kwargs:")}
    env = cli.try_env(base["env_name"], words)
    env.close()
    return is_image(env.observation_space)


# ----------------------------------------------------------------------------- what it will cost


def _beginning(study: Any) -> str:
    """Say what is about to happen."""
    s = study.settings
    missing = s.trials - len(study.trials) if s.sampler in sampling.PLAIN else 0
    runs = halving.full_runs(s.trials - missing, s.rungs, s.eta, s.epochs)
    space = "\n".join(f"  {d.key:<24}{d.text}" for d in s.space)
    few = f"\nThe space has only {len(study.trials)} configurations." if missing else ""
    return (
        f"Tuning {s.algo} on {s.base['env_name']} in {study.folder}\n{space}{few}\n"
        f"{s.trials - missing} configurations with {s.seeds} seed{'s' * (s.seeds > 1)} each cost "
        f"as much as {runs * s.seeds:.1f} full runs (instead of {(s.trials - missing) * s.seeds})"
        + (f"; the test on fresh seeds takes {_test_runs(s)} more." if s.test_seeds else ".")
    )


def _test_runs(settings: Any) -> int:
    last = halving.rung_sizes(settings.trials, settings.rungs, settings.eta)[-1]
    return int((min(settings.finalists, last, settings.trials - 1) + 1) * settings.test_seeds)


def _estimate(study: Any, ready: cli.Plan) -> str:
    """Return the report of `--dry_run`: rungs, time, memory and the most disk space at once."""
    from spinup.cli import estimate
    from spinup.utils.memory import size_text

    s = study.settings
    row = registry.get(s.algo.partition("_")[0])
    meter = estimate.Meter(row, 1)
    (cell,) = study.cells(halving.DEFAULT, [s.seed])
    settings = estimate.settings_of(cell, {"num_workers": 2, **ready.launch})

    def cost(epochs: int) -> estimate.Cost:
        return meter.cost(cell, {**settings, "epochs": epochs})

    full = cost(s.epochs)
    lines = [_beginning(study), ""]
    rows = [("rung", "to epoch", "runs", "time", "disk")]
    start, kept, total, peak = 0, 0.0, 0.0, 0.0
    trials = len(study.trials) if s.sampler in sampling.PLAIN else s.trials
    sizes = halving.rung_sizes(trials, s.rungs, s.eta)
    for i, (end, size) in enumerate(zip(s.ends, sizes, strict=True)):
        runs = (size + (i > 0)) * s.seeds
        here = cost(end)
        seconds = runs * (here.seconds - (cost(start).seconds if start else 0.0) + 2.0)
        # Dropped runs keep their tables and policies, and lose their replay buffers.
        disk = kept + runs * here.disk
        keeps = row.on_policy or s.asynchronous  # there, runs are dropped only at the end
        small = here.disk - (0 if keeps else estimate.stored(here.memory))
        kept += max(0, runs - (sizes[i + 1] * s.seeds if i + 1 < s.rungs else 0)) * max(0, small)
        peak, total, start = max(peak, disk), total + seconds, end
        rows.append(
            (str(i + 1), str(end), str(runs), estimate.duration(seconds), size_text(int(disk)))
        )
    tests = _test_runs(s)
    if tests:
        left = min(trials, sizes[-1] + 1) * s.seeds * full.disk
        disk = kept + left + tests * full.disk
        peak, total = max(peak, disk), total + tests * full.seconds
        took = estimate.duration(tests * full.seconds)
        rows.append(("test", str(s.epochs), str(tests), took, size_text(int(disk))))
    widths = [max(len(r[i]) for r in rows) for i in range(5)]
    lines += ["  ".join(c.rjust(w) for c, w in zip(r, widths, strict=True)) for r in rows]
    workers = ready.launch.get("num_workers", 1)
    lines += [
        "",
        f"In all about {estimate.duration(total)} of computing, "
        f"{estimate.duration(total / workers)} with {workers} worker{'s' * (workers > 1)}; "
        f"{size_text(workers * full.memory)} of buffers in memory, and at most "
        f"{size_text(int(peak))} on disk at once.",
        *estimate.lacking(workers * full.memory, peak, study.folder),
        meter.basis() + " They are those of the default configuration.",
        "Nothing was created.",
    ]
    return "\n".join(lines)
