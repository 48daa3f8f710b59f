"""Generate a training function's help text from its signature and docstring."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from spinup import user_config
from spinup.cli import presets
from spinup.cli.flags import ALIASES, arguments, entries_of, explanations, usual_sizes
from spinup.policies.activations import ACTIVATIONS
from spinup.runs.arguments.synonyms import SAME, same
from spinup.runs.arguments.table import described, wrapped
from spinup.runs.screen import columns
from spinup.runs.sinks import SINK_NAMES
from spinup.utils.toml import parse_toml


def usage(algo_fn: Callable[..., Any], command: str, defaults: Mapping[str, Any]) -> str:
    """Return an algorithm's help text: every argument with its description and default.

    `defaults` are those of a preset, which replace the function's.
    """
    first = (inspect.getdoc(algo_fn) or "").partition("\n\n")[0]
    lines = [f"usage: {command} --env ENV [--KEY VALUE [VALUE ...]] ...", ""]
    lines += wrapped(" ".join(first.split()), columns())
    lines += ["", *wrapped(_GRIDS, columns())]
    known, said = arguments(algo_fn), explanations(algo_fn)
    groups = parse_toml(Path(__file__).with_name("usage.toml").read_text(encoding="utf-8"))
    grouped = {name for group in groups.values() for name in group.get("arguments", ())}
    groups["learning"]["arguments"] = [name for name in known if name not in grouped]
    fields = _fields(algo_fn, defaults)
    for title, group in groups.items():
        lines += ["", f"{title}:"]
        for flag, text in group.get("flags", ()):
            if flag == "entries":
                for key, described in _entries(algo_fn):
                    lines += _entry(key, described)
                continue
            names = flag if flag.startswith("--") else _names(flag, known)
            lines += _entry(names, text.format(**fields))
        for name in (name for name in known if name in group["arguments"]):
            if name in ("logger_kwargs", "ac_kwargs"):
                continue  # their entries have their own lines
            default = _default(defaults.get(name, known[name].default))
            lines += _entry(_names(name, known), said.get(name, "") + default)
    return "\n".join(lines)


_GRIDS = "Several values after a flag make a grid; --KEY[sh] abbreviates KEY in run names."


def _names(name: str, known: Mapping[str, Any]) -> str:
    """Return every way to write a flag, its own name first."""
    short = [alias for alias, key in ALIASES.items() if key == name]
    foreign = [word for word in (*SAME, "learning_rate", "lr") if same(word, known) == name]
    words = ["-s" if word == "s" else f"--{word}" for word in (*short, name, *foreign)]
    return ", ".join(words)


def _fields(algo_fn: Callable[..., Any], defaults: Mapping[str, Any]) -> dict[str, str]:
    """Return what the descriptions in the file leave open."""
    mine = presets.names(algo_fn.__name__)
    activation = (entries_of(algo_fn, "ac_kwargs") or {}).get("activation")
    given = None if activation is None else activation.default
    return {
        "env": f" (default: {defaults['env_name']})" if "env_name" in defaults else "",
        "sizes": _default(usual_sizes(algo_fn) or _EMPTY),
        "activations": ", ".join(ACTIVATIONS) + _default(_EMPTY if given is None else given),
        "presets": f": {', '.join(mine)}" if mine else "; 'spinup presets' lists them",
        "data_dir": str(user_config.DEFAULT_DATA_DIR),
        "sinks": " or ".join(SINK_NAMES),
    }


_EMPTY = inspect.Parameter.empty


def _entries(algo_fn: Callable[..., Any]) -> Iterator[tuple[str, str]]:
    """Yield the less common arguments of the default networks, and their descriptions."""
    maker = inspect.signature(algo_fn).parameters.get("actor_critic")
    said = described(inspect.getdoc(getattr(maker, "default", None)) or "")
    for key, parameter in (entries_of(algo_fn, "ac_kwargs") or {}).items():
        if key not in ("hidden_sizes", "activation"):
            text = said.get(key, "argument of the networks")
            yield f"--ac_kwargs:{key}", f"{text} (default: {_show(parameter.default)})"


def _default(value: Any) -> str:
    return "" if value is _EMPTY else f" (default: {_show(value)})"


def _entry(flag: str, text: str) -> list[str]:
    pad = " " * 26
    body = wrapped(text.strip(), max(24, columns() - len(pad))) or [""]
    heads = wrapped(f"  {flag}", columns(), " " * 4)
    if len(heads) == 1 and len(heads[0]) < len(pad) - 1:
        return [(heads[0].ljust(len(pad)) + body[0]).rstrip(), *(pad + line for line in body[1:])]
    return [*heads, *(pad + line for line in body)]


def _show(value: Any) -> str:
    return value.__name__ if hasattr(value, "__name__") else repr(value)


def wants_help(words: Iterable[str]) -> bool:
    """Return whether a command line asks for help."""
    return any(word in ("-h", "--help") for word in words)
