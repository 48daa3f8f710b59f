"""Compares what an answer returned with what the right one returns, and says how they differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from spinup_lab.exercises.exercise import Case, Difference, Exercise
from spinup_lab.exercises.outcomes import Leaf, Outcome, is_module, is_number, is_tensor

MOST_SHOWN = 12  # elements of an array that a message shows


def close(exercise: Exercise, expected: Any, got: Any) -> Any:
    """Return where two float arrays of one shape agree: `np.isclose`, in a third of its time."""
    with np.errstate(invalid="ignore"):  # inf - inf
        near = np.abs(got - expected) <= exercise.atol + exercise.rtol * np.abs(expected)
    near &= np.isfinite(expected)  # everything is within a share of infinity
    return near | (got == expected) | (np.isnan(got) & np.isnan(expected))


def equal_leaves(exercise: Exercise, a: Leaf, b: Leaf) -> bool:
    """Return whether two leaves have the same shape and the same values."""
    if not isinstance(a.value, np.ndarray) or not isinstance(b.value, np.ndarray):
        same_type = not isinstance(a.value, np.ndarray) and not isinstance(b.value, np.ndarray)
        return same_type and a.type == b.type and bool(a.value == b.value)
    return a.shape == b.shape and bool(np.all(close(exercise, a.value, b.value)))


def same(exercise: Exercise, a: Outcome, b: Outcome) -> bool:
    """Return whether outcome b equals outcome a, that of a known function."""
    if a.failure or b.failure:
        return a.failure == b.failure
    if a.changed and a.changed != b.changed:
        return False
    shared = a.leaves.keys() & b.leaves.keys()
    if not shared or len(a.leaves) != len(b.leaves):
        return False
    if not all(equal_leaves(exercise, a.leaves[place], b.leaves[place]) for place in shared):
        return False
    if isinstance(a.grads, str) or isinstance(b.grads, str):
        return isinstance(a.grads, str) and isinstance(b.grads, str)
    return a.grads.keys() == b.grads.keys() and all(
        equal_leaves(exercise, a.grads[name], b.grads[name]) for name in a.grads
    )


def compare(exercise: Exercise, shown: str, expected: Leaf, got: Leaf, place: str) -> None:
    """Raise `Difference` unless a leaf of the answer has the shape and the values it should."""
    what = place or "the result"
    label = f"{place}: " if place else ""
    if not isinstance(expected.value, np.ndarray):
        if expected.value != got.value:
            text = f"expected {expected.value!r}, got {got.value!r}"
            raise Difference(f"{shown}: {label}{text}")
        return
    if expected.shape != got.shape:
        raise Difference(
            f"{what} should have the shape {list(expected.shape)}, not {list(got.shape)}"
            f"{_about_shapes(expected.shape, got.shape)}\n{shown}"
        )
    wrong = ~close(exercise, expected.value, got.value)
    if wrong.any() and expected.kind == "bool" and not expected.shape:
        text = f"expected {bool(expected.value)}, got {bool(got.value)}"
        raise Difference(f"{shown}: {label}{text}")
    if wrong.any():
        whole = expected.kind == got.kind == "int"
        right, found = (x.value.astype(int) if whole else x.value for x in (expected, got))
        raise Difference(_numbers(shown, place, right, found, wrong))


def check_type(exercise: Exercise, expected: Leaf, got: Leaf, place: str, strict: bool) -> None:
    """Raise `Difference` unless a leaf of the answer is the kind of thing that it should be.

    If not `strict`, a single number may be a tensor, an array or a plain number.
    """
    what = place or "the result"
    if got.type == "NoneType" and expected.type != "NoneType":
        if place:
            raise Difference(f"{what} is None")
        raise Difference(
            f"{exercise.name} returned None: is a return statement missing, or is the function "
            "still to be written?"
        )
    single = expected.shape == got.shape == () and not strict
    numeric = ("number", "tensor", "array")
    if got.type != expected.type and not (
        single and got.type in numeric and expected.type in numeric
    ):
        why = ""
        if expected.type == "tensor" and got.type == "number":
            why = ": a plain number has no gradient, so leave out .item() and float()"
        elif expected.type == "tensor" and got.type == "array":
            why = ": an array has no gradient, so leave out .numpy()"
        elif got.type in ("function", "method", "builtin_function_or_method"):
            why = ": are the parentheses of a call missing?"
        raise Difference(
            f"{what} should be {with_article(expected.type)}, not {with_article(got.type)}{why}"
        )
    if expected.kind != got.kind and isinstance(expected.value, np.ndarray):
        why = ": integers cut off the fraction" if got.kind == "int" else ""
        raise Difference(f"{what} should have the dtype {expected.dtype}, not {got.dtype}{why}")
    if isinstance(expected.value, np.ndarray) and expected.shape != got.shape:
        raise Difference(
            f"{what} should have the shape {list(expected.shape)}, not {list(got.shape)}"
            f"{_about_shapes(expected.shape, got.shape)}"
        )


def check_places(exercise: Exercise, expected: Outcome, got: Outcome) -> None:
    """Raise `Difference` if the answer returned one thing where several are wanted, and so on."""
    if any(place in got.leaves for place in expected.leaves):
        return
    if set(expected.leaves) == {""}:
        wanted = with_article(expected.leaves[""].type)
        given = with_article(got.returned)
        raise Difference(f"{exercise.name} should return {wanted}, not {given}")
    for place, leaf in expected.leaves.items():
        if any(name.startswith(f"{place}[") for name in got.leaves):
            raise Difference(f"{place} should be {with_article(leaf.type)}, not a list")
    names = dict.fromkeys(place.partition("[")[0] for place in expected.leaves)
    wanted = f"{exercise.name} should return {' and '.join(names)}"
    if set(got.leaves) != {""}:
        given = ", ".join(dict.fromkeys(place.partition("[")[0] for place in got.leaves))
        raise Difference(f"{wanted}, not {given or with_article(got.returned)}")
    if got.leaves[""].type == "NoneType":
        raise Difference(f"{wanted}, but it returned None: is a return statement missing?")
    raise Difference(f"{wanted}, not {with_article(got.leaves[''].type)} alone")


def with_article(word: str) -> str:
    return f"{'an' if word[:1] in 'aeiou' else 'a'} {word}"


def _about_shapes(expected: tuple[int, ...], got: tuple[int, ...]) -> str:
    if expected == () and got:
        return ": one number is expected; is a sum or a mean missing?"
    if got == ():
        return ": one number per row is expected, so do not sum or average over the rows"
    if len(got) == 2 and len(expected) == 1 and got == expected * 2 != (1, 1):
        return ": a column [n, 1] and a row [n] were broadcast to a matrix"
    if got[:-1] == expected:
        return ": the last dimension should be summed or squeezed away"
    if len(got) == len(expected) == 1 and got[0] == expected[0] + 1:
        return ": one entry too many"
    return ""


def _numbers(shown: str, place: str, expected: Any, got: Any, wrong: Any) -> str:
    label = f"{place}: " if place else ""
    index = tuple(np.argwhere(wrong)[0].tolist()) if expected.shape else ()
    right, found = _number(expected[index]), _number(got[index])
    if right == found:  # differ only in later digits
        right, found = f"{expected[index]:.9g}", f"{got[index]:.9g}"
    if not expected.shape:
        text = f"{shown}: {label}expected {right}, got {found}"
        if len(text) > 100:
            text = f"{shown}:\n{label}expected {right}, got {found}"
    elif expected.size <= MOST_SHOWN:
        lead = f"{place} " if place else ""
        text = (
            f"{shown}:\n{lead}expected {short(expected)},\n{' ' * len(lead)}     got {short(got)}"
        )
    else:
        where = list(index) if len(index) > 1 else index[0]
        at = f"{place}[{where}]" if place else f"at {list(index)}"
        count = int(wrong.sum())
        text = f"{shown}:\n{at}: expected {right}, got {found} ({count} of {expected.size} differ)"
    if got.dtype.kind != "f":
        return text
    if np.isnan(got[index]):
        text += "\n(nan is 0/0, inf - inf, or the logarithm or root of a negative number)"
    elif np.isinf(got[index]):
        text += "\n(inf is a division by zero, or an overflow)"
    return text


# ---------------------------------------------------------------------------------------- showing


def _number(x: Any) -> str:
    if isinstance(x, (bool, np.bool_)):
        return str(bool(x))
    text = f"{float(x):.6g}"
    return (
        f"{text}.0" if text.lstrip("-").isdigit() and not isinstance(x, (int, np.integer)) else text
    )


def short(x: Any) -> str:
    """Return an argument as a learner should read it: small arrays in full, others by shape."""
    if is_tensor(x) or isinstance(x, np.ndarray):
        x = x.detach().cpu().numpy() if is_tensor(x) else x
        if x.size > MOST_SHOWN:
            return f"an array of shape {list(x.shape)}"
        return _nested(x.tolist(), x.dtype.kind)
    if is_number(x):
        return _number(x)
    if isinstance(x, Mapping):
        return "{" + ", ".join(f"{key!r}: {short(value)}" for key, value in x.items()) + "}"
    if isinstance(x, (list, tuple)):
        inside = ", ".join(short(value) for value in x)
        return f"[{inside}]" if isinstance(x, list) else f"({inside})"
    if is_module(x) or callable(x):
        return getattr(x, "__name__", type(x).__name__)
    return repr(x)


def _nested(x: Any, kind: str) -> str:
    if isinstance(x, list):
        return f"[{', '.join(_nested(item, kind) for item in x)}]"
    return _number(x)


def shown(case: Case, named: Mapping[str, Any]) -> str:
    return case.show or ", ".join(f"{name}={short(x)}" for name, x in named.items())
