"""Probes of parts that only some algorithms have, found by the arguments that control them.

Each sets an argument to a value whose effect is known: targets that never move, a temperature that
matters, a limit on the policy's step that must bind.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from spinup_lab.probe.actions import act, action_fault, entropy_of, measure
from spinup_lab.probe.calling import BOX, DISCRETE, Crash, Outcome, Subject
from spinup_lab.probe.environments import ProbeEnv
from spinup_lab.probe.more_environments import Scale, Temperature
from spinup_lab.probe.report import Fault, NotUsed
from spinup_lab.probe.values import learn, refusal

__all__ = ["checks", "goal_checks", "noise_fault"]

Check = Callable[[int], Fault | None]
STILL: dict[str, Any] = {"pi_lr": 1e-12, "q_lr": 1e-12, "vf_lr": 1e-12, "lr": 1e-12, "delta": 1e-14}
ZERO, ONE = np.zeros(1, np.float32), np.ones(1, np.float32)


def checks(subject: Subject) -> dict[str, Check]:
    """Return the probes of this algorithm's own parts, by name."""
    found: dict[str, Check] = {}

    def add(name: str, check: Callable[[Subject, int], Fault | None]) -> None:
        found[name] = lambda seed: check(subject, seed)

    if subject.adapter:
        return found
    discrete = DISCRETE in subject.actions
    if subject.kind == "on":
        add("Patience", patience)
        if subject.has("lam", "vf_lr"):
            add("Lambda", lambda_used)
        if subject.has("pi_lr", "clip_ratio"):
            add("ClippedStep", clipped_step)
        if subject.has("pi_lr", "target_kl"):
            add("KLStop", kl_stop)
        if subject.has("delta"):
            add("StepSize", step_size)
        if discrete and subject.has("ac_kwargs"):
            add("Scale", scale)
    if subject.has("ent_coef") and discrete:
        add("EntropyBonus", entropy_bonus)
    if subject.has("num_envs"):
        add("ManyEnvs", many_envs)
    if subject.kind == "off" and subject.has("polyak"):
        add("FrozenTargets", frozen_targets)
    if subject.has("double_q", "polyak") and discrete:
        add("DoubleQ", double_q)
    if subject.has("n_step"):
        add("NStep", n_step)
    if subject.has("prioritized"):
        add("NoisyReward", prioritized)
    if subject.has("eps_end", "eps_steps"):
        add("Epsilon", epsilon)
    if subject.has("num_test_episodes") and subject.kind == "off":
        add("Tests", test_episodes)
    if subject.has("alpha") and subject.kind == "off":
        add("Temperature", temperature)
        if BOX in subject.actions:
            add("TemperatureAsymmetric", wide_temperature)
        add("LearnedTemperature", learned_temperature)
    if subject.kind == "acer":
        add("OldData", old_data)
    return found


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


def patience(subject: Subject, seed: int) -> Fault | None:
    """A policy that discounts as told takes 0.75 now, but not 0.3, for 1 in the next step."""
    if DISCRETE not in subject.actions or subject.gamma != 0.5:
        return None
    for now, taken in ((0.75, "waits for"), (0.3, "does not wait for")):

        def make(now: float = now) -> ProbeEnv:
            return _Patience(now)

        make.__name__ = "Patience"
        outcome = subject.train(make, seed, acts=True, lam=0.95)
        p = _preference(outcome, 1)
        wrong = p is not None and (p > 0.7 if now > 0.5 else p < 0.3)
        if wrong:
            return Fault(
                "returns",
                f"with gamma 0.5, the policy {taken} a reward of 1 in the next step although it "
                f"could have {now} at once: advantages are discounted wrongly",
            )
    return None


def _preference(outcome: Outcome, action: int, obs: Any = ZERO) -> float | None:
    """Return the probability of a discrete action: the policy's own, or as seen at the end."""
    probs = outcome.answers.probs(obs)
    if probs is not None:
        return float(probs[action])
    steps = [s for s in outcome.record.steps(outcome.num_envs) if np.array_equal(s.obs, obs)]
    late = steps[-max(1, len(steps) // 5) :]
    return float(np.mean([int(s.act) == action for s in late])) if late else None


def lambda_used(subject: Subject, seed: int) -> Fault | None:
    """With lambda 0 and values that are never learned, a delayed reward must go unnoticed.

    The policy then follows the differences between the untrained values, which can be read. Seeds
    whose values prefer the right action by chance show nothing.
    """
    if DISCRETE not in subject.actions:
        return None
    for extra in range(10):
        still: dict[str, Any] = {"vf_lr": 1e-12, "lam": 0.0}
        outcome = subject.train("DelayedAction", 10 * seed + extra, acts=True, epochs=1, **still)
        good, bad = (np.array([r, 1 / 3], np.float32) for r in (1, -1))
        values = [outcome.answers.values(o) for o in (good, bad)]
        if values[0] is None or values[1] is None:
            return None
        margin = float(values[1].mean() - values[0].mean())
        if margin > 0.05:  # the untrained values prefer the wrong action
            outcome = subject.train("DelayedAction", 10 * seed + extra, acts=True, **still)
            p = _preference(outcome, 1, np.zeros(2, np.float32))
            if p is not None and p > 0.8:
                return Fault(
                    "returns",
                    "with lam=0, the policy still learns from a reward two steps later: lambda is "
                    "not used",
                )
            return None
    return None


def clipped_step(subject: Subject, seed: int) -> Fault | None:
    """One epoch with many steps: the clipped objective alone must hold the policy back."""
    limits = {"target_kl": None, "clip_ratio": 0.2}
    before, after = _one_epoch(subject, seed, limits)
    if before is None or after is None:
        return None
    gain = after - before
    if after > 0.5 + 0.38 and gain > 0.25:
        return Fault(
            "policy-loss",
            f"in one epoch, the probability of the better action rose from {before:.2f} to "
            f"{after:.2f}, although clip_ratio is 0.2: the objective does not clip",
        )
    return None


def kl_stop(subject: Subject, seed: int) -> Fault | None:
    """One epoch with many steps and no clipping: `target_kl` alone must stop the policy."""
    limits = {"target_kl": 0.01, "clip_ratio": 100.0}
    before, after = _one_epoch(subject, seed, limits)
    if before is None or after is None:
        return None
    if after > 0.5 + 0.35 and after - before > 0.25:
        return Fault(
            "policy-step",
            f"in one epoch, the probability of the better action rose from {before:.2f} to "
            f"{after:.2f}, although target_kl is 0.01: the policy does not stop",
        )
    return None


def _one_epoch(
    subject: Subject, seed: int, limits: dict[str, Any]
) -> tuple[float | None, float | None]:
    """Return the probability of the better action before and after one epoch of `Action`."""
    if DISCRETE not in subject.actions:
        return None, None
    one = {"epochs": 1, "steps_per_epoch": 200, "train_pi_iters": 80, "anneal_lr": False, **limits}
    runs = [subject.train("Action", seed, acts=True, **one, pi_lr=lr) for lr in (1e-12, 0.003)]
    found = [run.answers.probs(ZERO) for run in runs]
    return tuple(None if p is None else float(p[1]) for p in found)  # type: ignore[return-value]


def step_size(subject: Subject, seed: int) -> Fault | None:
    """A natural gradient step must use most of the KL divergence that it may use, and no more."""
    if DISCRETE not in subject.actions:
        return None
    one = {"epochs": 1, "steps_per_epoch": 400, "damping_coeff": 1e-4}
    runs = [subject.train("Action", seed, acts=True, **one, delta=d) for d in (1e-14, 0.02)]
    old, new = (run.answers.probs(ZERO) for run in runs)
    if old is None or new is None:
        return None
    kl = float(np.sum(old * np.log(old / new)))
    if not 0.57 <= kl / 0.02 <= 1.1:  # the line search may have shortened the step once
        return Fault(
            "policy-step",
            f"with delta=0.02, the first step moved the policy by a KL divergence of {kl:.4f}: it "
            + ("is too short" if kl < 0.02 else "exceeds the limit"),
        )
    if new[1] <= old[1]:
        return Fault("policy-loss", "the first step made the better action less likely")
    return None


def entropy_bonus(subject: Subject, seed: int) -> Fault | None:
    """Where actions do not matter, an entropy bonus must make them equally likely."""
    outcome = subject.train("Constant", seed, acts=True, ent_coef=1.0, epochs=10)
    probs = outcome.answers.probs(ZERO)
    if probs is None:
        return None
    entropy = -float(np.sum(probs * np.log(np.maximum(probs, 1e-12))))
    if entropy < 0.5:
        return Fault(
            "policy-loss",
            f"with an entropy bonus and actions that do not matter, the policy's entropy is "
            f"{entropy:.2f} instead of {math.log(2):.2f}: the bonus has the wrong sign",
        )
    return None


def scale(subject: Subject, seed: int) -> Fault | None:
    """Observations far from 0 must be learned if the networks can normalize them."""

    def make() -> Scale:
        return Scale("Discrete", center=100.0, spread=1.0, reward=1.0)

    make.__name__ = "Scale"
    networks = {**subject.networks(), "normalize_obs": True}
    try:
        outcome = subject.train(make, seed, acts=True, ac_kwargs=networks)
    except Crash as error:
        if subject.ours:
            raise
        raise NotUsed("its networks have no argument normalize_obs") from error
    acted = measure(outcome, subject.gamma)
    if acted.share <= 0.35:
        return None
    return Fault(
        "normalizer",
        f"with normalize_obs and observations of 99 and 101, the policy loses {acted.share:.0%} of "
        "what random actions lose; with -1 and 1, it learns",
    )


def many_envs(subject: Subject, seed: int) -> Fault | None:
    """Several environments must not mix their episodes."""
    found = learn(subject, "Neighbours", seed, subject.main, num_envs=4)
    if found.passed or not found.known:
        return None
    return found.fault or Fault(
        "loop", f"with num_envs=4, {found.text()}: the environments' episodes are mixed up"
    )


# ---- off-policy --------------------------------------------------------------------------------


def frozen_targets(subject: Subject, seed: int) -> Fault | None:
    """With targets that never move, the first of two values comes from the untrained networks."""
    probe = f"TwoStep{subject.main}"
    gamma = subject.gamma
    frozen: dict[str, Any] = {"polyak": 1 - 1e-9, "policy_delay": 1, "n_step": 1, "alpha": 0.02}
    for extra in range(10):
        s = 10 * seed + extra
        start = subject.train(probe, s, epochs=1, steps_per_epoch=20, **frozen, **STILL)
        initial = start.answers.q_values(ONE, start.answers.some_actions())
        if initial is None:
            return None
        untrained = initial.mean(1)  # of each critic
        # With a larger first critic, neither it alone nor a mean or maximum is the minimum.
        apart = float(untrained[0] - untrained[-1]) if len(untrained) > 1 else 1.0
        if apart < 0.2 and extra < 9:
            continue
        outcome = subject.train(probe, s, **frozen)
        fault = refusal(outcome)
        learned = outcome.answers.values(ZERO)
        if fault is not None or learned is None:
            return fault
        got, low = float(learned.mean()), gamma * float(untrained.min())
        if len(untrained) > 1:
            low = gamma * float(initial.min(0).mean())
        if abs(got - gamma) < 0.15 and abs(got - low) > 0.2:
            return Fault(
                "targets",
                f"with targets that must not move, the first value of TwoStep is {got:.2f}: the "
                "target is computed by the network itself, or follows it at once",
            )
        high = gamma * float(untrained.max())
        if apart >= 0.12 and len(untrained) > 1 and got > 0.5 * (low + high):
            return Fault(
                "value-loss",
                f"with targets that must not move, the first value of TwoStep is {got:.2f} instead "
                f"of {low:.2f}: the target does not take the smaller of two critics",
            )
        if abs(got - low) > 0.15:
            return Fault(
                "targets",
                f"with targets that must not move, the first value of TwoStep is {got:.2f} instead "
                f"of {low:.2f}",
            )
        return None
    return None


def double_q(subject: Subject, seed: int) -> Fault | None:
    """The network chooses the next action, and the frozen, untrained target values it."""
    gamma = subject.gamma
    for extra in range(8):
        s = 10 * seed + extra
        frozen: dict[str, Any] = {"polyak": 1 - 1e-9, "n_step": 1, "double_q": True}
        start = subject.train("OldData", s, epochs=1, steps_per_epoch=20, **frozen, **STILL)
        initial = start.answers.q_values(ONE, [0, 1])
        if initial is None:
            return None
        other, best = (float(x) for x in initial.mean(0))  # action 1 is the best one
        if other - best < 0.15:
            continue  # both choices agree
        outcome = subject.train("OldData", s, acts=True, **frozen)
        values = outcome.answers.values(ZERO)
        assert values is not None
        got = float(values.mean())
        if abs(got - gamma * other) < abs(got - gamma * best):
            return Fault(
                "value-loss",
                f"the first value of OldData is {got:.2f} instead of {gamma * best:.2f}: the "
                "target network also chooses the action that it values, which overestimates",
            )
        return None
    return None


def n_step(subject: Subject, seed: int) -> Fault | None:
    """Rewards of several steps, in episodes of both ends."""
    for name in ("Termination", "NeighboursCut", "Neighbours"):
        found = learn(subject, name, seed, subject.main, n_step=3)
        if not found.passed and found.known:
            part = "returns" if name == "Termination" else "episode-ends"
            return found.fault or Fault(
                part, f"with n_step=3, in {name}, {found.text()}; with n_step=1, it is right"
            )
    return None


def prioritized(subject: Subject, seed: int) -> Fault | None:
    """Rows that are sampled more often because they surprise must not count more."""
    changes = {"prioritized": True, "prio_beta": 1.0, "prio_alpha": 0.8, "epochs": 4}
    found = learn(subject, "NoisyReward", seed, subject.main, **changes)
    if not found.known or not found.got:
        return found.fault
    got = next(iter(found.got.values()))
    if abs(got - 0.5) > 0.17:
        return Fault(
            "replay",
            f"with prioritized=True, the value of a reward whose mean is 0.5 is {got:.2f}: "
            "surprising rows are sampled more often without a correction",
        )
    return None


def epsilon(subject: Subject, seed: int) -> Fault | None:
    """A share of actions must be random: `eps_end` at the end."""
    share = 0.5
    changes = {"eps_start": 1.0, "eps_end": share, "eps_steps": 150, "start_steps": 50}
    outcome = subject.train("Action", seed, acts=True, **changes)
    fault = refusal(outcome)
    if fault is not None:
        return fault
    steps = outcome.record.steps(outcome.num_envs)
    late = steps[len(steps) // 2 :]
    wrong = float(np.mean([int(s.act) != 1 for s in late]))
    if not 0.5 * share / 2 < wrong < 1.6 * share / 2:
        return Fault(
            "exploration",
            f"with eps_end={share}, {wrong:.0%} of the later actions were the worse of two, "
            f"instead of {share / 2:.0%}",
        )
    early = float(np.mean([int(s.act) != 1 for s in steps[:60]]))
    if not 0.25 < early < 0.75:
        return Fault("exploration", f"of the first actions, {early:.0%} were the worse of two")
    return None


def test_episodes(subject: Subject, seed: int) -> Fault | None:
    """Tests must use the best action, without noise, and log the returns they had."""
    probe = f"Action{subject.main}"
    changes = {"num_test_episodes": 10, "eps_end": 0.8, "act_noise": 1.0}
    outcome = subject.train(probe, seed, acts=True, **changes)
    logged = outcome.column("AverageTestEpRet")
    training = outcome.record.stepped(outcome.num_envs)
    tests = [env for env in outcome.record.envs if env.steps and env not in training]
    if not math.isfinite(logged) or not tests:
        return None
    env: Any = outcome.record.envs[0].unwrapped
    best = outcome.answers.action(ZERO)
    if best is None:
        return None
    want = float(env.true_q(ZERO, np.clip(best, *_limits(env)), 1.0))
    if abs(logged - want) > 0.1:
        return Fault(
            "exploration",
            f"AverageTestEpRet is {logged:.2f}, but the returned policy's best action has "
            f"{want:.2f}: tests explore, or use another policy",
        )
    return None


def _limits(env: Any) -> tuple[Any, Any]:
    space = env.action_space
    if hasattr(space, "low"):
        return space.low, space.high
    return space.start, space.start + space.n - 1


def temperature(subject: Subject, seed: int) -> Fault | None:
    """Values of maximum-entropy learning include the entropy of later steps."""
    alpha = 0.5
    outcome = subject.train(f"Temperature{subject.main}", seed, alpha=alpha)
    return _soft_values(outcome, subject, alpha, Temperature.entropy, "")


def wide_temperature(subject: Subject, seed: int) -> Fault | None:
    """The same, with bounds that differ: the density is that of the actions, not of the tanh."""

    def make() -> Temperature:
        return Temperature("Asymmetric")

    make.__name__ = "TemperatureAsymmetric"
    outcome = subject.train(make, seed, alpha=0.5)
    return _soft_values(outcome, subject, 0.5, math.log(4.0) + math.log(0.5), " (bounds differ)")


def _soft_values(
    outcome: Outcome, subject: Subject, alpha: float, entropy: float, where: str
) -> Fault | None:
    fault = refusal(outcome)
    values = outcome.answers.values(ZERO)
    if fault is not None or values is None:
        return fault
    gamma, got = subject.gamma, float(values.mean())
    bonus = gamma * alpha / (1 - gamma)  # what one unit of entropy adds to the value
    base = 1 / (1 - gamma)
    seen = (got - base) / bonus  # the entropy that the value includes
    if abs(seen - entropy) < 0.3:
        return None
    said = (
        f"with alpha={alpha}{where}, the value is {got:.2f} instead of {base + bonus * entropy:.2f}"
    )
    if abs(seen) < 0.25:
        return Fault("value-loss", f"{said}: the target leaves out the entropy")
    if seen < 0:
        return Fault("value-loss", f"{said}: the entropy has the wrong sign")
    if seen > entropy:
        return Fault(
            "action-bounds",
            f"{said}, more than any density within the bounds allows: the log-probabilities are "
            "not those of the actions",
        )
    return Fault("policy-loss", f"{said}: the policy does not seek entropy")


def learned_temperature(subject: Subject, seed: int) -> Fault | None:
    """A learned temperature must bring the policy's entropy to its target."""
    probe = f"Temperature{subject.main}"
    outcome = subject.train(probe, seed, alpha="auto", lr=0.02)
    alphas = [row["Alpha"] for row in outcome.rows if "Alpha" in row]
    if not alphas or not math.isfinite(alphas[-1]):
        return None
    # An indifferent policy has more entropy than any sensible target.
    if alphas[-1] > 0.9:
        return Fault(
            "exploration",
            f"where the entropy is at its highest, the learned temperature went from 1 to "
            f"{alphas[-1]:.2g} instead of falling",
        )
    outcome = subject.train(f"Action{subject.main}", seed, acts=True, alpha="auto", lr=0.02)
    samples = outcome.answers.samples(ZERO, 1000)
    if samples is None or samples.ndim != 2:
        return None
    entropy, target = entropy_of(samples), -1.0
    if abs(entropy - target) > 0.8:
        return Fault(
            "exploration",
            f"the learned temperature brings the entropy to {entropy:.2f} instead of {target:.2f}",
        )
    return None


def old_data(subject: Subject, seed: int) -> Fault | None:
    """Values must be those of the current policy, whatever the stored actions were."""
    acted = act(subject, "OldData", seed, replay_ratio=8.0)
    if isinstance(acted, Fault):
        return acted
    fault = action_fault("OldData", acted, subject)
    if fault is not None:
        return fault
    values = acted.outcome.answers.values(ZERO)
    if values is not None and abs(float(values.mean()) - subject.gamma) > 0.12:
        return Fault(
            "value-loss",
            f"the first value of OldData is {float(values.mean()):.2f} instead of "
            f"{subject.gamma:.2f}: it still contains the results of old actions",
        )
    return None


def noise_fault(subject: Subject, outcome: Outcome) -> Fault | None:
    """Return a fault if the noise on actions is not in units of each dimension's range.

    Also looks at the first `start_steps` actions, which must be uniform.
    """
    if subject.kind != "off" or not subject.has("act_noise", "start_steps"):
        return None
    env: Any = outcome.record.envs[0].unwrapped
    low, high = env.action_space.low, env.action_space.high
    half, center = (high - low) / 2, (high + low) / 2
    steps = outcome.record.steps(outcome.num_envs)
    first, later = int(outcome.kwargs["start_steps"]), len(steps) // 4
    early = np.array([(s.act - center) / half for s in steps[:first]])
    spread = early.std(0)
    if np.any(np.abs(spread - 1 / math.sqrt(3)) > 0.15) or np.any(np.abs(early.mean(0)) > 0.2):
        return Fault(
            "exploration",
            "the first start_steps actions are not uniform between the bounds: their standard "
            f"deviation is {spread[0]:.2f} and {spread[1]:.2f} of half the range, not 0.58",
        )
    wanted = float(outcome.kwargs["act_noise"])
    noise = []
    for s in steps[-later:]:
        best = outcome.answers.action(s.obs)
        if best is None:
            return None
        inside = (np.abs(s.act - low) > 1e-6) & (np.abs(s.act - high) > 1e-6)
        noise.append(np.where(inside, (s.act - best) / half, np.nan))
    got = np.sqrt(np.nanmean(np.square(noise), 0))
    if np.all(np.isfinite(got)) and (got.min() < 0.35 * wanted or got.max() > 2.0 * wanted):
        return Fault(
            "exploration",
            f"the noise on actions is {got[0]:.2f} and {got[1]:.2f} of half the range instead of "
            f"{wanted:.2f}: it is not in units of each dimension's range",
        )
    return None


# ---- goals -------------------------------------------------------------------------------------


def goal_checks(subject: Subject) -> dict[str, Check]:
    """Return the probes of an algorithm that learns to reach goals."""
    return {
        "Goal4": lambda seed: goal(subject, 4, seed),
        "Goal12": lambda seed: goal(subject, 12, seed),
    }


def goal(subject: Subject, n: int, seed: int) -> Fault | None:
    """Flip bits until they match: the values of 4 bits are known, and 12 bits need hindsight."""
    share, bias = _goal_run(subject, n, seed)
    if share is None:
        return None
    said = f"in Goal{n}, {share:.0%} of the actions flip a wrong bit"
    if n > 4:
        if share < 0.65:
            return Fault("replay", f"{said}, and 50% would by chance: hindsight teaches nothing")
        return None
    if share < 0.85:
        return Fault("value-loss", f"{said}: its base does not learn")
    for distance, limit in ((1, 0.25), (2, 0.1)):
        if abs(bias.get(distance, 0.0)) > limit:
            _, alone = _goal_run(subject, n, seed, k=0)
            part = "replay" if abs(alone.get(1, 0.0)) < 0.25 else "value-loss"
            return Fault(
                part,
                f"in Goal{n}, the values of goals at a distance of {distance} are wrong by "
                f"{bias[distance]:.2f}"
                + (": relabeled transitions are wrong" if part == "replay" else ""),
            )
    return None


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
        row = _flat(env, bits, want)
        a = outcome.answers.action(row)
        if a is None:
            return None, {}
        right.append(bits[int(np.asarray(a))] != want[int(np.asarray(a))])
        q = outcome.answers.q_values(inputs(row), np.arange(n))
        if q is not None:
            truth = env.true_value({"observation": bits, "desired_goal": want}, subject.gamma)
            errors.setdefault(int(np.sum(bits != want)), []).append(float(q.max()) - truth)
    return float(np.mean(right)), {k: float(np.mean(x)) for k, x in errors.items()}


def _flat(env: Any, bits: np.ndarray, goal_bits: np.ndarray) -> np.ndarray:
    """Return the row that the algorithm's networks see for an observation of `BitFlip`."""
    from gymnasium import spaces

    obs = {"observation": bits, "achieved_goal": bits, "desired_goal": goal_bits}
    cast = {key: np.asarray(value, np.int8) for key, value in obs.items()}
    return np.asarray(spaces.flatten(env.observation_space, cast), np.float32)
