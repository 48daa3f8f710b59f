"""An off-policy algorithm's learner: how it explores and learns."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Learner(NamedTuple):
    """How an off-policy algorithm explores and learns, bound to its networks."""

    policy: Any  # the exploring policy
    update: Callable[..., Any]  # (batch, gradient steps so far) -> measurements
    values: tuple[str, ...]  # names of the per-row measurements of an update
    losses: tuple[str, ...]  # names of the measurements taken once per update
    target: Callable[..., Any] | None = None  # batch -> what the critics learn to predict, (B,)
    begin_step: Callable[[int], None] = lambda t: None  # called with the steps taken so far
    columns: Callable[[int], dict[str, float]] = lambda t: {}  # additional columns for the log
    optimizers: tuple[Any, ...] = ()  # optimizers whose learning rates a schedule may change
