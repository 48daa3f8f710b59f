"""Choose the configurations of a study: at random, evenly spread (Sobol), or with Optuna.

Everything is seeded: the same space, sampler and seed give the same configurations. A sampler of
Optuna also learns from scores; each batch is a function of the seed and of the scores before it.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from spinup.runs.arguments.config import as_json
from spinup.utils.errors import SpinupError
from spinup_tune.spaces import Dimension

Values = dict[str, Any]  # the values of one configuration, by argument
# Samplers that need no scores, so that all configurations can be chosen at once.
PLAIN = ("sobol", "random")
OPTUNA = {"tpe": "TPESampler", "gp": "GPSampler"}
SAMPLERS = (*PLAIN, *OPTUNA)
_MISSES = 1000  # repeated configurations in a row before a space counts as exhausted


def sample(
    space: Sequence[Dimension], sampler: str, seed: int, count: int, taken: Sequence[Values]
) -> list[Values]:
    """Return up to `count` configurations that differ from each other and from those `taken`.

    There are fewer if the space has no more.
    """
    known = {_key(values) for values in taken}
    found: list[Values] = []
    misses = 0
    points = _sobol(len(space), seed) if sampler == "sobol" else _random(len(space), seed)
    while len(found) < count and misses < _MISSES:
        values = {d.key: d.at(float(u)) for d, u in zip(space, next(points), strict=True)}
        if _key(values) in known:
            misses += 1
            continue
        known.add(_key(values))
        found.append(values)
        misses = 0
    return found


def _key(values: Mapping[str, Any]) -> str:
    return json.dumps(as_json(values), sort_keys=True)


def _random(dimensions: int, seed: int) -> Iterator[np.ndarray]:
    rng = np.random.default_rng([seed, dimensions])
    while True:
        yield rng.random(dimensions)


def _sobol(dimensions: int, seed: int) -> Iterator[np.ndarray]:
    """Yield the points of a scrambled Sobol sequence, which cover the cube more evenly."""
    from torch.quasirandom import SobolEngine

    engine = SobolEngine(dimensions, scramble=True, seed=seed % 2**63)
    while True:
        yield engine.draw(1).double().numpy()[0]


# ------------------------------------------------------------------------------------------ Optuna


def need_optuna(sampler: str) -> Any:
    """Return Optuna; raise an error that names the extra if it is not installed."""
    try:
        return importlib.import_module("optuna")
    except ImportError as error:
        raise SpinupError(
            f"the sampler '{sampler}' needs Optuna, which cannot be imported here ({error}): run "
            "pip install 'spinup[tune]', or use --sampler sobol"
        ) from error


def suggest(
    space: Sequence[Dimension],
    sampler: str,
    seed: int,
    count: int,
    scored: Sequence[tuple[Values, float]],
    possible: Callable[[Values], bool] = lambda values: True,
) -> list[Values]:
    """Return up to `count` configurations that a sampler of Optuna proposes after these scores.

    Repeated and impossible ones are replaced by random ones. There are fewer if the space has no
    more. The sampler is created anew for each batch, so an interrupted study continues as if it had
    not been.
    """
    optuna = need_optuna(sampler)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = {d.key: _distribution(optuna, d) for d in space}
    options: dict[str, Any] = {"seed": (seed * 1_000_003 + len(scored)) % 2**32}
    if sampler == "tpe":
        # Within a batch, configurations without a score keep the next ones away from them.
        options |= {"constant_liar": True, "multivariate": True, "n_startup_trials": 0}
    study = optuna.create_study(
        direction="maximize", sampler=_quietly(getattr(optuna.samplers, OPTUNA[sampler]), options)
    )
    for values, score in scored:
        inside = {k: _inside(d, values) for k, d in ((d.key, d) for d in space)}
        if None in inside.values():  # the default may lie outside of the space
            continue
        params = {k: v for k, v in inside.items() if v is not None}
        study.add_trial(
            optuna.trial.create_trial(
                params=params, distributions=distributions, value=float(score)
            )
        )
    known = [values for values, _ in scored]
    keys, found = {_key(values) for values in known}, []
    for _ in range(count):
        asked = study.ask(distributions)
        values = {d.key: _value(d, asked.params[d.key]) for d in space}
        if _key(values) not in keys:
            keys.add(_key(values))
            known.append(values)
            if possible(values):
                found.append(values)
    left = count - len(found)
    while left:
        more = sample(space, "random", seed + len(scored), left, known)
        if not more:
            break
        known += more
        found += filter(possible, more)
        left = count - len(found)
    return found


def _quietly(make: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # arguments that Optuna calls experimental
        return make(**options)


def _distribution(optuna: Any, dimension: Dimension) -> Any:
    made = optuna.distributions
    if dimension.choices:
        return made.CategoricalDistribution(tuple(range(len(dimension.choices))))
    low, high = dimension.low, dimension.high
    if dimension.whole:
        return made.IntDistribution(int(low), int(high), log=dimension.log)
    return made.FloatDistribution(low, high, log=dimension.log)


def _inside(dimension: Dimension, values: Mapping[str, Any]) -> Any:
    """Return a value as Optuna knows it (a choice by its number); None if it is outside."""
    value = values.get(dimension.key)
    if dimension.choices:
        known = [as_json(choice) for choice in dimension.choices]
        return known.index(as_json(value)) if as_json(value) in known else None
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return value if dimension.low <= value <= dimension.high else None


def _value(dimension: Dimension, value: Any) -> Any:
    if dimension.choices:
        return dimension.choices[int(value)]
    if dimension.whole:
        return int(value)
    return dimension.rounded(value)
