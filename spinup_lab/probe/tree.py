"""The tree of probes: simple ones first, and a verdict from the first that fails.

The stages are: values, actions, the algorithm's own parts, and the contract of a training function.
All probes of values run, because their pattern names the part. The other stages end with the first
fault, and a stage with a fault is the last.
A probe fails if two seeds fail; if one of two fails, a third decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from spinup.utils.errors import SpinupError, nearest
from spinup_lab.probe import contract, parts
from spinup_lab.probe.actions import act, action_fault
from spinup_lab.probe.calling import BOX, DISCRETE, Crash, Subject
from spinup_lab.probe.report import Fault, NotUsed, Report, Result, Verdict, majority
from spinup_lab.probe.values import Learned, diagnose, learn, value_probes

__all__ = ["probe", "probe_names"]

Check = Callable[[int], Fault | None]  # from a seed to what is wrong


def probe(
    function: Callable[..., Any],
    name: str | None = None,
    *,
    only: Sequence[str] = (),
    gamma: float = 0.5,
    given: Mapping[str, Any] | None = None,
    adapter: bool = False,
    trust_pickle: bool = False,
    tell: Callable[[Result], Any] = lambda result: None,
) -> Report:
    """Run a training function through the probes and return what was found.

    Args:
        function: a training function whose first argument is `env_fn`, or, with `adapter`, a
            function `train(env_fn, gamma, steps, seed)` that returns (value, act).
        name: what to call it.
        only: names of the probes to run; all by default.
        gamma: discount factor of the probes, between 0 and 1.
        given: arguments of the function that replace those of the probes.
        adapter: whether `function` is an adapter.
        trust_pickle: open the pickled model of a function that returns nothing.
        tell: called with every result as soon as it is known.
    """
    if not 0.2 <= gamma <= 0.9:
        raise SpinupError(f"gamma={gamma} must be between 0.2 and 0.9: the probes are short")
    shown = str(name or getattr(function, "__name__", "the function"))
    subject = Subject(function, shown, adapter, gamma, given, trust_pickle)
    subject.explore()
    stages = _stages(subject)
    names = [check for stage in stages for check in stage]
    for wanted in only:
        if wanted not in names:
            raise SpinupError(
                f"there is no probe '{wanted}' for {shown}{nearest(wanted, names)}; it has "
                f"{', '.join(names)}"
            )
    report = Report(shown)
    for stage in stages:
        chosen = {key: check for key, check in stage.items() if not only or key in only}
        faults: dict[str, Fault] = {}
        for key, check in chosen.items():
            result, fault = _run(key, check, subject)
            report.results.append(result)
            tell(result)
            if fault is not None:
                faults[key] = fault
                if not isinstance(stage, _Values):
                    break  # what follows needs what just failed
        if faults:
            report.verdict = _verdict(faults, stage, subject)
            break
    report.seconds = subject.seconds
    return report


def probe_names(function: Callable[..., Any]) -> list[str]:
    """Return the names of all probes of a function, without running them."""
    subject = Subject(function, getattr(function, "__name__", "the function"))
    subject.explore()
    return [name for stage in _stages(subject) for name in stage]


def _run(name: str, check: Check, subject: Subject) -> tuple[Result, Fault | None]:
    """Run a probe with up to three seeds."""
    before, faults, passes = subject.seconds, [], 0
    try:
        for seed in range(3):
            fault = check(seed)
            if fault is None:
                passes += 1
                if seed == 0 or passes == 2:
                    return Result(name, True, subject.seconds - before), None
            else:
                faults.append(fault)
                if len(faults) == 2:
                    break
    except NotUsed as error:
        return Result(name, True, subject.seconds - before, skipped=str(error)), None
    fault = majority(faults)
    return Result(name, False, subject.seconds - before, fault.reason), fault


def _verdict(faults: dict[str, Fault], stage: dict[str, Check], subject: Subject) -> Verdict:
    found = getattr(stage, "learned", None)
    if found is not None:
        failed = {name: found[name] for name in stage if name in found}
        fault = diagnose(failed, subject)
    else:
        fault = next(iter(faults.values()))
    return Verdict(fault.part, fault.reason, tuple(faults))


class _Values(dict):
    """The stage of value probes, which keeps what was learned: the pattern names the part."""

    def __init__(self, subject: Subject, suffix: str) -> None:
        self.learned: dict[str, Learned] = {}
        super().__init__(
            {name: self._check(subject, name, suffix) for name in value_probes(subject)}
        )

    def _check(self, subject: Subject, name: str, suffix: str) -> Check:
        def check(seed: int) -> Fault | None:
            found = learn(subject, name, seed, suffix)
            if not found.known:
                raise NotUsed("neither the returned object nor a column tells values")
            if found.passed:
                self.learned.setdefault(name, found)
                return None
            if name not in self.learned or self.learned[name].passed:
                self.learned[name] = found
            return found.fault or Fault("value-loss", found.text())

        return check


def _stages(subject: Subject) -> list[dict[str, Check]]:
    if subject.kind == "goal":
        return [parts.goal_checks(subject), contract.checks(subject)]
    stages: list[dict[str, Check]] = [_Values(subject, subject.main)]
    stages.append(_action_checks(subject))
    stages.append(parts.checks(subject))
    stages.append(contract.checks(subject))
    return stages


def _action_checks(subject: Subject) -> dict[str, Check]:
    names = [f"{n}{subject.main}" for n in ("Action", "ActionObservation", "ActionSequence")]
    names.append(f"DelayedAction{subject.main}")
    if DISCRETE in subject.actions:
        names.append("ActionObservationDiscreteFrom5")
    other = [suffix for suffix in subject.actions if suffix != subject.main]
    names += [f"ActionObservation{suffix}" for suffix in other]
    if BOX in subject.actions:
        names.append("ActionObservationAsymmetric")
    if subject.kind == "on" and not subject.adapter:
        names.append("ActionObservationMultiDiscrete")
    return {name: _action_check(subject, name) for name in names}


def _action_check(subject: Subject, name: str) -> Check:
    optional = name.endswith(("MultiDiscrete", "DiscreteFrom5"))

    def check(seed: int) -> Fault | None:
        try:
            acted = act(subject, name, seed)
        except Crash as error:
            if optional and not subject.ours:
                raise NotUsed("it does not take such actions") from error
            raise
        if isinstance(acted, Fault):
            if optional and not subject.ours:
                raise NotUsed("it does not take such actions")
            return acted
        fault = action_fault(name, acted, subject)
        if fault is not None and name.endswith("Asymmetric") and fault.part != "loop":
            return Fault(
                "action-bounds",
                f"where bounds differ by dimension and sign, the policy loses {acted.share:.0%} of "
                "what random actions lose; where they are -1 and 1, it learns",
            )
        if fault is not None and name.endswith("DiscreteFrom5"):
            return Fault(
                "action-bounds",
                f"where actions start at 5, the policy loses {acted.share:.0%} of what random "
                "actions lose; where they start at 0, it learns",
            )
        if fault is None and name.endswith("Asymmetric"):
            return parts.noise_fault(subject, acted.outcome)
        return fault

    return check
