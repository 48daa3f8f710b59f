"""The command line: `spinup CMD ...`, and `python ppo.py ...` (`run_file`).

This module only selects the command: the algorithms come from the registry, and their flags from
their signatures (`spinup.cli.plan`).
"""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Sequence
from typing import Any

from spinup import __version__, registry
from spinup.cli import plan as cli
from spinup.cli.flags import source_of
from spinup.cli.usage import usage, wants_help
from spinup.parallel.mpi import abort, num_procs
from spinup.utils.command import program
from spinup.utils.errors import SpinupError, nearest, one_line
from spinup.utils.importing import import_named

# Commands that are not algorithms -> (module whose `main(argv)` runs the command, description).
TOOLS = {
    "plot": ("spinup.cli.plot", "plot learning curves of one or more run directories"),
    "compare": (
        "spinup.cli.compare",
        "compare algorithms: which is better, with confidence intervals",
    ),
    "tune": (
        "spinup_tune.command",
        "search for hyperparameters, and test the best on fresh seeds",
    ),
    "test_policy": ("spinup.cli.test_policy", "watch or measure a trained policy"),
    "export": ("spinup.cli.export", "export a trained policy to an ONNX file"),
    "check_env": ("spinup.cli.check_env", "check an environment before training in it"),
    "doctor": ("spinup_lab.commands.doctor", "examine runs: why they may not learn"),
    "probe": ("spinup_lab.commands.probe", "find the broken part of an algorithm, yours or ours"),
    "runs": ("spinup.cli.runs", "list runs: status, epochs, return, age, how to continue"),
    "algos": ("spinup.cli.algos", "list the algorithms and what they support"),
    "envs": ("spinup.cli.envs", "list the environments that can be made here"),
    "presets": ("spinup.cli.presets", "list shipped hyperparameters and what they reached"),
    "exercise": (
        "spinup_lab.commands.exercise",
        "learn by writing the algorithms, judged",
    ),
    "docs": ("spinup.cli.docs", "open the documentation, without a network"),
    "new": ("spinup.cli.new", "write the files of an algorithm of your own"),
    "completion": ("spinup.cli.completion", "print a script for Tab completion in bash or zsh"),
}


def parse_and_execute_grid_search(cmd: str, args: Sequence[str]) -> None:
    """Run algorithm `cmd` (`ppo`, `ppo_pytorch`) with the words `args` of a command line."""
    name, backend = registry.resolve(cmd)
    # Reject malformed words before loading a framework.
    cli.split_flags([word for word in args if word != "-h"])
    function = registry.load(name, backend)
    if wants_help(args):
        print(usage(function, f"spinup {cmd}", {}))
        return
    ready = cli.plan(function, args, f"cmd_{name}_{backend}", backend)
    cli.execute(function, ready, [*program(), cmd, *args])


def _list(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def _is_outside(cmd: str) -> bool:
    """Return whether a word names an algorithm outside this package, with or without a backend."""
    return any(cmd == name or cmd.startswith(f"{name}_") for name in registry.outside())


def overview() -> str:
    """Return the text of `spinup --help`."""
    others = "".join(f"\n  {name:<14}installed separately" for name in registry.outside())
    rows = "\n".join(
        f"  {row.name:<14}{'on' if row.on_policy else 'off'}-policy, "
        f"{'any' if len(row.action_spaces) == 4 else _list(row.action_spaces)} actions "
        f"({_list(row.backends)})"
        for row in registry.ROWS
    )
    tools = "\n".join(f"  {name:<14}{text}" for name, (_, text) in TOOLS.items())
    example = registry.exports()[1]
    return f"""usage: spinup CMD ...        (or python -m spinup.run CMD ...)

Train an algorithm:
{rows}{others}
  A bare name uses the default backend; {example} selects one.

Other commands:
{tools}
  help          show this text; 'spinup CMD --help' explains its arguments
  --version     show the versions of spinup and of what it runs on

For example:
  spinup ppo --env CartPole-v1 --hid 32,32 --exp_name installtest
  spinup test_policy data/installtest/installtest_s0
  spinup plot data/installtest/installtest_s0
  spinup ppo --preset CartPole-v1
  spinup ppo --env CartPole-v1 --gamma 0.98 0.99 --seed 0 10    (a grid: 4 runs)
  spinup ppo --env CartPole-v1 --seed 0 10 --dry_run    (only estimates)"""


def version() -> str:
    """Return the versions that matter in a bug report, without importing the packages."""
    from importlib import metadata

    found = [f"spinup {__version__}", f"python {sys.version.split()[0]}"]
    packages = ("torch", "gymnasium", "numpy", "mujoco", "mpi4py", "tensorflow", "tensorflow-cpu")
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found.append(f"{package} {metadata.version(package)}")
    return "\n".join(found)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; invalid input prints a sentence and gives 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    return _while_somebody_reads(lambda: _run(*(words or ["help"])), words)


def _run(cmd: str, *args: str) -> int:
    try:
        if cmd in ("help", "-h", "--help"):
            print(overview())
        elif cmd in ("--version", "-V", "version"):
            print(version())
        elif cmd in TOOLS:
            return int(import_named(TOOLS[cmd][0]).main(list(args)) or 0)
        elif cmd.partition("_")[0] in registry.algorithms() or _is_outside(cmd):
            parse_and_execute_grid_search(cmd, args)
        else:
            known = [*registry.exports(), *registry.outside(), *TOOLS, "help"]
            hint = nearest(cmd, known)
            raise SpinupError(f"'{cmd}' is not a command: 'spinup help' lists them{hint}")
    except SpinupError as error:
        return fail(error)
    except KeyboardInterrupt:  # the run has saved its state and printed how to continue
        return 130
    return 0


def _while_somebody_reads(run: Callable[[], int], words: Sequence[str]) -> int:
    """Call `run`; end quietly if the reader of the output ends first, as in `spinup envs | head`.

    Only training then fails, with the exit code of a program that a closed pipe ends.
    """
    try:
        code = run()
        sys.stdout.flush()
    except BrokenPipeError:
        if not _has_no_reader(sys.stdout.fileno()):
            raise  # another pipe, such as one to a worker
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        printing = ("--help", "-h", "--version", "-V", "--dry_run", "help", "version", *TOOLS)
        return 0 if not words or any(word in printing for word in words) else 141
    return code


def _has_no_reader(fd: int) -> bool:
    if not hasattr(select, "poll"):  # Windows
        return True
    pipe = select.poll()
    pipe.register(fd, 0)
    return any(event & select.POLLERR for _, event in pipe.poll(0))


def run_file(algo_fn: Callable[..., Any], argv: Sequence[str] | None = None) -> None:
    """Run an algorithm's file with the `config.json` next to it, which flags override.

    Exits with code 2 and a one-sentence error if the command line is invalid.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    code = _while_somebody_reads(lambda: _run_file(algo_fn, words), words)
    if code:
        sys.exit(code)


def _run_file(algo_fn: Callable[..., Any], words: Sequence[str]) -> int:
    file = source_of(algo_fn)
    preset = file.with_name("config.json")
    try:
        if wants_help(words):
            shown = cli.preset_keys(cli.read_preset(preset), preset) if preset.is_file() else {}
            print(usage(algo_fn, f"python {file.name}", shown))
            return 0
        found = preset if preset.is_file() else None
        ready = cli.plan(algo_fn, words, algo_fn.__name__, preset=found)
        cli.execute(algo_fn, ready, ["python", os.path.relpath(file), *words])
    except SpinupError as error:
        return fail(error)
    except KeyboardInterrupt:  # the run has saved its state and printed how to continue
        return 130
    return 0


def fail(error: SpinupError) -> int:
    """Print the error in one line and return the exit code."""
    sentence = f"spinup: {one_line(error)}"
    try:
        several = num_procs() > 1
    except SpinupError:  # MPI itself may be the problem
        several = False
    if several:
        abort(sentence, 2)  # the other processes may be unaware of the error
    print(sentence, file=sys.stderr)
    return int(getattr(error, "exit_code", 2))  # 1 if the input was valid but runs failed
