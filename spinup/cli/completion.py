"""Tab completion: `spinup completion bash` and `spinup completion zsh` print a script.

The script contains every word that it can complete, so pressing Tab does not start Python. It is
generated from the source files, without importing an algorithm or a framework.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from spinup import registry
from spinup.policies.activations import ACTIVATIONS
from spinup.runs.arguments import options
from spinup.runs.arguments.table import ARGUMENTS
from spinup.utils.argparsing import Parser
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
    from spinup.cli import flags as known
    from spinup.cli.main import TOOLS

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
        flags[name] = _tool_flags(module)
    for flag in ("--act", "--ac_kwargs:activation"):
        values[flag] = tuple(ACTIVATIONS)
    for flag in ("--env", "--env_name"):
        values[flag] = _environments()
    values["--executor"] = ("local", "ray", "slurm")
    commands = (*registry.exports(), *registry.outside(), *TOOLS, "help")
    return Words(commands, flags, values, _own_words("exercise"))


def _own_words(command: str) -> tuple[str, ...]:
    """Return what a command's module says may follow the command; nothing without the module."""
    from spinup.cli.main import TOOLS

    try:
        return tuple(import_named(TOOLS[command][0]).words())
    except SpinupError:
        return ()


def _choices(argument: str) -> tuple[str, ...]:
    """Return the named values of an argument."""
    return tuple(word for word in ARGUMENTS[argument].domain.words if isinstance(word, str))


def _source(module: str) -> ast.Module | None:
    """Parse one of our modules without importing it; return None if it has no file."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return None
    return ast.parse(Path(spec.origin).read_text(encoding="utf-8"))


def _signature(module: str, name: str) -> list[str]:
    """Return a training function's arguments; names of dict arguments end in a colon."""
    tree = _source(module)
    found = [n for n in (tree.body if tree else []) if isinstance(n, ast.FunctionDef)]
    function = next(n for n in found if n.name == name)
    named = [a.arg for a in (*function.args.args, *function.args.kwonlyargs)]
    for node in ast.walk(function.args.kwarg or ast.arg("")):  # Unpack[BUNDLE]
        named += options.names(node.id) if isinstance(node, ast.Name) else []
    return [n + (":" if n in ARGUMENTS and {} in ARGUMENTS[n].domain else "") for n in named]


def _tool_flags(module: str) -> tuple[str, ...]:
    """Return the long flags of a module's parser."""
    tree = _source(module)
    calls = [n for n in ast.walk(tree) if isinstance(n, ast.Call)] if tree else []
    found = {"--help"}
    for call in calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "add_argument":
            words = [a.value for a in call.args if isinstance(a, ast.Constant)]
            flags = [w for w in words if isinstance(w, str) and w.startswith("--")]
            found |= {re.sub(":.*", ":", flag) for flag in flags}  # --env_kwargs:NAME
    return tuple(sorted(found))


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


def _cases(rows: Iterable[tuple[str, str]], command: str, indent: int) -> str:
    pad = " " * indent
    return "\n".join(f"{pad}{pattern}) {command.format(words)} ;;" for pattern, words in rows)


def bash(words: Words) -> str:
    """Generate the script for bash."""
    return f"""\
# Tab completion of spinup for bash, written by `spinup completion bash`.
_spinup() {{
    # Avoid COMP_WORDS, because bash splits it at every colon.
    local line=${{COMP_LINE:0:COMP_POINT}} cur flag='' word='' words=() list=''
    cur=${{line##*[[:space:]]}}
    read -ra words <<< "${{line%"$cur"}}"
    COMPREPLY=()
    if (( ${{#words[@]}} < 2 )); then
        COMPREPLY=($(compgen -W "{" ".join(words.commands)}" -- "$cur"))
        return
    fi
    for word in "${{words[@]:2}}"; do
        [[ $word == --* ]] && flag=${{word%%\\[*}}
    done
    if [[ $cur == --*=* ]]; then
        flag=${{cur%%=*}} cur=${{cur#*=}}
    elif [[ $cur == -* ]]; then
        case ${{words[1]}} in
{_cases(_grouped(words.flags), 'list="{}"', 12)}
        esac
        COMPREPLY=($(compgen -W "$list" -- "$cur"))
        [[ ${{COMPREPLY[0]-}} == *: ]] && compopt -o nospace 2>/dev/null
        _spinup_after_colon "$cur"
        return
    fi
    case $flag in
{_cases(_grouped(words.values), 'list="{}"', 8)}
        {"|".join(_PATHS)})
            _spinup_paths "$cur"
            return ;;
    esac
    case ${{words[1]}} in
        completion) list="bash zsh" ;;
        exercise) list="{" ".join(words.exercises)}" ;;
        {"|".join(_RUNS)})
            if [[ -z $list ]]; then
                _spinup_paths "$cur"
                return
            fi ;;
    esac
    COMPREPLY=($(compgen -W "$list" -- "$cur"))
    _spinup_after_colon "$cur"
}}
_spinup_paths() {{
    local IFS=$'\n'  # names may contain spaces
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$1"))
}}
# Bash replaces only the text after the last colon, so keep only that part of each reply.
_spinup_after_colon() {{
    if [[ $1 == *:* && $COMP_WORDBREAKS == *:* ]]; then
        COMPREPLY=("${{COMPREPLY[@]#"${{1%"${{1##*:}}"}}"}}")
    fi
}}
complete -F _spinup spinup"""


def zsh(words: Words) -> str:
    """Generate the script for zsh, to evaluate or to save as `_spinup` in a folder of `fpath`."""
    return f"""\
#compdef spinup
# Tab completion of spinup for zsh, written by `spinup completion zsh`.
_spinup() {{
    local cur=${{words[CURRENT]}} flag='' word=''
    if (( CURRENT == 2 )); then
        compadd -- {" ".join(words.commands)}
        return
    fi
    for word in "${{(@)words[3,CURRENT-1]}}"; do
        [[ $word == --* ]] && flag=${{word%%\\[*}}
    done
    if [[ $cur == -* ]]; then
        case ${{words[2]}} in
{_cases(_grouped(words.flags), "compadd -- {}", 12)}
        esac
        return
    fi
    case $flag in
{_cases(_grouped(words.values), "compadd -- {}; return", 8)}
        {"|".join(_PATHS)}) _files; return ;;
    esac
    case ${{words[2]}} in
        completion) compadd -- bash zsh ;;
        exercise) compadd -- {" ".join(words.exercises)} ;;
        {"|".join(_RUNS)}) _files ;;
    esac
}}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _spinup "$@"
else
    compdef _spinup spinup
fi"""


SHELLS = {"bash": bash, "zsh": zsh}

_HELP = """\
For this shell only:   eval "$(spinup completion bash)"    (zsh: after compinit)
For every new bash:    spinup completion bash > ~/.spinup.bash; source that file in ~/.bashrc
For every new zsh:     spinup completion zsh > FOLDER/_spinup, with a FOLDER of $fpath
Repeat this after installing environments or a new version."""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the script for one shell."""
    parser = Parser(
        prog="spinup completion",
        description="Print a script for Tab completion of commands, flags and values.",
        epilog=_HELP,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("shell", nargs="*", help="bash or zsh")
    shells = parser.parse_args(argv).shell
    if len(shells) != 1 or shells[0] not in SHELLS:
        given = "nothing" if not shells else f"'{' '.join(shells)}'"
        raise SpinupError(
            f"'spinup completion' needs the name of a shell, bash or zsh, not {given}"
        )
    print(SHELLS[shells[0]](collect()))
    return 0
