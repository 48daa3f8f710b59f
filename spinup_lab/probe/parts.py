"""Probes of parts that only some algorithms have, found by the arguments that control them.

Each sets an argument to a value whose effect is known: targets that never move, a temperature that
matters, a limit on the policy's step that must bind.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup.utils.findings import Finding
from spinup_lab.probe.actions import act, action_fault, entropy_of, measure
from spinup_lab.probe.calling import BOX, DISCRETE, Crash, Outcome, Subject
from spinup_lab.probe.environments import ProbeEnv
from spinup_lab.probe.more_environments import Scale, Temperature
from spinup_lab.probe.values import learn, refusal
from spinup_lab.probe.verdict import Check, NotUsed, fault

STILL: dict[str, Any] = {"pi_lr": 1e-12, "q_lr": 1e-12, "vf_lr": 1e-12, "lr": 1e-12, "delta": 1e-14}
FROZEN: dict[str, Any] = {"polyak": 1 - 1e-9, "n_step": 1}  # targets that never move
ZERO, ONE = np.zeros(1, np.float32), np.ones(1, np.float32)


def checks(subject: Subject) -> dict[str, Check]:
    """Return the probes of this algorithm's own parts, by name."""
    if subject.adapter:
        return {}
    return {
        name: partial(check, subject)
        for name, check, kinds, arguments, actions in _CHECKS
        if subject.kind in kinds.split() and subject.has(*arguments.split())
        if actions is None or actions in subject.actions
    }


# ---- on-policy ---------------------------------------------------------------------------------


class _Patience(ProbeEnv):
    """Action 0 pays `now` at once and ends; action 1 pays 1 in the next step."""

    def __init__(self, now: float) -> None:
        super().__init__("Discrete")
        self.now = now

    def true_value(self, obs: Any, gamma: float) -> float:
        return 1.0 if np.asarray(obs).item() > 0.5 else max(self.now, gamma)

    def true_q(self, obs: Any, action: Any, gamma: float) -> float:
        if np.asarray(obs).item() > 0.5:
            return 1.0
        return gamma if int(np.asarray(action)) == 1 else self.now

    def optimal_action(self, obs: Any) -> Any:
        return None if np.asarray(obs).item() > 0.5 else int(self.now < 0.5)

    def _advance(self, action: Any) -> tuple[float, bool, bool]:
        if self._t == 2:
            return 1.0, True, False
        waits = int(np.asarray(action)) == 1
        self._obs = 1.0
        return (0.0, False, False) if waits else (self.now, True, False)


def patience(subject: Subject, seed: int) -> Iterator[Finding]:
    """A policy that discounts as told takes 0.75 now, but not 0.3, for 1 in the next step."""
    if DISCRETE not in subject.actions or subject.gamma != 0.5:
        return
    for now, taken in ((0.75, "waits for"), (0.3, "does not wait for")):
        make = partial(_Patience, now)
        p = _preference(subject.train(make, seed, acts=True, where="Patience", lam=0.95), 1)
        if p is not None and (p > 0.7 if now > 0.5 else p < 0.3):
            yield fault("impatience", taken=taken, now=now)


def _preference(outcome: Outcome, action: int, obs: Any = ZERO) -> float | None:
    """Return the probability of a discrete action: the policy's own, or as seen at the end."""
    probs = outcome.answers.probs(obs)
    if probs is not None:
        return float(probs[action])
    steps = [s for s in outcome.record.steps(outcome.num_envs) if np.array_equal(s.obs, obs)]
    late = steps[-max(1, len(steps) // 5) :]
    return float(np.mean([int(s.act) == action for s in late])) if late else None


def lambda_used(subject: Subject, seed: int) -> Iterator[Finding]:
    """With lambda 0 and values that are never learned, a delayed reward must go unnoticed.

    The policy then follows the differences between the untrained values, which can be read. Seeds
    whose values prefer the right action by chance show nothing.
    """
    if DISCRETE not in subject.actions:
        return
    train = partial(subject.train, "DelayedAction", acts=True, vf_lr=1e-12, lam=0.0)
    for s in range(10 * seed, 10 * seed + 10):
        answers = train(seed=s, epochs=1).answers
        good, bad = (answers.values(np.array([r, 1 / 3], np.float32)) for r in (1, -1))
        if good is None or bad is None:
            return
        if float(bad.mean() - good.mean()) > 0.05:  # they prefer the wrong action
            p = _preference(train(seed=s), 1, np.zeros(2, np.float32))
            if p is not None and p > 0.8:
                yield fault("lambda")
            return


def clipped_step(subject: Subject, seed: int) -> Iterator[Finding]:
    """One epoch with many steps: the clipped objective alone must hold the policy back."""
    before, after = _one_epoch(subject, seed, target_kl=None, clip_ratio=0.2)
    if after > 0.5 + 0.38 and after - before > 0.25:
        yield fault("does-not-clip", before=before, after=after)


def kl_stop(subject: Subject, seed: int) -> Iterator[Finding]:
    """One epoch with many steps and no clipping: `target_kl` alone must stop the policy."""
    before, after = _one_epoch(subject, seed, target_kl=0.01, clip_ratio=100.0)
    if after > 0.5 + 0.35 and after - before > 0.25:
        yield fault("does-not-stop", before=before, after=after)


def _one_epoch(subject: Subject, seed: int, **limits: Any) -> tuple[float, float]:
    """Return the probability of the better action before and after one epoch of `Action`.

    It is NaN if there is no such action, or if the policy cannot be asked.
    """
    if DISCRETE not in subject.actions:
        return math.nan, math.nan
    one: dict[str, Any] = {
        "epochs": 1,
        "steps_per_epoch": 200,
        "train_pi_iters": 80,
        "anneal_lr": False,
        **limits,
    }
    runs = [subject.train("Action", seed, acts=True, **one, pi_lr=lr) for lr in (1e-12, 0.003)]
    before, after = (run.answers.probs(ZERO) for run in runs)
    if before is None or after is None:
        return math.nan, math.nan
    return float(before[1]), float(after[1])


def step_size(subject: Subject, seed: int) -> Iterator[Finding]:
    """A natural gradient step must use most of the KL divergence that it may use, and no more."""
    if DISCRETE not in subject.actions:
        return
    one: dict[str, Any] = {"epochs": 1, "steps_per_epoch": 400, "damping_coeff": 1e-4}
    runs = [subject.train("Action", seed, acts=True, **one, delta=d) for d in (1e-14, 0.02)]
    old, new = (run.answers.probs(ZERO) for run in runs)
    if old is None or new is None:
        return
    kl = float(np.sum(old * np.log(old / new)))
    if not 0.57 <= kl / 0.02 <= 1.1:  # the line search may have shortened the step once
        yield fault("step-size", kl=kl, how="is too short" if kl < 0.02 else "exceeds the limit")
    if new[1] <= old[1]:
        yield fault("first-step-wrong")


def entropy_bonus(subject: Subject, seed: int) -> Iterator[Finding]:
    """Where actions do not matter, an entropy bonus must make them equally likely."""
    outcome = subject.train("Constant", seed, acts=True, ent_coef=1.0, epochs=10)
    probs = outcome.answers.probs(ZERO)
    if probs is not None:
        entropy = -float(np.sum(probs * np.log(np.maximum(probs, 1e-12))))
        if entropy < 0.5:
            yield fault("entropy-bonus", entropy=entropy, most=math.log(2))


def scale(subject: Subject, seed: int) -> Iterator[Finding]:
    """Observations far from 0 must be learned if the networks can normalize them."""
    make = partial(Scale, "Discrete", center=100.0, spread=1.0, reward=1.0)
    networks = {**subject.networks(), "normalize_obs": True}
    try:
        outcome = subject.train(make, seed, acts=True, where="Scale", ac_kwargs=networks)
    except Crash as error:
        if subject.ours:
            raise
        raise NotUsed("its networks have no argument normalize_obs") from error
    share = measure(outcome, subject.gamma).share
    if not share <= 0.35:
        yield fault("far-from-0", share=share)


def many_envs(subject: Subject, seed: int) -> Iterator[Finding]:
    """Several environments must not mix their episodes."""
    found = learn(subject, "Neighbours", seed, subject.main, num_envs=4)
    if not found.passed and found.known:
        yield found.fault or fault("many-envs", said=found.text())


# ---- off-policy --------------------------------------------------------------------------------


def frozen_targets(subject: Subject, seed: int) -> Iterator[Finding]:
    """With targets that never move, the first of two values comes from the untrained networks."""
    train = partial(subject.train, f"TwoStep{subject.main}", policy_delay=1, alpha=0.02, **FROZEN)
    for extra in range(10):
        s = 10 * seed + extra
        start = train(seed=s, epochs=1, steps_per_epoch=20, **STILL).answers
        initial = start.q_values(ONE, start.some_actions())
        if initial is None:
            return
        untrained, smallest = initial.mean(1), float(initial.min(0).mean())  # of each critic
        # With a larger first critic, neither it alone nor a mean or maximum is the minimum.
        apart = float(untrained[0] - untrained[-1]) if len(untrained) > 1 else 1.0
        if apart >= 0.2:
            break
    outcome = train(seed=s)
    refused, learned = refusal(outcome), outcome.answers.values(ZERO)
    if refused is not None:
        yield refused
    if learned is None:
        return
    gamma, got, twins = subject.gamma, float(learned.mean()), len(untrained) > 1
    low = gamma * smallest
    if abs(got - gamma) < 0.15 and abs(got - low) > 0.2:
        yield fault("not-frozen", got=got)
    high = gamma * float(untrained.max())
    if apart >= 0.12 and twins and got > 0.5 * (low + high):
        yield fault("not-the-smaller", got=got, low=low)
    if abs(got - low) > 0.15:
        yield fault("frozen-value", got=got, low=low)


def double_q(subject: Subject, seed: int) -> Iterator[Finding]:
    """The network chooses the next action, and the frozen, untrained target values it."""
    gamma = subject.gamma
    train = partial(subject.train, "OldData", double_q=True, **FROZEN)
    for s in range(10 * seed, 10 * seed + 8):
        start = train(seed=s, epochs=1, steps_per_epoch=20, **STILL)
        initial = start.answers.q_values(ONE, [0, 1])
        if initial is None:
            return
        other, best = (float(x) for x in initial.mean(0))  # action 1 is the best one
        if other - best < 0.15:
            continue  # both choices agree
        values = train(seed=s, acts=True).answers.values(ZERO)
        assert values is not None
        got = float(values.mean())
        if abs(got - gamma * other) < abs(got - gamma * best):
            yield fault("chosen-by-target", got=got, want=gamma * best)
        return


def n_step(subject: Subject, seed: int) -> Iterator[Finding]:
    """Rewards of several steps, in episodes of both ends."""
    for name in ("Termination", "NeighboursCut", "Neighbours"):
        found = learn(subject, name, seed, subject.main, n_step=3)
        if not found.passed and found.known:
            part = "returns" if name == "Termination" else ""
            yield found.fault or fault("n-step", part, name=name, said=found.text())


def prioritized(subject: Subject, seed: int) -> Iterator[Finding]:
    """Rows that are sampled more often because they surprise must not count more."""
    changes: dict[str, Any] = {
        "prioritized": True,
        "prio_beta": 1.0,
        "prio_alpha": 0.8,
        "epochs": 4,
    }
    found = learn(subject, "NoisyReward", seed, subject.main, **changes)
    if found.fault is not None:
        yield found.fault
    got = next(iter(found.got.values()), 0.5)
    if abs(got - 0.5) > 0.17:
        yield fault("prioritized", got=got)


def epsilon(subject: Subject, seed: int) -> Iterator[Finding]:
    """A share of actions must be random: `eps_end` at the end."""
    share = 0.5
    changes: dict[str, Any] = {
        "eps_start": 1.0,
        "eps_end": share,
        "eps_steps": 150,
        "start_steps": 50,
    }
    outcome = subject.train("Action", seed, acts=True, **changes)
    refused = refusal(outcome)
    if refused is not None:
        yield refused
    worse = [int(s.act) != 1 for s in outcome.record.steps(outcome.num_envs)]
    wrong, early = float(np.mean(worse[len(worse) // 2 :])), float(np.mean(worse[:60]))
    if not 0.5 * share / 2 < wrong < 1.6 * share / 2:
        yield fault("epsilon-end", share=share, wrong=wrong, half=share / 2)
    if not 0.25 < early < 0.75:
        yield fault("epsilon-start", early=early)


def test_episodes(subject: Subject, seed: int) -> Iterator[Finding]:
    """Tests must use the best action, without noise, and log the returns they had."""
    changes: dict[str, Any] = {"num_test_episodes": 10, "eps_end": 0.8, "act_noise": 1.0}
    outcome = subject.train(f"Action{subject.main}", seed, acts=True, **changes)
    logged = outcome.column("AverageTestEpRet")
    training = outcome.record.stepped(outcome.num_envs)
    tests = [env for env in outcome.record.envs if env.steps and env not in training]
    if not math.isfinite(logged) or not tests:
        return
    env: Any = outcome.record.envs[0].unwrapped
    best, space = outcome.answers.action(ZERO), env.action_space
    if best is None:
        return
    if isinstance(space, spaces.Box):
        best = np.clip(best, space.low, space.high)
    else:
        best = np.clip(best, space.start, space.start + space.n - 1)
    want = float(env.true_q(ZERO, best, 1.0))
    if abs(logged - want) > 0.1:
        yield fault("tests-explore", logged=logged, want=want)


def temperature(subject: Subject, seed: int) -> Iterator[Finding]:
    """Values of maximum-entropy learning include the entropy of later steps."""
    outcome = subject.train(f"Temperature{subject.main}", seed, alpha=0.5)
    return _soft_values(outcome, subject, Temperature.entropy, "")


def wide_temperature(subject: Subject, seed: int) -> Iterator[Finding]:
    """The same, with bounds that differ: the density is that of the actions, not of the tanh."""
    make = partial(Temperature, "Asymmetric")
    outcome = subject.train(make, seed, where="TemperatureAsymmetric", alpha=0.5)
    return _soft_values(outcome, subject, math.log(4.0) + math.log(0.5), " (bounds differ)")


def _soft_values(
    outcome: Outcome, subject: Subject, entropy: float, where: str
) -> Iterator[Finding]:
    refused, values = refusal(outcome), outcome.answers.values(ZERO)
    if refused is not None:
        yield refused
    if values is None:
        return
    gamma, alpha, got = subject.gamma, 0.5, float(values.mean())
    bonus = gamma * alpha / (1 - gamma)  # what one unit of entropy adds to the value
    base = 1 / (1 - gamma)
    seen = (got - base) / bonus  # the entropy that the value includes
    if abs(seen - entropy) < 0.3:
        return
    want = base + bonus * entropy
    said = f"with alpha={alpha}{where}, the value is {got:.2f} instead of {want:.2f}"
    if abs(seen) < 0.25:
        yield fault("entropy-left-out", said=said)
    if seen < 0:
        yield fault("entropy-sign", said=said)
    if seen > entropy:
        yield fault("impossible-entropy", said=said)
    yield fault("seeks-no-entropy", said=said)


def learned_temperature(subject: Subject, seed: int) -> Iterator[Finding]:
    """A learned temperature must bring the policy's entropy to its target."""
    outcome = subject.train(f"Temperature{subject.main}", seed, alpha="auto", lr=0.02)
    alphas = [row["Alpha"] for row in outcome.rows if "Alpha" in row]
    if not alphas or not math.isfinite(alphas[-1]):
        return
    # An indifferent policy has more entropy than any sensible target.
    if alphas[-1] > 0.9:
        yield fault("temperature-rises", alpha=alphas[-1])
    outcome = subject.train(f"Action{subject.main}", seed, acts=True, alpha="auto", lr=0.02)
    samples = outcome.answers.samples(ZERO, 1000)
    if samples is not None and samples.ndim == 2:
        entropy, target = entropy_of(samples), -1.0
        if abs(entropy - target) > 0.8:
            yield fault("temperature-target", entropy=entropy, target=target)


def old_data(subject: Subject, seed: int) -> Iterator[Finding]:
    """Values must be those of the current policy, whatever the stored actions were."""
    acted = act(subject, "OldData", seed, replay_ratio=8.0)
    if isinstance(acted, Finding):
        yield acted
        return
    yield from action_fault("OldData", acted, subject)
    values = acted.outcome.answers.values(ZERO)
    if values is not None and abs(float(values.mean()) - subject.gamma) > 0.12:
        yield fault("old-actions", got=float(values.mean()), want=subject.gamma)


def noise_fault(subject: Subject, outcome: Outcome) -> Iterator[Finding]:
    """Yield a fault if the noise on actions is not in units of each dimension's range.

    Also looks at the first `start_steps` actions, which must be uniform.
    """
    if subject.kind != "off" or not subject.has("act_noise", "start_steps"):
        return
    env: Any = outcome.record.envs[0].unwrapped
    low, high = env.action_space.low, env.action_space.high
    half, center = (high - low) / 2, (high + low) / 2
    steps = outcome.record.steps(outcome.num_envs)
    early = np.array([(s.act - center) / half for s in steps[: int(outcome.kwargs["start_steps"])]])
    spread = early.std(0)
    if np.any(np.abs(spread - 1 / math.sqrt(3)) > 0.15) or np.any(np.abs(early.mean(0)) > 0.2):
        yield fault("first-not-uniform", one=spread[0], two=spread[1])
    wanted = float(outcome.kwargs["act_noise"])
    noise = []
    for s in steps[-(len(steps) // 4) :]:
        best = outcome.answers.action(s.obs)
        if best is None:
            return
        inside = (np.abs(s.act - low) > 1e-6) & (np.abs(s.act - high) > 1e-6)
        noise.append(np.where(inside, (s.act - best) / half, np.nan))
    got = np.sqrt(np.nanmean(np.square(noise), 0))
    if np.all(np.isfinite(got)) and (got.min() < 0.35 * wanted or got.max() > 2.0 * wanted):
        yield fault("noise-size", one=got[0], two=got[1], wanted=wanted)


# The name of each probe, its check, and what an algorithm needs for it: its kind, its arguments and
# the kind of actions that it can learn.
_ANY = "on off acer"
_CHECKS: tuple[tuple[str, Callable[[Subject, int], Iterator[Finding]], str, str, str | None], ...]
_CHECKS = (
    ("Patience", patience, "on", "", None),
    ("Lambda", lambda_used, "on", "lam vf_lr", None),
    ("ClippedStep", clipped_step, "on", "pi_lr clip_ratio", None),
    ("KLStop", kl_stop, "on", "pi_lr target_kl", None),
    ("StepSize", step_size, "on", "delta", None),
    ("Scale", scale, "on", "ac_kwargs", DISCRETE),
    ("EntropyBonus", entropy_bonus, _ANY, "ent_coef", DISCRETE),
    ("ManyEnvs", many_envs, _ANY, "num_envs", None),
    ("FrozenTargets", frozen_targets, "off", "polyak", None),
    ("DoubleQ", double_q, _ANY, "double_q polyak", DISCRETE),
    ("NStep", n_step, _ANY, "n_step", None),
    ("NoisyReward", prioritized, _ANY, "prioritized", None),
    ("Epsilon", epsilon, _ANY, "eps_end eps_steps", None),
    ("Tests", test_episodes, "off", "num_test_episodes", None),
    ("Temperature", temperature, "off", "alpha", None),
    ("TemperatureAsymmetric", wide_temperature, "off", "alpha", BOX),
    ("LearnedTemperature", learned_temperature, "off", "alpha", None),
    ("OldData", old_data, "acer", "", None),
)


# ---- goals -------------------------------------------------------------------------------------


def goal_checks(subject: Subject) -> dict[str, Check]:
    """Return the probes of an algorithm that learns to reach goals."""
    return {f"Goal{n}": partial(goal, subject, n) for n in (4, 12)}


def goal(subject: Subject, n: int, seed: int) -> Iterator[Finding]:
    """Flip bits until they match: the values of 4 bits are known, and 12 bits need hindsight."""
    share, bias = _goal_run(subject, n, seed)
    if share is None:
        return
    said = f"in Goal{n}, {share:.0%} of the actions flip a wrong bit"
    if n > 4:
        if share < 0.65:
            yield fault("hindsight", said=said)
        return
    if share < 0.85:
        yield fault("base-does-not-learn", said=said)
    for distance, limit in ((1, 0.25), (2, 0.1)):
        if abs(bias.get(distance, 0.0)) > limit:
            _, alone = _goal_run(subject, n, seed, k=0)
            base = abs(alone.get(1, 0.0)) >= 0.25
            how = "" if base else ": relabeled transitions are wrong"
            part = "value-loss" if base else ""
            yield fault("goal-values", part, n=n, distance=distance, bias=bias[distance], how=how)


def _goal_run(
    subject: Subject, n: int, seed: int, **changes: Any
) -> tuple[float | None, dict[int, float]]:
    """Train in `BitFlip`; return the share of good actions, and mean errors of Q by distance."""
    outcome = subject.train(f"Goal{n}", seed, **changes)
    env: Any = outcome.record.envs[0].unwrapped
    rng = np.random.default_rng(0)
    right: list[bool] = []
    errors: dict[int, list[float]] = {}
    inputs = getattr(outcome.answers.whole, "inputs", lambda row: row)
    for _ in range(150):
        bits, want = rng.integers(2, size=(2, n))
        if np.array_equal(bits, want):
            continue
        obs = {"observation": bits, "achieved_goal": bits, "desired_goal": want}
        cast = {key: np.asarray(value, np.int8) for key, value in obs.items()}
        row = np.asarray(spaces.flatten(env.observation_space, cast), np.float32)
        a = outcome.answers.action(row)
        if a is None:
            return None, {}
        right.append(bits[int(np.asarray(a))] != want[int(np.asarray(a))])
        q = outcome.answers.q_values(inputs(row), np.arange(n))
        if q is not None:
            truth = env.true_value(obs, subject.gamma)
            errors.setdefault(int(np.sum(bits != want)), []).append(float(q.max()) - truth)
    return float(np.mean(right)), {k: float(np.mean(x)) for k, x in errors.items()}
