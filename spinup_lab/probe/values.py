"""Probes of the critic: what it learned, compared with what is true.

The wrong value says more than that it is wrong: 1.61 instead of 2 is what a critic learns that
takes every cut for a death.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from spinup_lab.probe.calling import Outcome, Subject
from spinup_lab.probe.environments import EpisodeEnd
from spinup_lab.probe.report import Fault

__all__ = ["Learned", "diagnose", "learn", "refusal", "value_probes"]

ENDLESS = ("MaxEpLen", "EpochCut")  # the algorithm itself cuts their episodes


@dataclass(frozen=True)
class Learned:
    """What one run learned about a probe: values by observation."""

    got: dict[float, float]
    want: dict[float, float]
    tolerance: float
    fault: Fault | None = None  # found without looking at values
    known: bool = True  # whether there were values to look at

    @property
    def passed(self) -> bool:
        """Whether all values are right."""
        return self.fault is None and not self.wrong()

    def wrong(self) -> list[float]:
        """Return the observations whose values are wrong."""
        return [o for o, want in self.want.items() if not self.near(o, want)]

    def near(self, obs: float, value: float, tolerance: float | None = None) -> bool:
        """Return whether the value of `obs` is close to `value`."""
        limit = self.tolerance if tolerance is None else tolerance
        got = self.got.get(obs, math.nan)
        return bool(abs(got - value) <= limit * max(1.0, 0.5 * abs(value)))

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
    if name in ENDLESS:
        actions = "Box" if suffix else "Discrete"

        def make() -> EpisodeEnd:
            return EpisodeEnd(actions, end="none")

        make.__name__ = name
        changes |= {"max_ep_len": 5} if name == "MaxEpLen" else _short_epochs(subject)
        outcome = subject.train(make, seed, **changes)
    else:
        outcome = subject.train(f"{name}{suffix}", seed, **changes)
    gamma = changes.get("gamma", subject.gamma)
    return read(outcome, gamma, tolerance=_tolerance(subject, name))


def _short_epochs(subject: Subject) -> dict[str, Any]:
    """Return settings with epochs so short that most paths end because an epoch does."""
    envs = 4 if subject.has("num_envs") else 1
    # Longer than the 240 steps of a run, and short enough for test episodes, which do not end.
    return {"steps_per_epoch": 6 * envs, "num_envs": envs, "epochs": 40, "max_ep_len": 250}


def _tolerance(subject: Subject, name: str) -> float:
    tolerance = 0.2 if name in ("Termination", "DeathAtLimit") else 0.12
    return 1.6 * tolerance if subject.adapter else tolerance


def read(outcome: Outcome, gamma: float, tolerance: float) -> Learned:
    """Compare an outcome's values with the true ones, at all observations that were seen."""
    fault = refusal(outcome)
    if fault is not None:
        return Learned({}, {}, tolerance, fault)
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


def refusal(outcome: Outcome) -> Fault | None:
    """Return what the environment refused, as a fault."""
    error = outcome.record.refused
    if error is None:
        return None
    if "reset" in str(error).lower():
        return Fault("episode-ends", "it stepped an episode that was over, without resetting")
    return Fault("action-bounds", f"the environment refused what was sent: {error}")


# ---- what the wrong values mean ----------------------------------------------------------------


def diagnose(found: dict[str, Learned], subject: Subject) -> Fault:
    """Name the part that explains the value probes that failed; at least one did."""
    failed = [name for name, learned in found.items() if not learned.passed]
    for name in failed:
        fault = found[name].fault
        if fault is not None:
            return fault
        if not all(map(math.isfinite, found[name].got.values())):
            return Fault("value-loss", f"the values of {name} are not finite")
    first = failed[0]
    said = f"in {first}, {found[first].text()}"
    rules = {"Constant": _constant, "Observation": _observation, "TwoStep": _two_step}
    if first in rules:
        return rules[first](found, subject, said)
    return _ends(found, failed, subject, said)


def _constant(found: dict[str, Learned], subject: Subject, said: str) -> Fault:
    got, endless = found["Constant"].got[0.0], 1.0 / (1.0 - subject.gamma)
    cut = found.get("Truncation")
    if got > 0.5 * (1.0 + endless) and (cut is None or cut.got.get(0.0, 0.0) < 1.5 * endless):
        return Fault(
            "episode-ends",
            f"{said}, the value of an episode that never ends: something is bootstrapped after a "
            "termination, which nothing follows",
        )
    if abs(got) < 0.25:
        return Fault("value-loss", f"{said}: the critic learns nothing")
    return Fault("value-loss", f"{said}: it does not learn even the simplest value")


def _observation(found: dict[str, Learned], subject: Subject, said: str) -> Fault:
    low, high = (found["Observation"].got.get(o, math.nan) for o in (-1.0, 1.0))
    # A mean of the two rewards is near 0, but only an activation after the last layer gives 0.0.
    if low == 0.0 or (abs(low) < 0.2 and abs(high - 1.0) < 0.2):
        return Fault("value-loss", f"{said}: the critic cannot return negative values")
    if abs(high - low) < 0.6:
        ends = found.get("Termination")
        if ends is not None and ends.passed:  # its rewards are all the same
            return Fault(
                "replay" if subject.kind != "on" else "loop",
                f"{said}, while values are right where all rewards are equal: rewards are paired "
                "with the observations of other steps",
            )
        return Fault(
            "value-loss",
            f"{said}: the critic learns the mean of all observations, as when a column minus a row "
            "becomes a matrix",
        )
    return Fault("value-loss", f"{said}: the values do not follow the observation")


def _two_step(found: dict[str, Learned], subject: Subject, said: str) -> Fault:
    gamma, learned = subject.gamma, found["TwoStep"]
    first, last = learned.got.get(0.0, math.nan), learned.got.get(1.0, math.nan)
    on_policy = subject.kind == "on"
    if not learned.near(1.0, 1.0):
        if last > 1.0:
            return Fault(
                "episode-ends", f"{said}: something is added after the termination of an episode"
            )
        ends = found.get("Termination")
        if ends is not None and ends.got and max(ends.got.values()) - min(ends.got.values()) < 0.4:
            return Fault(
                "loop",
                f"{said}, and in Termination all values are the same: learning sees only the first "
                "observation of an episode, which is not advanced",
            )
        return Fault("returns" if on_policy else "replay", f"{said}: the last reward is misplaced")
    if learned.near(0.0, 1.0):
        return Fault("returns", f"{said}: the later reward is not discounted")
    if learned.near(0.0, gamma**2, 0.08) and not learned.near(0.0, 0.0, 0.05):
        return Fault("returns", f"{said}: the later reward is discounted twice")
    if on_policy:
        return Fault("returns", f"{said}: the later reward is not credited as it should be")
    near = found.get("Neighbours")
    own = near.got.get(0.5, math.nan) if near is not None else math.nan
    if abs(own - 2.0 / (1.0 - gamma)) < 0.3:
        return Fault(
            "replay",
            f"{said}, and in Neighbours the first step bootstraps from itself: the stored next "
            "observation is the current one",
        )
    if abs(first) < 0.02 and abs(own - 2.0) < 0.05:
        return Fault("value-loss", f"{said}: the value of the next observation is left out")
    return Fault(
        "targets",
        f"{said}, although the value of the last observation is right: what the critic learns does "
        "not reach its target network",
    )


def _ends(found: dict[str, Learned], failed: list[str], subject: Subject, said: str) -> Fault:
    gamma = subject.gamma
    cuts = {"Truncation", "TimeLimit", "MaxEpLen", "EpochCut"}
    # A cut taken for a death: between the mean of the returns and the one-step fixed point.
    mean = sum((1 - gamma ** (5 - t)) / (1 - gamma) for t in range(5)) / 5
    one_step = 1 / (1 - 0.8 * gamma)
    first = failed[0]
    value = found[first].got.get(0.0, math.nan)
    if first in cuts:
        if mean - 0.1 < value < max(one_step, mean) + 0.1:
            who = {"MaxEpLen": "its own time limit", "EpochCut": "the end of an epoch"}
            what = who.get(first, "a time limit")
            return Fault("episode-ends", f"{said}: {what} is taken for a death")
        if value > 1.15 / (1 - gamma) or not math.isfinite(value):
            return Fault("episode-ends", f"{said}: too much is bootstrapped where episodes are cut")
        return Fault("episode-ends", f"{said}: the wrong value is bootstrapped at a cut")
    if first == "Termination":
        worst = found[first].wrong()
        last, several = max(found[first].want), subject.given.get("n_step", 1)
        if last not in worst:
            return Fault(
                "returns" if subject.kind == "on" or several > 1 else "value-loss",
                f"{said}, while the last step's value is right: rewards of later steps are summed "
                "or discounted wrongly",
            )
        if all(found[first].got[o] > found[first].want[o] for o in worst):
            return Fault("episode-ends", f"{said}: something is bootstrapped after a termination")
        return Fault(
            "returns" if subject.kind == "on" else "value-loss",
            f"{said}: values several steps before the end are wrong",
        )
    if first == "DeathAtLimit":
        return Fault(
            "episode-ends",
            f"{said}: a termination on the very step of the time limit is taken for a cut",
        )
    if first == "Neighbours":
        got = found[first].got
        last = got.get(1.0, 0.0) - got.get(-1.0, 0.0)
        if abs(last) < 1.0:
            return Fault(
                "replay" if subject.kind != "on" else "loop",
                f"{said}: the rewards of last steps are those of another episode",
            )
        return Fault("episode-ends", f"{said}: one episode's rewards leak into another's values")
    return Fault(
        "episode-ends",
        f"{said}: at a cut, the value of the next episode's first observation is bootstrapped",
    )


def _finite(x: float) -> float:
    return x if math.isfinite(x) else math.inf
