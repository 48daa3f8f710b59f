"""Statistics for comparing algorithms, and sentences that explain them.

`compare_scores` takes scores that are comparable across environments, and `efficiency` takes
learning curves; `spinup.analysis.compare` reads both from run directories.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from spinup.analysis import curves, stats
from spinup.analysis.curves import Curve
from spinup.analysis.texts import TEXTS
from spinup.utils.errors import SpinupError

Scores = Mapping[str, Mapping[str, np.ndarray]]  # algorithm -> environment -> one score per run

LEVEL = 0.95  # confidence level of every interval shown
POWER = 0.8  # probability of detecting a difference, for the recommended number of seeds
MOST_SEEDS = 1000  # a larger number is reported as "more than 1000"
POINTS, MOST_POINTS = (
    101,
    250,
)  # of sample-efficiency curves: an even grid of POINTS replaces more than MOST_POINTS logged x
TAUS = 201  # number of thresholds in a performance profile
CURVE_REPS = 1000  # bootstrap replicates for profiles and curves, which need no more
# One RNG per purpose, so that the statistics do not affect each other's random numbers.
_AGGREGATE, _IMPROVEMENT, _PERMUTATION, _PROFILE, _CURVE = range(1, 6)


def compare_scores(scores: Scores, reps: int = 10_000, seed: int = 0) -> dict[str, Any]:
    """Compute all statistics for the scores of two or more algorithms.

    Args:
        scores: Algorithm -> environment -> one score per run, comparable across environments. The
            numbers of runs may differ.
        reps: Bootstrap replicates.
        seed: Seed of the bootstrap; the same scores and seed give the same result.

    Returns:
        `algorithms` (name -> IQM and mean with intervals), `pairs` (one entry per pair of
        algorithms, with a `verdict` and a `sentence`) and `profiles`.
    """
    if len(scores) < 2:
        raise SpinupError(
            "a comparison needs at least two algorithms: add the scores of another one"
        )
    if reps < 100:
        raise SpinupError(f"--reps must be at least 100, not {reps}")
    sides = [
        _side(name, list(runs.values()), reps, seed, i)
        for i, (name, runs) in enumerate(scores.items())
    ]
    pairs = list(itertools.combinations(sides, 2))
    alpha = (1.0 - LEVEL) / len(pairs)
    return {
        "algorithms": {side.name: side.numbers for side in sides},
        "pairs": [
            _compare_pair(*_better_first(x, y), alpha, reps, seed, i)
            for i, (x, y) in enumerate(pairs)
        ],
        "profiles": _profiles(sides, min(reps, CURVE_REPS), seed),
    }


def describe_scores(
    runs: Mapping[str, np.ndarray], reps: int = 10_000, seed: int = 0
) -> dict[str, Any]:
    """Return the IQM and the mean of one algorithm's scores, with intervals."""
    return _side("", list(runs.values()), reps, seed, 0).numbers


def _rng(seed: int, purpose: int, i: int, k: int = 0) -> np.random.Generator:
    # Always pass four numbers: NumPy seeds a shorter list as if it were padded with zeros.
    return np.random.default_rng([seed, purpose, i, k])


@dataclass
class _Side:
    """One algorithm: its scores in each environment, their statistics, and resampled IQMs."""

    name: str
    runs: list[np.ndarray]
    numbers: dict[str, Any]
    iqms: np.ndarray

    @property
    def sizes(self) -> list[int]:
        return [len(r) for r in self.runs]


def _side(name: str, scores: Sequence[Any], reps: int, seed: int, i: int) -> _Side:
    runs = [np.asarray(s, dtype=float) for s in scores]
    joined, weights = np.concatenate(runs), stats.weights_of([len(r) for r in runs])
    iqms = stats.bootstrap(runs, stats.iqm, reps, _rng(seed, _AGGREGATE, i, 0))
    means = stats.bootstrap(runs, stats.mean, reps, _rng(seed, _AGGREGATE, i, 1))
    numbers = {
        "runs": len(joined),
        "iqm": float(stats.iqm(joined, weights)),
        "iqm_ci": stats.interval(iqms, LEVEL).tolist(),
        "mean": float(stats.mean(joined, weights)),
        "mean_ci": stats.interval(means, LEVEL).tolist(),
    }
    return _Side(name, runs, numbers, iqms)


def _better_first(x: _Side, y: _Side) -> tuple[_Side, _Side]:
    return (y, x) if y.numbers["iqm"] > x.numbers["iqm"] else (x, y)


def _compare_pair(x: _Side, y: _Side, alpha: float, reps: int, seed: int, i: int) -> dict[str, Any]:
    difference = x.numbers["iqm"] - y.numbers["iqm"]
    differences = x.iqms - y.iqms
    improvement = stats.probability_of_improvement(x.runs, y.runs)
    improvements = stats.bootstrap_improvement(x.runs, y.runs, reps, _rng(seed, _IMPROVEMENT, i))
    p = stats.permutation_p(x.runs, y.runs, reps, _rng(seed, _PERMUTATION, i))
    possible = stats.smallest_p(x.sizes, y.sizes)
    # "Established" requires all three criteria, because each can fail where the others do not.
    # With few runs, a bootstrap is overconfident; the permutation test is not.
    low, _ = stats.interval(differences, 1.0 - alpha)
    likely, _ = stats.interval(improvements, 1.0 - alpha)
    if possible > alpha or min(*x.sizes, *y.sizes) < 2:
        verdict = "too few seeds"
    elif low > 0.0 and likely > 0.5 and p <= alpha:
        verdict = "established"
    else:
        verdict = "not established"
    spread = float(improvements.var()) / 2  # attribute half of the variance to each algorithm
    effects = [
        (difference, float(x.iqms.var()), float(y.iqms.var())),
        (improvement - 0.5, spread, spread),
    ]
    sizes = (x.sizes, y.sizes)
    more = 0 if verdict == "established" else more_seeds(effects, *sizes, alpha, ranked=True)
    pair: dict[str, Any] = {
        "x": x.name,
        "y": y.name,
        "iqm_difference": difference,
        "iqm_difference_ci": stats.interval(differences, LEVEL).tolist(),
        "improvement": improvement,
        "improvement_ci": stats.interval(improvements, LEVEL).tolist(),
        "p": p,
        "alpha": alpha,
        "smallest_p": possible,
        "seeds": {x.name: x.sizes, y.name: y.sizes},
        "verdict": verdict,
        "more_seeds": more,
    }
    pair["sentence"] = sentence(pair)
    return pair


def more_seeds(
    effects: Sequence[tuple[float, float, float]],
    sizes_x: Sequence[int],
    sizes_y: Sequence[int],
    alpha: float,
    *,
    ranked: bool = False,
) -> int | None:
    """Estimate how many more seeds would establish a difference of the observed size.

    The result is the number of additional seeds that both algorithms need in every environment to
    establish the difference with probability `POWER`; None if it exceeds `MOST_SEEDS`.

    Args:
        effects: For each statistic, the observed difference and the variances that X's and Y's runs
            contribute to it (from the bootstrap). Variances shrink as 1/n. With k more seeds, the
            difference must be at least z(1 - alpha/2) + z(POWER) standard errors, the usual rule
            for sample sizes.
        sizes_x, sizes_y: Current number of seeds in each environment.
        alpha: Significance level of the test.
        ranked: Whether the last effect is a probability of improvement minus 1/2, which the
            permutation test must also distinguish from chance. Under the null hypothesis, its
            variance in one environment is (n + m + 1) / (12 n m), whatever the scores.
    """
    normal = statistics.NormalDist()
    level, power = normal.inv_cdf(1.0 - alpha / 2.0), normal.inv_cdf(POWER)
    n, m = float(np.mean(sizes_x)), float(np.mean(sizes_y))
    known = min(*sizes_x, *sizes_y) > 1  # a single seed does not reveal the variance

    def enough(k: int) -> bool:
        more_x, more_y = [s + k for s in sizes_x], [s + k for s in sizes_y]
        if min(more_x + more_y) < 3 or stats.smallest_p(more_x, more_y) > alpha:
            return False
        if not known:
            return True
        # The bootstrap underestimates the variance by the factor (n - 1) / n.
        deviations = [
            math.sqrt(var_x * n / (n - 1) * n / (n + k) + var_y * m / (m - 1) * m / (m + k))
            for _, var_x, var_y in effects
        ]
        needed = [(level + power) * deviation for deviation in deviations]
        if ranked:
            pairs = zip(more_x, more_y, strict=True)
            chance = math.sqrt(sum((a + b + 1) / (12 * a * b) for a, b in pairs)) / len(more_x)
            needed[-1] = max(needed[-1], level * chance + power * deviations[-1])
        return all(0.0 < e[0] >= least for e, least in zip(effects, needed, strict=True))

    if not enough(MOST_SEEDS):
        return None
    low, high = 0, MOST_SEEDS  # not enough, enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def sentence(pair: Mapping[str, Any]) -> str:
    """Describe the comparison of a pair in words, which are in `texts.toml`."""
    texts, more = TEXTS["verdicts"], pair["more_seeds"]
    seeds = sorted({n for sizes in pair["seeds"].values() for n in sizes})
    plural = "" if more == 1 else "s"
    said: dict[str, Any] = {
        **{key: pair[key] for key in ("x", "y")},
        **{key: short(pair[key]) for key in ("p", "smallest_p")},
        "difference": short(pair["iqm_difference"]),
        "improvement": f"{pair['improvement']:.2f}",
        "level": f"{100 * pair['alpha']:.2g}%",
        "power": f"{POWER:g}",
        "seeds": f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}",
        "needed": f"more than {MOST_SEEDS} more seeds"
        if more is None
        else f"about {more} more seed{plural}",
    }
    said["lowest"], said["highest"] = map(short, pair["iqm_difference_ci"])
    said["likely_low"], said["likely_high"] = (f"{v:.2f}" for v in pair["improvement_ci"])

    def fill(key: str) -> str:
        text: str = texts[key].format(**said)
        return text

    said.update(size=fill("size"), chance=fill("chance"))
    if pair["verdict"] == "established":
        return fill("established")
    seen = "disagree" if pair["improvement"] <= 0.5 else "unlike"
    if pair["iqm_difference"] == 0.0:
        seen = "same"
    if pair["verdict"] == "too few seeds":
        said["why"] = fill("why_single" if seeds[0] < 2 else "why_level")
        said["seen"] = fill(f"seen_{seen}")
        return fill("too_few")
    said["advice"] = fill("advice_tiny" if more is None else "advice_more")
    return fill(seen)


def short(value: float) -> str:
    """Format a number with three significant digits, or as an integer from 1000 on."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _profiles(sides: Sequence[_Side], reps: int, seed: int) -> dict[str, Any]:
    every = np.concatenate([np.concatenate(side.runs) for side in sides])
    margin = 0.02 * float(np.ptp(every)) or 1.0
    taus = np.linspace(every.min() - margin, every.max() + margin, TAUS)
    found: dict[str, Any] = {}
    for i, side in enumerate(sides):
        drawn = stats.bootstrap_profile(side.runs, taus, reps, _rng(seed, _PROFILE, i))
        low, high = stats.interval(drawn, LEVEL)
        found[side.name] = {
            "share": stats.profile(side.runs, taus).tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
        }
    return {"tau": taus.tolist(), "algorithms": found}


def efficiency(
    runs: Mapping[str, Mapping[str, Sequence[Curve]]],
    reference: Mapping[str, tuple[float, float]],
    reps: int = CURVE_REPS,
    seed: int = 0,
    smooth: int = 1,
) -> dict[str, Any]:
    """Compute sample-efficiency curves: the IQM over runs and environments, with intervals.

    The x values are the steps that the runs logged, or an even grid if there are too many. Runs are
    interpolated but never extrapolated. A curve exists only where every environment has a run. If
    the environments have different step budgets, x is the fraction of each budget.
    """
    environments = list(next(iter(runs.values())))
    ends = {e: max(c[0][-1] for r in runs.values() for c in r[e]) for e in environments}
    same = max(ends.values()) <= 1.01 * min(ends.values())
    unit = dict.fromkeys(environments, 1.0) if same else ends
    every = [x / unit[e] for r in runs.values() for e in environments for x, _ in r[e]]
    grid = np.unique(np.concatenate(every))
    if len(grid) > MOST_POINTS:
        grid = np.linspace(0.0, grid[-1], POINTS)
    found: dict[str, Any] = {}
    for i, (name, envs) in enumerate(runs.items()):
        strata = []
        for env in environments:
            smoothed = [(x / unit[env], curves.smooth_values(y, smooth)) for x, y in envs[env]]
            strata.append(scaled(curves.at(smoothed, grid), reference[env]))
        line, low, high = _iqm_curve(strata, reps, seed, i)
        there = np.isfinite(line)
        found[name] = {
            "x": grid[there].tolist(),
            "iqm": line[there].tolist(),
            "low": low[there].tolist(),
            "high": high[there].tolist(),
        }
    return {"unit": "steps" if same else "share", "algorithms": found}


def _iqm_curve(strata: list[np.ndarray], reps: int, seed: int, i: int) -> np.ndarray:
    """Return the IQM and its interval at each point of (runs, points) matrices; NaN is missing."""
    result = np.full((3, strata[0].shape[1]), np.nan)
    edges = np.cumsum([len(s) for s in strata])[:-1]
    for rows, columns in curves.alike(np.concatenate(strata)):
        present = np.split(rows, edges)
        if not all(p.any() for p in present):
            continue
        part = [s[np.ix_(p, columns)] for s, p in zip(strata, present, strict=True)]
        weights = stats.weights_of([len(p) for p in part])
        drawn = stats.bootstrap(part, stats.iqm, reps, _rng(seed, _CURVE, i))
        result[0, columns] = stats.iqm(np.concatenate(part).T, weights)
        result[1:, columns] = stats.interval(drawn, LEVEL)
    return result


def scaled(values: np.ndarray, reference: tuple[float, float]) -> np.ndarray:
    """Rescale scores or curves so that the two `reference` scores become 0 and 1."""
    low, high = reference
    return (values - low) / ((high - low) or 1.0)  # if all pooled scores are equal, they become 0
