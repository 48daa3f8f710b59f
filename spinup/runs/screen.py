"""What a run prints: a few lines at the start, a table per epoch, and how to continue it."""

from __future__ import annotations

import functools
import json
import math
import numbers
import shutil
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.parallel.mpi import num_procs
from spinup.utils.command import join
from spinup.utils.errors import printable
from spinup.utils.serialization_utils import convert_json

if TYPE_CHECKING:
    from spinup.runs.run import Run

OUTPUT_DIR = "{output_dir}"  # in the words of a command line: the run's directory
# Arguments that the first lines show otherwise, or that say nothing about the result.
_NOT_SHOWN = ("env_fn", "logger_kwargs", "device", "resume", "overwrite", "progress")
_LONGEST_VALUE = 60


def columns() -> int:
    """Return the width of the terminal, or COLUMNS; 80 if neither is known."""
    return max(40, shutil.get_terminal_size((80, 24)).columns)


# ------------------------------------------------------------------------------------- the start


def announcement(run: Run) -> str:
    """Describe a run that is about to start, with every argument that is not at its default."""
    config, record = run.config, run.env_record
    device = str(config["device"]) if "device" in config else "cpu"
    if run.backend == "tf1":
        device += " (TensorFlow)"
    if num_procs() > 1:
        device += f", {num_procs()} processes"
    given = {"env_kwargs": _env_kwargs(run.call.arguments.get("env_fn")), **run.call.arguments}
    changed = ", ".join(_changed(given, {"env_kwargs": {}, **run.call.defaults}))
    lines = [f"Training {run.algo} on {record.get('id') or record.get('class')}"]
    longer = config["max_ep_len"] != run.call.arguments["max_ep_len"]
    limit = f"up to {config['max_ep_len']:,} steps in this game, unless max_ep_len is set"
    notes = [getattr(sink, "note", "") for sink in run.logger.sinks]
    for name, text in (
        ("device", device),
        ("directory", str(run.output_dir)),
        ("changed", changed or "nothing: every argument has its default value"),
        *([("episodes", limit)] if longer else []),
        *(("to watch", note) for note in notes if note),
    ):
        pad = f"  {name:<11}"
        lines += textwrap.wrap(
            text,
            columns(),
            initial_indent=pad,
            subsequent_indent=" " * len(pad),
            break_long_words=False,  # paths stay whole, to be copied
            break_on_hyphens=False,
        )
    return "\n".join(lines)


def _changed(config: Mapping[str, Any], defaults: Mapping[str, Any]) -> Iterator[str]:
    """Yield `name=value` for each argument, and each entry of a dict, that is not a default."""
    for name, value in config.items():
        if name in _NOT_SHOWN:
            continue
        default = convert_json(defaults.get(name))
        value = convert_json(value)
        if isinstance(value, dict) and isinstance(default, dict):
            for key, entry in value.items():
                if key not in default or entry != default[key]:
                    yield f"{name}:{key}={_short(entry)}"
        elif value != default:
            yield f"{name}={_short(value)}"


def _env_kwargs(env_fn: Any) -> Mapping[str, Any]:
    """Return what `env_maker` was given besides an id; empty for any other function."""
    from spinup.envs.make import make_env

    made = isinstance(env_fn, functools.partial) and env_fn.func is make_env
    return env_fn.args[1] if made and len(env_fn.args) > 1 else {}


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."


# ------------------------------------------------------------------------------------- the table


def table(row: Mapping[str, Any]) -> str:
    """Return a row as `| key | value |` lines between rules, at most as wide as the terminal."""
    cells = {printable(key): printable(shown(value)) for key, value in row.items()}
    width = max(15, *(len(key) for key in cells)) if cells else 15
    longest = max([15, *map(len, cells.values())])
    longest = max(15, min(longest, columns() - width - 7))
    rule = "-" * (width + longest + 7)
    body = [f"| {key:>{width}} | {_cut(text, longest):>{longest}} |" for key, text in cells.items()]
    return "\n".join([rule, *body, rule])


def shown(value: Any) -> str:
    """Format one value: whole numbers with all their digits, other numbers with three."""
    if not isinstance(value, numbers.Real | np.bool_):
        return str(value)
    number = float(value)
    if math.isfinite(number) and number.is_integer() and abs(number) < 1e12:
        return f"{int(number):,}"  # of an int, so that -0.0 is 0
    return f"{number:.3g}"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."


# ------------------------------------------------------------------------------------- the stop


def command(run: Run) -> list[str] | None:
    """Return the words of the command line that continues a run; None in a Python program."""
    words = run.origin.get("resume_with")
    if words is None:
        return None
    return [str(run.output_dir) if word == OUTPUT_DIR else word for word in words]


def how_to_continue(run: Run, steps: int) -> str:
    """Say what to type to continue a run that was stopped after `steps` steps."""
    words = command(run)
    if words is None:
        folder = json.dumps(str(run.output_dir))
        line = f'{run.algo}(..., resume=True, logger_kwargs={{"output_dir": {folder}}})'
        return (
            f"Stopped and saved after {steps:,} steps. To continue exactly from here, repeat the "
            f"call with resume=True:\n    {line}"
        )
    return (
        f"Stopped and saved after {steps:,} steps. To continue exactly from here:\n"
        f"    {join(words)}"
    )
