"""Checks of the arguments of networks, before a run touches its directory."""

from __future__ import annotations

import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from spinup.envs.bounds import check_log_std
from spinup.utils.errors import SpinupError, nearest


def check_networks(
    config: Mapping[str, Any], action_space: Any, is_activation: Callable[[Any], bool], such_as: str
) -> bool:
    """Reject `ac_kwargs` that the actor-critic does not take; return whether it is the library's.

    `is_activation` says whether a value is an activation of the backend, `such_as` names one.
    """
    actor_critic, ac_kwargs = config.get("actor_critic"), config["ac_kwargs"]
    if not callable(actor_critic):
        return False
    _check_names(actor_critic, ac_kwargs)
    if not getattr(actor_critic, "__module__", "").startswith("spinup."):
        return False
    widths = ac_kwargs.get("hidden_sizes")
    if widths is not None and not _are_widths(widths):
        raise SpinupError(
            f"hidden_sizes={widths!r} in ac_kwargs must be a list of whole numbers above zero, the "
            "widths of the hidden layers, such as [64, 64]"
        )
    if "activation" in ac_kwargs and not is_activation(ac_kwargs["activation"]):
        raise SpinupError(
            f"activation={ac_kwargs['activation']!r} in ac_kwargs is not an activation: pass "
            f"{such_as}"
        )
    if ac_kwargs.get("log_std_init") is not None:
        check_log_std(action_space, ac_kwargs["log_std_init"])
    return True


def _check_names(actor_critic: Callable[..., Any], ac_kwargs: Iterable[str]) -> None:
    """Raise an error if there is an entry that the actor-critic has no parameter for."""
    try:
        parameters = list(inspect.signature(actor_critic).parameters.values())[2:]
    except (TypeError, ValueError):
        return  # it does not say what it takes
    if any(p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL) for p in parameters):
        return
    known = [p.name for p in parameters if p.name != "action_space"]
    for name in ac_kwargs:
        if name not in known:
            raise SpinupError(
                f"ac_kwargs has an entry {name!r}, which {_name(actor_critic)} does not take: it "
                f"takes {', '.join(known) or 'none'}{nearest(str(name), known)}"
            )


def _name(actor_critic: Any) -> str:
    inner = getattr(actor_critic, "func", actor_critic)  # of a functools.partial
    return str(getattr(inner, "__name__", "the actor_critic"))


def _are_widths(value: Any) -> bool:
    if not isinstance(value, list | tuple | np.ndarray):
        return False
    whole = all(isinstance(n, numbers.Integral) and not isinstance(n, bool) for n in value)
    return whole and all(n > 0 for n in value)
