"""The command line: `spinup CMD ...`, and `python ppo.py ...` (`run_file`).

This module only selects the command: the algorithms come from the registry, and their flags from
their signatures (`spinup.cli.plan`).
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from typing import Any

from spinup import registry
from spinup.cli import plan as cli
from spinup.cli.flags import source_of
from spinup.cli.usage import usage, wants_help
from spinup.utils.errors import SpinupError, nearest
from spinup.utils.mpi_tools import abort, num_procs

# Commands that are not algorithms -> (module whose `main(argv)` runs the command, description).
TOOLS = {
    "plot": ("spinup.analysis.plot", "plot learning curves of one or more run directories"),
    "compare": (
        "spinup.analysis.compare",
        "compare algorithms: which is better, with confidence intervals",
    ),
    "test_policy": ("spinup.policies.play", "watch or measure a trained policy"),
    "export": ("spinup.policies.export", "export a trained policy to an ONNX file"),
    "check_env": ("spinup.cli.check_env", "check an environment before training in it"),
    "completion": ("spinup.cli.completion", "print a script for Tab completion in bash or zsh"),
}


def parse_and_execute_grid_search(cmd: str, args: Sequence[str]) -> None:
    """Run algorithm `cmd` (`ppo`, `ppo_pytorch`) with the words `args` of a command line."""
    name, backend = registry.resolve(cmd)
    cli.split_flags(
        [word for word in args if word != "-h"]
    )  # reject malformed words before loading a framework
    function = registry.load(name, backend)
    if wants_help(args):
        print(usage(function, f"spinup {cmd}", {}))
        return
    ready = cli.plan(function, args, f"cmd_{name}_{backend}", backend)
    cli.execute(function, ready, [*_program(), cmd, *args])


def _program() -> list[str]:
    """Return the words that start this program, as the user can repeat them."""
    path, name = sys.argv[0], os.path.basename(sys.argv[0])
    if path.endswith(os.path.join("spinup", "run.py")):
        return ["python", "-m", "spinup.run"]
    return [path] if name == "spinup" and shutil.which("spinup") is None else ["spinup"]


def _list(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def overview() -> str:
    """Return the text of `spinup --help`."""
    rows = "\n".join(
        f"  {row.name:<14}{'on' if row.on_policy else 'off'}-policy, "
        f"{_list(row.action_spaces)} actions ({_list(row.backends)})"
        for row in registry.ROWS
    )
    tools = "\n".join(f"  {name:<14}{text}" for name, (_, text) in TOOLS.items())
    example = registry.exports()[1]
    return f"""usage: spinup CMD ...        (or python -m spinup.run CMD ...)

Train an algorithm:
{rows}
  A bare name uses the default backend; a name such as {example} selects one.

Look at the results:
{tools}

  help          show this text; 'spinup CMD --help' explains every argument of CMD

For example:
  spinup ppo --env CartPole-v1 --hid 32,32 --exp_name installtest
  spinup test_policy data/installtest/installtest_s0
  spinup plot data/installtest/installtest_s0
  spinup ppo --env CartPole-v1 --gamma 0.98 0.99 --seed 0 10 20      (a grid: six runs)
  spinup ppo --env CartPole-v1 --seed 0 10 20 --dry_run              (estimate the cost first)"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code; invalid input prints a sentence and gives 2."""
    words = list(sys.argv[1:] if argv is None else argv)
    cmd, args = (words[0], words[1:]) if words else ("help", [])
    try:
        if cmd in ("help", "-h", "--help"):
            print(overview())
        elif cmd in TOOLS:
            return importlib.import_module(TOOLS[cmd][0]).main(args) or 0
        elif cmd.partition("_")[0] in registry.algorithms():
            parse_and_execute_grid_search(cmd, args)
        else:
            hint = nearest(cmd, [*registry.exports(), *TOOLS, "help"])
            raise SpinupError(f"'{cmd}' is not a command: 'spinup help' lists them{hint}")
    except SpinupError as error:
        return fail(error)
    except KeyboardInterrupt:  # the run has saved its state and printed how to continue
        return 130
    return 0


def run_file(algo_fn: Callable[..., Any], argv: Sequence[str] | None = None) -> None:
    """Run an algorithm's file with the `config.json` next to it, which flags override.

    Exits with code 2 and a one-sentence error if the command line is invalid.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    file = source_of(algo_fn)
    preset = file.with_name("config.json")
    try:
        if wants_help(words):
            shown = cli.preset_keys(cli.read_preset(preset), preset) if preset.is_file() else {}
            print(usage(algo_fn, f"python {file.name}", shown))
            return
        found = preset if preset.is_file() else None
        ready = cli.plan(algo_fn, words, algo_fn.__name__, preset=found)
        cli.execute(algo_fn, ready, ["python", os.path.relpath(file), *words])
    except SpinupError as error:
        sys.exit(fail(error))
    except KeyboardInterrupt:  # the run has saved its state and printed how to continue
        sys.exit(130)


def fail(error: SpinupError) -> int:
    """Print the error in one line and return the exit code."""
    sentence = f"spinup: {' '.join(str(error).split())}"
    try:
        several = num_procs() > 1
    except SpinupError:  # MPI itself may be the problem
        several = False
    if several:
        abort(sentence, 2)  # the other processes may be unaware of the error
    print(sentence, file=sys.stderr)
    return int(getattr(error, "exit_code", 2))  # 1 if the input was valid but runs failed
