"""Parse flags: the words of a command line, the arguments they set, and their values.

Every keyword of a training function is a flag. The table in `spinup.runs.arguments`, else the
function's annotation, else the default determines which values it accepts. Values are literals and
are never evaluated as code; an invalid value raises a one-sentence SpinupError.
"""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinup import registry
from spinup.grids.experiments import EXECUTORS
from spinup.policies.activations import activation
from spinup.runs.arguments import synonyms
from spinup.runs.arguments.domains import Domain, Kind, Number, OneOf, hint
from spinup.runs.arguments.table import ARGUMENTS, described
from spinup.utils.argparsing import parse_value
from spinup.utils.errors import SpinupError, nearest

# Short and original names of flags -> the keys that they stand for.
ALIASES = {
    "env": "env_name",
    "hid": "ac_kwargs:hidden_sizes",
    "act": "ac_kwargs:activation",
    "cpu": "num_cpu",
    "dt": "datestamp",
    "steps": "steps_per_epoch",
    "s": "seed",
}


def is_width(value: Any) -> bool:
    """Return whether a value is a whole number above zero."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# mpirun passes the names on to ssh, which would take one that begins with a dash for an option.
_HOSTS = re.compile(r"[\w.:\[\]][\w.:\[\]-]*(,[\w.:\[\]][\w.:\[\]-]*)*")
_TEXT = Kind(lambda value: isinstance(value, str), "a name")
_SWITCH = OneOf((True, False))

# Keys that control how to run, not what to train, and their values: one each, never part of a grid.
RUN_KEYS: Mapping[str, Domain] = {
    "exp_name": _TEXT,
    "data_dir": _TEXT,
    "num_cpu": Kind(lambda value: value == "auto" or _is_whole(value), "a whole number or 'auto'"),
    "hosts": Kind(
        lambda value: isinstance(value, str) and _HOSTS.fullmatch(value) is not None,
        "names of machines, such as a,b or a:4,b:4",
    ),
    "hostfile": _TEXT,
    "max_restarts": Kind(lambda value: _is_whole(value) and value >= 0, "a whole number"),
    "log_all_ranks": _SWITCH,
    "mpi_timeout": Kind(lambda value: value in Number(0, above=True), "a number of seconds"),
    "datestamp": _SWITCH,
    "config": _TEXT,
    "preset": _TEXT,
    "trust": _SWITCH,
    "track": _TEXT,
    "l": Kind(is_width, "the number of layers"),
    "dry_run": _SWITCH,
    "num_workers": Number(1, whole=True),
    "executor": Kind(lambda value: value in EXECUTORS, "local, ray or slurm"),
    "cpus_per_cell": Number(1, whole=True),
    "gpus_per_cell": Number(),
    "ray_address": _TEXT,
}

# Dicts with arbitrary entries: `--env_kwargs:gravity 9.8`, `--slurm_options:time 60`.
OPEN_DICTS = ("env_kwargs", "slurm_options")

# Arguments that concern the whole run: they also take one value each.
ONCE_KEYS = ("resume", "overwrite", "progress")

# Arguments that cannot be written as a literal.
NOT_FLAGS = {
    "env_fn": "use --env to name the environment",
    "on_epoch": "pass a function from Python",
    "actor_critic": "pass it from Python, or use --ac_kwargs:KEY for its arguments",
}

# Arguments of graph functions that the run itself passes, or that cannot be written as a literal.
_NOT_ENTRIES = ("action_space", "policy")

# Keys whose values are always text, even in `--exp_name 1`.
TEXT_KEYS = (
    *("env_name", "hosts", "executor"),
    *(key for key, domain in RUN_KEYS.items() if domain is _TEXT),
)

_KEY = r"[A-Za-z_][\w-]*(?::[\w-]*)*"  # entries may contain dashes, as in options of sbatch
_FLAG = re.compile(rf"--(?P<key>{_KEY})(?:\[(?P<sh>[^\]]*)\])?(?:=(?P<value>.*))?", re.S)
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"  # word processors substitute these


@dataclass(frozen=True)
class Flag:
    """One flag: its text as typed, its key with aliases resolved, its shorthand and its words."""

    typed: str
    key: str
    shorthand: str | None
    words: tuple[str, ...]


# -------------------------------------------------------------------------------------------- words


def split_flags(words: Sequence[str]) -> list[Flag]:
    """Group `words` into flags, each with the values that follow it."""
    flags: list[Flag] = []
    for word in words:
        if word[:1] and word[0] in _DASHES:
            raise SpinupError(
                f"'{word}' begins with a typographic dash: write '--{word.lstrip(_DASHES + '-')}'"
            )
        if word == "-s":
            flags.append(Flag("-s", "seed", None, ()))
        elif word.startswith("--"):
            flags.append(_flag(word))
        elif word.startswith("-") and not _is_number(word):
            raise SpinupError(
                f"'{word}' is not a flag: flags begin with two dashes, as in --gamma 0.99"
            )
        elif not flags:
            raise SpinupError(
                f"'{word}' is not preceded by a flag: write --env {word} if it is the environment"
            )
        else:
            last = flags.pop()
            flags.append(Flag(last.typed, last.key, last.shorthand, (*last.words, word)))
    return flags


def translate(flags: Sequence[Flag], algo_fn: Callable[..., Any]) -> list[Flag]:
    """Replace the words of other libraries that mean the same; raise with advice for the others.

    Also raises if two flags set the same argument.
    """
    ours = {*arguments(algo_fn), *RUN_KEYS, *OPEN_DICTS, *NOT_FLAGS, "env_name"}
    found: dict[str, Flag] = {}
    for flag in flags:
        if flag.key not in ours and ":" not in flag.key:
            flag = _translated(flag, flags, algo_fn)
        if flag.key in found:
            raise SpinupError(
                f"'{found[flag.key].typed}' and '{flag.typed}' set the same argument: put all its "
                "values after one flag"
            )
        found[flag.key] = flag
    return list(found.values())


def _translated(flag: Flag, flags: Sequence[Flag], algo_fn: Callable[..., Any]) -> Flag:
    """Replace a word that is not ours by ours, if there is one with the same meaning."""
    known = {name: p.default for name, p in arguments(algo_fn).items()}
    parsed = {flag.key: parse_value(flag.words[0]) if flag.words else True for flag in flags}
    name = synonyms.same(flag.key, known)
    if name is not None:
        return dataclasses.replace(flag, key=name)
    settings = {**known, **{key: value for key, value in parsed.items() if key in known}}
    advice = synonyms.advice(flag.key, parsed[flag.key], settings)
    if advice is None:
        return flag
    raise SpinupError(
        f"'{flag.typed}' is not an argument of {algo_fn.__name__}: {synonyms.as_flags(advice)}"
    )


def naming_order(flags: Iterable[Flag]) -> list[str]:
    """Return the flags' keys in the order in which they appear in the names of runs.

    Directories are named as in the original Spinning Up: first the flags as typed, then those with
    a shorthand, then `--env`, `--hid` and `--act`, in this order.
    """
    last = ("--env", "--hid", "--act")

    def place(flag: Flag) -> int:
        return 2 + last.index(flag.typed) if flag.typed in last else flag.shorthand is not None

    return [flag.key for flag in sorted(flags, key=place)]


def _flag(word: str) -> Flag:
    match = _FLAG.fullmatch(word)
    if match is None or not all(match["key"].split(":")):
        raise SpinupError(
            f"'{word}' is not a valid flag: write --key, --key[shorthand] or --key:entry"
        )
    value = match["value"]
    name, colon, entry = match["key"].partition(":")
    key = name.replace("-", "_") + colon + entry  # --num-envs is --num_envs
    key = ALIASES.get(key, key)
    return Flag("--" + match["key"], key, match["sh"], () if value is None else (value,))


def _is_number(word: str) -> bool:
    if isinstance(parse_value(word), int | float | tuple):
        return True
    try:
        float(word)  # -inf, -nan
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------------------------- arguments


def arguments(algo_fn: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    """Return the arguments of a training function that can be flags, in order."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = _parameters(algo_fn)
    return {n: p for n, p in parameters.items() if p.kind in kinds and n not in NOT_FLAGS}


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    """Return a function's parameters, with annotations that are text evaluated if they can be."""
    try:
        return inspect.signature(function, eval_str=True).parameters
    except (NameError, AttributeError, SyntaxError, TypeError):  # for type checkers only
        return inspect.signature(function).parameters


def entries_of(algo_fn: Callable[..., Any], key: str) -> dict[str, inspect.Parameter] | None:
    """Return the entries that the dict argument `key` may have; None if they are unknown."""
    if key == "logger_kwargs":
        target: Any = importlib.import_module("spinup.runs.logger").Logger
        skip = 0
    elif key == "ac_kwargs":
        parameter = inspect.signature(algo_fn).parameters.get("actor_critic")
        target = None if parameter is None else parameter.default
        skip = 2  # observation_space and action_space; or the placeholders x and a
    else:
        return None
    if not callable(target) or target is inspect.Parameter.empty:
        return None
    parameters = list(_parameters(target).values())[skip:]
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
        return None
    return {p.name: p for p in parameters if p.name not in _NOT_ENTRIES}


def usual_sizes(algo_fn: Callable[..., Any]) -> tuple[int, ...] | None:
    """Return the default widths of the hidden layers for vectors; None if they are unknown."""
    entry = (entries_of(algo_fn, "ac_kwargs") or {}).get("hidden_sizes")
    networks = inspect.signature(algo_fn).parameters.get("actor_critic")
    usual = getattr(entry, "default", None) or getattr(
        getattr(networks, "default", None), "HIDDEN_SIZES", None
    )
    return tuple(usual) if isinstance(usual, list | tuple) and usual else None


def parameter_of(algo_fn: Callable[..., Any], key: str, typed: str) -> inspect.Parameter:
    """Return the parameter that `key` sets, or raise an error that suggests the nearest flag."""
    known = arguments(algo_fn)
    name, _, entry = key.partition(":")
    if name in known and not entry:
        return known[name]
    if key in RUN_KEYS or key == "env_name" or (name in OPEN_DICTS and entry):
        return _ANYTHING
    if name not in known:
        raise _unknown(algo_fn, name, typed)
    if not isinstance(known[name].default, dict):
        raise SpinupError(f"'{typed}' names an entry, but '{name}' is not a dict: write --{name}")
    entries = entries_of(algo_fn, name)
    if entries is None:
        return _ANYTHING
    if entry not in entries:
        hint = nearest(entry, entries)
        raise SpinupError(
            f"'{name}' has no entry '{entry}': it has {', '.join(entries) or 'none'}{hint}"
        )
    return entries[entry]


_ANYTHING = inspect.Parameter("value", inspect.Parameter.KEYWORD_ONLY, default=None)


def _unknown(algo_fn: Callable[..., Any], name: str, typed: str) -> SpinupError:
    """Return the error for a flag that sets no argument."""
    if name in NOT_FLAGS:
        return SpinupError(f"'{typed}' cannot be set on the command line: {NOT_FLAGS[name]}")
    if name in OPEN_DICTS:
        return SpinupError(f"'{typed}' is a dict: set its entries, as in {typed}:KEY VALUE")
    dashes = "--" if typed.startswith("--") else ""
    candidates = [*arguments(algo_fn), *ALIASES, *RUN_KEYS, *OPEN_DICTS, "env_name"]
    hint = nearest(f"{dashes}{name}", [f"{dashes}{key}" for key in candidates])
    return SpinupError(
        f"'{typed}' is not an argument of {algo_fn.__name__}: add --help to see them all{hint}"
    )


def backend_of(algo_fn: Callable[..., Any]) -> str:
    """Return the backend of a training function, by its folder or as registered; '' if unknown."""
    parts = source_of(algo_fn).parts
    if len(parts) >= 4 and parts[-4] == "algos":
        return parts[-3]
    row = registry.find(algo_fn.__name__)
    return "" if row is None else row.backends[0]


def source_of(algo_fn: Callable[..., Any]) -> Path:
    return Path(inspect.getsourcefile(inspect.unwrap(algo_fn)) or ".").resolve()


def explanations(algo_fn: Callable[..., Any]) -> dict[str, str]:
    """Return the arguments' descriptions from the function's docstring."""
    return described(inspect.getdoc(algo_fn) or "")


# ---------------------------------------------------------------------------------------- domains


def domain_of(key: str, parameter: inspect.Parameter) -> Domain | None:
    """Return the values that a flag accepts; None if nothing is known about them.

    The table applies if it allows the training function's default. Otherwise that function uses the
    name differently, and the parameter's annotation and default determine the values.
    """
    name = key.removeprefix("base_kwargs:")
    kind, words = kind_of(parameter)
    if name in ARGUMENTS:
        domain = ARGUMENTS[name].domain
        if parameter.default in domain or parameter.default is inspect.Parameter.empty:
            more = tuple(word for word in words if word not in domain)
            return dataclasses.replace(domain, words=(*domain.words, *more)) if more else domain
        if key != name:  # an argument of HER's base algorithm, whose default is unknown here
            return domain
    if kind is int or kind is float:
        return Number(-math.inf, whole=kind is int, endless=kind is float, words=words)
    if kind is bool:
        return OneOf((True, False, *words))
    if kind is str and not any(isinstance(word, str) for word in words):
        return Kind(lambda value: isinstance(value, str), "a word", words)
    return OneOf(words) if kind is str else None


def kind_of(parameter: inspect.Parameter) -> tuple[type | None, tuple[Any, ...]]:
    """Return a parameter's type, and its special values: None, and those of a `Literal`.

    If the annotation names no type or several, the default determines it.
    """
    union = typing.get_origin(parameter.annotation) in (typing.Union, types.UnionType)
    members = typing.get_args(parameter.annotation) if union else (parameter.annotation,)
    literals = [typing.get_args(m) for m in members if typing.get_origin(m) is typing.Literal]
    words = tuple(word for literal in literals for word in literal)
    if (parameter.default is None or types.NoneType in members) and None not in words:
        words = (*words, None)
    kinds = {_kind(member) for member in members} - {None}
    if kinds == {int, float}:
        kinds = {float}
    if not kinds and any(isinstance(word, str) for word in words):
        kinds = {str}
    if len(kinds) != 1:
        kinds = {_kind(type(parameter.default))}
    return kinds.pop(), words


def _kind(annotation: Any) -> type | None:
    """Return the type that words are read as: that of a sequence is tuple, of a mapping dict."""
    cls = typing.get_origin(annotation) or annotation
    for kind, base in (*_PLAIN, (tuple, Sequence), (dict, Mapping)):
        if isinstance(cls, type) and issubclass(cls, base):
            return kind
    return None


_PLAIN = ((bool, bool), (int, int), (float, float), (str, str))


# ------------------------------------------------------------------------------------------- values


def convert(value: Any, key: str, parameter: inspect.Parameter, typed: str) -> Any:
    """Convert `value` for the function; raise SpinupError if it is outside the domain.

    Numbers may be `inf`, integers may be written as `4e3`, and booleans as true or 1. A sequence
    may be a single value or words separated by commas.
    """
    kind, _ = kind_of(parameter)
    if kind is dict:
        raise SpinupError(f"'{typed}' is a dict: set its entries, as in {typed}:KEY VALUE")
    domain = domain_of(key, parameter)
    if kind is tuple and domain is None:
        if isinstance(value, str):
            value = [parse_value(word) for word in value.split(",") if word]
        return value if isinstance(value, list | tuple) else [value]
    if domain is None:
        return value
    text = str(value).lower()
    if True in domain and text in ("true", "1", "false", "0"):
        return text in ("true", "1")
    if isinstance(domain, Number) and text in ("inf", "-inf"):
        value = float(text)
    if value is True:
        raise SpinupError(f"'{typed}' needs a value (its default is {parameter.default!r})")
    if value not in domain:
        raise SpinupError(f"'{typed}' must be {domain}, not {value!r}{hint(value, domain)}")
    if key == "epochs" and value == 0:  # allowed in Python: saves the initial policy
        raise SpinupError(f"'{typed}' must be at least 1: a run of 0 epochs trains nothing")
    return domain.convert(value)


def values_of(flag: Flag, parameter: inspect.Parameter, backend: str) -> list[Any]:
    """Check and convert the values of a flag."""
    if flag.key in TEXT_KEYS and not (flag.words and all(flag.words)):
        raise SpinupError(f"'{flag.typed}' needs a value")
    if flag.key == "ac_kwargs:hidden_sizes" and len(flag.words) > len(set(flag.words)):
        raise SpinupError(
            f"'{flag.typed} {' '.join(flag.words)}' starts one run per value: write "
            f"{flag.typed} {','.join(flag.words)} for a network with these layers"
        )
    kind, special = kind_of(parameter)
    values: list[Any] = []
    for word in flag.words:
        if flag.key not in TEXT_KEYS and any(word.count(a) != word.count(b) for a, b in _BRACKETS):
            raise SpinupError(
                f"'{word}' after '{flag.typed}' is half a list: remove the spaces or quote the list"
            )
        value = parse_value(word)
        if flag.key.startswith("env_kwargs:") and word in ("true", "false"):
            value = word == "true"  # nothing says which of an environment's arguments are booleans
        # options of sbatch stay as typed: a job may be called 1.10
        as_typed = flag.key.startswith("slurm_options:") and value is not True
        is_text = kind is str and not (value is None and None in special)
        values.append(word if flag.key in TEXT_KEYS or as_typed or is_text else value)
    return [value_of(flag.key, v, parameter, backend, flag.typed) for v in values or [True]]


_BRACKETS = (("[", "]"), ("(", ")"), ("{", "}"))


def value_of(key: str, value: Any, parameter: inspect.Parameter, backend: str, typed: str) -> Any:
    """Convert the value of a flag or of a preset for the function; raise if it has no sense."""
    if key in TEXT_KEYS and not isinstance(value, str):
        raise SpinupError(f"'{typed}' must be a name, not {value!r}")
    if key.startswith("ac_kwargs:") and key.endswith("activation"):
        if value is None and parameter.default is None:
            return None  # no activation after the last layer
        return activation(value, backend, typed)
    if key == "ac_kwargs:hidden_sizes":
        if value is True:
            raise SpinupError(f"'{typed}' needs a value, such as 64,64")
        if not all(map(is_width, value if isinstance(value, list | tuple) else [value])):
            raise SpinupError(
                f"'{typed}' must be a list of layer widths such as 64,64, or one width, not "
                f"{value!r}"
            )
        return value
    return convert(value, key, parameter, typed)
