"""Judges an answer by numbers: it and the library's function are called on a battery of cases.

The order is that in which a person would look: does it run and return the right kind of thing, is
the simplest case right, then the others, their gradients, and finally whether the arguments are
unchanged and no random numbers were drawn. The first difference is reported with its numbers. If
the answer equals a known mistake on the whole battery, the verdict names that mistake.

`examine` runs the answer in this process; `child.py` calls it in a process of its own.
"""

from __future__ import annotations

import contextlib
import faulthandler
import inspect
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from spinup.utils.errors import one_line
from spinup_lab.exercises.child import SECONDS, cannot
from spinup_lab.exercises.comparing import check_places, check_type, compare, short, shown
from spinup_lab.exercises.exercise import (
    PLAIN,
    RIGHT,
    WRONG,
    Case,
    Check,
    Difference,
    Exercise,
    NotYetWritten,
    Result,
    resolve,
)
from spinup_lab.exercises.mistakes import misconception, of_reference
from spinup_lab.exercises.outcomes import (
    Outcome,
    TimeOver,
    named_arguments,
    outcomes,
    own_random_numbers,
    seed_all,
)


def examine(exercise: Exercise, answer: Any, seed: int = 0, file: str = "") -> Result:
    """Judge an answer in this process. `file` is where it was written, for messages."""
    with own_random_numbers():
        prepare(exercise, seed)
        try:
            return _Judge(exercise, answer, seed, file).verdict()
        except TimeOver as over:
            text = f"{exercise.name} was still running after {SECONDS} seconds"
            return cannot(exercise, f"{text}: does a loop never end?{_line(over, file)}")


def prepare(exercise: Exercise, seed: int) -> None:
    """Import and compute what does not depend on the answer.

    A learner's file may change torch's settings; this fixes the right results before it is loaded.
    """
    resolve(exercise.reference)  # importing torch takes seconds, which the limit must not count
    of_reference(exercise, seed)
    _cases_to_show(exercise, seed)


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    """Raise `TimeOver` after some seconds, in the main thread of a POSIX system.

    Afterwards, the limit that `child.main` has set is over as well: what follows is our own code.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield
        faulthandler.cancel_dump_traceback_later()
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
        faulthandler.cancel_dump_traceback_later()


@cache
def _cases_to_show(exercise: Exercise, seed: int) -> list[Case]:
    """Return the cases for messages; no function is called with these arguments."""
    seed_all(seed)
    return resolve(exercise.cases)()


class _Judge:
    """One answer, what it should do on each case (`expected`) and what it does (`got`)."""

    def __init__(self, exercise: Exercise, answer: Any, seed: int, file: str) -> None:
        self.exercise, self.answer, self.seed, self.file = exercise, answer, seed, file
        self.source = file or getattr(getattr(answer, "__code__", None), "co_filename", "")
        self.reference = resolve(exercise.reference)
        self.expected = of_reference(exercise, seed)
        self.got: list[Outcome] = []
        self.cases = _cases_to_show(exercise, seed)

    def verdict(self) -> Result:
        """Go through the steps until one fails."""
        id_, checks = self.exercise.id, []
        for name, look in self._steps():
            try:
                look()
            except Difference as difference:
                text = f"{difference}{'' if look == self._unchanged else self._also()}"
                checks.append(Check(name, False, text))
                known, story = misconception(self.exercise, self.expected, self.got, self.seed)
                hint = f"spinup exercise hint {id_}"
                return Result(id_, WRONG, tuple(checks), known, story, next=hint)
            checks.append(Check(name, True))
        return Result(id_, RIGHT, tuple(checks))

    def _steps(self) -> Iterator[tuple[str, Callable[[], None]]]:
        yield f"it runs and returns what {self.exercise.name} should", self._runs
        yield f"the simplest case: {self.cases[0].name}", lambda: self._value(0)
        yield f"{len(self.cases) - 1} other cases", self._others
        if any(case.grad for case in self.cases):
            yield "gradients", self._gradients
        yield "its arguments are unchanged", self._unchanged
        if not self.exercise.random:
            yield "it leaves the global random numbers alone", self._not_random

    def _also(self) -> str:
        """Return what may be the cause of a difference: an argument that was changed."""
        changed = next((got.changed for got in self.got if got.changed), "")
        return f"\nIt also changes {changed}, one of its arguments." if changed else ""

    def _runs(self) -> None:
        self._check_signature()
        with _limited():
            self.got = outcomes(self.exercise, self.answer, self.seed)
        self._check_error(0)
        expected, got = self.expected[0], self.got[0]
        check_places(self.exercise, expected, got)
        for place, leaf in expected.leaves.items():
            if place in got.leaves:
                strict = bool(self.cases[0].grad) and place == next(iter(expected.leaves))
                check_type(self.exercise, leaf, got.leaves[place], place, strict)

    def _value(self, i: int) -> None:
        self._check_error(i)
        expected, got = self.expected[i], self.got[i]
        check_places(self.exercise, expected, got)
        for place, leaf in expected.leaves.items():
            if place not in got.leaves:
                raise Difference(f"{place} is missing from what {self.exercise.name} returns")
            strict = bool(self.cases[i].grad) and place == next(iter(expected.leaves))
            check_type(self.exercise, leaf, got.leaves[place], place, strict)
            compare(self.exercise, self._shown(i), leaf, got.leaves[place], place)

    def _shown(self, i: int) -> str:
        return shown(self.cases[i], named_arguments(self.reference, self.cases[i]))

    def _others(self) -> None:
        for i in range(1, len(self.cases)):
            try:
                self._value(i)
            except Difference as difference:
                name = self.cases[i].name
                lead = "" if name in str(difference) else f"{name}\n"
                raise Difference(f"{lead}{difference}") from difference

    def _gradients(self) -> None:
        for i, case in enumerate(self.cases):
            right, found = self.expected[i].grads, self.got[i].grads
            if isinstance(found, str):
                raise Difference(found)
            assert isinstance(right, dict), f"{self.exercise.id}: {case.name}: {right}"
            for name, leaf in right.items():
                place = f"the gradient with respect to {name}"
                compare(self.exercise, self._shown(i), leaf, found[name], place)

    def _unchanged(self) -> None:
        for case, got in zip(self.cases, self.got, strict=True):
            if got.changed:
                raise Difference(
                    f"{case.name}: {self.exercise.name} changes {got.changed}, which the caller "
                    "may still need: avoid +=, -= and functions that end in _ on arguments"
                )

    def _not_random(self) -> None:
        for got in self.got:
            if got.drew:
                name = self.exercise.name
                advice = "its result should depend on its arguments only"
                given = named_arguments(self.reference, self.cases[0])
                if "rng" in given or self.exercise.call != PLAIN:
                    advice = "it should draw only from a generator that it is given, if any"
                raise Difference(
                    f"{name} draws from the global random numbers of {got.drew}: {advice}"
                )

    def _check_signature(self) -> None:
        name, case = self.exercise.name, self.cases[0]
        if not callable(self.answer):
            raise Difference(f"{name} should be a function, not {short(self.answer)}")
        try:
            inspect.signature(self.reference).bind(*case.args, **case.kwargs)
        except TypeError:  # `Exercise.call` gives the function other arguments
            return
        try:
            inspect.signature(self.answer).bind(*case.args, **case.kwargs)
        except TypeError:
            wanted = f"{name}({', '.join(inspect.signature(self.reference).parameters)})"
            got = f"({', '.join(inspect.signature(self.answer).parameters)})"
            raise Difference(f"the function should be {wanted}, but it takes {got}") from None
        except ValueError:  # a builtin without a signature
            pass

    def _check_error(self, i: int) -> None:
        error, name = self.got[i].error, self.exercise.name
        if error is None:
            return
        if isinstance(error, NotImplementedError):
            name = str(error) if isinstance(error, NotYetWritten) and str(error) else name
            where = f" in {self.file}" if self.file else ""
            line = "the line that raises NotYetWritten"
            raise Difference(f"{name} is still to be written: replace {line}{where} with your code")
        if isinstance(error, Difference):
            raise error
        if isinstance(error, SystemExit):
            raise Difference(f"{name} calls exit(): it should return its result")
        raise Difference(describe(error, self.source))


# What some of torch's messages mean here.
_MEANINGS = {
    "does not require grad and does not have a grad_fn": "something was detached, or the gradient "
    "of a gradient is wanted and create_graph=True is missing",
    "backward through the graph a second time": "compute the loss anew before each backward",
    "a leaf Variable that requires grad is being used in an in-place": "make a new tensor instead "
    "of changing this one, or change it within torch.no_grad()",
    "grad can be implicitly created only for scalar outputs": "take a mean or a sum first",
    "Can't call numpy() on Tensor that requires grad": "stay in torch: an array has no gradient",
    "converted to Python scalars": "this needs a single number: take a mean or a sum first",
}


def describe(error: BaseException, file: str = "") -> str:
    """Return what an answer raised, in which line, and what it means."""
    text = f"it raised {type(error).__name__}: {one_line(error)}{_line(error, file)}"
    meaning = next((m for words, m in _MEANINGS.items() if words in str(error)), "")
    return f"{text}\n({meaning})" if meaning else text


def _line(error: BaseException, file: str) -> str:
    """Return the line of the learner's file in which an exception began, if there is one."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = os.path.dirname(os.path.abspath(__file__))
    theirs = [f for f in frames if file and os.path.basename(f.filename) == os.path.basename(file)]
    theirs = theirs or [f for f in frames if not f.filename.startswith(ours)]
    if not theirs:
        return ""
    frame = theirs[-1]
    code = f":  {frame.line}" if frame.line else ""
    return f"\nline {frame.lineno} of {os.path.basename(frame.filename)}{code}"
