"""The message about a user's network that returns a column where one number per row is needed."""

import warnings
from collections.abc import Iterable
from contextvars import ContextVar

from spinup.runs.arguments.table import current_call
from spinup.utils.errors import SpinupError

# The run that was warned last. Outside of any run, the warning appears once per program.
_TOLD: ContextVar[object] = ContextVar("spinup_told_of_a_column")


def say_that_a_column_was_flattened(shape: Iterable[int | None]) -> None:
    """Warn once per run: the losses are right, but the same network would break other code."""
    try:
        running: object = current_call()
    except SpinupError:
        running = None
    if _TOLD.get("nobody") is running:
        return
    _TOLD.set(running)
    numbers = ", ".join("batch" if n is None else str(n) for n in shape)
    text = (
        f"actor_critic returned a column, of shape ({numbers}), where one number per row is "
        "needed, so it was flattened; without that, a column minus a row would broadcast to a "
        "square matrix: squeeze the last axis"
    )
    # an empty registry, because Python shows the same text only once per program
    warnings.warn_explicit(text, UserWarning, "spinup", 0, registry={})
