"""A short training run with the learner's function in place of the library's: a demonstration.

    spinup exercise check ppo.loss_pi --train

It never decides anything: the judge has compared the function with the library's by then. A right
function gives the library's numbers; what a wrong one does to a run is worth seeing.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import io
import json
import math
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from spinup.utils.errors import SpinupError, one_line
from spinup_lab.exercises import content
from spinup_lab.exercises.child import START, load
from spinup_lab.exercises.exercise import RIGHT, Exercise, Result, Task, loss_only, resolve

SECONDS = 30  # how long each of the two runs may take; what it has by then is shown
_LONGEST = 120 + 3 * SECONDS  # seconds for everything, with the time to import torch
LINES = 10  # of the table


@cache
def recipes() -> dict[str, dict[str, Any]]:
    """Return what `sets/training.toml` says: algorithm -> environment and arguments."""
    return content.read(content.FOLDER / "training.toml")


def algorithm(task: Task) -> str:
    """Return the algorithm that can be trained with a task's function; raise if there is none."""
    if not isinstance(task, Exercise) or not task.reference.startswith("spinup.algos."):
        raise SpinupError(
            f"{task.id} has no training run to show, as no algorithm of the library calls "
            "this function as it stands: leave --train out"
        )
    return task.algorithms[0]


def arguments(exercise: Exercise) -> tuple[str, dict[str, Any]]:
    """Return the environment and the arguments of the runs."""
    tables = recipes()
    needed = tables["needed"].get(exercise.id.partition(".bug")[0], {})
    fault = getattr(getattr(exercise, "fault", None), "mutant", "")
    more: Mapping[str, Any] = {}
    if fault:
        from spinup_lab import bugs as zoo

        more = zoo.find(fault).settings
    nested = {**tables["every"]["ac_kwargs"], **more.get("ac_kwargs", {})}
    given = {**tables["every"], **tables[algorithm(exercise)], **needed, **more}
    return given.pop("env"), {**given, "ac_kwargs": nested}


def demonstrate(exercise: Task, file: Path, seed: int, verdict: Result) -> None:
    """Train in a process of its own, which prints as it goes."""
    algorithm(exercise)
    path = json.dumps([os.path.abspath(p) for p in sys.path])
    start = START + "from spinup_lab.exercises.training import main; main(*sys.argv[2:])"
    words = [exercise.id, str(file), str(seed), str(int(verdict.exit_code == RIGHT))]
    sys.stdout.flush()
    child = subprocess.Popen(
        [sys.executable, "-c", start, path, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        text=True,
    )
    limit = threading.Timer(_LONGEST, child.kill)  # if a loop of the learner's never ends
    limit.start()
    try:
        assert child.stdout is not None
        for line in child.stdout:
            print(line, end="", flush=True)
        if child.wait():
            print("The training run could not be finished.")
    finally:
        limit.cancel()
        child.kill()
        child.wait()


# ------------------------------------------------------------------------------------ in the child


def main(name: str, file: str, seed: str, right: str) -> None:
    """Train with the library's function and with that of a file; print both curves."""
    from spinup_lab.exercises.tasks import find

    exercise: Any = find(name)
    env, given = arguments(exercise)
    algo = algorithm(exercise).upper()
    size = f"{given['epochs']} epochs of {given['steps_per_epoch']:,} steps"
    say(f"\nA demonstration, not a verdict: {algo} on {env}, {size}, seed {seed}.")
    ours, _, _ = train(exercise, None, int(seed))
    with contextlib.redirect_stdout(io.StringIO()):
        answer = getattr(load(Path(file)), exercise.name)
    theirs, calls, error = train(exercise, answer, int(seed))
    say("\n".join(report(exercise, ours, theirs, calls, error, right == "1")))
    sys.stdout.flush()
    os._exit(0)  # whatever the file has started must not hold this up


def say(text: str) -> None:
    print(text, flush=True)


def train(
    exercise: Exercise, answer: Callable[..., Any] | None, seed: int
) -> tuple[list[dict[str, float]], int, str]:
    """Train, with the learner's function if there is one: rows, its calls, and what it raised."""
    from spinup.registry import load as algorithm_of

    function = algorithm_of(algorithm(exercise), "pytorch")
    env, given = arguments(exercise)
    rows: list[dict[str, float]] = []
    started = time.monotonic()

    def after_epoch(row: dict[str, float], _: Any) -> bool:
        rows.append(row)
        return time.monotonic() - started > SECONDS

    error = ""
    with contextlib.ExitStack() as stack:
        calls = stack.enter_context(put_in(exercise, answer)) if answer else [0]
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="spinup-train-"))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        logger_kwargs = {"output_dir": folder, "quiet": True}
        try:
            function(env, seed=seed, logger_kwargs=logger_kwargs, on_epoch=after_epoch, **given)
        except Exception as raised:
            if answer is None:
                raise
            error = f"{type(raised).__name__}: {one_line(raised)}"
    return rows, calls[0], error


@contextlib.contextmanager
def put_in(exercise: Exercise, answer: Callable[..., Any]) -> Iterator[list[int]]:
    """Put a function where the library has its own; yields a list with the number of calls."""
    reference = resolve(exercise.reference)
    calls = [0]
    counted: Any = _counted(exercise, reference, answer, calls)
    places = [
        (module, name)
        for key, module in list(sys.modules.items())
        if key.startswith("spinup.algos.") and module is not None
        for name, value in list(vars(module).items())
        if value is reference
    ]
    for module, name in places:
        setattr(module, name, counted)
    try:
        yield calls
    finally:
        for module, name in places:
            setattr(module, name, reference)


def _counted(exercise: Exercise, reference: Any, answer: Any, calls: list[int]) -> Any:
    """Return the learner's function or class, which counts its calls."""
    if inspect.isclass(reference):

        class Counted(answer):  # type: ignore[misc]
            def __init__(self, *args: Any, **kwargs: Any) -> None:
                calls[0] += 1
                super().__init__(*args, **kwargs)

        return Counted

    @functools.wraps(reference)
    def counted(*args: Any, **kwargs: Any) -> Any:
        calls[0] += 1
        found = answer(*args, **kwargs)
        if resolve(exercise.call) is loss_only and not isinstance(found, tuple):
            found = (found, *reference(*args, **kwargs)[1:])  # the loss alone is a right answer
        return found

    return counted


def report(
    exercise: Exercise,
    ours: list[dict[str, float]],
    theirs: list[dict[str, float]],
    calls: int,
    error: str,
    right: bool,
) -> list[str]:
    """Return the lines of the table, and what they show."""
    names = ("TestSuccessRate", "AverageTestEpRet", "AverageEpRet")
    column = next(name for name in names if name in ours[0])
    count = max(len(ours), len(theirs))
    few = min(LINES, count)
    shown = [(i + 1) * count // few - 1 for i in range(few)]
    lines = [f"\n  {column + ' after':>22}{'with yours':>14}{'the library':>14}"]
    for i in shown:
        row = (ours if i < len(ours) else theirs)[i]
        numbers = [
            f"{rows[i][column]:,.2f}" if i < len(rows) and math.isfinite(rows[i][column]) else "-"
            for rows in (theirs, ours)
        ]
        steps = f"{int(row['TotalEnvInteracts']):,} steps"
        lines.append(f"  {steps:>22}{numbers[0]:>14}{numbers[1]:>14}")
    lines.append("")
    if error:
        lines.append(f"Your run stopped after {len(theirs)} epochs. It raised {error}")
    elif not calls:
        lines.append(f"This run never called {exercise.name}.")
    else:
        skipped = {"Time"}
        differ = [
            i
            for i, (a, b) in enumerate(zip(theirs, ours, strict=False))
            if any(_differs(a[key], b[key]) for key in a.keys() & b.keys() - skipped)
        ]
        said = f"{exercise.name} was called {'once' if calls == 1 else f'{calls:,} times'}."
        if not differ:
            lines.append(f"{said} All columns of both runs are equal.")
        else:
            meaning = (
                "Your function is right, so this is rounding, which training amplifies"
                if right
                else "One run shows what a mistake can do, and not that it always does it"
            )
            lines.append(f"{said} The runs differ from epoch {differ[0]} on. {meaning}.")
    return lines


def _differs(a: float, b: float) -> bool:
    return not (a == b or (math.isnan(a) and math.isnan(b)))
