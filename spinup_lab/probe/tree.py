"""The tree of probes: simple ones first, and a verdict from the first that fails.

The stages are: values, actions, the algorithm's own parts, and the contract of a training function.
All probes of values run, because their pattern names the part. The other stages end with the first
fault, and a stage with a fault is the last.
A probe fails if two seeds fail; if one of two fails, a third decides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from spinup.utils.errors import SpinupError, nearest
from spinup.utils.findings import Finding
from spinup_lab.probe import contract, parts
from spinup_lab.probe.actions import act, action_fault
from spinup_lab.probe.calling import BOX, DISCRETE, Crash, Subject
from spinup_lab.probe.values import Learned, diagnose, learn, value_probes
from spinup_lab.probe.verdict import Check, NotUsed, Report, Result, Verdict, fault, majority


def probe(
    function: Callable[..., Any],
    name: str | None = None,
    *,
    only: Sequence[str] = (),
    gamma: float = 0.5,
    given: Mapping[str, Any] | None = None,
    adapter: bool = False,
    trust_pickle: bool = False,
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
        faults: dict[str, Finding] = {}
        for key, check in chosen.items():
            result, found = _run(key, check, subject)
            report.results.append(result)
            if found is not None:
                faults[key] = found
                if not isinstance(stage, _Values):
                    break  # what follows needs what just failed
        if faults:
            cause = next(iter(faults.values()))
            if isinstance(stage, _Values):
                learned = stage.learned
                cause = diagnose({key: learned[key] for key in stage if key in learned}, subject)
            report.verdict = Verdict(cause.part, cause.sentence, tuple(faults))
            break
    report.seconds = subject.seconds
    return report


def _run(name: str, check: Check, subject: Subject) -> tuple[Result, Finding | None]:
    """Run a probe with up to three seeds."""
    before, faults, passes = subject.seconds, [], 0
    try:
        for seed in range(3):
            found = next(check(seed), None)
            if found is not None:
                faults.append(found)
            else:
                passes += 1
            if len(faults) == 2:
                break
            if passes == 2 or (passes and seed == 0):
                return Result(name, True, subject.seconds - before), None
    except NotUsed as error:
        return Result(name, True, subject.seconds - before, skipped=str(error)), None
    found = majority(faults)
    return Result(name, False, subject.seconds - before, found.sentence), found


class _Values(dict):
    """The stage of value probes, which keeps what was learned: the pattern names the part."""

    def __init__(self, subject: Subject, suffix: str) -> None:
        self.learned: dict[str, Learned] = {}
        super().__init__(
            {name: self._check(subject, name, suffix) for name in value_probes(subject)}
        )

    def _check(self, subject: Subject, name: str, suffix: str) -> Check:
        def check(seed: int) -> Iterator[Finding]:
            found = learn(subject, name, seed, suffix)
            if not found.known:
                raise NotUsed("neither the returned object nor a column tells values")
            if name not in self.learned or (self.learned[name].passed and not found.passed):
                self.learned[name] = found
            if not found.passed:
                yield found.fault or fault("values-wrong", said=found.text())

        return check


def _stages(subject: Subject) -> list[dict[str, Check]]:
    if subject.kind == "goal":
        return [parts.goal_checks(subject), contract.checks(subject)]
    values, actions = _Values(subject, subject.main), _action_checks(subject)
    return [values, actions, parts.checks(subject), contract.checks(subject)]


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
    return {name: partial(_action_check, subject, name) for name in names}


def _action_check(subject: Subject, name: str, seed: int) -> Iterator[Finding]:
    optional = name.endswith(("MultiDiscrete", "DiscreteFrom5")) and not subject.ours
    try:
        acted = act(subject, name, seed)
    except Crash as error:
        if optional:
            raise NotUsed("it does not take such actions") from error
        raise
    if isinstance(acted, Finding):
        if optional:
            raise NotUsed("it does not take such actions")
        yield acted
        return
    for found in action_fault(name, acted, subject):
        if name.endswith("Asymmetric") and found.part != "loop":
            yield fault("asymmetric", share=acted.share)
        if name.endswith("DiscreteFrom5"):
            yield fault("from-5", share=acted.share)
        yield found
    if name.endswith("Asymmetric"):
        yield from parts.noise_fault(subject, acted.outcome)
