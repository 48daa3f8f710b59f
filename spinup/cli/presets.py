"""`spinup presets`: the hyperparameters that are shipped for an algorithm and an environment.

A preset is a file in `spinup/presets`, such as `ppo-CartPole-v1.json`; `spinup ppo --preset
CartPole-v1` trains with it. `reached.json` records what its seeds reached in `benchmarks/`.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from spinup import registry
from spinup.cli.parsers import command_parser
from spinup.utils.errors import SpinupError, nearest

FOLDER = Path(__file__).resolve().parents[1] / "presets"


def names(algo: str) -> list[str]:
    """Return the names of an algorithm's presets, such as `CartPole-v1`."""
    return sorted(path.stem.partition("-")[2] for path in FOLDER.glob(f"{algo}-*.json"))


def find(algo: str, name: str) -> Path:
    """Return the file of a preset; raise SpinupError with the nearest name if there is none."""
    path = shipped(algo, name)
    if path is not None:
        return path
    known = names(algo)
    for row in registry.ROWS:
        if shipped(row.name, name) is not None and name.startswith(f"{row.name}-"):
            raise SpinupError(
                f"'{name}' is a preset of {row.name}, not of {algo}: type spinup {row.name} "
                f"--preset {name.removeprefix(f'{row.name}-').removesuffix('.json')}"
            )
    has = f"it has {', '.join(known)}" if known else "'spinup presets' lists those that exist"
    raise SpinupError(f"{algo} has no preset '{name}': {has}{nearest(name, known)}")


def shipped(algo: str, name: str) -> Path | None:
    """Return the shipped file that `name` means; None if there is none, or if such a file is here.

    `CartPole-v1`, `ppo-CartPole-v1` and `ppo-CartPole-v1.json` are the same, and an environment's
    namespace may be left out.
    """
    if Path(name).exists():
        return None
    plain = re.sub(r"^(spinup|ALE|MinAtar)/", "", name)
    plain = plain.removesuffix(".json").removeprefix(f"{algo}-")
    return FOLDER / f"{algo}-{plain}.json" if plain in names(algo) else None


def reached() -> dict[str, Any]:
    """Return what each preset reached: steps, the returns of its seeds, and what they measure.

    A preset for several environments has `environments`, each with its seeds and their returns, and
    `flags`, those that were given besides the preset.
    """
    found: dict[str, Any] = json.loads((FOLDER / "reached.json").read_text(encoding="utf-8"))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """List the presets of one algorithm or of all."""
    algo = command_parser("presets").parse_args(argv).algo
    rows = [registry.get(algo)] if algo else registry.ROWS
    results = reached()
    lines = [f"{'algorithm':<10} {'--preset':<19} {'steps':>10}  returns of seeds 0, 1 and 2"]
    for row in rows:
        for name in names(row.name):
            for label, text in _told(name, results.get(f"{row.name}-{name}")):
                lines.append(f"{row.name:<10} {label:<19} {text}".rstrip())
    if any(name == "MuJoCo" for row in rows for name in names(row.name)):
        lines.append("\nMuJoCo is one preset for several environments; its seeds are 100 and up.")
        lines += _flags({row.name: results.get(f"{row.name}-MuJoCo", {}) for row in rows})
    print("\n".join(lines))
    first = next((name for row in rows for name in names(row.name)), "NAME")
    print(f"\nTo train with one of them: spinup {rows[0].name} --preset {first}")
    return 0


def _told(name: str, result: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Return a preset's lines, one for each of its environments: a label, and what was reached."""
    if result is None:
        return [(name, f"{'':>10}  not measured")]
    environments = result.get("environments")
    if environments is None:
        note = "" if result["of"] == "return" else f"  ({result['of']})"
        return [(name, _line(result["steps"], result["returns"]) + note)]
    return [
        (f"{name}: {env.partition('-')[0]}", _line(result["steps"], runs.values()))
        for env, runs in environments.items()
    ]


def _flags(results: dict[str, dict[str, Any]]) -> list[str]:
    """Return lines that say which flags `--preset MuJoCo` was given besides `--env`."""
    together: dict[tuple[str, str], list[str]] = {}
    for algo, result in results.items():
        for env, flags in result.get("flags", {}).items():
            together.setdefault((algo, flags), []).append(env.partition("-")[0])
    lines = []
    for (algo, flags), envs in together.items():
        text = f"{algo:<5}{flags}: {', '.join(envs)}"
        lines += textwrap.wrap(text, 75, subsequent_indent=" " * 5, break_on_hyphens=False)
    return ["It was given --env and:", *(f"    {line}" for line in lines)] if lines else []


def _line(steps: int, returns: Iterable[float]) -> str:
    return f"{steps:>10,}  {' '.join(f'{_number(value):>6}' for value in returns)}"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:.2g}"
