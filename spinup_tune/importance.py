"""How much each argument mattered among the configurations that a study tried.

The measure is simple: for numbers, the rank correlation (Spearman) of the value with the score of
the first rung, in which all configurations take part; for choices without an order, the square root
of the share of the variance of the scores' ranks that lies between the choices. Both are between 0
and 1. A p-value from shuffled scores shows what chance alone would give. Each argument is looked at
by itself: an effect that depends on another argument may be missed, and so may one that is best in
the middle of its range.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spinup.runs.arguments.config import as_json
from spinup_tune.spaces import Dimension

SHUFFLES = 2000


def importance(
    space: Sequence[Dimension],
    values: Mapping[str, Mapping[str, Any]],
    scores: Mapping[str, float | None],
) -> dict[str, dict[str, Any]]:
    """Return for each argument its `effect` (0 to 1), its `direction` and a p-value.

    `direction` is 1 if higher values scored higher, -1 if lower ones did, and 0 for choices without
    an order. Configurations that diverged count as the worst. For a range, a configuration without
    a number there is left out: the default's `target_kl` may be None.
    """
    names = [name for name in scores if name in values]
    worst = min((v for v in scores.values() if v is not None), default=0.0) - 1.0
    worth = [worst if (v := scores[name]) is None else v for name in names]
    found: dict[str, dict[str, Any]] = {}
    for i, dimension in enumerate(space):
        column = [values[name].get(dimension.key) for name in names]
        rng = np.random.default_rng([0, i])
        ordered = all(_is_number(v) for v in dimension.choices)  # a range has no choices
        at = [n for n, v in enumerate(column) if _is_number(v) or not ordered]
        ranks = rank([worth[n] for n in at])
        column = [column[n] for n in at]
        shuffled = np.array([rng.permutation(ranks) for _ in range(SHUFFLES)])
        if ordered:
            x = rank([float(v) for v in column if v is not None])
            effects, direction = _correlation(x, shuffled), _correlation(x, ranks[None])[0]
            effect = abs(direction)
            effects = np.abs(effects)
        else:
            groups = _groups(column)
            effect, effects = _between(groups, ranks[None])[0], _between(groups, shuffled)
            direction = 0.0
        p = (1 + int((effects >= effect - 1e-12).sum())) / (1 + SHUFFLES)
        found[dimension.key] = {
            "effect": round(float(effect), 4),
            "direction": int(np.sign(direction)),
            "p": round(p, 4),
        }
    return found


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def rank(values: Sequence[float]) -> np.ndarray:
    """Return ranks from 0; equal values share the mean of theirs."""
    array = np.asarray(values, dtype=float)
    less = (array[:, None] > array).sum(axis=1)
    same = (array[:, None] == array).sum(axis=1)
    return less + (same - 1) / 2.0


def _correlation(x: np.ndarray, ys: np.ndarray) -> np.ndarray:
    x, ys = x - x.mean(), ys - ys.mean(axis=1, keepdims=True)
    scale = np.sqrt((x**2).sum() * (ys**2).sum(axis=1))
    return np.divide(ys @ x, scale, out=np.zeros(len(ys)), where=scale > 0)


def _groups(column: Sequence[Any]) -> np.ndarray:
    """Return a matrix with one row per choice, which has ones where it was tried."""
    texts = [json.dumps(as_json(v), sort_keys=True) for v in column]
    return np.array([[text == kind for text in texts] for kind in sorted(set(texts))], dtype=float)


def _between(groups: np.ndarray, ys: np.ndarray) -> np.ndarray:
    ys = ys - ys.mean(axis=1, keepdims=True)
    counts = groups.sum(axis=1)
    between = ((ys @ groups.T) ** 2 / counts).sum(axis=1)
    total = (ys**2).sum(axis=1)
    return np.sqrt(np.divide(between, total, out=np.zeros(len(ys)), where=total > 0))
