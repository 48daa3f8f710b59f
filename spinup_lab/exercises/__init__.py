"""Exercises: functions to write, and bugs to find; see docs/exercises.md.

    from spinup.exercises import check, hint
    check("ppo.loss_pi", compute_loss_pi)

The same judge as `spinup exercise check`. Importing this package imports no framework.
"""

from __future__ import annotations

from typing import Any

from spinup_lab.exercises.exercise import NotYetWritten, Result

__all__ = ["NotYetWritten", "Result", "check", "hint"]


def check(exercise: str, answer: Any, seed: int = 0) -> Result:
    """Judge an answer, such as a function defined in a notebook, and return the verdict."""
    from spinup_lab.exercises.progress import recorded
    from spinup_lab.exercises.tasks import find

    return recorded(find(exercise), find(exercise).check_object(answer, seed))


def hint(exercise: str, number: int | None = None) -> str:
    """Return the next of an exercise's three hints, or the one of this number.

    Which one is the next is recorded in `spinup-exercises/progress.json`.
    """
    from spinup_lab.exercises.progress import Progress, next_hint
    from spinup_lab.exercises.tasks import find

    return next_hint(find(exercise), Progress(), number)
