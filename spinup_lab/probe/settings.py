"""Which arguments a training function gets in a probe: small networks, few steps, high rates.

The table is `settings.toml`; `tests/lab/probe` and `make probe` check that it is enough to learn.
"""

from __future__ import annotations

import functools
from collections.abc import Collection
from pathlib import Path
from typing import Any

from spinup.utils.toml import parse_toml


@functools.cache
def _tables() -> dict[str, dict[str, Any]]:
    return parse_toml(Path(__file__).with_name("settings.toml").read_text(encoding="utf-8"))


def tiny(*names: str) -> dict[str, Any]:
    """Return some tables of `settings.toml` as one; later ones replace values of earlier ones."""
    found = {key: value for name in names for key, value in _tables()[name].items()}
    return {key: None if value == "none" else value for key, value in found.items()}


def family(parameters: Collection[str]) -> str:
    """Return which kind of algorithm has these parameters: 'on', 'off', 'acer' or 'goal'."""
    if "replay_size" not in parameters and "buffer_size" not in parameters:
        return "on"
    if "strategy" in parameters and "k" in parameters:
        return "goal"
    return "acer" if "replay_ratio" in parameters else "off"


def settings(kind: str, parameters: Collection[str], box: bool, acts: bool) -> dict[str, Any]:
    """Return the arguments of a probe for an algorithm of some family.

    `box`: whether the actions are continuous. `acts`: whether there is a best action to learn.
    """
    if kind != "on":
        chosen = tiny("every", "off") if kind == "off" else tiny("every", "off", kind)
        if box and acts and kind != "acer":
            # A sampling policy needs fewer updates than a deterministic one, and longer for each.
            chosen |= {"updates_per_step": 1.0 if "alpha" in parameters else 2.0, "epochs": 3}
        return chosen
    chosen = tiny("every", "on", *["on_act"] * acts, *["on_box"] * (acts and box))
    one_step = "train_pi_iters" not in parameters  # per epoch, or the function's own number
    if not acts and "train_v_iters" not in parameters:
        chosen["epochs"] = 60
    if acts and one_step and "delta" not in parameters:
        chosen |= {"epochs": 80} if box else {"pi_lr": 0.05, "epochs": 40}
    return chosen
