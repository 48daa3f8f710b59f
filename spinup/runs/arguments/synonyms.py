"""The words of other libraries, and what they are called here.

A word with exactly the same meaning is accepted as a flag (`--n_envs 8` is `--num_envs 8`). Any
other word gets advice with the numbers worked out: `--tau 0.005` becomes `--polyak 0.995`. Training
functions called from Python give the same advice in their errors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spinup.utils.errors import nearest
from spinup.utils.toml import parse_toml

_TABLE = parse_toml(Path(__file__).with_name("synonyms.toml").read_text(encoding="utf-8"))
# Word -> the arguments that mean exactly the same; the first one that the algorithm has counts.
SAME: Mapping[str, Sequence[str]] = _TABLE["same"]
_TOTAL = (
    *("total_steps", "total_timesteps", "num_timesteps", "n_timesteps", "max_timesteps"),
    *("timesteps", "num_env_steps", "max_steps", "num_steps_total"),
)
_RATES = ("lr", "learning_rate")
_LEARNING_RATES = ("pi_lr", "vf_lr", "q_lr", "lr")

# What to set instead, and a remark. An algorithm that lacks one of the arguments gets the remark.
Advice = tuple[dict[str, Any], str]


def same(word: str, known: Mapping[str, Any]) -> str | None:
    """Return the argument (`a:b` for an entry of a dict) that means exactly what `word` means.

    `known` has the algorithm's arguments and their values; None if there is no such argument.
    """
    if word in known:
        return None
    if word in _RATES:
        rates = [name for name in _LEARNING_RATES if name in known]
        return rates[0] if len(rates) == 1 else None
    for name in SAME.get(word, ()):
        if name.partition(":")[0] in known or name in ("env_name", "exp_name"):
            return name
    return None


def advice(word: str, value: Any, known: Mapping[str, Any]) -> Advice | None:
    """Return what to set instead of `word`, or None if the word is not known either.

    Args:
        word: the argument that the algorithm does not have.
        value: the value given for it; True if there was none.
        known: the algorithm's arguments, with the values given for them or else their defaults.
    """
    number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
    if word in _TOTAL:
        return _total(number, known)
    if word in _RATES:
        rates = [name for name in _LEARNING_RATES if name in known]
        return {name: number for name in rates}, "each network has its own learning rate"
    found = _ADVICE.get(word)
    if found is None:
        return None
    pairs, remark = found(number, known)
    possible = {k: v for k, v in pairs.items() if k.partition(":")[0] in (*known, *_RUN)}
    return (possible, remark) if possible or not pairs else None


def _total(steps: float | None, known: Mapping[str, Any]) -> Advice:
    each = known.get("steps_per_epoch", 4000)
    remark = "a run takes epochs * steps_per_epoch steps"
    if steps is None or steps < 1 or not isinstance(each, int | float):
        return {"epochs": None, "steps_per_epoch": None}, remark
    if steps <= each:
        return {"epochs": 1, "steps_per_epoch": int(steps)}, remark
    epochs = math.ceil(steps / each)
    if epochs * each != steps:
        remark = f"which is {int(epochs * each):,} steps; {remark}"
    return {"epochs": epochs, "steps_per_epoch": int(each)}, remark


def _rollout(steps: float | None, known: Mapping[str, Any]) -> Advice:
    envs = known.get("num_envs", 1)
    many = None if steps is None else int(steps * envs)
    return {"steps_per_epoch": many}, "it counts the steps of all environments together"


def _tau(tau: float | None, known: Mapping[str, Any]) -> Advice:
    return {"polyak": None if tau is None else float(f"{1 - tau:.12g}")}, "polyak is 1 - tau"


def _fraction(part: float | None, known: Mapping[str, Any]) -> Advice:
    total = known.get("epochs", 0) * known.get("steps_per_epoch", 0)
    return {"eps_steps": None if part is None else int(part * total)}, (
        "it counts environment steps"
    )


def _gradient_steps(steps: float | None, known: Mapping[str, Any]) -> Advice:
    every = known.get("update_every", 1)
    ratio = None if steps is None or steps < 0 else float(f"{steps / every:.12g}")
    return {"updates_per_step": ratio}, f"every {every} environment steps are followed by updates"


def _minibatches(count: float | None, known: Mapping[str, Any]) -> Advice:
    each = known.get("steps_per_epoch", 0)
    rows = None if not count or count < 1 else int(each // count)
    return {"minibatch_size": rows}, "it is a number of rows"


def _batch(rows: float | None, known: Mapping[str, Any]) -> Advice:
    if "minibatch_size" in known:
        return {"minibatch_size": rows}, "otherwise, the whole epoch is one batch"
    return {"steps_per_epoch": rows}, "an epoch is one batch"


def _set(row: Mapping[str, Any]) -> Callable[[float | None, Any], Advice]:
    """Return the advice of a row of the table, for a given number."""

    def advise(number: float | None, known: Any) -> Advice:
        values = {"=": number, "?": None}
        pairs = {name: values.get(value, value) for name, value in row.get("set", {}).items()}
        return pairs, row.get("remark", "")

    return advise


_ADVICE: Mapping[str, Callable[[float | None, Mapping[str, Any]], Advice]] = {
    "n_steps": _rollout,
    "num_steps": _rollout,
    "rollout_steps": _rollout,
    "tau": _tau,
    "gradient_steps": _gradient_steps,
    "num_minibatches": _minibatches,
    "batch_size": _batch,
    "exploration_fraction": _fraction,
    **{word: _set(row) for row in _TABLE["advice"] for word in row["words"]},
}
# Flags of the command line that are not arguments of a training function.
_RUN = ("track", "data_dir", "exp_name", "num_cpu", "env_name")
_IN_PYTHON = {
    "env_name": "env_fn",
    "data_dir": "logger_kwargs:output_dir",
    "exp_name": "logger_kwargs:exp_name",
}


def as_flags(found: Advice) -> str:
    """Write advice as flags: `write --epochs 50 --steps_per_epoch 4000`."""
    pairs, remark = found
    words = " ".join(
        f"--{k} {_placeholder(k) if v is None else _plain(v)}" for k, v in pairs.items()
    )
    return _joined(f"write {words}" if words else "", remark)


def as_keywords(found: Advice) -> str:
    """Write advice as keyword arguments: `write epochs=50, steps_per_epoch=4000`."""
    pairs = {_IN_PYTHON.get(k, k): v for k, v in found[0].items()}
    sink = pairs.pop("track", None)
    words = []
    for key, value in pairs.items():
        outer, _, inner = key.partition(":")
        text = _placeholder(key) if value is None else repr(value)
        words.append(f'{outer}={{"{inner}": {text}}}' if inner else f"{outer}={text}")
    if sink:
        words.append(f'logger_kwargs={{"sinks": ["{sink}"]}}')
    return _joined(f"write {', '.join(words)}" if words else "", found[1])


def _joined(write: str, remark: str) -> str:
    return f"{write} ({remark})" if write and remark else write or remark


def _placeholder(key: str) -> str:
    return key.rpartition(":")[2].upper()


def _plain(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) and value < 1 else str(value)


def unexpected(function: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> str:
    """Return the message of the TypeError for the first keyword that a function does not have."""
    word = next(name for name in given if name not in known)
    said = f"{function}() got an unexpected keyword argument {word!r}"
    settings = {**known, **{k: v for k, v in given.items() if k in known}}
    name = same(word, settings)
    if name is not None:
        return f"{said}: {as_keywords(({name: given[word]}, ''))}"
    found = advice(word, given[word], settings)
    return f"{said}: {as_keywords(found)}" if found else f"{said}{nearest(word, known)}"
