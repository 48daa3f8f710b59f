"""Judges an answer by numbers: it and the library's function are called on a battery of cases.

The order is that in which a person would look: does it run and return the right kind of thing, is
the simplest case right, then the others, their gradients, and finally whether the arguments are
unchanged and no random numbers were drawn. The first difference is reported with its numbers. If
the answer equals a known mistake on the whole battery, the verdict names that mistake.

`examine` runs the answer in this process; `child.py` calls it in a process of its own.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import inspect
import os
import random
import signal
import sys
import textwrap
import threading
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from spinup.exercises.child import cannot
from spinup.exercises.exercise import (
    RIGHT,
    WRONG,
    Case,
    Check,
    Difference,
    Exercise,
    NotYetWritten,
    Result,
    Wrong,
    resolve,
)
from spinup.utils.errors import one_line

SECONDS = 10  # how long an answer may run
MOST_CASES = 0.8  # share of the cases in which an answer must equal a known mistake
MOST_SHOWN = 12  # elements of an array that a message shows


class TimeOver(BaseException):
    """The answer ran too long. Not an `Exception`: an answer must not catch it by accident."""


# ------------------------------------------------------------------------- what a function returned


@dataclass(frozen=True)
class Leaf:
    """One number or array in what a function returned."""

    type: str  # "tensor", "array", "number" or the name of another type
    dtype: str
    value: Any  # float64 array, or the object itself if it is not numeric

    @property
    def shape(self) -> tuple[int, ...]:
        return getattr(self.value, "shape", ())

    @property
    def kind(self) -> str:
        """Return "float", "int", "bool" or the name of another dtype."""
        return self.dtype.rstrip("0123456789").removeprefix("u")


@dataclass
class Outcome:
    """What happened when a function was called on a case."""

    leaves: dict[str, Leaf] = field(default_factory=dict)  # place in the result -> leaf
    grads: dict[str, Leaf] | str = field(default_factory=dict)  # a sentence if there are none
    error: BaseException | None = None
    changed: str = ""  # the argument that was changed although it should not have been
    drew: str = ""  # whose global random numbers were drawn

    @property
    def failure(self) -> str:
        """Name of the exception, if there was one."""
        return type(self.error).__name__ if self.error else ""


def _torch() -> Any:
    """Return torch if something has imported it; an exercise about arrays does not need it."""
    return sys.modules.get("torch")


def _is_tensor(x: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(x, torch.Tensor)


def _is_module(x: Any) -> bool:
    torch = _torch()
    return torch is not None and isinstance(x, torch.nn.Module)


def _is_number(x: Any) -> bool:
    return isinstance(x, (bool, int, float, np.number, np.bool_))


def _leaf(x: Any) -> Leaf:
    if _is_tensor(x):
        x = x.detach().cpu()
        return Leaf("tensor", str(x.dtype).removeprefix("torch."), x.double().numpy().copy())
    if isinstance(x, np.ndarray) and x.dtype.kind in "fiub":
        return Leaf("array", str(x.dtype), np.array(x, dtype=np.float64))
    if _is_number(x):
        return Leaf("number", str(np.asarray(x).dtype), np.array(x, dtype=np.float64))
    return Leaf(type(x).__name__, type(x).__name__, x)


def _flatten(x: Any, names: Sequence[str] = (), place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield (place, item) for the items of nested tuples, lists and dicts."""
    if isinstance(x, Mapping):
        for key, value in x.items():
            yield from _flatten(value, (), f"{place}[{key!r}]" if place else str(key))
    elif isinstance(x, (tuple, list)):
        for i, value in enumerate(x):
            name = names[i] if i < len(names) else f"{place}[{i}]" if place else f"item {i}"
            yield from _flatten(value, (), name)
    else:
        yield place, x


# ------------------------------------------------------------------------------------ one function


def _seed(seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)
    if _torch():
        _torch().default_generator.manual_seed(seed)  # the CPU's only, which is much quicker


@contextlib.contextmanager
def own_random_numbers() -> Iterator[None]:
    """Restore the states of all global random number generators afterwards."""
    states = _random_states()
    try:
        yield
    finally:
        random.setstate(states["Python"])
        np.random.set_state(states["NumPy"])
        if "torch" in states:
            _torch().set_rng_state(states["torch"])


def _random_states() -> dict[str, Any]:
    states = {"Python": random.getstate(), "NumPy": np.random.get_state()}
    if _torch():
        states["torch"] = _torch().get_rng_state()
    return states


def _drew(before: dict[str, Any]) -> str:
    """Return whose random numbers were drawn since, or ''."""
    now = _random_states()
    if now["Python"] != before["Python"]:
        return "Python"
    pairs = zip(now["NumPy"], before["NumPy"], strict=True)
    if not all(np.array_equal(a, b) for a, b in pairs):
        return "NumPy"
    if "torch" in before and not _torch().equal(now["torch"], before["torch"]):
        return "torch"
    return ""


def _named(function: Callable[..., Any], case: Case) -> dict[str, Any]:
    """Return the arguments of a case by name."""
    try:
        found = inspect.signature(function).bind(*case.args, **case.kwargs)
    except (TypeError, ValueError):
        return {str(i): x for i, x in enumerate(case.args)} | dict(case.kwargs)
    found.apply_defaults()
    return dict(found.arguments)


def _at(named: Mapping[str, Any], path: str) -> Any:
    """Return the argument "ac", its attribute "ac.pi" or its entry "batch.adv"."""
    first, *rest = path.split(".")
    found = named[first]
    for part in rest:
        found = found[part] if isinstance(found, Mapping) else getattr(found, part)
    return found


def _tensors(x: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield every tensor and array in an argument, and the parameters and buffers of modules."""
    if _is_module(x):
        yield from ((f"{name}.{key}", p) for key, p in x.named_parameters())
        yield from ((f"{name}.{key}", b) for key, b in x.named_buffers())
    elif isinstance(x, Mapping):
        for key, value in x.items():
            yield from _tensors(value, f"{name}[{key!r}]")
    elif isinstance(x, (tuple, list)):
        for i, value in enumerate(x):
            yield from _tensors(value, f"{name}[{i}]")
    elif _is_tensor(x) or isinstance(x, np.ndarray):
        yield name, x


def _snapshot(named: Mapping[str, Any], leave_out: Sequence[str]) -> dict[str, Any]:
    found = {}
    for name, x in named.items():
        if name in leave_out:
            continue
        for place, tensor in _tensors(x, name):
            found[place] = _leaf(tensor).value
            grad = getattr(tensor, "grad", None) if getattr(tensor, "is_leaf", False) else None
            found[f"the gradient of {place}"] = None if grad is None else _leaf(grad).value
        if isinstance(x, (Mapping, list)):
            found[f"the keys of {name}" if isinstance(x, Mapping) else f"the length of {name}"] = (
                np.array(sorted(map(str, x))) if isinstance(x, Mapping) else np.array(len(x))
            )
    return found


def _what_changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    for place, old in before.items():
        new = after.get(place)
        if (old is None) != (new is None) or (
            old is not None and (old.shape != new.shape or not _same_values(old, new))
        ):
            return place
    return next((place for place in after if place not in before), "")


def _same_values(a: Any, b: Any) -> bool:
    return bool(np.array_equal(a, b, equal_nan=a.dtype.kind == "f" and b.dtype.kind == "f"))


def outcomes(exercise: Exercise, function: Callable[..., Any], seed: int) -> list[Outcome]:
    """Call a function on fresh arguments for each case, and return what happened."""
    _seed(seed)
    reference = resolve(exercise.reference)
    cases = exercise.cases()
    call = exercise.call or (lambda f, case: f(*case.args, **case.kwargs))
    return [
        _outcome(exercise, function, call, case, _named(reference, case), seed + 1 + i)
        for i, case in enumerate(cases)
    ]


def _outcome(
    exercise: Exercise,
    function: Callable[..., Any],
    call: Callable[[Callable[..., Any], Case], Any],
    case: Case,
    named: Mapping[str, Any],
    seed: int,
) -> Outcome:
    found = Outcome()
    before = _snapshot(named, case.changes)
    _seed(seed)
    states = _random_states()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call(function, case)
    except TimeOver:
        raise
    except (Exception, SystemExit) as error:
        found.error = error
        return found
    if not exercise.random:
        found.drew = _drew(states)
    found.changed = _what_changed(before, _snapshot(named, case.changes))
    for name in case.changes:
        found.leaves |= {place: _leaf(x) for place, x in _tensors(_at(named, name), name)}
    for place, x in _flatten(result, exercise.returns):
        found.leaves[place] = _leaf(x)
    if case.grad:
        found.grads = _grads(result, {name: _at(named, name) for name in case.grad})
    return found


def _grads(result: Any, inputs: Mapping[str, Any]) -> dict[str, Leaf] | str:
    """Return the gradients of a result, or of the first item of a tuple, by name of the input."""
    torch = _torch()
    loss = result[0] if isinstance(result, (tuple, list)) and result else result
    if not _is_tensor(loss) or not loss.requires_grad:
        return (
            "the result has no gradient: something in it was detached, or went through .item(), "
            ".numpy() or torch.no_grad()"
        )
    tensors = {}
    for name, x in inputs.items():
        tensors |= dict(x.named_parameters(name)) if _is_module(x) else {name: x}
    weights = torch.linspace(1, 2, loss.numel(), dtype=loss.dtype).reshape(loss.shape)
    try:
        found = torch.autograd.grad(
            (loss * weights).sum(), list(tensors.values()), allow_unused=True
        )
    except RuntimeError as error:
        return f"the gradient cannot be computed: {one_line(error)}"
    return {
        name: _leaf(torch.zeros_like(x) if grad is None else grad)
        for (name, x), grad in zip(tensors.items(), found, strict=True)
    }


# -------------------------------------------------------------------------------------- comparing


def _close(exercise: Exercise, expected: Any, got: Any) -> Any:
    return np.isclose(got, expected, rtol=exercise.rtol, atol=exercise.atol, equal_nan=True)


def _equal(exercise: Exercise, a: Leaf, b: Leaf) -> bool:
    if not isinstance(a.value, np.ndarray) or not isinstance(b.value, np.ndarray):
        same_type = not isinstance(a.value, np.ndarray) and not isinstance(b.value, np.ndarray)
        return same_type and a.type == b.type and bool(a.value == b.value)
    return a.shape == b.shape and bool(np.all(_close(exercise, a.value, b.value)))


def _same(exercise: Exercise, a: Outcome, b: Outcome) -> bool:
    """Return whether outcome b equals outcome a, that of a known function."""
    if a.failure or b.failure:
        return a.failure == b.failure
    if a.changed and a.changed != b.changed:
        return False
    shared = a.leaves.keys() & b.leaves.keys()
    if not shared or len(a.leaves) != len(b.leaves):
        return False
    if not all(_equal(exercise, a.leaves[place], b.leaves[place]) for place in shared):
        return False
    if isinstance(a.grads, str) or isinstance(b.grads, str):
        return isinstance(a.grads, str) and isinstance(b.grads, str)
    return a.grads.keys() == b.grads.keys() and all(
        _equal(exercise, a.grads[name], b.grads[name]) for name in a.grads
    )


def _compare(
    exercise: Exercise, case: Case, shown: str, expected: Leaf | None, got: Leaf | None, place: str
) -> None:
    """Raise `Difference` unless a leaf of the answer is that of the reference."""
    what = place or "the result"
    if got is None:
        raise Difference(f"{what} is missing from what {exercise.name} returns")
    assert expected is not None
    _compare_types(exercise, expected, got, what)
    if not isinstance(expected.value, np.ndarray):
        if expected.value != got.value:
            raise Difference(f"{shown}: {place and place + ': '}expected {expected.value!r}, "
                             f"got {got.value!r}")  # fmt: skip
        return
    if expected.shape != got.shape:
        raise Difference(
            f"{what} should have the shape {list(expected.shape)}, not {list(got.shape)}"
            f"{_about_shapes(expected.shape, got.shape)}\n{shown}"
        )
    wrong = ~_close(exercise, expected.value, got.value)
    if wrong.any() and expected.kind == "bool" and not expected.shape:
        raise Difference(f"{shown}: {what}: expected {bool(expected.value)}, got {bool(got.value)}")
    if wrong.any():
        raise Difference(_numbers(shown, place, expected.value, got.value, wrong))


def _compare_types(exercise: Exercise, expected: Leaf, got: Leaf, what: str) -> None:
    if got.type == "NoneType" and expected.type != "NoneType":
        if what == "the result":
            raise Difference(
                f"{exercise.name} returned None: is a return statement missing, or is the function "
                "still to be written?"
            )
        raise Difference(f"{what} is None")
    scalars = ("number", "tensor", "array")
    if expected.type == "number" and got.type in scalars and got.shape == ():
        pass
    elif got.type != expected.type:
        why = ""
        if expected.type == "tensor" and got.type == "number":
            why = ": a plain number has no gradient, so leave out .item() and float()"
        elif expected.type == "tensor" and got.type == "array":
            why = ": an array has no gradient, so leave out .numpy()"
        elif got.type == "function" or got.type == "builtin_function_or_method":
            why = ": are the parentheses of a call missing?"
        raise Difference(f"{what} should be {_a(expected.type)}, not {_a(got.type)}{why}")
    if expected.kind != got.kind and isinstance(expected.value, np.ndarray):
        why = ""
        if expected.kind == "float" and got.kind == "int":
            why = ": integers cut off the fraction"
        raise Difference(f"{what} should have the dtype {expected.dtype}, not {got.dtype}{why}")


def _a(word: str) -> str:
    return f"{'an' if word[:1] in 'aeiou' else 'a'} {word}"


def _about_shapes(expected: tuple[int, ...], got: tuple[int, ...]) -> str:
    if expected == () and got:
        return ": one number is expected, so a mean or a sum is missing"
    if got == ():
        return ": one number per row is expected, so do not average over the rows"
    if len(got) == 2 and len(expected) == 1 and got == expected * 2:
        return ": a column [n, 1] and a row [n] were broadcast to a matrix"
    if got == (*expected, 1):
        return ": squeeze the last dimension"
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
    if _is_tensor(x) or isinstance(x, np.ndarray):
        x = x.detach().cpu().numpy() if _is_tensor(x) else x
        if x.size > MOST_SHOWN:
            return f"an array of shape {list(x.shape)}"
        return _nested(x.tolist(), x.dtype.kind)
    if _is_number(x):
        return _number(x)
    if isinstance(x, Mapping):
        return "{" + ", ".join(f"{key!r}: {short(value)}" for key, value in x.items()) + "}"
    if isinstance(x, (list, tuple)):
        inside = ", ".join(short(value) for value in x)
        return f"[{inside}]" if isinstance(x, list) else f"({inside})"
    if _is_module(x) or callable(x):
        return getattr(x, "__name__", type(x).__name__)
    return repr(x)


def _nested(x: Any, kind: str) -> str:
    if isinstance(x, list):
        return f"[{', '.join(_nested(item, kind) for item in x)}]"
    return _number(x)


def _shown(case: Case, named: Mapping[str, Any]) -> str:
    return case.show or ", ".join(f"{name}={short(x)}" for name, x in named.items())


# ---------------------------------------------------------------------------------------- judging


def examine(exercise: Exercise, answer: Any, seed: int = 0, file: str = "") -> Result:
    """Judge an answer in this process. `file` is where it was written, for messages."""
    resolve(exercise.reference)  # importing torch takes seconds, which the limit must not count
    with own_random_numbers(), _limited():
        try:
            return _examine(exercise, answer, seed, file)
        except TimeOver:
            text = (
                f"{exercise.name} was still running after {SECONDS} seconds: does a loop never end?"
            )
            return cannot(exercise, text)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise `TimeOver` after some seconds, in the main thread of a POSIX system."""
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        return

    def over(*_: Any) -> None:
        raise TimeOver

    old = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)


def _examine(exercise: Exercise, answer: Any, seed: int, file: str) -> Result:
    reference = resolve(exercise.reference)
    expected = outcomes(exercise, reference, seed)
    _seed(seed)
    cases = exercise.cases()
    passed: list[Check] = []
    got: list[Outcome] = []

    def step(name: str, look: Callable[[], None]) -> None:
        try:
            look()
        except Difference as difference:
            raise _Stop(Check(name, False, str(difference))) from difference
        passed.append(Check(name, True))

    def runs() -> None:
        _check_signature(exercise, answer, reference, cases[0])
        got.extend(outcomes(exercise, answer, seed))
        _check_error(exercise, cases[0], got[0], file)
        for place, leaf in expected[0].leaves.items():
            found = got[0].leaves.get(place)
            _check_places(exercise, expected[0], got[0])
            if found is not None:
                _compare_types(exercise, leaf, found, place or "the result")
                if isinstance(leaf.value, np.ndarray) and leaf.shape != found.shape:
                    _compare(exercise, cases[0], shown(0), leaf, found, place)

    def shown(i: int) -> str:
        return _shown(cases[i], _named(reference, cases[i]))

    def value(i: int) -> None:
        _check_error(exercise, cases[i], got[i], file)
        _check_places(exercise, expected[i], got[i])
        for place, leaf in expected[i].leaves.items():
            _compare(exercise, cases[i], shown(i), leaf, got[i].leaves.get(place), place)

    def others() -> None:
        for i in range(1, len(cases)):
            try:
                value(i)
            except Difference as difference:
                raise Difference(f"{cases[i].name}\n{difference}") from difference

    def gradients() -> None:
        for i, case in enumerate(cases):
            if not case.grad:
                continue
            right, found = expected[i].grads, got[i].grads
            if isinstance(found, str):
                raise Difference(found)
            assert isinstance(right, dict)
            for name, leaf in right.items():
                place = f"the gradient with respect to {name}"
                _compare(exercise, case, shown(i), leaf, found.get(name), place)

    def unchanged() -> None:
        for i, case in enumerate(cases):
            if got[i].changed:
                raise Difference(
                    f"{case.name}: {exercise.name} changes {got[i].changed}, which the caller may "
                    "still need: avoid +=, -= and functions that end in _ on arguments"
                )

    def not_random() -> None:
        for i in range(len(cases)):
            if got[i].drew:
                raise Difference(
                    f"{exercise.name} draws from the global random numbers of {got[i].drew}, but "
                    "its result should depend on its arguments only"
                )

    some = "gradients" if any(case.grad for case in cases) else ""
    try:
        step(f"it runs and returns what {exercise.name} should", runs)
        step(f"the simplest case: {cases[0].name}", lambda: value(0))
        step(f"{len(cases) - 1} other cases", others)
        if some:
            step("gradients", gradients)
        step("its arguments are unchanged", unchanged)
        if not exercise.random:
            step("it leaves the global random numbers alone", not_random)
    except _Stop as stop:
        checks = (*passed, stop.check)
        next_ = f"spinup exercise hint {exercise.id}"
        name, story = _misconception(exercise, expected, got, seed)
        return Result(exercise.id, WRONG, checks, name, story, next=next_)
    return Result(exercise.id, RIGHT, tuple(passed))


class _Stop(Exception):
    def __init__(self, check: Check) -> None:
        super().__init__(check.text)
        self.check = check


def _check_signature(
    exercise: Exercise, answer: Any, reference: Callable[..., Any], case: Case
) -> None:
    if not callable(answer):
        raise Difference(f"{exercise.name} should be a function, not {short(answer)}")
    if exercise.call is not None:
        return
    try:
        inspect.signature(answer).bind(*case.args, **case.kwargs)
    except TypeError:
        wanted = f"{exercise.name}({', '.join(inspect.signature(reference).parameters)})"
        got = f"({', '.join(inspect.signature(answer).parameters)})"
        raise Difference(f"the function should be {wanted}, but it takes {got}") from None
    except ValueError:  # a builtin without a signature
        pass


def _check_error(exercise: Exercise, case: Case, got: Outcome, file: str) -> None:
    error = got.error
    if error is None:
        return
    if isinstance(error, NotImplementedError):
        name = str(error) if isinstance(error, NotYetWritten) and str(error) else exercise.name
        where = f" in {file}" if file else ""
        line = "the line that raises NotYetWritten"
        raise Difference(f"{name} is still to be written: replace {line}{where} with your code")
    if isinstance(error, Difference):
        raise error
    if isinstance(error, SystemExit):
        raise Difference(f"{exercise.name} calls exit(): it should return its result")
    raise Difference(describe(error, file))


def describe(error: BaseException, file: str = "") -> str:
    """Return what an answer raised, and the line of the learner's file (or the last one)."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = os.path.dirname(os.path.abspath(__file__))
    theirs = [f for f in frames if file and os.path.basename(f.filename) == os.path.basename(file)]
    theirs = theirs or [f for f in frames if not f.filename.startswith(ours)]
    text = f"it raised {type(error).__name__}: {one_line(error)}"
    if theirs:
        frame = theirs[-1]
        text += f"\nline {frame.lineno} of {os.path.basename(frame.filename)}"
        text += f":  {frame.line}" if frame.line else ""
    return text


def _check_places(exercise: Exercise, expected: Outcome, got: Outcome) -> None:
    """Raise `Difference` if the answer returned a number where several are wanted, and so on."""
    if any(place in got.leaves for place in expected.leaves):
        return
    wanted = " and ".join(dict.fromkeys(place.partition("[")[0] for place in expected.leaves))
    if set(got.leaves) == {""}:
        leaf = got.leaves[""]
        _compare_types(exercise, Leaf("tuple", "tuple", ()), leaf, "the result")
        raise Difference(f"{exercise.name} should return {wanted}, not {_a(leaf.type)} alone")
    if set(expected.leaves) == {""}:
        raise Difference(
            f"{exercise.name} should return one {next(iter(expected.leaves.values())).type}, not "
            f"{len(got.leaves)} things"
        )
    raise Difference(f"{exercise.name} should return {wanted}, not {', '.join(got.leaves)}")


# --------------------------------------------------------------------------------- known mistakes


def known_mistake(exercise: Exercise, wrong: Wrong) -> Callable[..., Any]:
    """Return the function of a known wrong answer."""
    if wrong.edits:
        return _edited(resolve(exercise.reference), wrong.edits)
    if isinstance(wrong.function, str):
        kind, _, name = wrong.function.partition(":")
        if kind == "zoo":
            zoo = importlib.import_module("spinup.exercises.zoo")
            return zoo.function(name, exercise.reference.partition(":")[2])
        return resolve(wrong.function)
    assert wrong.function is not None, f"{exercise.id}: {wrong.name} has no function"
    return wrong.function


class _Text(importlib.abc.InspectLoader):
    """Loads a module from text."""

    def __init__(self, source: str) -> None:
        self.source = source

    def get_source(self, fullname: str) -> str:
        return self.source


def _edited(reference: Any, edits: Sequence[tuple[str, str]]) -> Callable[..., Any]:
    """Return a function (or class) whose source differs from the reference's by some edits."""
    reference = inspect.unwrap(reference)
    source = textwrap.dedent(inspect.getsource(reference))
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} occurs {source.count(old)} times in {reference.__name__}")
        source = source.replace(old, new)
    module = types.ModuleType(f"{reference.__module__}.edited")
    module.__dict__.update(sys.modules[reference.__module__].__dict__)
    module.__name__ = f"{reference.__module__}.edited"
    loader = _Text(source)
    module.__spec__ = importlib.util.spec_from_loader(module.__name__, loader)
    loader.exec_module(module)
    return getattr(module, reference.__name__)


@cache
def _of_mistake(exercise: Exercise, wrong: Wrong, seed: int) -> list[Outcome]:
    return outcomes(exercise, known_mistake(exercise, wrong), seed)


def _misconception(
    exercise: Exercise, expected: list[Outcome], got: list[Outcome], seed: int
) -> tuple[str | None, str]:
    """Return the name and the story of the known mistake that an answer equals."""
    if not got or all(outcome.error for outcome in got):
        return None, ""
    agree: dict[Wrong, list[bool]] = {}
    for wrong in exercise.wrong:
        theirs = _of_mistake(exercise, wrong, seed)
        agree[wrong] = [_same(exercise, a, b) for a, b in zip(theirs, got, strict=True)]
        if all(agree[wrong]):
            return wrong.name, wrong.story
    general = _general(exercise, expected, got)
    if general[0]:
        return general
    # Nearly equal: an answer may have a mistake and fail in some special cases as well.
    fit = [not outcome.error for outcome in got]
    differ = [not _same(exercise, a, b) for a, b in zip(expected, got, strict=True)]
    for wrong, same in sorted(agree.items(), key=lambda item: -sum(item[1])):
        fits = [s for s, f in zip(same, fit, strict=True) if f]
        explains = [s for s, d, f in zip(same, differ, fit, strict=True) if d and f]
        if len(explains) > 1 and min(np.mean(fits), np.mean(explains)) >= MOST_CASES:
            return wrong.name, f"In most cases, your answer equals this one: {wrong.story}"
    return None, ""


def _general(
    exercise: Exercise, expected: list[Outcome], got: list[Outcome]
) -> tuple[str | None, str]:
    """Return a mistake that can be made in any exercise: a sign, or a factor."""
    factors = [_factor(a, b) for a, b in zip(expected, got, strict=True)]
    known = [(f, size) for f, size in factors if f is not None]
    if len(known) < len(factors) or not known or any(f is None for f, _ in factors):
        return None, ""
    values = [f for f, _ in known if not np.isnan(f)]
    if not values or np.allclose(values, 1, atol=1e-4):
        return None, ""
    if np.allclose(values, -1, rtol=1e-4):
        return "sign", "Every number has the right size and the wrong sign."
    if np.allclose(values, values[0], rtol=1e-4):
        return (
            "factor",
            f"Every number is {values[0]:.4g} times the right one: is a factor missing?",
        )
    return None, ""


def _factor(expected: Outcome, got: Outcome) -> tuple[float | None, int]:
    """Return f if got = f * expected in the first float leaf; NaN if that is all zeros."""
    if got.error or expected.error:
        return None, 0
    for place, a in expected.leaves.items():
        b = got.leaves.get(place)
        if b is None or a.kind != "float" or a.shape != b.shape:
            return None, 0
        right, found = a.value.ravel(), b.value.ravel()
        some = np.abs(right) > 1e-6
        if not some.any():
            return (np.nan, right.size) if np.allclose(found, 0, atol=1e-6) else (None, 0)
        ratios = found[some] / right[some]
        same = np.allclose(ratios, ratios[0], rtol=1e-4)
        zero = np.allclose(found[~some], 0, atol=1e-6)
        return (float(ratios[0]), right.size) if same and zero else (None, 0)
    return None, 0
