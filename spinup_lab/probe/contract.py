"""The contract of a training function: seeds, arguments, columns and what it saves.

Two short runs with one seed must be equal, and one with another seed must differ. What is logged
about episodes must be what happened in them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from spinup.utils.findings import Finding
from spinup_lab.probe.calling import Outcome, Subject
from spinup_lab.probe.verdict import Check, fault


def checks(subject: Subject) -> dict[str, Check]:
    """Return the checks, by name."""
    if subject.adapter:
        return {"Contract": lambda seed: _seeds(subject, seed, "Observation")}
    return {"Contract": partial(contract, subject)}


def contract(subject: Subject, seed: int) -> Iterator[Finding]:
    """Check one short run, and two more for the seeds."""
    probe = "Goal4" if subject.kind == "goal" else f"ActionSequence{subject.main}"
    outcome = _short(subject, probe, seed)
    for name in outcome.changed:
        yield fault("changed-argument", name=name)
    if outcome.saved:
        part = "normalizer" if "statistics" in outcome.saved else ""
        yield fault("saved-policy", part, said=outcome.saved)
    yield from _columns(subject, outcome)
    yield from _seeds(subject, seed, probe, outcome)
    if subject.ours and subject.has("num_test_episodes"):
        yield from _tests(subject, seed, probe, outcome)


def _tests(subject: Subject, seed: int, probe: str, without: Outcome) -> Iterator[Finding]:
    """Test episodes must not change training; our algorithms promise that."""
    tested = _short(subject, probe, seed, num_test_episodes=2)
    if "num_test_episodes" in subject.given:
        without = _short(subject, probe, seed, num_test_episodes=0)
    differs = next((w for w in ("observations", "actions") if _difference(without, tested, w)), "")
    if not differs and _weights(without) != _weights(tested):
        differs = "networks"
    if differs and subject.given.get("ac_kwargs", {}).get("normalize_obs"):
        yield fault("tests", "normalizer", what=differs, how=": the normalizer learns from them")
    elif differs:
        yield fault("tests", what=differs, how="")


def _short(subject: Subject, probe: str, seed: int, **changes: Any) -> Outcome:
    short: dict[str, Any] = {"epochs": 3, "steps_per_epoch": 52, "num_envs": 2, "max_ep_len": 100}
    return subject.train(
        probe, seed, start_steps=20, update_after=20, save_freq=1, **short, **changes
    )


def _columns(subject: Subject, outcome: Outcome) -> Iterator[Finding]:
    """Compare what was logged about episodes with what the environments saw."""
    if not subject.has("logger_kwargs", "epochs", "steps_per_epoch"):
        return
    rows, training = outcome.rows, outcome.num_envs
    if not rows:
        yield fault("no-progress")
    for name in ("Epoch", "AverageEpRet", "EpLen"):
        if name not in rows[-1]:
            yield fault("no-column", name=name)
    if len(rows) != outcome.kwargs["epochs"]:
        yield fault("rows", rows=len(rows), epochs=outcome.kwargs["epochs"])
    total = sum(len(env.steps) for env in outcome.record.stepped(training))
    logged = rows[-1].get("TotalEnvInteracts", float(total))
    if logged != total:
        yield fault("total", logged=logged, total=total)
    per_epoch = outcome.kwargs["steps_per_epoch"] // training
    finished = outcome.record.episodes(training)
    for i, row in enumerate(rows):
        here = [e for e in finished if i * per_epoch <= e[2] < (i + 1) * per_epoch]
        for column, place in (("AverageEpRet", 0), ("EpLen", 1)):
            mean = float(np.mean([e[place] for e in here])) if here else row[column]
            if here and not _close(row[column], mean):
                yield fault("average", column=column, epoch=i, logged=row[column], mean=mean)


def _close(one: float, other: float) -> bool:
    return math.isfinite(one) and abs(one - other) <= 1e-3 * max(1.0, abs(other))


def _seeds(
    subject: Subject, seed: int, probe: str, first: Outcome | None = None
) -> Iterator[Finding]:
    if not subject.has("seed") and not subject.adapter:
        return
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
        yield fault("not-repeatable", what=differs)
    if not _difference(first, other, "observations"):
        yield fault("same-episodes")
    if not _difference(first, other, "actions"):
        yield fault("same-actions")


def _difference(one: Outcome, other: Outcome, what: str = "") -> str:
    """Return what differs between two runs ('' if nothing does), or whether `what` does."""
    for name, field in (("observations", "obs"), ("actions", "act"), ("rewards", "rew")):
        if what in ("", name) and _track(one, field) != _track(other, field):
            return name
    if not what and [repr(r) for r in one.rows] != [repr(r) for r in other.rows]:
        return "progress.txt"
    return ""


def _weights(outcome: Outcome) -> list[Any]:
    """Return all parameters and statistics of the returned networks."""
    agent: Any = outcome.answers.whole
    state = agent.state_dict() if hasattr(agent, "state_dict") else {}
    return [(name, np.asarray(x.detach().cpu()).tolist()) for name, x in state.items()]


def _track(outcome: Outcome, field: str) -> list[Any]:
    rows = []
    for step in outcome.record.steps(outcome.num_envs):
        x = getattr(step, field)
        if isinstance(x, dict):
            x = np.concatenate([np.ravel(v) for _, v in sorted(x.items())])
        rows.append(np.asarray(x, np.float64).reshape(-1).tolist())
    return rows
