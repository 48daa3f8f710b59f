"""Tab completion: `spinup completion bash` and `spinup completion zsh` print a script.

The script contains every word that it can complete, so pressing Tab does not start Python. It is
generated from the source files, without importing an algorithm or a framework.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from spinup import registry
from spinup.cli import flags as known
from spinup.cli.main import TOOLS
from spinup.cli.parsers import command_parser, command_table
from spinup.cli.templates import template
from spinup.policies.activations import ACTIVATIONS
from spinup.runs.arguments import options
from spinup.runs.arguments.table import ARGUMENTS
from spinup.utils.errors import SpinupError
from spinup.utils.importing import import_named

# Flags of training commands whose value is a path.
_PATHS = ("--config", "--data_dir", "--hostfile", "--logger_kwargs:output_dir")
# Commands whose positional arguments are run directories.
_RUNS = ("plot", "compare", "test_policy", "export")


@dataclass(frozen=True)
class Words:
    """The words that can be completed.

    Attributes:
        commands: the possible first words.
        flags: command -> its flags.
        values: flag -> its values, if they can be listed.
        exercises: commands and ids of `spinup exercise`.
    """

    commands: tuple[str, ...]
    flags: dict[str, tuple[str, ...]]
    values: dict[str, tuple[str, ...]]
    exercises: tuple[str, ...] = ()


def collect() -> Words:
    """Collect all words from the registry, the source files and Gymnasium."""
    flags: dict[str, tuple[str, ...]] = {}
    values = {f"--{name}": _choices(name) for name in ARGUMENTS if _choices(name)}
    always = [*known.ALIASES, *known.RUN_KEYS, "env_name", "help"]
    always += [f"{name}:" for name in known.OPEN_DICTS]
    for row in registry.ROWS:
        for backend in row.backends:
            arguments = _signature(row.module(backend), row.name)
            names = [name for name in (*arguments, *always) if name not in known.NOT_FLAGS]
            flags[f"{row.name}_{backend}"] = tuple(sorted(f"--{n}" for n in names if n != "s"))
        flags[row.name] = flags[f"{row.name}_{row.default_backend()}"]
    for name, (module, _) in TOOLS.items():
        flags[name] = _tool_flags(name, module)
    for flag in ("--act", "--ac_kwargs:activation"):
        values[flag] = tuple(ACTIVATIONS)
    for flag in ("--env", "--env_name"):
        values[flag] = _environments()
    values["--executor"] = ("local", "ray", "slurm")
    commands = (*registry.exports(), *registry.outside(), *TOOLS, "help")
    return Words(commands, flags, values, _own_words("exercise"))


def _own_words(command: str) -> tuple[str, ...]:
    """Return what a command's module says may follow the command; nothing without the module."""
    try:
        return tuple(import_named(TOOLS[command][0]).words())
    except SpinupError:
        return ()


def _choices(argument: str) -> tuple[str, ...]:
    """Return the named values of an argument."""
    return tuple(word for word in ARGUMENTS[argument].domain.words if isinstance(word, str))


def _file(module: str) -> str | None:
    """Return the file of one of our modules without importing it; None if it is not installed."""
    if importlib.util.find_spec(module.partition(".")[0]) is None:
        return None
    spec = importlib.util.find_spec(module)
    return spec.origin if spec else None


def _parsed(file: str) -> ast.Module:
    return ast.parse(Path(file).read_text(encoding="utf-8"))


def _signature(module: str, name: str) -> list[str]:
    """Return a training function's arguments; names of dict arguments end in a colon."""
    file = _file(module)
    found = [n for n in (_parsed(file).body if file else []) if isinstance(n, ast.FunctionDef)]
    function = next(n for n in found if n.name == name)
    named = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
    for node in ast.walk(function.args.kwarg or ast.arg("")):  # Unpack[BUNDLE]
        named += options.names(node.id) if isinstance(node, ast.Name) else []
    return [n + (":" if n in ARGUMENTS and {} in ARGUMENTS[n].domain else "") for n in named]


def _tool_flags(name: str, module: str) -> tuple[str, ...]:
    """Return the long flags of a command, in the table beside its module or in its parser."""
    file = _file(module)
    if file is None:
        return ("--help",)
    mine = [row for key, row in command_table(file).items() if key.split()[0] == name]
    found = {flag for row in mine for flag in row.get("arguments", ())}
    for call in ast.walk(_parsed(file)):
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "add_argument":
            found |= {a.value for a in call.args if isinstance(a, ast.Constant)}
    flags = {re.sub(":.*", ":", flag) for flag in found if str(flag).startswith("--")}
    return tuple(sorted({"--help", *flags}))  # --env_kwargs:NAME


def _environments() -> tuple[str, ...]:
    import gymnasium

    import spinup.envs  # noqa: F401  registers our environments

    return tuple(sorted(gymnasium.registry))


# ------------------------------------------------------------------------------------- the scripts


def _grouped(table: dict[str, tuple[str, ...]]) -> list[tuple[str, str]]:
    """Return (keys as a `case` pattern, words) pairs; keys with equal words share one pair."""
    keys: dict[tuple[str, ...], list[str]] = {}
    for key, words in table.items():
        keys.setdefault(words, []).append(key)
    return [("|".join(names), " ".join(words)) for words, names in keys.items()]


def _script(shell: str, words: Words, flag: str, value: str) -> str:
    """Fill in the script of a shell; `flag` and `value` are what it does with lists of words."""

    def cases(table: dict[str, tuple[str, ...]], command: str, indent: int) -> str:
        rows = [f"{keys}) {command.format(listed)} ;;" for keys, listed in _grouped(table)]
        return "\n".join(" " * indent + row for row in rows)

    text = template(f"completion.{shell}").rstrip("\n")
    for name, filled in (
        ("COMMANDS", " ".join(words.commands)),
        ("EXERCISES", " ".join(words.exercises)),
        ("PATHS", "|".join(_PATHS)),
        ("RUNS", "|".join(_RUNS)),
        ("FLAGS", cases(words.flags, flag, 12)),
        ("VALUES", cases(words.values, value, 8)),
    ):
        text = text.replace(f"@{name}@", filled)
    return text


def bash(words: Words) -> str:
    """Generate the script for bash."""
    return _script("bash", words, 'list="{}"', 'list="{}"')


def zsh(words: Words) -> str:
    """Generate the script for zsh, to evaluate or to save as `_spinup` in a folder of `fpath`."""
    return _script("zsh", words, "compadd -- {}", "compadd -- {}; return")


SHELLS = {"bash": bash, "zsh": zsh}


def main(argv: Sequence[str] | None = None) -> int:
    """Print the script for one shell."""
    shells = command_parser("completion").parse_args(argv).shell
    if len(shells) != 1 or shells[0] not in SHELLS:
        given = "nothing" if not shells else f"'{' '.join(shells)}'"
        raise SpinupError(
            f"'spinup completion' needs the name of a shell, bash or zsh, not {given}"
        )
    print(SHELLS[shells[0]](collect()))
    return 0
