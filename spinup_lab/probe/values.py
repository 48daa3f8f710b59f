"""Probes of the critic: what it learned, compared with what is true.

The wrong value says more than that it is wrong: 1.61 instead of 2 is what a critic learns that
takes every cut for a death.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from spinup.utils.findings import Finding
from spinup_lab.probe.calling import Outcome, Subject
from spinup_lab.probe.environments import EpisodeEnd
from spinup_lab.probe.verdict import fault

ENDLESS = ("MaxEpLen", "EpochCut")  # the algorithm itself cuts their episodes
ENDS_IN_A_CUT = {
    "Truncation": "a time limit",
    "TimeLimit": "a time limit",
    "MaxEpLen": "its own time limit",
    "EpochCut": "the end of an epoch",
}


@dataclass(frozen=True)
class Learned:
    """What one run learned about a probe: values by observation."""

    got: dict[float, float]
    want: dict[float, float]
    tolerance: float
    fault: Finding | None = None  # found without looking at values
    known: bool = True  # whether there were values to look at

    @property
    def passed(self) -> bool:
        """Whether all values are right."""
        return self.fault is None and not self.wrong()

    def wrong(self) -> list[float]:
        """Return the observations whose values are wrong."""
        return [o for o, want in self.want.items() if not self.near(o, want)]

    def near(self, obs: float, value: float, tolerance: float = 0.0) -> bool:
        """Return whether the value of `obs` is close to `value`."""
        limit = (tolerance or self.tolerance) * max(1.0, 0.5 * abs(value))
        return bool(abs(self.got.get(obs, math.nan) - value) <= limit)

    def text(self) -> str:
        """Return the wrong values and the right ones."""
        wrong = self.wrong()
        worst = max(wrong, key=lambda o: _finite(abs(self.got[o] - self.want[o])), default=None)
        if worst is None:
            return ""
        name = f"V({worst:.2g})" if len(self.want) > 1 else "the value"
        return f"{name} is {self.got[worst]:.2f} instead of {self.want[worst]:.2f}"


def value_probes(subject: Subject) -> list[str]:
    """Return the names of the value probes for an algorithm, the simplest first."""
    names = ["Constant", "Observation", "TwoStep", "Termination", "Truncation", "TimeLimit"]
    names += ["DeathAtLimit", "Neighbours", "NeighboursCut"]
    if subject.has("max_ep_len"):
        names.append("MaxEpLen")
    if subject.kind == "on" and subject.has("steps_per_epoch"):
        names.append("EpochCut")
    return names


def learn(subject: Subject, name: str, seed: int, suffix: str = "", **changes: Any) -> Learned:
    """Train in a value probe and read what was learned."""
    changes = {"alpha": 0.02, **changes}  # values without much entropy in them
    if name == "MaxEpLen":
        changes["max_ep_len"] = 5
    if name == "EpochCut":  # epochs so short that most paths end because an epoch does
        envs = 4 if subject.has("num_envs") else 1
        # Longer than the 240 steps of a run, and short enough for test episodes, which do not end.
        changes |= {"steps_per_epoch": 6 * envs, "num_envs": envs, "epochs": 40, "max_ep_len": 250}
    if name in ENDLESS:
        make = partial(EpisodeEnd, "Box" if suffix else "Discrete", end="none")
        outcome = subject.train(make, seed, where=name, **changes)
    else:
        outcome = subject.train(f"{name}{suffix}", seed, **changes)
    tolerance = 0.2 if name in ("Termination", "DeathAtLimit") else 0.12
    return read(outcome, subject.gamma, 1.6 * tolerance if subject.adapter else tolerance)


def read(outcome: Outcome, gamma: float, tolerance: float) -> Learned:
    """Compare an outcome's values with the true ones, at all observations that were seen."""
    refused = refusal(outcome)
    if refused is not None:
        return Learned({}, {}, tolerance, refused)
    env: Any = outcome.record.envs[0].unwrapped
    seen: dict[float, Any] = {}
    for step in outcome.record.steps(outcome.num_envs):
        seen.setdefault(round(float(np.asarray(step.obs).reshape(-1)[0]), 3), step.obs)
    want = {o: env.true_value(obs, gamma) for o, obs in sorted(seen.items())}
    got = {o: _mean_value(outcome, seen[o]) for o in want}
    if any(value is None for value in got.values()):
        return _read_columns(outcome, want, tolerance)
    return Learned({o: float(x) for o, x in got.items() if x is not None}, want, tolerance)


def _mean_value(outcome: Outcome, obs: Any) -> float | None:
    values = outcome.answers.values(obs)
    return None if values is None else float(np.mean(values))


def _read_columns(outcome: Outcome, want: dict[float, float], tolerance: float) -> Learned:
    """Without an agent to ask, the extremes of the logged values must be those of the true ones."""
    highest, lowest = max(want, key=lambda o: want[o]), min(want, key=lambda o: want[o])
    for name in ("VVals", "QVals", "Q1Vals"):
        extremes = outcome.column(f"Max{name}"), outcome.column(f"Min{name}")
        if all(map(math.isfinite, extremes)):
            got = dict(zip((highest, lowest), extremes, strict=True))
            if highest == lowest:
                got = {highest: outcome.column(f"Average{name}")}
            return Learned(got, {o: want[o] for o in got}, 2 * tolerance)
    return Learned({}, {}, tolerance, known=False)


def refusal(outcome: Outcome) -> Finding | None:
    """Return what the environment refused, as a fault."""
    error = outcome.record.refused
    if error is None:
        return None
    if "reset" in str(error).lower():
        return fault("never-reset")
    return fault("refused", error=error)


# ---- what the wrong values mean ----------------------------------------------------------------


def diagnose(found: dict[str, Learned], subject: Subject) -> Finding:
    """Name the part that explains the value probes that failed; at least one did."""
    return next(_explanations(found, subject))


def _explanations(found: dict[str, Learned], subject: Subject) -> Iterator[Finding]:
    """Yield what explains the failed probes, the most specific explanation first."""
    failed = {name: learned for name, learned in found.items() if not learned.passed}
    for name, learned in failed.items():
        if learned.fault is not None:
            yield learned.fault
        if not all(map(math.isfinite, learned.got.values())):
            yield fault("values-not-finite", name=name)
    first = next(iter(failed))
    said = f"in {first}, {found[first].text()}"
    rules = {
        "Constant": _constant,
        "Observation": _observation,
        "TwoStep": _two_step,
        "Termination": _termination,
        "Neighbours": _neighbours,
    }
    if first in ENDS_IN_A_CUT:
        yield from _cut(found[first], subject, said, ENDS_IN_A_CUT[first])
    elif first in rules:
        yield from rules[first](found, subject, said)
    elif first == "DeathAtLimit":
        yield fault("death-is-cut", said=said)
    yield fault("next-episode", said=said)


def _constant(found: dict[str, Learned], subject: Subject, said: str) -> Iterator[Finding]:
    got, endless = found["Constant"].got[0.0], 1.0 / (1.0 - subject.gamma)
    cut = found.get("Truncation")
    if got > 0.5 * (1.0 + endless) and (cut is None or cut.got.get(0.0, 0.0) < 1.5 * endless):
        yield fault("endless-after-end", said=said)
    if abs(got) < 0.25:
        yield fault("learns-nothing", said=said)
    yield fault("not-even-simplest", said=said)


def _observation(found: dict[str, Learned], subject: Subject, said: str) -> Iterator[Finding]:
    low, high = (found["Observation"].got.get(o, math.nan) for o in (-1.0, 1.0))
    # A mean of the two rewards is near 0, but only an activation after the last layer gives 0.0.
    if low == 0.0 or (abs(low) < 0.2 and abs(high - 1.0) < 0.2):
        yield fault("never-negative", said=said)
    if abs(high - low) < 0.6:
        ends = found.get("Termination")
        if ends is not None and ends.passed:  # its rewards are all the same
            yield fault("mixed-rows", "replay" if subject.kind != "on" else "", said=said)
        yield fault("mean-of-all", said=said)
    yield fault("not-by-observation", said=said)


def _two_step(found: dict[str, Learned], subject: Subject, said: str) -> Iterator[Finding]:
    gamma, learned = subject.gamma, found["TwoStep"]
    first, last = learned.got.get(0.0, math.nan), learned.got.get(1.0, math.nan)
    on_policy = subject.kind == "on"
    if not learned.near(1.0, 1.0):
        if last > 1.0:
            yield fault("added-after-end", said=said)
        ends = found.get("Termination")
        if ends is not None and ends.got and max(ends.got.values()) - min(ends.got.values()) < 0.4:
            yield fault("not-advanced", said=said)
        yield fault("last-misplaced", "" if on_policy else "replay", said=said)
    if learned.near(0.0, 1.0):
        yield fault("undiscounted", said=said)
    if learned.near(0.0, gamma**2, 0.08) and not learned.near(0.0, 0.0, 0.05):
        yield fault("discounted-twice", said=said)
    if on_policy:
        yield fault("not-credited", said=said)
    near = found.get("Neighbours")
    own = near.got.get(0.5, math.nan) if near is not None else math.nan
    if abs(own - 2.0 / (1.0 - gamma)) < 0.3:
        yield fault("own-successor", said=said)
    if abs(first) < 0.02 and abs(own - 2.0) < 0.05:
        yield fault("no-next-value", said=said)
    yield fault("not-followed", said=said)


def _cut(learned: Learned, subject: Subject, said: str, limit: str) -> Iterator[Finding]:
    gamma, value = subject.gamma, learned.got.get(0.0, math.nan)
    # A cut taken for a death: between the mean of the returns and the one-step fixed point.
    mean = sum((1 - gamma ** (5 - t)) / (1 - gamma) for t in range(5)) / 5
    if mean - 0.1 < value < max(1 / (1 - 0.8 * gamma), mean) + 0.1:
        yield fault("cut-is-death", said=said, limit=limit)
    if value > 1.15 / (1 - gamma) or not math.isfinite(value):
        yield fault("too-much-at-cut", said=said)
    yield fault("wrong-at-cut", said=said)


def _termination(found: dict[str, Learned], subject: Subject, said: str) -> Iterator[Finding]:
    learned, on_policy = found["Termination"], subject.kind == "on"
    worst = learned.wrong()
    if max(learned.want) not in worst:
        several = on_policy or subject.given.get("n_step", 1) > 1
        yield fault("later-steps", "" if several else "value-loss", said=said)
    if all(learned.got[o] > learned.want[o] for o in worst):
        yield fault("after-end", said=said)
    yield fault("several-steps", "" if on_policy else "value-loss", said=said)


def _neighbours(found: dict[str, Learned], subject: Subject, said: str) -> Iterator[Finding]:
    got = found["Neighbours"].got
    if abs(got.get(1.0, 0.0) - got.get(-1.0, 0.0)) < 1.0:
        yield fault("others-last", "replay" if subject.kind != "on" else "", said=said)
    yield fault("leaks", said=said)


def _finite(x: float) -> float:
    return x if math.isfinite(x) else math.inf
