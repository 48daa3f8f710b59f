"""Statistics for small numbers of runs: IQM, bootstrap, probability of improvement.

The conventions follow Agarwal et al., "Deep Reinforcement Learning at the Edge of the
Statistical Precipice" (2021): runs are the last axis, environments are strata, and intervals
are percentiles of a bootstrap that resamples runs within each environment. Every environment has
the same weight, however many runs it has; if all environments have equally many runs, the result
equals the unweighted statistic of all runs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

# Maximum number of floats per chunk of a bootstrap (64 MB).
_PIECE = 8_000_000


def weights_of(sizes: Sequence[int]) -> np.ndarray:
    """Weight each run so that the runs of each of n environments add up to 1/n."""
    return np.concatenate([np.full(n, 1.0 / (n * len(sizes))) for n in sizes])


def mean(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Compute the mean over the last axis.

    With the weights from `weights_of`, it is the mean of the environments' means.
    """
    return np.mean(values, axis=-1) if weights is None else values @ weights


def iqm(values: np.ndarray, weights: np.ndarray | None = None) -> np.ndarray:
    """Compute the interquartile mean over the last axis: drop the lowest and highest quarters.

    Of n values, the int(n / 4) lowest and the int(n / 4) highest are dropped, so for fewer than
    four values it is the plain mean. With weights, the same fraction of the total weight is dropped
    at each end; a value at the boundary keeps only the part of its weight that lies inside.
    """
    values = np.asarray(values, dtype=float)
    n = values.shape[-1]
    cut = n // 4
    if weights is None or np.ptp(weights) == 0.0:
        if cut == 0:
            return values.mean(axis=-1)
        middle = np.partition(values, (cut, n - cut - 1), axis=-1)[..., cut : n - cut]
        return middle.mean(axis=-1)
    order = np.argsort(values, axis=-1)
    share = cut / n
    upper = np.cumsum(weights[order], axis=-1)
    upper /= upper[..., -1:]
    inside = np.clip(upper, share, 1.0 - share)
    kept = np.diff(inside, axis=-1, prepend=share)
    return (np.take_along_axis(values, order, axis=-1) * kept).sum(axis=-1) / (1.0 - 2.0 * share)


def resamples(
    sizes: Sequence[int], reps: int, rng: np.random.Generator, width: int = 1
) -> Iterator[np.ndarray]:
    """Yield indices for a stratified bootstrap as (rows, runs) arrays, `reps` rows in total.

    Runs are drawn with replacement within each environment. The indices come in chunks that are
    small enough to keep `width` numbers per index in memory.
    """
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    first = np.repeat(starts, sizes)
    size = np.repeat(np.asarray(sizes), sizes)
    piece = max(1, _PIECE // max(1, len(size) * width))
    for start in range(0, reps, piece):
        rows = min(piece, reps - start)
        # Draws come row by row from one stream, so they do not depend on the chunk size.
        yield first + np.floor(rng.random((rows, len(size))) * size).astype(int)


def bootstrap(
    strata: Sequence[np.ndarray],
    statistic: Callable[[np.ndarray, np.ndarray], np.ndarray],
    reps: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Compute `reps` stratified bootstrap replicates of `statistic(values, weights)`.

    Args:
        strata: One array per environment: (runs,) or, for curves, (runs, points).
    """
    joined = np.concatenate(strata)
    sizes = [len(s) for s in strata]
    weights = weights_of(sizes)
    width = int(np.prod(joined.shape[1:], dtype=int))
    parts = [
        statistic(np.moveaxis(joined[index], 1, -1), weights)
        for index in resamples(sizes, reps, rng, width)
    ]
    return np.concatenate(parts)


def interval(replicates: np.ndarray, level: float = 0.95) -> np.ndarray:
    """Compute the percentile interval over the first axis, as an array (2, ...)."""
    tail = 50.0 * (1.0 - level)
    return np.percentile(replicates, [tail, 100.0 - tail], axis=0)


def probability_of_improvement(xs: Sequence[np.ndarray], ys: Sequence[np.ndarray]) -> float:
    """Estimate the probability that a run of X beats a run of Y in the same environment.

    Ties count as half; the result is averaged over environments.
    """
    return float(np.mean([_beats(x, y).mean() for x, y in zip(xs, ys, strict=True)]))


def _beats(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return (x[:, None] > y) + 0.5 * (x[:, None] == y)


def bootstrap_improvement(
    xs: Sequence[np.ndarray], ys: Sequence[np.ndarray], reps: int, rng: np.random.Generator
) -> np.ndarray:
    """Bootstrap `probability_of_improvement`, drawing the runs of X and Y independently."""
    total = np.zeros(reps)
    for x, y in zip(xs, ys, strict=True):
        won = _beats(x, y)
        # Only the draw counts matter: sums over resampled pairs become matrix products.
        drawn_x, drawn_y = times_drawn(len(x), reps, rng), times_drawn(len(y), reps, rng)
        total += ((drawn_x @ won) * drawn_y).sum(axis=1) / won.size
    return total / len(xs)


def times_drawn(n: int, reps: int, rng: np.random.Generator) -> np.ndarray:
    """Draw how often each of n runs appears in each resample: (reps, n), rows add up to n."""
    return rng.multinomial(n, np.full(n, 1.0 / n), size=reps).astype(float)


def profile(strata: Sequence[np.ndarray], taus: np.ndarray) -> np.ndarray:
    """Compute the performance profile: the fraction of runs that score above each tau."""
    return np.mean([(s[:, None] > taus).mean(axis=0) for s in strata], axis=0)


def bootstrap_profile(
    strata: Sequence[np.ndarray], taus: np.ndarray, reps: int, rng: np.random.Generator
) -> np.ndarray:
    """Compute `reps` bootstrap replicates of `profile`."""
    total = np.zeros((reps, len(taus)))
    for s in strata:
        total += times_drawn(len(s), reps, rng) @ (s[:, None] > taus).astype(float) / len(s)
    return total / len(strata)


def permutation_p(
    xs: Sequence[np.ndarray], ys: Sequence[np.ndarray], reps: int, rng: np.random.Generator
) -> float:
    """Compute the two-sided p-value of the hypothesis that the two algorithms do not differ.

    Labels are permuted within each environment: exhaustively if there are at most `reps`
    permutations, else at random. The statistic is the probability of improvement. Unlike a
    bootstrap interval, this test stays valid with very few runs.
    """
    seen = abs(probability_of_improvement(xs, ys) - 0.5) - 1e-9
    sizes = [(len(x), len(y)) for x, y in zip(xs, ys, strict=True)]
    exact = math.prod(math.comb(n + m, n) for n, m in sizes) <= reps
    total = np.zeros(1 if exact else reps)
    for (n, m), x, y in zip(sizes, xs, ys, strict=True):
        pool = np.concatenate([x, y])
        ranks = _beats(pool, pool).sum(axis=1) + 0.5  # midranks, from 1
        if exact:
            chosen = np.array(list(itertools.combinations(range(n + m), n)))
        else:
            chosen = np.argsort(rng.random((reps, n + m)), axis=1)[:, :n]
        better = (ranks[chosen].sum(axis=1) - n * (n + 1) / 2) / (n * m)
        # If exact, combine every permutation of one environment with every permutation of the next.
        # Otherwise, pair the random permutations: the i-th of one with the i-th of the next.
        total = np.add.outer(total, better).reshape(-1) if exact else total + better
    extreme = np.abs(total / len(xs) - 0.5) >= seen
    if exact:
        return float(extreme.mean())
    return float(
        (1 + extreme.sum()) / (1 + reps)
    )  # the 1 counts the observed labels as a permutation


def smallest_p(sizes_x: Sequence[int], sizes_y: Sequence[int]) -> float:
    """Return the smallest p-value that `permutation_p` can give for these numbers of runs."""
    # Use logarithms: with many runs, the number of permutations overflows a float.
    ways = sum(
        math.lgamma(n + m + 1) - math.lgamma(n + 1) - math.lgamma(m + 1)
        for n, m in zip(sizes_x, sizes_y, strict=True)
    )
    return min(1.0, 2.0 * math.exp(-ways))
