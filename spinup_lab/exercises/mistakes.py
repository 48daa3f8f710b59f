"""Known mistakes: the functions that make them, and the one that an answer equals."""

from __future__ import annotations

import importlib.abc
import importlib.util
import inspect
import linecache
import sys
import textwrap
import types
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from spinup_lab.exercises.comparing import equal_leaves, same
from spinup_lab.exercises.exercise import PARTS, Exercise, Wrong, resolve
from spinup_lab.exercises.outcomes import Outcome, outcomes

MOST_CASES = 0.8  # share of the cases in which an answer must equal a known mistake


@cache
def known_mistake(exercise: Exercise, wrong: Wrong) -> Callable[..., Any]:
    """Return the function of a known wrong answer."""
    if wrong.edits:
        return _edited(exercise, wrong)
    kind, _, name = wrong.function.partition(":")
    if kind == "zoo":
        zoo = importlib.import_module("spinup_lab.bugs")
        return zoo.function(name, exercise.reference.partition(":")[2])
    return resolve(wrong.function)


class _Text(importlib.abc.InspectLoader):
    """Loads a module from text, which `inspect.getsource` finds as it finds that of a file."""

    def __init__(self, source: str) -> None:
        self.source = source

    def get_source(self, fullname: str) -> str:
        return self.source

    def get_code(self, fullname: str) -> types.CodeType:
        lines = self.source.splitlines(keepends=True)
        linecache.cache[fullname] = (len(self.source), None, lines, fullname)
        return self.source_to_code(self.source, fullname)


def _edited(exercise: Exercise, wrong: Wrong) -> Callable[..., Any]:
    """Return a function (or class) whose source differs from the reference's by some edits."""
    reference = inspect.unwrap(resolve(exercise.reference))
    home = inspect.getmodule(reference)
    parts = [
        getattr(home, name) for name in PARTS.get(reference.__name__, ()) if hasattr(home, name)
    ]
    source = "\n".join(textwrap.dedent(inspect.getsource(x)) for x in (*parts, reference))
    for old, new in wrong.edits:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} occurs {source.count(old)} times in {reference.__name__}")
        source = source.replace(old, new)
    module = types.ModuleType("")
    module.__dict__.update(sys.modules[reference.__module__].__dict__)
    module.__name__ = f"<{exercise.id}: {wrong.name}>"
    loader = _Text(source)
    module.__spec__ = importlib.util.spec_from_loader(module.__name__, loader)
    loader.exec_module(module)
    return getattr(module, reference.__name__)


@cache
def of_reference(exercise: Exercise, seed: int) -> list[Outcome]:
    """Return what the right answer does on each case."""
    return outcomes(exercise, resolve(exercise.reference), seed)


@cache
def _of_mistake(exercise: Exercise, wrong: Wrong, seed: int) -> list[Outcome]:
    return outcomes(exercise, known_mistake(exercise, wrong), seed)


def misconception(
    exercise: Exercise, expected: list[Outcome], got: list[Outcome], seed: int
) -> tuple[str | None, str]:
    """Return the name and the story of the known mistake that an answer equals."""
    if not got or all(outcome.error for outcome in got):
        return None, ""
    for wrong in exercise.wrong:
        pairs = zip(_of_mistake(exercise, wrong, seed), got, strict=True)
        if all(same(exercise, a, b) for a, b in pairs):  # up to the first case that differs
            return wrong.name, wrong.story
    general = _general(expected, got)
    if general[0]:
        return general
    return _nearly(exercise, expected, got, seed)


def _nearly(
    exercise: Exercise, expected: list[Outcome], got: list[Outcome], seed: int
) -> tuple[str | None, str]:
    """Return a mistake that explains a part of what an answer does.

    It may fail in special cases as well, or have another mistake in something else it returns.
    """
    agree = {
        wrong: [
            same(exercise, a, b)
            for a, b in zip(_of_mistake(exercise, wrong, seed), got, strict=True)
        ]
        for wrong in exercise.wrong
    }
    fit = [not outcome.error for outcome in got]
    differ = [not same(exercise, a, b) for a, b in zip(expected, got, strict=True)]
    for wrong, equal in sorted(agree.items(), key=lambda item: -sum(item[1])):
        explained = [e for e, d, f in zip(equal, differ, fit, strict=True) if d and f]
        fits = [e for e, f in zip(equal, fit, strict=True) if f]
        if len(explained) > 1 and all(explained) and np.mean(fits) >= MOST_CASES:
            return wrong.name, f"In most cases, your answer equals this one: {wrong.story}"
    place = _first_difference(exercise, expected, got)
    for wrong in exercise.wrong if place else ():
        theirs = _of_mistake(exercise, wrong, seed)
        if _at(exercise, place, theirs, got) and not _at(exercise, place, theirs, expected):
            return wrong.name, f"Your {place} equals this one: {wrong.story}"
    return None, ""


def _first_difference(exercise: Exercise, expected: list[Outcome], got: list[Outcome]) -> str:
    """Return the first of several places that differs in some case, or ''."""
    for place in expected[0].leaves if len(expected[0].leaves) > 1 else ():
        if not _at(exercise, place, expected, got):
            return place
    return ""


def _at(exercise: Exercise, place: str, known: list[Outcome], got: list[Outcome]) -> bool:
    """Return whether outcomes are equal at one place, in all cases."""
    pairs = [(a.leaves.get(place), b.leaves.get(place)) for a, b in zip(known, got, strict=True)]
    return all(a and b and equal_leaves(exercise, a, b) for a, b in pairs)


def _general(expected: list[Outcome], got: list[Outcome]) -> tuple[str | None, str]:
    """Return a mistake that can be made in any exercise: a sign, or a factor."""
    factors = [_factor(a, b) for a, b in zip(expected, got, strict=True)]
    known = [f for f in factors if f is not None and not np.isnan(f)]
    if None in factors or not known or np.allclose(known, 1, rtol=1e-4):
        return None, ""
    if np.allclose(known, -1, rtol=1e-4):
        return "sign", "Every number has the right size and the wrong sign."
    if np.allclose(known, np.round(known), rtol=1e-4) and 1 == min(known) < max(known):
        story = (
            "For larger batches, every number is too large by a whole factor. Is it a sum over the "
            "batch, where a mean is wanted?"
        )
        return "sum-for-mean", story
    if np.allclose(known, known[0], rtol=1e-4):
        story = f"Every number is {known[0]:.4g} times the right one: is a factor missing?"
        return "factor", story
    return None, ""


def _factor(expected: Outcome, got: Outcome) -> float | None:
    """Return f if got = f * expected in what comes first; NaN if both are zero."""
    if got.error or expected.error:
        return None
    place, a = next(iter(expected.leaves.items()))
    b = got.leaves.get(place)
    if b is None or a.kind != "float" or b.kind != "float" or a.shape != b.shape:
        return None
    right, found = a.value.ravel(), b.value.ravel()
    some = np.abs(right) > 1e-6
    if not np.allclose(found[~some], 0, atol=1e-6):
        return None
    ratios = found[some] / right[some]
    if not len(ratios):
        return float("nan")
    return float(ratios[0]) if np.allclose(ratios, ratios[0], rtol=1e-4) else None
