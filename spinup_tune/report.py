"""What a study found: the report in words and numbers, and a preset of the winner.

The winner is the configuration with the highest tuning score. That score is the highest of many and
therefore too high; the fresh seeds, which no choice has seen, show what to expect.
"""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spinup import __version__
from spinup.analysis.comparison import compare_scores, describe_scores, short
from spinup.policies.environments import names_module
from spinup.runs.arguments.config import as_json
from spinup.runs.screen import columns
from spinup.utils.command import spinup_command
from spinup.utils.files import atomic_write
from spinup.utils.serialization_utils import convert_json
from spinup.utils.tables import aligned
from spinup_tune import halving
from spinup_tune.halving import DEFAULT
from spinup_tune.importance import importance
from spinup_tune.rounds import tune
from spinup_tune.study import Study

PRESET = "preset.json"
PAGE = Path(__file__).with_name("report_page.md")
_SHOWN = 10  # configurations in the table of the last rung


def finish(study: Study) -> dict[str, Any]:
    """Run the whole study; write its report and its preset, and return the report."""
    tuned = tune(study)
    winner, names = study.chosen(tuned)
    tested = study.test(names)
    result = summarize(study, tuned, winner, names, tested)
    folder = study.folder
    study.save(winner=winner, tested=names)
    write_preset(folder / PRESET, study, result)
    _write(folder / "report.json", json.dumps(result, indent=1) + "\n")
    _write(folder / "report.md", markdown(study, result))
    return result


def _write(path: Path, text: str) -> None:
    atomic_write(path, text.encode())


# ----------------------------------------------------------------------------------------- numbers


def summarize(
    study: Study,
    tuned: Mapping[str, float | None],
    winner: str,
    names: Sequence[str],
    tested: Mapping[str, Mapping[str, float | None]],
) -> dict[str, Any]:
    """Return all numbers of the report, and its verdict, as JSON."""
    s = study.settings
    first = study.rungs[0]["scores"]
    rows: dict[str, dict[str, Any]] = {}
    for name in halving.ranked(tuned):
        rows[name] = {
            "values": convert_json(study.values_of(name)),
            "tuning": tuned[name],
            "tuning_seeds": study.rungs[-1]["scores"][name]["seeds"],
        }
    known = [score for runs in tested.values() for score in runs.values() if score is not None]
    scored = {}
    for name, runs in tested.items():
        rows[name]["test_seeds"] = dict(runs)
        rows[name]["diverged"] = [int(seed) for seed, score in runs.items() if score is None]
        if known:  # leaving out a run that diverged would flatter its configuration
            scored[name] = np.array([min(known) if v is None else v for v in runs.values()])
            rows[name]["test"] = describe_scores({"": scored[name]})
    if len(scored) > 1:
        compared = compare_scores({name: {"": values} for name, values in scored.items()})
        for name, numbers in compared["algorithms"].items():
            rows[name]["test"] = numbers
    rival = winner if winner != DEFAULT else next(iter(n for n in names if n != DEFAULT), None)
    pair = None
    if rival in scored and DEFAULT in scored:
        both = {name: {"": scored[name]} for name in (rival, DEFAULT)}
        pair = compare_scores(both)["pairs"][0]
    values = {name: study.values_of(name) for name in study.trials}
    result: dict[str, Any] = {
        "algo": s.algo,
        "env": s.base.get("env_name"),
        "spinup_version": __version__,
        "command": study.command,
        "settings": s.record(),
        "winner": winner,
        "configurations": rows,
        "comparison": pair,
        "importance": importance(
            s.space, values, {name: entry["score"] for name, entry in first.items()}
        ),
    }
    result["verdict"] = verdict(result)
    clean: dict[str, Any] = convert_json(result)  # keeps the order, best first
    return clean


def verdict(result: Mapping[str, Any]) -> str:
    """Say in words whether the winner beats the default."""
    winner, pair = result["winner"], result["comparison"]
    rows = result["configurations"]
    if rows[winner]["tuning"] is None:
        return "Every configuration diverged, so there is no winner: try lower learning rates."
    if winner == DEFAULT:
        said = "No configuration scored higher than the default, which therefore wins."
        return f"{said} {_of_rival(pair)}" if pair else said
    if pair is None:
        return (
            f"{winner} has the highest tuning score, but it was chosen by that score and not "
            "tested on fresh seeds, so this does not show that it beats the default."
        )
    better = pair["x"] == winner
    if pair["verdict"] == "established" and better:
        said = f"On fresh seeds, {winner} beats the default."
    elif pair["verdict"] == "established":
        said = f"On fresh seeds, {winner} is worse than the default: its tuning score was luck."
    elif better:
        said = f"On fresh seeds, {winner} is ahead of the default, but that may be chance."
    else:
        said = f"On fresh seeds, {winner} is not ahead of the default."
    return f"{said} {pair['sentence']}"


def _of_rival(pair: Mapping[str, Any]) -> str:
    return f"Against the next best on fresh seeds: {pair['sentence']}"


# -------------------------------------------------------------------------------------------- text


def text(study: Study, result: Mapping[str, Any]) -> str:
    """Return what the command prints at its end."""
    s = study.settings
    width = min(100, columns())
    lines = ["-" * 80, *head(study, result), "", *table(result, s.test_seeds), ""]
    lines += textwrap.wrap(result["verdict"], width)
    note = lucky(result)
    if note:
        lines += ["", *textwrap.wrap(note, width)]
    lines += ["", *chances(result)]
    folder = study.folder
    algo = s.algo.removesuffix("_pytorch")
    lines += ["", "To train with the winner:"]
    trust = ["--trust"] if names_module(str(result["env"])) else []
    lines += [f"    {spinup_command(algo, '--preset', str(folder / PRESET), *trust)}"]
    tested = [n for n, row in result["configurations"].items() if "test_seeds" in row]
    if len(tested) > 1:
        places = [str(folder / "test" / name) for name in tested]
        lines += ["To compare the fresh runs in full:"]
        lines += [f"    {spinup_command('compare', *places, '-l', *tested)}"]
    lines += [f"The whole report is in {folder / 'report.md'}.", "-" * 80]
    return "\n".join(lines)


def head(study: Study, result: Mapping[str, Any]) -> list[str]:
    """Describe the study in a few lines."""
    s = study.settings
    ends = ", ".join(map(str, s.ends))
    rungs = "1 rung" if s.rungs == 1 else f"{s.rungs} rungs"
    return [
        f"{s.algo} on {result['env']}: {len(study.trials)} configurations, {rungs} "
        f"(to epoch {ends}), {_seeds(s.seeds)} each",
        f"The winner is {result['winner']}{_values(result, result['winner'])}.",
    ]


def _seeds(n: int) -> str:
    return "1 seed" if n == 1 else f"{n} seeds"


def _values(result: Mapping[str, Any], name: str) -> str:
    if name == DEFAULT:
        return ""
    values = result["configurations"][name]["values"]
    return ": " + ", ".join(f"{_short_key(k)}={_value(v)}" for k, v in values.items())


def _short_key(key: str) -> str:
    return key.rpartition(":")[2]


def _value(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value).replace(" ", "")


def table(result: Mapping[str, Any], test_seeds: int) -> list[str]:
    """Show tuning and test scores side by side."""
    header = ["configuration", "tuning score"]
    if test_seeds:
        header += [f"test score ({_seeds(test_seeds)})", "95% CI"]
    rows: list[list[str]] = []
    for name, row in list(result["configurations"].items()):
        if len(rows) >= _SHOWN and "test_seeds" not in row:
            continue
        cells = [name + (" *" if name == result["winner"] else ""), _score(row["tuning"])]
        if test_seeds:
            cells += _tested(row)
        rows.append(cells)
    legend = "(* the winner; tuning: mean over the seeds that chose"
    legend += "; test: IQM over fresh seeds)" if test_seeds else ")"
    return [*aligned([header, *rows], right=True), legend]


def _tested(row: Mapping[str, Any]) -> list[str]:
    if "test" in row:
        low, high = row["test"]["iqm_ci"]
        return [short(row["test"]["iqm"]), f"{short(low)} to {short(high)}"]
    return ["-", "-"]


def _score(score: float | None) -> str:
    return "diverged" if score is None else short(score)


def lucky(result: Mapping[str, Any]) -> str:
    """Say what else a reader should know: other finalists, and runs that diverged."""
    rows, winner = result["configurations"], result["winner"]
    said = []
    ours = rows[winner].get("test", {}).get("iqm", math.inf)
    ahead = [
        n for n, r in rows.items() if n != winner and r.get("test", {}).get("iqm", -math.inf) > ours
    ]
    others = [n for n in ahead if n != DEFAULT]
    if others:
        said.append(
            f"On the fresh seeds, {', '.join(others)} scored higher than the winner. The winner "
            "was chosen before the test: choosing by the test would make its score too high again."
        )
    for name, row in rows.items():
        if row.get("diverged"):
            many = len(row["diverged"])
            runs = "1 test run" if many == 1 else f"{many} test runs"
            said.append(f"{runs} of {name} diverged, which counts as the lowest test score.")
    return " ".join(said)


def chances(result: Mapping[str, Any]) -> list[str]:
    """Show how much each argument mattered."""
    found = sorted(result["importance"].items(), key=lambda item: -item[1]["effect"])
    lines = ["What mattered in the first rung (0 to 1; p: how often chance gives as much):"]
    for key, entry in found:
        way = {1: "higher was better", -1: "lower was better", 0: "by choice"}[entry["direction"]]
        way = way if entry["effect"] else "no difference seen"
        sure = "" if entry["p"] <= 0.05 or not entry["effect"] else ", may be chance"
        lines.append(f"  {key:<24}{entry['effect']:.2f}  p = {entry['p']:.2g}  {way}{sure}")
    return lines


def markdown(study: Study, result: Mapping[str, Any]) -> str:
    """Return the report as a page."""
    s, note = study.settings, lucky(result)
    rungs = [
        (i + 1, rung["epochs"], len(rung["scores"]), len(rung["continue"]), rung["rows"])
        for i, rung in enumerate(study.rungs)
    ]
    return PAGE.read_text(encoding="utf-8").format(
        algo=s.algo,
        env=result["env"],
        head="\n".join(head(study, result)),
        command=f"Command: `{study.command}`" if study.command else "",
        verdict=result["verdict"],
        note=f"{note}\n\n" if note else "",
        table="\n".join(table(result, s.test_seeds)),
        last=s.last,
        tuning_seeds=", ".join(map(str, s.tuning_seeds)),
        fresh_seeds=", ".join(map(str, s.fresh_seeds)) or "none",
        rungs="\n".join(_row(cells) for cells in rungs),
        importance="\n".join(chances(result)),
        configurations="\n".join(_every(study, result)),
    )


def _row(cells: Iterable[Any]) -> str:
    return f"| {' | '.join(map(str, cells))} |"


def _every(study: Study, result: Mapping[str, Any]) -> list[str]:
    keys = [d.key for d in study.settings.space]
    ends = [f"epoch {rung['epochs']}" for rung in study.rungs]
    lines = [_row(["configuration", *map(_short_key, keys), *ends])]
    lines.append("|" + "---|" * (1 + len(keys) + len(ends)))
    for name in study.trials:
        values = as_json(study.values_of(name))
        shown = [_value(values[key]) for key in keys]
        scores = [
            _score(rung["scores"][name]["score"]) if name in rung["scores"] else ""
            for rung in study.rungs
        ]
        lines.append(_row([name, *shown, *scores]))
    return lines


# ------------------------------------------------------------------------------------------ preset


def write_preset(path: Path, study: Study, result: Mapping[str, Any]) -> None:
    """Write the winner as a preset for `--preset`, with where it comes from."""
    s, name = study.settings, result["winner"]
    # A default is written out, so that the preset stays what was tested if defaults change.
    chosen = {k: v for k, v in study.values_of(name).items() if name != DEFAULT or ":" not in k}
    flat = {**s.base, **chosen, "epochs": s.epochs}
    preset: dict[str, Any] = {"env": flat.pop("env_name", None)}
    for key, value in flat.items():
        outer, _, inner = key.partition(":")
        if outer in ("logger_kwargs", "progress"):
            continue  # how these runs were logged
        if inner:
            preset.setdefault(outer, {})[inner] = value
        else:
            preset[outer] = value
    row = result["configurations"][name]
    preset["provenance"] = {
        "tool": f"spinup tune, version {__version__}",
        "command": study.command,
        "configuration": name,
        "configurations_tried": len(study.trials),
        "tuning_score": row["tuning"],
        "tuning_seeds": s.tuning_seeds,
        "test_iqm": row.get("test", {}).get("iqm"),
        "test_iqm_ci": row.get("test", {}).get("iqm_ci"),
        "test_seeds": s.fresh_seeds,
        "verdict": result["verdict"],
    }
    _write(path, json.dumps(convert_json(preset), indent=4) + "\n")
