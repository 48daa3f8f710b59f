"""Successive halving: after how many epochs configurations are compared, and which go on.

With 27 configurations and eta 3, all of them run for a ninth of the epochs, the best 9 continue to
a third, and the best 3 to the end. Runs continue instead of starting again, so this costs 3 + 2 + 2
= 7 runs of full length for each seed. The default configuration always continues.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

DEFAULT = "default"  # the name of the configuration that is never dropped


def default_rungs(trials: int, eta: int, epochs: int) -> int:
    """Return the number of rungs after which about `eta` of `trials` configurations are left."""
    rungs = 1
    while eta ** (rungs + 1) <= trials and eta**rungs <= epochs:
        rungs += 1
    return rungs


def rung_epochs(epochs: int, rungs: int, eta: int) -> list[int]:
    """Return the number of epochs at the end of each rung; the last is `epochs`."""
    return [math.ceil(epochs / eta ** (rungs - 1 - i)) for i in range(rungs)]


def rung_sizes(trials: int, rungs: int, eta: int) -> list[int]:
    """Return how many configurations each rung has; from the second on, the default is one more."""
    return [max(1, trials // eta**i) for i in range(rungs)]


def window(epoch: int, epochs: int, last: int) -> int:
    """Return over how many rows a score is averaged after `epoch` of `epochs` epochs.

    It is `last`, as in `spinup compare`; early on, when the curve rises fast, at most a third of
    the rows.
    """
    return last if epoch >= epochs else min(last, math.ceil(epoch / 3))


def ranked(scores: Mapping[str, float | None]) -> list[str]:
    """Return names from best to worst; those without a score (they diverged) are last.

    Equal scores keep their order, so that the result does not depend on who finished first.
    """
    return sorted(scores, key=lambda name: math.inf if scores[name] is None else -scores[name])  # type: ignore[operator]


def survivors(scores: Mapping[str, float | None], keep: int) -> list[str]:
    """Return the best `keep` names besides the default, in the order of `scores`, and the default.

    A configuration that diverged never survives, except for the default.
    """
    best = set([name for name in ranked(scores) if name != DEFAULT][:keep])
    return [
        name
        for name, score in scores.items()
        if name == DEFAULT or (name in best and score is not None)
    ]


def promotable(rung: Mapping[str, float | None], promoted: Sequence[str], eta: int) -> list[str]:
    """Return who may continue from an unfinished rung, best first (asynchronous halving).

    Of the configurations that have finished the rung, the best 1/eta may, and the default.
    """
    order = [name for name in ranked(rung) if name != DEFAULT]
    best = [name for name in order[: len(order) // eta] if rung[name] is not None]
    if DEFAULT in rung:
        best.append(DEFAULT)
    return [name for name in best if name not in promoted]


def full_runs(trials: int, rungs: int, eta: int, epochs: int) -> float:
    """Return the cost of the tuning, per seed, in runs of full length."""
    ends, sizes = rung_epochs(epochs, rungs, eta), rung_sizes(trials, rungs, eta)
    total, start = 0.0, 0
    for i, (end, size) in enumerate(zip(ends, sizes, strict=True)):
        total += (size + (i > 0)) * (end - start) / epochs  # the default is one more
        start = end
    return total
