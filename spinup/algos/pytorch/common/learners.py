"""Parts that the off-policy algorithms share: learners, and slowly moving target networks."""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch


class Learner(NamedTuple):
    """How an off-policy algorithm explores and learns, bound to its networks."""

    policy: Any  # the exploring policy
    update: Callable[..., Any]  # (batch, gradient steps so far) -> measurements
    values: tuple[str, ...]  # names of the per-row measurements of an update
    losses: tuple[str, ...]  # names of the measurements taken once per update
    begin_step: Callable[[int], None] = lambda t: None  # called with the steps taken so far
    columns: Callable[[int], dict[str, float]] = lambda t: {}  # additional columns for the log
    optimizers: tuple[Any, ...] = ()  # optimizers whose learning rates a schedule may change


def target_copy(ac):
    """Copy the network without gradients; only `polyak_update` changes the copy."""
    return copy.deepcopy(ac).requires_grad_(False)


def polyak_update(ac, ac_targ, polyak):
    """Set ac_targ <- polyak * ac_targ + (1 - polyak) * ac, for all parameters in one call."""
    with torch.no_grad():
        if torch.compiler.is_compiling():
            for p_targ, p in zip(ac_targ.parameters(), ac.parameters(), strict=True):
                p_targ.lerp_(p, 1 - polyak)
            return
        torch._foreach_lerp_(list(ac_targ.parameters()), list(ac.parameters()), 1 - polyak)
