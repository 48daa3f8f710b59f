"""Names for the lines of a figure: what varies between the runs, and how many seeds they have.

A run's `config.json` contains every argument, so a line can be called `pi_lr=0.01` instead of by
the name of its folder.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from spinup.analysis.curves import Run, one_line

# Entries of config.json that identify a run or record its surroundings. The environment has its
# own panel, and seeds are counted.
_NEVER = (
    *("algo", "env", "env_fn", "env_kwargs", "env_name", "exp_name", "logger", "logger_kwargs"),
    *("overwrite", "progress", "resume", "resume_with", "seed"),
)
# Arguments that say how a run is executed. They name a line only if nothing else tells it apart.
_EXECUTION = (
    *("compile", "device", "num_threads", "on_epoch", "save_best", "save_freq", "vector"),
)
_MISSING = object()


def name_runs(
    runs: Sequence[Run], conditions: Sequence[str], panels: Sequence[Hashable]
) -> list[str]:
    """Name the line that each run belongs to: its algorithm, and the arguments that vary.

    Args:
        runs: The runs of a figure.
        conditions: For each run, the line it belongs to, such as its experiment. This name is
            used only if nothing else tells two lines apart.
        panels: For each run, its panel. Only lines in the same panel have to differ, so arguments
            that vary only between panels are not part of a name.
    """
    keys = list(zip(panels, conditions, strict=True))
    lines: dict[tuple[Hashable, str], list[Run]] = {}
    for key, run in zip(keys, runs, strict=True):
        lines.setdefault(key, []).append(run)
    algos = {key: _common(run.config.get("algo") for run in line) for key, line in lines.items()}
    settings = {key: _settings(line) for key, line in lines.items()}
    names: dict[tuple[Hashable, str], str] = {}
    for skipped in (_EXECUTION, ()):
        varying = _varying(algos, settings, skipped)
        for key, algo in algos.items():
            shown = varying[algo]
            parts = [str(algo)] if algo and (len(set(algos.values())) > 1 or not shown) else []
            parts += [f"{_short(k, shown)}={_value(settings[key], k)}" for k in shown]
            names[key] = ", ".join(parts)
        repeated = [k for k, n in Counter((key[0], names[key]) for key in lines).items() if n > 1]
        if not repeated:
            break
    for panel, condition in lines:
        name = names[panel, condition]
        if not name or ((panel, name) in repeated and "=" not in name):
            names[panel, condition] = condition
        elif (panel, name) in repeated:
            names[panel, condition] = f"{name}, {condition}"
    return [names[key] for key in keys]


def count_seeds(panels: Sequence[Sequence[int | None]]) -> str:
    """Write the number of a line's runs: '5 seeds', or '3 to 5 seeds' if it differs by panel.

    `panels` has the seeds of the runs in each panel. If one is unknown or repeated, the count is of
    'runs'.
    """
    word = "run" if any(None in s or len(set(s)) < len(s) for s in panels) else "seed"
    low, high = (end(len(s) for s in panels) for end in (min, max))
    many = f"{high}" if low == high else f"{low} to {high}"
    return f"{many} {word}{'' if high == 1 else 's'}"


def seed_of(run: Run) -> int | None:
    """Return a run's seed: from its `config.json`, or else from the name of its folder."""
    seed = run.config.get("seed")
    if isinstance(seed, int):
        return seed
    match = re.search(r"_s(\d+)$", run.folder.name)
    return int(match[1]) if match else None


def _settings(runs: Sequence[Run]) -> dict[str, Any]:
    """Return the arguments that all of a line's runs have in common, nested ones as `a:b`."""
    every = [dict(_flat(run.config)) for run in runs]
    first = every[0] if every else {}
    return {k: v for k, v in first.items() if all(e.get(k, _MISSING) == v for e in every)}


def _flat(config: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    for key, value in config.items():
        if not prefix and (key in _NEVER or key.endswith("_version")):
            continue
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}:")
        elif " at 0x" not in str(value):  # an object without a name: its address always differs
            yield prefix + key, value


def _varying(
    algos: Mapping[Any, Any], settings: Mapping[Any, Mapping[str, Any]], skipped: Sequence[str]
) -> dict[Any, list[str]]:
    """For each algorithm, return the arguments that differ between its lines in some panel."""
    groups: dict[Any, list[Mapping[str, Any]]] = {}
    for key, algo in algos.items():
        groups.setdefault((key[0], algo), []).append(settings[key])
    varying: dict[Any, list[str]] = {algo: [] for algo in algos.values()}
    for (_, algo), members in groups.items():
        for key in dict.fromkeys(key for found in members for key in found):
            # A top-level argument that is missing is unknown: an older version had no such
            # argument. A nested one has its default value.
            seen = {_value(found, key) for found in members if key in found or ":" in key}
            if len(seen) > 1 and key not in skipped and key not in varying[algo]:
                varying[algo].append(key)
    return varying


def _common(values: Iterable[Any]) -> Any:
    """Return the value that all have in common, or None."""
    found = {v if isinstance(v, Hashable) else str(v) for v in values}
    return found.pop() if len(found) == 1 else None


def _short(key: str, keys: Sequence[str]) -> str:
    """Shorten `ac_kwargs:hidden_sizes` to its last part, unless that is ambiguous."""
    last = key.rpartition(":")[2]
    return key if sum(k.rpartition(":")[2] == last for k in keys) > 1 else last


def _value(found: Mapping[str, Any], key: str) -> str:
    return _text(found[key]) if key in found else "default"


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(value)
    if isinstance(value, int | float):
        return f"{value:g}" if abs(value) < 1e6 else f"{value:.3g}"
    if isinstance(value, list):
        return ",".join(map(_text, value))
    return one_line(value if isinstance(value, str) else json.dumps(value, sort_keys=True))
