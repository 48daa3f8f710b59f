"""The command line: `python -m spinup.run CMD ...`, also installed as `spinup CMD ...`.

Parse and dispatch, nothing else: the algorithms come from the registry, their flags from their
signatures (`spinup.cli.plan`).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

from spinup import registry
from spinup.cli import plan as cli
from spinup.utils.errors import SpinupError

# Commands that are not algorithms -> the module whose `main(argv)` does the work, what it does.
TOOLS = {
    "plot": ("spinup.analysis.plot", "learning curves of one or more run directories"),
    "compare": ("spinup.analysis.compare", "which algorithm is better, and how sure that is"),
    "test_policy": ("spinup.policies.play", "watch or measure a trained policy"),
    "export": ("spinup.policies.export", "write a trained policy as an ONNX file"),
    "completion": ("spinup.cli.completion", "a script for Tab completion in bash or zsh"),
}


def parse_and_execute_grid_search(cmd: str, args: Sequence[str]) -> None:
    """Run algorithm `cmd` (`ppo`, `ppo_pytorch`) with the words `args` of a command line."""
    name, backend = registry.resolve(cmd)
    cli.split_flags([word for word in args if word != "-h"])  # malformed: no need for a framework
    function = registry.load(name, backend)
    if cli.wants_help(args):
        print(cli.usage(function, f"spinup {cmd}", {}))
        return
    cli.execute(function, cli.plan(function, args, f"cmd_{name}_{backend}", backend))


def _list(words: Sequence[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def overview() -> str:
    """The text of `spinup --help`."""
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
  A bare name takes the default backend; {example} names one.

Look at the result:
{tools}

  help          this text; 'spinup CMD --help' explains every argument of CMD

For example:
  spinup ppo --env CartPole-v1 --hid 32,32 --exp_name installtest
  spinup test_policy data/installtest/installtest_s0
  spinup plot data/installtest/installtest_s0
  spinup ppo --env CartPole-v1 --gamma 0.98 0.99 --seed 0 10 20      (a grid: six runs)
  spinup ppo --env CartPole-v1 --seed 0 10 20 --dry_run              (what it would cost)"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code (2 and one sentence for wrong input)."""
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
            hint = registry.nearest(cmd, [*registry.exports(), *TOOLS, "help"])
            raise SpinupError(f"'{cmd}' is not a command{hint}; 'spinup help' lists them.")
    except SpinupError as error:
        return cli.fail(error)
    except KeyboardInterrupt:  # the run has saved itself and said how to go on
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
