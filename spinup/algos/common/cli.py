"""From command-line words to the runs of a training function.

`python -m spinup.run ppo` and an algorithm's own file (`python -m spinup.algos.pytorch.ppo.ppo`)
share everything here: every keyword of the function is a flag, several values make a grid. Values
are literals and are never evaluated as code. All of a command line is checked before anything is
created; what is wrong with it is said in one sentence (SpinupError).
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import math
import re
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinup import registry, user_config
from spinup.registry import nearest
from spinup.utils.errors import SpinupError
from spinup.utils.mpi_tools import abort, mpi_fork, num_procs, under_launcher
from spinup.utils.run_utils import ExperimentGrid, env_maker, process_count

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
)

# Arguments of every algorithm that are about the run as a whole: one value each as well.
ONCE_KEYS = ("resume", "overwrite", "progress")

# Arguments that cannot be written as a literal.
NOT_FLAGS = {
    "env_fn": "name the environment with --env",
    "actor_critic": "pass a class from Python, or set its arguments with --ac_kwargs:KEY",
}

# Keys whose values stay the text they were typed as, `--exp_name 1` too.
TEXT_KEYS = ("env_name", "exp_name", "data_dir", "config", "hosts", "hostfile")

# Activations by their plain name -> (name in torch.nn, name in tf.nn).
ACTIVATIONS = {
    "tanh": ("Tanh", "tanh"),
    "relu": ("ReLU", "relu"),
    "elu": ("ELU", "elu"),
    "selu": ("SELU", "selu"),
    "gelu": ("GELU", "gelu"),
    "silu": ("SiLU", "silu"),
    "swish": ("SiLU", "silu"),
    "leakyrelu": ("LeakyReLU", "leaky_relu"),
    "relu6": ("ReLU6", "relu6"),
    "sigmoid": ("Sigmoid", "sigmoid"),
    "softplus": ("Softplus", "softplus"),
    "softsign": ("Softsign", "softsign"),
}

_FLAG = re.compile(r"--(?P<key>[A-Za-z_][\w:]*)(?:\[(?P<sh>[^\]]*)\])?(?:=(?P<value>.*))?", re.S)
_DASHES = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212"  # what word processors make of `--`


@dataclass(frozen=True)
class Flag:
    """One flag as typed: its key with aliases resolved, its shorthand, its words."""

    typed: str
    key: str
    shorthand: str | None
    words: tuple[str, ...]


@dataclass(frozen=True)
class Plan:
    """A checked command line: the grid and how to run it."""

    grid: ExperimentGrid
    num_cpu: int | str
    mpi: dict[str, Any]
    data_dir: str | None
    datestamp: bool


# ---------------------------------------------------------------------------------------- words


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


# ------------------------------------------------------------------------------------ arguments


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


def _entries(algo_fn: Callable[..., Any], key: str) -> dict[str, inspect.Parameter] | None:
    """The arguments that the dict argument `key` may hold; None when they cannot be known."""
    if key == "logger_kwargs":
        target: Any = importlib.import_module("spinup.utils.logx").Logger
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


def _parameter(algo_fn: Callable[..., Any], key: str, typed: str) -> inspect.Parameter:
    """The parameter that `key` sets; SpinupError with the nearest known flag when none does."""
    anything = inspect.Parameter("value", inspect.Parameter.KEYWORD_ONLY, default=None)
    if key in RUN_KEYS or key == "env_name":
        return anything
    known = arguments(algo_fn)
    name, _, entry = key.partition(":")
    if name in NOT_FLAGS:
        raise SpinupError(f"'{typed}' cannot be set on the command line: {NOT_FLAGS[name]}.")
    if name == "env_kwargs" and entry:
        return anything
    if name not in known:
        candidates = [*known, *ALIASES, *RUN_KEYS, "env_name"]
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
    entries = _entries(algo_fn, name)
    if entries is None:
        return anything
    if entry not in entries:
        hint = nearest(entry, entries)
        raise SpinupError(
            f"'{name}' has no entry '{entry}'{hint}; it has {', '.join(entries) or 'none'}."
        )
    return entries[entry]


def _backend(algo_fn: Callable[..., Any]) -> str:
    """The backend's folder that a training function's file lies in, '' for one from elsewhere."""
    parts = _source(algo_fn).parts
    return parts[-3] if len(parts) >= 4 and parts[-4] == "algos" else ""


def _source(algo_fn: Callable[..., Any]) -> Path:
    return Path(inspect.getsourcefile(inspect.unwrap(algo_fn)) or ".").resolve()


# --------------------------------------------------------------------------------------- values


def convert(value: Any, parameter: inspect.Parameter, typed: str) -> Any:
    """`value` as the argument's default says it should be; SpinupError when it cannot be that.

    A float argument accepts `inf`; an int argument a float that is whole (`4e3`); both the words
    that the docstring has in quotes; a sequence argument a single value or words separated by
    commas.
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
        if isinstance(value, str):
            return value
        raise SpinupError(f"'{typed}' must be a word, not {value!r}.")
    if kind is tuple:
        if isinstance(value, str):
            value = [parse_value(word) for word in value.split(",") if word]
        return value if isinstance(value, list | tuple) else [value]
    if kind is dict:
        raise SpinupError(f"'{typed}' is a dict: set its entries, as in {typed}:KEY VALUE.")
    return value


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


def activation(name: Any, backend: str, typed: str = "--act") -> Any:
    """The activation called `name` (`tanh`, `torch.nn.ELU`, `tf.nn.elu`) in `backend`.

    Names are looked up in a fixed table. With no known backend the name itself is returned.
    """
    if not isinstance(name, str):
        raise SpinupError(f"'{typed}' must be the name of an activation, not {name!r}.")
    plain = re.sub(r"^(torch\.nn\.functional\.|torch\.nn\.|torch\.|nn\.|tf\.nn\.|tf\.)", "", name)
    plain = plain.lower().replace("_", "")
    if plain not in ACTIVATIONS:
        raise SpinupError(
            f"'{name}' is not a known activation{nearest(plain, ACTIVATIONS)}; "
            f"choose one of {', '.join(ACTIVATIONS)}."
        )
    torch_name, tf_name = ACTIVATIONS[plain]
    if backend == "pytorch":
        if plain == "tanh":
            return importlib.import_module("spinup.algos.pytorch.common.nets").Tanh
        return getattr(importlib.import_module("torch.nn"), torch_name)
    if backend == "tf1":
        return getattr(importlib.import_module("tensorflow").nn, tf_name)
    return name


def _is_broken(word: str) -> bool:
    return any(word.count(a) != word.count(b) for a, b in ("[]", "()", "{}"))


def _values(flag: Flag, parameter: inspect.Parameter, backend: str) -> list[Any]:
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
        value = word if _kind(parameter) is str else parse_value(word)
        values.append(_value(flag.key, value, parameter, backend, flag.typed))
    return values or [_value(flag.key, True, parameter, backend, flag.typed)]


def _value(key: str, value: Any, parameter: inspect.Parameter, backend: str, typed: str) -> Any:
    if key.startswith("ac_kwargs:") and key.endswith("activation"):
        return activation(value, backend, typed)
    if key == "ac_kwargs:hidden_sizes":
        return value if _is_width(value) else _sizes(value, typed)
    if key in TEXT_KEYS and not isinstance(value, str):
        raise SpinupError(f"'{typed}' must be a name, not {value!r}.")
    return convert(value, parameter, typed)


def _is_width(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _sizes(value: Any, typed: str) -> Any:
    if isinstance(value, list | tuple) and all(_is_width(v) for v in value):
        return value
    raise SpinupError(
        f"'{typed}' is a list of layer widths such as 64,64, or one width, not {value!r}."
    )


# --------------------------------------------------------------------------------------- preset


def read_preset(path: str | Path) -> dict[str, Any]:
    """The JSON object in a preset file."""
    try:
        preset = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise SpinupError(f"the preset '{path}' cannot be read: {error}.") from error
    except json.JSONDecodeError as error:
        raise SpinupError(f"the preset '{path}' is not valid JSON: {error}.") from error
    if not isinstance(preset, dict):
        raise SpinupError(f"the preset '{path}' must hold one JSON object of arguments.")
    return preset


def _preset_keys(preset: Mapping[str, Any], path: str | Path) -> dict[str, Any]:
    """A preset as flat keys, the entries of its dicts as `a:b`, aliases resolved."""
    keys: dict[str, Any] = {}
    for name, value in preset.items():
        flat = {f"{name}:{k}": v for k, v in value.items()} if isinstance(value, dict) else None
        for key, inner in ({name: value} if flat is None else flat).items():
            key = ALIASES.get(key, key)
            if key in keys:
                raise SpinupError(f"the preset '{path}' sets '{key}' twice.")
            if key == "config":
                raise SpinupError(f"the preset '{path}' cannot name another preset.")
            keys[key] = inner
    return keys


# ----------------------------------------------------------------------------------------- plan


def plan(
    algo_fn: Callable[..., Any],
    words: Sequence[str],
    exp_name: str,
    backend: str | None = None,
    preset: str | Path | None = None,
) -> Plan:
    """Check a command line completely and turn it into the grid to run.

    Args:
        algo_fn: the training function.
        words: the command line after the algorithm's name.
        exp_name: name of the experiment unless --exp_name gives one.
        backend: where activations come from; by default the folder of the function's file.
        preset: a JSON file of arguments that hold unless a flag says otherwise.
    """
    backend = _backend(algo_fn) if backend is None else backend
    flags = {flag.key: flag for flag in split_flags(words)}
    values: dict[str, list[Any]] = {}
    for key, flag in flags.items():
        values[key] = _values(flag, _parameter(algo_fn, key, flag.typed), backend)
        if flag.shorthand is not None and key in RUN_KEYS:
            raise SpinupError(f"'{flag.typed}' is never part of a name and takes no shorthand.")
        if len(values[key]) > 1 and key in (*RUN_KEYS, *ONCE_KEYS):
            raise SpinupError(f"'{flag.typed}' takes one value, not {len(values[key])}.")

    def once(key: str, default: Any) -> Any:
        return values.pop(key)[0] if key in values else default

    chosen = once("config", preset)
    if chosen is not None:
        for key, value in _preset_keys(read_preset(chosen), chosen).items():
            typed = f"{key} in {Path(chosen).name}"
            parameter = _parameter(algo_fn, key, typed)
            if key not in values:
                values[key] = [_value(key, value, parameter, backend, typed)]
    exp_name = once("exp_name", exp_name)
    data_dir = once("data_dir", None)
    num_cpu = once("num_cpu", 1)
    if num_cpu != "auto" and (isinstance(num_cpu, bool) or not isinstance(num_cpu, int)):
        raise SpinupError(f"'--cpu' must be a whole number or 'auto', not {num_cpu!r}.")
    alone = any(row.name == algo_fn.__name__ and not row.mpi for row in registry.ROWS)
    if alone and (num_cpu == "auto" or num_cpu > 1):
        raise SpinupError(
            f"{algo_fn.__name__} learns from one replay buffer in one process: leave out --cpu, "
            "and use --num_envs for several environments."
        )
    for key in ("hosts", "hostfile", "max_restarts"):
        if key in values and num_cpu != "auto" and num_cpu <= 1 and not under_launcher():
            raise SpinupError(f"'--{key}' is about several processes: say how many with --cpu.")
    mpi = _mpi_options(once, Path(data_dir or user_config.DEFAULT_DATA_DIR) / exp_name)
    datestamp = once("datestamp", False)
    if not isinstance(datestamp, bool):
        raise SpinupError(f"'--dt' is either True or False, not {datestamp!r}.")
    _layers(algo_fn, values, once("l", None))
    if "env_name" not in values:
        raise SpinupError(
            f"{algo_fn.__name__} needs an environment: add one such as --env CartPole-v1."
        )
    resume, overwrite = values.get("resume", [False])[0], values.get("overwrite", [False])[0]
    if resume and overwrite:
        raise SpinupError(
            "'--resume' keeps the earlier run and '--overwrite' deletes it: choose one."
        )
    if resume and datestamp:
        raise SpinupError(
            "'--resume' cannot find the earlier run under a new date: leave out --dt."
        )

    grid = ExperimentGrid(name=exp_name)
    for key, vals in values.items():
        grid.add(key, vals, shorthand=flags[key].shorthand if key in flags else None)
    if mpi.get("max_restarts") and datestamp:
        raise SpinupError("'--max_restarts' cannot find its run under a new date: leave out --dt.")
    return Plan(grid, num_cpu, mpi, data_dir, datestamp)


def _mpi_options(once: Callable[[str, Any], Any], folder: Path) -> dict[str, Any]:
    """How the processes of `--cpu N` are started, from the flags that say so."""
    options: dict[str, Any] = {}
    for key in ("hosts", "hostfile"):
        value = once(key, None)
        if value is not None:
            options[key] = value
    if "hostfile" in options and not Path(options["hostfile"]).is_file():
        raise SpinupError(f"the hostfile '{options['hostfile']}' does not exist.")
    restarts, timeout = once("max_restarts", 0), once("mpi_timeout", 300)
    if isinstance(restarts, bool) or not isinstance(restarts, int) or restarts < 0:
        raise SpinupError(f"'--max_restarts' must be a whole number, not {restarts!r}.")
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or timeout <= 0:
        raise SpinupError(f"'--mpi_timeout' must be a number of seconds, not {timeout!r}.")
    log_all = once("log_all_ranks", False)
    if not isinstance(log_all, bool):
        raise SpinupError(f"'--log_all_ranks' is either True or False, not {log_all!r}.")
    options.update(max_restarts=restarts, timeout=timeout)
    options["log_all_ranks"] = str(folder / "rank_logs") if log_all else None
    return options


def _layers(algo_fn: Callable[..., Any], values: dict[str, list[Any]], layers: Any) -> None:
    """Spell out `--hid 64` (one width for every layer) and `--l 2` (how many) as a list."""
    key = "ac_kwargs:hidden_sizes"
    entry = (_entries(algo_fn, "ac_kwargs") or {}).get("hidden_sizes")
    usual: Any = getattr(entry, "default", None)
    if not isinstance(usual, list | tuple) or not usual:
        usual = (64, 64)
    if layers is not None:
        if not _is_width(layers):
            raise SpinupError(f"'--l' is the number of layers, not {layers!r}.")
        _parameter(algo_fn, key, "--l")
        known = values.get(key, [usual])
        if any(not _is_width(v) and len(set(v)) != 1 for v in known):
            raise SpinupError("'--l' goes with one width for every layer, such as --hid 64 --l 2.")
        values[key] = [[v if _is_width(v) else v[0]] * layers for v in known]
    elif key in values:
        values[key] = [[v] * len(usual) if _is_width(v) else v for v in values[key]]


def execute(algo_fn: Callable[..., Any], ready: Plan) -> None:
    """Try every environment once, then run the grid.

    A grid whose last environment is misspelt must not find that out after hours.
    """
    cells = ready.grid.cells(algo_fn)
    tried: list[tuple[Any, Any]] = []
    for cell in cells:
        wanted = (cell.kwargs["env_name"], cell.kwargs.get("env_kwargs"))
        if wanted not in tried:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the run itself will say it
                env_maker(*wanted)().close()
            tried.append(wanted)
    mpi_fork(process_count(ready.num_cpu), **ready.mpi)
    ready.grid.run(
        algo_fn, num_cpu=ready.num_cpu, data_dir=ready.data_dir, datestamp=ready.datestamp
    )


# ----------------------------------------------------------------------------------------- help


def explanations(algo_fn: Callable[..., Any]) -> dict[str, str]:
    """What the function's docstring says about each argument (`name (type): text` entries)."""
    found: dict[str, list[str]] = {}
    current: list[str] | None = None
    indent = 0
    entry = re.compile(r"^(\s+)(\w+(?:\s*,\s*\w+)*)\s*(?:\([^)]*\))?\s*:(?:\s+(.*))?$")
    for line in (inspect.getdoc(algo_fn) or "").splitlines():
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


def usage(algo_fn: Callable[..., Any], command: str, defaults: Mapping[str, Any]) -> str:
    """The help text of one algorithm: every argument, its default, its explanation."""
    said = explanations(algo_fn)
    first = (inspect.getdoc(algo_fn) or "").partition("\n\n")[0]
    lines = [f"usage: {command} --env ENV [--KEY VALUE [VALUE ...]] ...", ""]
    lines += textwrap.wrap(" ".join(first.split()), 96)
    lines += ["", "Several values after a flag make a grid; --KEY[sh] names it 'sh' in run names."]
    lines += ["", "arguments:"]
    for name, parameter in arguments(algo_fn).items():
        default = defaults.get(name, parameter.default)
        if name == "logger_kwargs":
            continue
        shown = "" if default is inspect.Parameter.empty else f" (default: {_show(default)})"
        lines += _entry(f"--{name}", said.get(name, "") + shown)
    lines += ["", "running:"]
    env = f" (default: {defaults['env_name']})" if "env_name" in defaults else ""
    for flag, text in (
        ("--env, --env_name", f"the environment's Gymnasium id{env}"),
        ("--env_kwargs:KEY", "an argument of the environment"),
        ("--hid", "widths of the hidden layers: 64,64, or one width for every layer"),
        ("--l", "number of hidden layers, with one width in --hid"),
        ("--act", f"activation: {', '.join(ACTIVATIONS)}"),
        ("--ac_kwargs:KEY", "another argument of the actor-critic"),
        ("--cpu, --num_cpu", "number of MPI processes, or auto: one a core (default: 1)"),
        ("--hosts, --hostfile", "machines to start them on: a,b or a:4,b:4, or a file of names"),
        ("--max_restarts", "start again from the checkpoint when a process is lost (default: 0)"),
        ("--log_all_ranks", "keep what the other processes print, in the experiment's rank_logs"),
        ("--mpi_timeout", "seconds of silence after which a process hangs (default: 300)"),
        ("--exp_name", "name of the experiment and its folder"),
        ("--data_dir", "where experiments are kept"),
        ("--dt, --datestamp", "put the date into the names of folders"),
        ("--config", "a JSON file of arguments; flags win over it"),
    ):
        lines += _entry(flag, text)
    return "\n".join(lines)


def _entry(flag: str, text: str) -> list[str]:
    pad = " " * 26
    body = textwrap.wrap(text.strip(), 72) or [""]
    head = f"  {flag}"
    if len(head) < len(pad) - 1:
        return [(head.ljust(len(pad)) + body[0]).rstrip(), *(pad + line for line in body[1:])]
    return [head, *(pad + line for line in body)]


def _show(value: Any) -> str:
    return value.__name__ if hasattr(value, "__name__") else repr(value)


def wants_help(words: Iterable[str]) -> bool:
    """Whether a command line asks for help instead of a run."""
    return any(word in ("-h", "--help") for word in words)


# ----------------------------------------------------------------------------------------- main


def fail(error: SpinupError) -> int:
    """Say what was wrong with the input in one line; the exit code for it."""
    sentence = f"spinup: {' '.join(str(error).split())}"
    try:
        several = num_procs() > 1
    except SpinupError:  # MPI itself may be what is wrong
        several = False
    if several:
        abort(sentence, 2)  # the other processes may not have noticed
    print(sentence, file=sys.stderr)
    return 2


def main(algo_fn: Callable[..., Any], argv: Sequence[str] | None = None) -> None:
    """Run an algorithm's own file: the `config.json` beside it, and flags over that.

    Ends the program with exit code 2 and one sentence when the command line is wrong.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    preset = _source(algo_fn).with_name("config.json")
    try:
        if wants_help(words):
            shown = _preset_keys(read_preset(preset), preset) if preset.is_file() else {}
            print(usage(algo_fn, f"python {_source(algo_fn).name}", shown))
            return
        execute(algo_fn, plan(algo_fn, words, algo_fn.__name__, preset=_if_file(preset)))
    except SpinupError as error:
        sys.exit(fail(error))
    except KeyboardInterrupt:  # the run has saved itself and said how to go on
        sys.exit(130)


def _if_file(path: Path) -> Path | None:
    return path if path.is_file() else None
