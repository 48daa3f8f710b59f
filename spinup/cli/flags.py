"""Flags: the words of a command line, the arguments they name, the values they give.

Every keyword of a training function is a flag. What a value may be follows from the function's
default and docstring and from `spinup.runs.arguments`. Values are literals and are never
evaluated as code; what is wrong with one is said in one sentence (SpinupError).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import math
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinup.registry import nearest
from spinup.runs.arguments import DOMAINS
from spinup.utils.activations import activation
from spinup.utils.errors import SpinupError

# Short and original names of flags -> the key they stand for.
ALIASES = {
    "env": "env_name",
    "hid": "ac_kwargs:hidden_sizes",
    "act": "ac_kwargs:activation",
    "cpu": "num_cpu",
    "dt": "datestamp",
    "steps": "steps_per_epoch",
    "s": "seed",
}

# Keys that say how to run rather than what: one value each, never part of a grid.
RUN_KEYS = (
    "exp_name",
    "data_dir",
    "num_cpu",
    "hosts",
    "hostfile",
    "max_restarts",
    "log_all_ranks",
    "mpi_timeout",
    "datestamp",
    "config",
    "l",
    "dry_run",
    "num_workers",
    "executor",
    "cpus_per_cell",
    "gpus_per_cell",
    "ray_address",
)

# Dicts whose entries are not known here: `--env_kwargs:gravity 9.8`, `--slurm_options:time 60`.
OPEN_DICTS = ("env_kwargs", "slurm_options")

# Arguments of every algorithm that are about the run as a whole: one value each as well.
ONCE_KEYS = ("resume", "overwrite", "progress")

# Arguments that cannot be written as a literal.
NOT_FLAGS = {
    "env_fn": "name the environment with --env",
    "actor_critic": "pass a class from Python, or set its arguments with --ac_kwargs:KEY",
}

# Keys whose values stay the text they were typed as, `--exp_name 1` too.
TEXT_KEYS = (
    "env_name",
    "exp_name",
    "data_dir",
    "config",
    "hosts",
    "hostfile",
    "executor",
    "ray_address",
)

_KEY = r"[A-Za-z_]\w*(?::[\w-]*)*"  # options of sbatch, which are entries, hold dashes
_FLAG = re.compile(rf"--(?P<key>{_KEY})(?:\[(?P<sh>[^\]]*)\])?(?:=(?P<value>.*))?", re.S)
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"  # what word processors make of `--`


@dataclass(frozen=True)
class Flag:
    """One flag as typed: its key with aliases resolved, its shorthand, its words."""

    typed: str
    key: str
    shorthand: str | None
    words: tuple[str, ...]


# -------------------------------------------------------------------------------------------- words


def split_flags(words: Sequence[str]) -> list[Flag]:
    """Group `words` into flags and the values that follow each."""
    flags: list[Flag] = []
    for word in words:
        if word[:1] and word[0] in _DASHES:
            raise SpinupError(
                f"'{word}' starts with a typographic dash: write '--{word.lstrip(_DASHES + '-')}'."
            )
        if word == "-s":
            flags.append(Flag("-s", "seed", None, ()))
        elif word.startswith("--"):
            flags.append(_flag(word))
        elif word.startswith("-") and not _is_number(word):
            raise SpinupError(
                f"'{word}' is not a flag: flags start with two dashes (--gamma 0.99)."
            )
        elif not flags:
            raise SpinupError(
                f"'{word}' comes before any flag: write --env {word} if it is the environment."
            )
        else:
            last = flags.pop()
            flags.append(Flag(last.typed, last.key, last.shorthand, (*last.words, word)))
    seen: dict[str, str] = {}
    for flag in flags:
        if flag.key in seen:
            raise SpinupError(
                f"'{seen[flag.key]}' and '{flag.typed}' set the same argument: give all its values "
                "after one flag."
            )
        seen[flag.key] = flag.typed
    return flags


def _flag(word: str) -> Flag:
    match = _FLAG.fullmatch(word)
    if match is None or not all(match["key"].split(":")):
        raise SpinupError(
            f"'{word}' is not a well-formed flag: write --key, --key[shorthand] or --key:entry."
        )
    value = match["value"]
    key = ALIASES.get(match["key"], match["key"])
    return Flag("--" + match["key"], key, match["sh"], () if value is None else (value,))


def _is_number(word: str) -> bool:
    if isinstance(parse_value(word), int | float | tuple):
        return True
    try:
        float(word)  # -inf, -nan
    except ValueError:
        return False
    return True


def parse_value(word: str) -> Any:
    """A Python literal as its value, any other word as the text it is; nothing is executed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            value = ast.literal_eval(word.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return word
    return value if _is_plain(value) else word


def _is_plain(value: Any) -> bool:
    """Whether `value` is made of what JSON knows: no bytes, sets, complex numbers, Ellipsis."""
    if isinstance(value, list | tuple):
        return all(_is_plain(v) for v in value)
    if isinstance(value, dict):
        return all(isinstance(k, str) and _is_plain(v) for k, v in value.items())
    return value is None or isinstance(value, bool | int | float | str)


# ---------------------------------------------------------------------------------------- arguments


def arguments(algo_fn: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """The arguments of a training function that can be flags, in order.

    Those for which the docstring says what None or a 'word' in quotes does are annotated so.
    """
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    said = explanations(algo_fn)
    found: dict[str, inspect.Parameter] = {}
    for name, parameter in inspect.signature(algo_fn).parameters.items():
        if parameter.kind in kinds and name not in NOT_FLAGS:
            words = re.findall(r"\bNone\b|'\w+'", said.get(name, ""))
            if words and parameter.annotation is inspect.Parameter.empty:
                parameter = parameter.replace(annotation=" | ".join(words))
            found[name] = parameter
    return found


def entries_of(algo_fn: Callable[..., Any], key: str) -> dict[str, inspect.Parameter] | None:
    """The arguments that the dict argument `key` may hold; None when they cannot be known."""
    if key == "logger_kwargs":
        target: Any = importlib.import_module("spinup.runs.logger").Logger
        skip = 0
    elif key == "ac_kwargs":
        parameter = inspect.signature(algo_fn).parameters.get("actor_critic")
        target = None if parameter is None else parameter.default
        skip = 2  # observation_space, action_space
    else:
        return None
    if not callable(target) or target is inspect.Parameter.empty:
        return None
    parameters = list(inspect.signature(target).parameters.values())[skip:]
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
        return None
    return {p.name: p for p in parameters}


def parameter_of(algo_fn: Callable[..., Any], key: str, typed: str) -> inspect.Parameter:
    """The parameter that `key` sets; SpinupError with the nearest known flag when none does."""
    anything = inspect.Parameter("value", inspect.Parameter.KEYWORD_ONLY, default=None)
    if key in RUN_KEYS or key == "env_name":
        return anything
    known = arguments(algo_fn)
    name, _, entry = key.partition(":")
    if name in NOT_FLAGS:
        raise SpinupError(f"'{typed}' cannot be set on the command line: {NOT_FLAGS[name]}.")
    if name in OPEN_DICTS:
        if entry:
            return anything
        raise SpinupError(f"'{typed}' is a dict: set its entries, as in {typed}:KEY VALUE.")
    if name not in known:
        candidates = [*known, *ALIASES, *RUN_KEYS, *OPEN_DICTS, "env_name"]
        hint = nearest(name, candidates)
        if typed.startswith("--"):
            hint = hint.replace("'", "'--", 1)
        raise SpinupError(
            f"'{typed}' is not an argument of {algo_fn.__name__}{hint}; add --help to see them all."
        )
    if not entry:
        return known[name]
    if not isinstance(known[name].default, dict):
        raise SpinupError(f"'{typed}' names an entry, but '{name}' is not a dict: write --{name}.")
    entries = entries_of(algo_fn, name)
    if entries is None:
        return anything
    if entry not in entries:
        hint = nearest(entry, entries)
        raise SpinupError(
            f"'{name}' has no entry '{entry}'{hint}; it has {', '.join(entries) or 'none'}."
        )
    return entries[entry]


def backend_of(algo_fn: Callable[..., Any]) -> str:
    """The backend's folder that a training function's file lies in, '' for one from elsewhere."""
    parts = source_of(algo_fn).parts
    return parts[-3] if len(parts) >= 4 and parts[-4] == "algos" else ""


def source_of(algo_fn: Callable[..., Any]) -> Path:
    return Path(inspect.getsourcefile(inspect.unwrap(algo_fn)) or ".").resolve()


def explanations(algo_fn: Callable[..., Any]) -> dict[str, str]:
    """What the function's docstring says about each argument."""
    return explained(inspect.getdoc(algo_fn) or "")


def explained(docstring: str) -> dict[str, str]:
    """The arguments in a docstring (`name (type): text` entries) and what it says about each."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    indent = 0
    entry = re.compile(r"^(\s+)(\w+(?:\s*,\s*\w+)*)\s*(?:\([^)]*\))?\s*:(?:\s+(.*))?$")
    for line in docstring.splitlines():
        match = entry.match(line)
        depth = len(line) - len(line.lstrip())
        if match and (current is None or depth <= indent):
            indent = depth
            current = [match[3] or ""]
            for name in re.split(r"\s*,\s*", match[2]):
                found[name] = current
        elif current is not None and line.strip() and depth > indent:
            current.append(line.strip())
        elif line.strip():
            current = None
    return {name: " ".join(" ".join(lines).split()) for name, lines in found.items()}


# ------------------------------------------------------------------------------------------- values


def convert(value: Any, parameter: inspect.Parameter, typed: str) -> Any:
    """`value` as the argument's default says it should be; SpinupError when it cannot be that.

    A float argument accepts `inf`, and so does a limit that is an int; an int argument a float that
    is whole (`4e3`); both the words that the docstring has in quotes; a sequence argument a single
    value or words separated by commas.
    """
    default = parameter.default
    kind = _kind(parameter)
    if value is None and (default is None or "None" in str(parameter.annotation)):
        return value
    if kind is bool:
        text = str(value).lower()
        if text in ("true", "1", "false", "0"):
            return text in ("true", "1")
        raise SpinupError(f"'{typed}' is either True or False, not {value!r}.")
    named = isinstance(value, str) and f"'{value}'" in str(parameter.annotation)
    if named and kind in (int, float):
        return value
    if value is True and kind is not None:
        raise SpinupError(f"'{typed}' needs a value (its default is {default!r}).")
    if kind is int:
        domain = DOMAINS.get(parameter.name)
        if domain and domain.endless and str(value).lower() == "inf":
            return math.inf
        if isinstance(value, float) and value.is_integer():
            return int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value
        raise SpinupError(f"'{typed}' must be a whole number, not {value!r}.")
    if kind is float:
        if isinstance(value, str) and value.lower() in ("inf", "-inf"):
            return float(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value):
            return value
        raise SpinupError(f"'{typed}' must be a number, not {value!r}.")
    if kind is str:
        if not isinstance(value, str):
            raise SpinupError(f"'{typed}' must be a word, not {value!r}.")
        choices = choices_in(str(parameter.annotation))
        if choices and value.partition(":")[0] not in choices:  # cuda:1 is a cuda
            *first, last = choices
            raise SpinupError(f"'{typed}' must be {', '.join(first)} or {last}, not {value!r}.")
        return value
    if kind is tuple:
        if isinstance(value, str):
            value = [parse_value(word) for word in value.split(",") if word]
        return value if isinstance(value, list | tuple) else [value]
    if kind is dict:
        raise SpinupError(f"'{typed}' is a dict: set its entries, as in {typed}:KEY VALUE.")
    return value


def choices_in(text: str) -> tuple[str, ...]:
    """The words in quotes, which are what an argument that is a word may be."""
    return tuple(dict.fromkeys(re.findall(r"'(\w+)'", text)))


def _kind(parameter: inspect.Parameter) -> type | None:
    """The type of an argument, from its default or, where that is None, from its annotation."""
    if parameter.default is None:
        named = set(re.findall(r"\b(bool|int|float|str)\b", str(parameter.annotation)))
        kinds = {"bool": bool, "int": int, "float": float, "str": str}
        return kinds[named.pop()] if len(named) == 1 else None
    for kind in (bool, int, float, str, dict):  # bool first: True is an int as well
        if isinstance(parameter.default, kind):
            return kind
    return tuple if isinstance(parameter.default, list | tuple) else None


def _is_broken(word: str) -> bool:
    return any(word.count(a) != word.count(b) for a, b in ("[]", "()", "{}"))


def values_of(flag: Flag, parameter: inspect.Parameter, backend: str) -> list[Any]:
    """The values of a flag, each checked and converted."""
    if flag.key in TEXT_KEYS:
        if not flag.words or not all(flag.words):
            raise SpinupError(f"'{flag.typed}' needs a value.")
        return list(flag.words)
    values: list[Any] = []
    for word in flag.words:
        if _is_broken(word):
            raise SpinupError(
                f"'{word}' after '{flag.typed}' is half a list: leave out spaces, or quote it."
            )
        value = parse_value(word)
        # what sbatch gets stays as it was typed: a job may be called 1.10
        as_typed = flag.key.startswith("slurm_options:") and value is not True
        if _kind(parameter) is str or as_typed:
            value = word
        values.append(value_of(flag.key, value, parameter, backend, flag.typed))
    return values or [value_of(flag.key, True, parameter, backend, flag.typed)]


def value_of(key: str, value: Any, parameter: inspect.Parameter, backend: str, typed: str) -> Any:
    if key.startswith("ac_kwargs:") and key.endswith("activation"):
        return activation(value, backend, typed)
    if key == "ac_kwargs:hidden_sizes":
        return value if is_width(value) else _sizes(value, typed)
    if key in TEXT_KEYS and not isinstance(value, str):
        raise SpinupError(f"'{typed}' must be a name, not {value!r}.")
    return _inside(key, convert(value, parameter, typed), parameter, typed)


def _inside(key: str, value: Any, parameter: inspect.Parameter, typed: str) -> Any:
    """`value` if it lies in the domain of its argument, a whole number as an int."""
    name = key.removeprefix("base_kwargs:")
    domain = DOMAINS.get(name)
    named = isinstance(value, str) and _kind(parameter) in (int, float)  # the docstring knows it
    if domain is None or value is None or named:
        return value
    if value is True:
        raise SpinupError(f"'{typed}' needs a value (its default is {parameter.default!r}).")
    fault = domain.fault(value)
    if fault:
        raise SpinupError(f"'{typed}' {fault}, not {value!r}.")
    if name == "epochs" and value == 0:  # from Python it saves the policy as it was made
        raise SpinupError(f"'{typed}' must be at least 1: a run of no epochs trains nothing.")
    whole = domain.whole and isinstance(value, float) and math.isfinite(value)
    return int(value) if whole else value


def is_width(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _sizes(value: Any, typed: str) -> Any:
    if value is True:
        raise SpinupError(f"'{typed}' needs a value, such as 64,64.")
    if isinstance(value, list | tuple) and all(is_width(v) for v in value):
        return value
    raise SpinupError(
        f"'{typed}' is a list of layer widths such as 64,64, or one width, not {value!r}."
    )
