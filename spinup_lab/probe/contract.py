"""The contract of a training function: seeds, arguments, columns and what it saves.

Two short runs with one seed must be equal, and one with another seed must differ. What is logged
about episodes must be what happened in them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from spinup_lab.probe.calling import Outcome, Subject
from spinup_lab.probe.report import Fault

__all__ = ["checks"]

Check = Callable[[int], Fault | None]


def checks(subject: Subject) -> dict[str, Check]:
    """Return the checks, by name."""
    if not subject.adapter:
        return {"Contract": lambda seed: contract(subject, seed)}
    return {"Contract": lambda seed: _seeds(subject, seed, "Observation")}


def contract(subject: Subject, seed: int) -> Fault | None:
    """Check one short run, and two more for the seeds."""
    probe = "Goal4" if subject.kind == "goal" else f"ActionSequence{subject.main}"
    outcome = _short(subject, probe, seed)
    if outcome.changed:
        name = outcome.changed[0]
        return Fault("hyperparameters", f"the function changes its argument {name}")
    if outcome.saved:
        part = "normalizer" if "statistics" in outcome.saved else "logging-saving"
        return Fault(part, outcome.saved)
    fault = _columns(subject, outcome) or _seeds(subject, seed, probe, outcome)
    if fault is None and subject.ours and subject.has("num_test_episodes"):
        return _tests(subject, seed, probe, outcome)
    return fault


def _tests(subject: Subject, seed: int, probe: str, without: Outcome) -> Fault | None:
    """Test episodes must not change training; our algorithms promise that."""
    tested = _short(subject, probe, seed, num_test_episodes=2)
    if "num_test_episodes" in subject.given:
        without = _short(subject, probe, seed, num_test_episodes=0)
    differs = next((w for w in ("observations", "actions") if _difference(without, tested, w)), "")
    if not differs and _weights(without) != _weights(tested):
        differs = "networks"
    if not differs:
        return None
    normalizes = subject.given.get("ac_kwargs", {}).get("normalize_obs")
    return Fault(
        "normalizer" if normalizes else "loop",
        f"test episodes change the {differs} of training"
        + (": the normalizer learns from them" if normalizes else ""),
    )


def _short(subject: Subject, probe: str, seed: int, **changes: Any) -> Outcome:
    short: dict[str, Any] = {"epochs": 3, "steps_per_epoch": 52, "num_envs": 2, "max_ep_len": 100}
    return subject.train(
        probe, seed, start_steps=20, update_after=20, save_freq=1, **short, **changes
    )


def _columns(subject: Subject, outcome: Outcome) -> Fault | None:
    """Compare what was logged about episodes with what the environments saw."""
    if not subject.has("logger_kwargs", "epochs", "steps_per_epoch"):
        return None
    rows = outcome.rows
    if not rows:
        return Fault("logging-saving", "it has logger_kwargs, but no progress.txt was written")
    missing = [c for c in ("Epoch", "AverageEpRet", "EpLen") if c not in rows[-1]]
    if missing:
        return Fault("logging-saving", f"progress.txt has no column {missing[0]}")
    if len(rows) != outcome.kwargs["epochs"]:
        wanted = outcome.kwargs["epochs"]
        return Fault("logging-saving", f"progress.txt has {len(rows)} rows after {wanted} epochs")
    training = outcome.num_envs
    total = sum(len(env.steps) for env in outcome.record.stepped(training))
    logged = rows[-1].get("TotalEnvInteracts", float(total))
    if logged != total:
        return Fault("logging-saving", f"TotalEnvInteracts is {logged:g} after {total} steps")
    per_epoch = outcome.kwargs["steps_per_epoch"] // training
    finished = outcome.record.episodes(training)
    for i, row in enumerate(rows):
        here = [e for e in finished if i * per_epoch <= e[2] < (i + 1) * per_epoch]
        for column, values in (
            ("AverageEpRet", [e[0] for e in here]),
            ("EpLen", [float(e[1]) for e in here]),
        ):
            if values and not _close(row[column], float(np.mean(values))):
                return Fault(
                    "logging-saving",
                    f"{column} of epoch {i} is {row[column]:.4g}, but the episodes that ended in "
                    f"it have {np.mean(values):.4g} on average",
                )
    return None


def _close(one: float, other: float) -> bool:
    return math.isfinite(one) and abs(one - other) <= 1e-3 * max(1.0, abs(other))


def _seeds(subject: Subject, seed: int, probe: str, first: Outcome | None = None) -> Fault | None:
    if not subject.has("seed") and not subject.adapter:
        return None
    if subject.adapter:
        first, again, other = (
            subject.train(f"{probe}{subject.main}", s, adapter_steps=256)
            for s in (seed, seed, seed + 1)
        )
    else:
        first = first or _short(subject, probe, seed)
        again, other = (_short(subject, probe, s) for s in (seed, seed + 1))
    differs = _difference(first, again)
    if differs:
        return Fault("seeding", f"two runs with the same seed differ in their {differs}")
    if not _difference(first, other, "observations"):
        return Fault(
            "seeding", "two seeds give the same episodes: the environment ignores the seed"
        )
    if not _difference(first, other, "actions"):
        return Fault("seeding", "two seeds give the same actions")
    return None


def _difference(one: Outcome, other: Outcome, what: str = "") -> str:
    """Return what differs between two runs ('' if nothing does), or whether `what` does."""
    tracks: dict[str, Callable[[Any], Any]] = {
        "observations": lambda s: s.obs,
        "actions": lambda s: s.act,
        "rewards": lambda s: s.rew,
    }
    for name, get in tracks.items():
        if what in ("", name) and _track(one, get) != _track(other, get):
            return name
    if not what and [repr(r) for r in one.rows] != [repr(r) for r in other.rows]:
        return "progress.txt"
    return ""


def _weights(outcome: Outcome) -> list[Any]:
    """Return all parameters and statistics of the returned networks."""
    agent: Any = outcome.answers.whole
    state = agent.state_dict() if hasattr(agent, "state_dict") else {}
    return [(name, np.asarray(x.detach().cpu()).tolist()) for name, x in state.items()]


def _track(outcome: Outcome, get: Callable[[Any], Any]) -> list[Any]:
    rows = []
    for step in outcome.record.steps(outcome.num_envs):
        x = get(step)
        if isinstance(x, dict):
            x = np.concatenate([np.ravel(v) for _, v in sorted(x.items())])
        rows.append(np.asarray(x, np.float64).reshape(-1).tolist())
    return rows
