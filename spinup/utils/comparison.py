"""The numbers of a comparison of algorithms, and what they amount to in words.

`compare_scores` takes scores that are comparable between environments, `efficiency` takes learning
curves; `spinup.utils.compare` reads both from run directories.
"""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spinup.utils import curves, stats
from spinup.utils.curves import Curve
from spinup.utils.errors import SpinupError

Scores = Mapping[str, Mapping[str, np.ndarray]]  # algorithm -> environment -> a score a run

LEVEL = 0.95  # of every interval that is shown
POWER = 0.8  # the chance at which a difference should be found, for the number of seeds
MOST_SEEDS = 1000  # beyond this, "more than"
POINTS, MOST_POINTS = 101, 250  # of sample-efficiency curves: the runs' own x unless too many
TAUS = 201  # of performance profiles
CURVE_REPS = 1000  # their bootstrap has no need of more
# One generator a purpose: the numbers of one do not depend on another being asked for.
_AGGREGATE, _IMPROVEMENT, _PERMUTATION, _PROFILE, _CURVE = range(5)


def compare_scores(scores: Scores, reps: int = 10_000, seed: int = 0) -> dict[str, Any]:
    """All numbers about the scores of two or more algorithms.

    Args:
        scores: Algorithm -> environment -> one score a run, comparable between environments.
            Numbers of runs may differ.
        reps: Replicates of the bootstrap.
        seed: Of the bootstrap: the same scores and seed give the same numbers.

    Returns:
        `algorithms` (name -> IQM and mean with intervals), `pairs` (one comparison each, with a
        `verdict` and a `sentence`) and `profiles`.
    """
    if reps < 100:
        raise SpinupError(f"--reps must be at least 100, not {reps}.")
    strata = {name: [np.asarray(s, dtype=float) for s in e.values()] for name, e in scores.items()}
    algorithms: dict[str, Any] = {}
    replicates = {}
    for i, (name, runs) in enumerate(strata.items()):
        joined, weights = np.concatenate(runs), stats.weights_of([len(r) for r in runs])
        entry: dict[str, Any] = {"runs": len(joined)}
        for k, (key, statistic) in enumerate((("iqm", stats.iqm), ("mean", stats.mean))):
            rng = np.random.default_rng([seed, _AGGREGATE, i, k])
            drawn = stats.bootstrap(runs, statistic, reps, rng)
            entry[key] = float(statistic(joined, weights))
            entry[f"{key}_ci"] = stats.interval(drawn, LEVEL).tolist()
            if key == "iqm":
                replicates[name] = drawn
        algorithms[name] = entry
    pairs = list(itertools.combinations(strata, 2))
    alpha = (1.0 - LEVEL) / len(pairs)
    return {
        "algorithms": algorithms,
        "pairs": [
            _compare_pair(
                *_better_first(pair, algorithms),
                strata,
                algorithms,
                replicates,
                alpha,
                reps,
                [seed, i],
            )
            for i, pair in enumerate(pairs)
        ],
        "profiles": _profiles(strata, min(reps, CURVE_REPS), seed),
    }


def _better_first(pair: tuple[str, str], algorithms: Mapping[str, Any]) -> tuple[str, str]:
    x, y = pair
    return (y, x) if algorithms[y]["iqm"] > algorithms[x]["iqm"] else (x, y)


def _compare_pair(
    x: str,
    y: str,
    strata: Mapping[str, list[np.ndarray]],
    algorithms: Mapping[str, Any],
    replicates: Mapping[str, np.ndarray],
    alpha: float,
    reps: int,
    seed: list[int],
) -> dict[str, Any]:
    xs, ys = strata[x], strata[y]
    difference = algorithms[x]["iqm"] - algorithms[y]["iqm"]
    differences = replicates[x] - replicates[y]
    improvement = stats.probability_of_improvement(xs, ys)
    improvements = stats.bootstrap_improvement(
        xs, ys, reps, np.random.default_rng([*seed, _IMPROVEMENT])
    )
    p = stats.permutation_p(xs, ys, reps, np.random.default_rng([*seed, _PERMUTATION]))
    sizes = [len(r) for r in xs], [len(r) for r in ys]
    possible = stats.smallest_p(*sizes)
    few = possible > alpha or min(*sizes[0], *sizes[1]) < 2
    # "Established" takes all three: each has a way to be wrong that the others do not share. A
    # bootstrap of few runs is too sure of itself, which the permutation test is not.
    low, _ = stats.interval(differences, 1.0 - alpha)
    likely, _ = stats.interval(improvements, 1.0 - alpha)
    established = not few and low > 0.0 and likely > 0.5 and p <= alpha
    pair: dict[str, Any] = {
        "x": x,
        "y": y,
        "iqm_difference": difference,
        "iqm_difference_ci": stats.interval(differences, LEVEL).tolist(),
        "improvement": improvement,
        "improvement_ci": stats.interval(improvements, LEVEL).tolist(),
        "p": p,
        "alpha": alpha,
        "smallest_p": possible,
        "seeds": {x: sizes[0], y: sizes[1]},
        "verdict": "established" if established else "too few seeds" if few else "not established",
    }
    spread = float(improvements.var()) / 2  # half of it from either side
    effects = [
        (difference, float(replicates[x].var()), float(replicates[y].var())),
        (improvement - 0.5, spread, spread),
    ]
    pair["more_seeds"] = 0 if established else more_seeds(effects, *sizes, alpha)
    pair["sentence"] = sentence(pair)
    return pair


def more_seeds(
    effects: Sequence[tuple[float, float, float]],
    sizes_x: Sequence[int],
    sizes_y: Sequence[int],
    alpha: float,
) -> int | None:
    """About how many more seeds, for both algorithms in every environment, would establish a
    difference as large as the one seen with probability `POWER`; None if more than `MOST_SEEDS`.

    Args:
        effects: For each statistic the difference seen and the variance that the runs of X and of Y
            give it (from the bootstrap). Variances fall as 1/n; with k more seeds the effect has to
            be z(1 - alpha/2) + z(POWER) standard errors, the usual rule for the size of a sample.
        sizes_x, sizes_y: Seeds so far in each environment.
        alpha: Level of the test.
    """
    normal = statistics.NormalDist()
    errors = normal.inv_cdf(1.0 - alpha / 2.0) + normal.inv_cdf(POWER)
    n, m = float(np.mean(sizes_x)), float(np.mean(sizes_y))
    known = min(*sizes_x, *sizes_y) > 1  # one seed says nothing about the spread

    def enough(k: int) -> bool:
        more_x, more_y = [s + k for s in sizes_x], [s + k for s in sizes_y]
        if min(more_x + more_y) < 3 or stats.smallest_p(more_x, more_y) > alpha:
            return False
        # The bootstrap's variance is that of n - 1 runs.
        return not known or all(
            var_x * n / (n - 1) * n / (n + k) + var_y * m / (m - 1) * m / (m + k)
            <= (effect / errors) ** 2
            and effect > 0.0
            for effect, var_x, var_y in effects
        )

    if not enough(MOST_SEEDS):
        return None
    low, high = 0, MOST_SEEDS  # not enough, enough
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def sentence(pair: Mapping[str, Any]) -> str:
    """A comparison in plain words."""
    x, y, more = pair["x"], pair["y"], pair["more_seeds"]
    low, high = pair["iqm_difference_ci"]
    size = (
        f"the IQM of {x} is higher by {short(pair['iqm_difference'])} "
        f"(95 % CI {short(low)} to {short(high)})"
    )
    chance = f"a run of {x} beats one of {y} with probability {pair['improvement']:.2f}"
    level = f"{100 * pair['alpha']:.2g} %"
    if pair["verdict"] == "established":
        return (
            f"Established: {x} is better than {y}; {size}, and {chance} "
            f"({pair['improvement_ci'][0]:.2f} to {pair['improvement_ci'][1]:.2f}); "
            f"p = {short(pair['p'])}. No more seeds are needed to say so."
        )
    each = "for both in each environment"
    if pair["verdict"] == "too few seeds":
        seeds = sorted({n for sizes in pair["seeds"].values() for n in sizes})
        counted = f"{seeds[0]}" if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
        if seeds[0] < 2:
            why = "a single seed does not show how much seeds differ"
        else:
            why = (
                f"no scores at all could be told from chance at the {level} level "
                f"(the smallest p-value possible is {short(pair['smallest_p'])})"
            )
        needed = f"more than {MOST_SEEDS} more seeds" if more is None else f"about {_seeds(more)}"
        return (
            f"Too few seeds to tell {x} from {y}: with {counted} in an environment {why}. So far "
            f"{size}; going by that, {needed} {each} would be needed."
        )
    if pair["iqm_difference"] == 0.0:
        return (
            f"Not established: no difference between {x} and {y} was seen; their IQMs are the "
            f"same and {chance} (p = {short(pair['p'])}). No number of seeds follows from that."
        )
    if more is None:
        advice = (
            f"It is so small against the spread of the seeds that more than {MOST_SEEDS} more "
            f"seeds {each} would be needed: for practical purposes they are level."
        )
    else:
        advice = (
            f"If it is as large as it looks, about {_seeds(more)} {each} would establish it with "
            f"probability {POWER:g}."
        )
    return (
        f"Not established: {x} against {y}; {size}, {chance}, which can be chance "
        f"(p = {short(pair['p'])} at the {level} level). {advice}"
    )


def _seeds(n: int) -> str:
    return f"{n} more seed{'' if n == 1 else 's'}"


def short(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"


def _profiles(strata: Mapping[str, list[np.ndarray]], reps: int, seed: int) -> dict[str, Any]:
    every = np.concatenate([np.concatenate(runs) for runs in strata.values()])
    margin = 0.02 * float(np.ptp(every)) or 1.0
    taus = np.linspace(every.min() - margin, every.max() + margin, TAUS)
    found: dict[str, Any] = {"tau": taus.tolist()}
    for i, (name, runs) in enumerate(strata.items()):
        drawn = stats.bootstrap_profile(
            runs, taus, reps, np.random.default_rng([seed, _PROFILE, i])
        )
        low, high = stats.interval(drawn, LEVEL)
        found[name] = {
            "share": stats.profile(runs, taus).tolist(),
            "low": low.tolist(),
            "high": high.tolist(),
        }
    return found


def efficiency(
    runs: Mapping[str, Mapping[str, Sequence[Curve]]],
    reference: Mapping[str, tuple[float, float]],
    reps: int = CURVE_REPS,
    seed: int = 0,
    smooth: int = 1,
) -> dict[str, Any]:
    """Sample-efficiency curves: the IQM over runs and environments against steps, with intervals.

    The x are those of the runs, or an even grid if these are many. Every run is interpolated
    inside its own range only. A curve is there where each environment
    has a run. If the environments were given different budgets, x is the share of each one's.
    """
    environments = list(next(iter(runs.values())))
    ends = {e: max(c[0][-1] for r in runs.values() for c in r[e]) for e in environments}
    same = max(ends.values()) <= 1.01 * min(ends.values())
    unit = dict.fromkeys(environments, 1.0) if same else ends
    every = [x / unit[e] for r in runs.values() for e in environments for x, _ in r[e]]
    grid = np.unique(np.concatenate(every))
    if len(grid) > MOST_POINTS:
        grid = np.linspace(0.0, grid[-1], POINTS)
    found: dict[str, Any] = {"unit": "steps" if same else "share"}
    for i, (name, envs) in enumerate(runs.items()):
        strata = []
        for env in environments:
            smoothed = [(x / unit[env], curves.smooth_values(y, smooth)) for x, y in envs[env]]
            strata.append(scaled(curves.at(smoothed, grid), reference[env]))
        line, low, high = _iqm_curve(strata, reps, [seed, _CURVE, i])
        there = np.isfinite(line)
        found[name] = {
            "x": grid[there].tolist(),
            "iqm": line[there].tolist(),
            "low": low[there].tolist(),
            "high": high[there].tolist(),
        }
    return found


def _iqm_curve(strata: list[np.ndarray], reps: int, seed: list[int]) -> np.ndarray:
    """Line, lower and upper edge from matrices (runs, points) with NaN where a run is not there."""
    result = np.full((3, strata[0].shape[1]), np.nan)
    there = np.isfinite(np.concatenate(strata))
    patterns, group = np.unique(there, axis=1, return_inverse=True)
    edges = np.cumsum([len(s) for s in strata])[:-1]
    for k, rows in enumerate(patterns.T):
        present = np.split(rows, edges)
        if not all(p.any() for p in present):
            continue
        columns = np.flatnonzero(group.reshape(-1) == k)
        part = [s[np.ix_(p, columns)] for s, p in zip(strata, present, strict=True)]
        weights = stats.weights_of([len(p) for p in part])
        drawn = stats.bootstrap(part, stats.iqm, reps, np.random.default_rng(seed))
        result[0, columns] = stats.iqm(np.concatenate(part).T, weights)
        result[1:, columns] = stats.interval(drawn, LEVEL)
    return result


def scaled(values: np.ndarray, reference: tuple[float, float]) -> np.ndarray:
    """Scores or curves on a scale where `reference` is 0 and 1."""
    low, high = reference
    return (values - low) / ((high - low) or 1.0)  # a pool of equal scores: all of them 0
