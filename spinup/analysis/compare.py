"""Compare algorithms: which is better, by how much, and are there enough seeds to tell?

    python -m spinup.run compare data/ppo data/sac
    python -m spinup.run compare data/ppo data/td3 data/sac --save figures/ --json numbers.json

Each argument is one algorithm: a folder of its runs (or a prefix that several folders share), in
one or more environments. The statistics follow Agarwal et al., "Deep Reinforcement Learning at the
Edge of the Statistical Precipice" (2021), and are checked against the authors' `rliable`.
`docs/plotting.md` explains what each number means and when a difference counts as "established".
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spinup.analysis import compare_figures, curves, figures, labels, plot
from spinup.analysis.comparison import CURVE_REPS, Scores, compare_scores, efficiency, scaled, short
from spinup.analysis.curves import Curve
from spinup.utils.errors import SpinupError, one_line, printable_lines
from spinup.utils.reading import read_json
from spinup.utils.tables import aligned

# ------------------------------------------------------------------------------------------ reading


def read_algorithms(
    logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    xaxis: str = plot.DEFAULT_XAXIS,
    value: str = plot.DEFAULT_VALUE,
    until: float | None = None,
) -> dict[str, dict[str, list[Curve]]]:
    """Read one curve per run, in the environments that all algorithms share.

    The result maps algorithm -> environment -> curves.

    The name of a folder with runs selects only that folder; any other name is a prefix. Without a
    legend, algorithms are named after what varies between their runs. Runs that cannot be used are
    reported on standard error.
    """
    if len(logdirs) < 2:
        raise SpinupError(
            "a comparison needs at least two folders of runs: pass one for each algorithm"
        )
    names = _names(logdirs, legend)
    owners: dict[Path, str] = {}
    found: dict[str, dict[str, list[Curve]]] = {}
    every: list[curves.Run] = []
    belongs: list[str] = []
    for name, given in zip(names, logdirs, strict=True):
        folder = os.path.expanduser(given)
        # The folder of a grid has only the grid's state: its runs are in folders beside it.
        exact = os.path.isdir(folder) and any(curves.run_folders(Path(folder)))
        folders = [folder] if exact else curves.complete([given])
        runs = curves.read_runs(folders, {xaxis, value})
        found[name] = {}
        for run in runs:
            other = owners.setdefault(run.folder.resolve(), name)
            if other != name:
                raise SpinupError(
                    f"{run.folder} belongs to both {other} and {name}: pass separate folders"
                )
            if not run.length:
                continue
            curve = curves.curve_of(run, xaxis, value, until=until)
            if curve is not None:
                found[name].setdefault(run.env, []).append(curve)
        every += runs
        belongs += [name] * len(runs)
        if not runs:
            raise SpinupError(f"there are no runs in {given}: check the path")
        experiments = sorted({(run.env, run.exp_name) for run in runs})
        if len(experiments) > len({env for env, _ in experiments}):
            several = ", ".join(sorted({exp for _, exp in experiments}))
            _note(f"{name} combines several experiments into one algorithm ({several}).")
    logged = any({xaxis, value} <= set(run.columns) for run in every)
    if until is not None and logged and not any(found.values()):
        raise SpinupError(f"no run has a finite {value} before --until {until:g}: increase it")
    if not any(found.values()) and any(run.length for run in every):
        raise SpinupError(curves.no_column([run.header for run in every], xaxis, value))
    curves.report(every, "compare")
    if not legend:
        shown = dict(zip(belongs, labels.name_runs(every, belongs, [""] * len(every)), strict=True))
        found = {shown[name]: envs for name, envs in found.items()}
    return _common(found)


def _names(logdirs: Sequence[str], legend: Sequence[str] | None) -> list[str]:
    if legend and len(legend) != len(logdirs):
        raise SpinupError(
            f"--legend has {len(legend)} names for {len(logdirs)} folders: pass one for each"
        )
    names = list(legend or [os.path.basename(os.path.normpath(d)) for d in logdirs])
    if not legend and len(set(names)) < len(names):  # a/ppo and b/ppo
        names = [os.path.normpath(d) for d in logdirs]
    if len(set(names)) < len(names):
        raise SpinupError(
            f"two algorithms have the same name ({', '.join(names)}): use -l to name them"
        )
    return names


def _common(found: dict[str, dict[str, list[Curve]]]) -> dict[str, dict[str, list[Curve]]]:
    shared = set.intersection(*(set(envs) for envs in found.values()))
    if not shared:
        have = "; ".join(f"{name}: {', '.join(sorted(e)) or 'none'}" for name, e in found.items())
        raise SpinupError(
            f"the algorithms have no environment in common ({have}): add runs in a shared one"
        )
    for name, envs in found.items():
        alone = sorted(set(envs) - shared)
        if alone:
            _note(
                f"{name}'s runs in {', '.join(alone)} are left out because not all algorithms "
                "have runs there."
            )
    return {name: {env: envs[env] for env in sorted(shared)} for name, envs in found.items()}


def final_scores(runs: Mapping[str, Mapping[str, Sequence[Curve]]], last: int = 10) -> Scores:
    """Compute each run's score: the mean of its last `last` rows."""
    if last < 1:
        raise SpinupError(f"--last must be at least 1, not {last}")
    return {
        name: {env: np.array([y[-last:].mean() for _, y in c]) for env, c in envs.items()}
        for name, envs in runs.items()
    }


def _note(message: str) -> None:
    print(f"compare: {one_line(message)}", file=sys.stderr)


# ------------------------------------------------------------------------------------ normalization


def normalisation(given: Sequence[str] | None, scores: Scores) -> dict[str, tuple[float, float]]:
    """Choose the scores that map to 0 and to 1 in each environment.

    Args:
        given: `none`, `pool` (the lowest and highest scores of all runs), a JSON file
            `{"env": [low, high]}`, or `env=low,high` for each environment. The default is `none`
            for a single environment and `pool` for several, whose returns are not comparable.
    """
    environments = list(next(iter(scores.values())))
    words = list(given or ["pool" if len(environments) > 1 else "none"])
    if words == ["none"]:
        return dict.fromkeys(environments, (0.0, 1.0))
    if words == ["pool"]:
        pools = {e: np.concatenate([s[e] for s in scores.values()]) for e in environments}
        return {e: (float(p.min()), float(p.max())) for e, p in pools.items()}
    table = _read_reference(words[0]) if words[0].endswith(".json") else _parse_reference(words)
    missing = [e for e in environments if e not in table]
    if missing:
        raise SpinupError(f"--normalize has no scores for {', '.join(missing)}: add them")
    for env in environments:
        if not np.isfinite(table[env]).all():
            raise SpinupError(
                f"--normalize has a score for {env} that is not finite: pass two finite numbers"
            )
        if table[env][0] == table[env][1]:
            raise SpinupError(
                f"--normalize has the same score twice for {env}: pass two different scores"
            )
    return {e: table[e] for e in environments}


def _read_reference(path: str) -> dict[str, tuple[float, float]]:
    try:
        content = read_json(path)
        return {str(env): (float(low), float(high)) for env, (low, high) in content.items()}
    except OSError as error:
        raise SpinupError(f"{path} cannot be read ({error.strerror}): check the path") from None
    except (ValueError, TypeError, AttributeError, OverflowError):
        raise SpinupError(
            f'{path} must contain {{"environment": [low, high], ...}} as JSON'
        ) from None


def _parse_reference(words: Sequence[str]) -> dict[str, tuple[float, float]]:
    table = {}
    for word in words:
        env, _, pair = word.rpartition("=")
        try:
            low, high = (float(v) for v in pair.split(","))
        except ValueError:
            raise SpinupError(
                f"--normalize takes none, pool, a .json file or ENV=LOW,HIGH, not {word}"
            ) from None
        table[env] = (low, high)
    return table


# ------------------------------------------------------------------------------------------ numbers


def compare(
    logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    *,
    xaxis: str = plot.DEFAULT_XAXIS,
    value: str = plot.DEFAULT_VALUE,
    last: int = 10,
    until: float | None = None,
    normalise: Sequence[str] | None = None,
    smooth: int = 1,
    reps: int = 10_000,
    seed: int = 0,
) -> dict[str, Any]:
    """Read and compare runs; the result contains only plain types that JSON can store."""
    if seed < 0:
        raise SpinupError(f"--seed must be at least 0, not {seed}")
    curves.smooth_values([], smooth)  # raises for an invalid window before reading any files
    runs = read_algorithms(logdirs, legend, xaxis, value, until)
    raw = final_scores(runs, last)
    _note_lengths(runs, xaxis)
    reference = normalisation(normalise, raw)
    scores = {
        name: {env: scaled(s, reference[env]) for env, s in envs.items()}
        for name, envs in raw.items()
    }
    result: dict[str, Any] = {
        "xaxis": xaxis,
        "value": value,
        "last": last,
        "reps": reps,
        "seed": seed,
        "normalised": any(r != (0.0, 1.0) for r in reference.values()),
        "environments": {env: {"zero": low, "one": high} for env, (low, high) in reference.items()},
        "scores": {
            name: {env: s.tolist() for env, s in envs.items()} for name, envs in raw.items()
        },
    }
    result.update(compare_scores(scores, reps, seed))
    result["efficiency"] = efficiency(runs, reference, min(reps, CURVE_REPS), seed, smooth)
    return result


def _note_no_display() -> None:
    _note("there is no display, so the figure is written to a file.")


def _note_lengths(runs: Mapping[str, Mapping[str, Sequence[Curve]]], xaxis: str) -> None:
    for env in next(iter(runs.values())):
        ends = [c[0][-1] for envs in runs.values() for c in envs[env]]
        if min(ends) < 0.9 * max(ends):
            _note(
                f"the runs in {env} end between {figures.thousands(min(ends))} and "
                f"{figures.thousands(max(ends))} of {xaxis}, and each is scored at its own end "
                "(--until X ends all of them at X)."
            )


# ------------------------------------------------------------------------------------------- output


def text(result: Mapping[str, Any]) -> str:
    """Format the report that the command prints."""
    scores, environments = result["scores"], result["environments"]
    seeds = sorted({len(s) for envs in scores.values() for s in envs.values()})
    count = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    many = f"{len(environments)} environment{'s' if len(environments) > 1 else ''}"
    means = [
        [env, *(f"{np.mean(s[env]):.4g} ({len(s[env])})" for s in scores.values())]
        for env in environments
    ]
    lines = [
        f"{len(scores)} algorithms, {many}, {count} seed{'' if count == '1' else 's'} each. "
        f"A run's score is the mean of {result['value']} over its last {result['last']} rows.",
        "",
        *aligned([["environment", *scores], *means], rule=True),
        "(mean score, number of seeds)",
        "",
    ]
    if result["normalised"]:
        lines += [
            "From here on, scores are normalized: "
            + ", ".join(
                f"{env} {short(r['zero'])} to {short(r['one'])}" for env, r in environments.items()
            )
            + " become 0 to 1.",
            "",
        ]
    sides = [["algorithm", "runs", "IQM", "95% CI", "mean", "95% CI"]]
    for name, a in result["algorithms"].items():
        mean = [short(a["mean"]), _range(a["mean_ci"])]
        sides.append([name, str(a["runs"]), short(a["iqm"]), _range(a["iqm_ci"]), *mean])
    pairs = [["probability of improvement", "", "95% CI", "p"]]
    for p in result["pairs"]:
        chance = [f"{p['improvement']:.2f}", _range(p["improvement_ci"])]
        pairs.append([f"{p['x']} over {p['y']}", *chance, short(p["p"])])
    lines += [*aligned(sides, rule=True), "", *aligned(pairs, rule=True), ""]
    lines += [p["sentence"] for p in result["pairs"]]
    if len(result["pairs"]) > 1:
        lines.append(
            f"(The 5% level is divided among {len(result['pairs'])} comparisons: each uses "
            f"the {100 * result['pairs'][0]['alpha']:.2g}% level.)"
        )
    return "\n".join(lines)


def _range(pair: Sequence[float]) -> str:
    return f"{short(pair[0])} to {short(pair[1])}"


def make_comparison(
    logdirs: Sequence[str],
    legend: Sequence[str] | None = None,
    *,
    save: Sequence[str] | None = None,
    json_file: str | None = None,
    **options: Any,
) -> dict[str, Any]:
    """Compare runs, print the report, and save or show the figures.

    `options` are passed to `compare`.

    Returns:
        The result of `compare`.
    """
    _check_outputs(save, json_file)
    result = compare(logdirs, legend, **options)
    print(printable_lines(text(result)))
    if json_file:
        _write_json(Path(json_file), result)
    if not save and figures.can_show():
        compare_figures.show(result)
        return result
    if not save:
        _note_no_display()
    compare_figures.save_figures(result, save or ["spinup-compare.png"])
    return result


def _check_outputs(save: Sequence[str] | None, json_file: str | None) -> None:
    for given in save or []:
        suffix = Path(given).suffix.lower()
        if suffix in figures.FORMATS:
            figures.output_files(given)
        elif suffix and not os.path.isdir(given):
            raise SpinupError(
                f"--save takes a folder or a file that ends in {', '.join(figures.FORMATS)}, "
                f"not {given}"
            )
        else:
            figures.output_files(Path(given) / f"{compare_figures.PANELS[0]}.png")
    if json_file and not Path(json_file).absolute().parent.is_dir():
        raise SpinupError(f"cannot write {json_file} (there is no such folder): create it first")
    if json_file and Path(json_file).is_dir():
        raise SpinupError(f"cannot write {json_file} (it is a folder): pass a file name")


def _write_json(path: Path, result: Mapping[str, Any]) -> None:
    try:
        path.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise SpinupError(f"cannot write {path} ({error.strerror}): choose another file") from None
    print(f"wrote {path}")
