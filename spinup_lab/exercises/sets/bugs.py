"""Find the bug (kind B): functions of the problem sets with faults from the bug zoo."""

from __future__ import annotations

import importlib
import pkgutil

from spinup_lab.exercises import sets
from spinup_lab.exercises.bugs import Bug, Log, make_bug, mistake, mutant
from spinup_lab.exercises.exercise import Exercise


def _functions() -> dict[str, Exercise]:
    """Return the exercises in which a function is written, by id."""
    found: dict[str, Exercise] = {}
    for module in pkgutil.iter_modules(sets.__path__):
        if module.name.startswith("set"):
            listed = importlib.import_module(f"{sets.__name__}.{module.name}").EXERCISES
            found |= {task.id: task for task in listed if isinstance(task, Exercise)}
    return found


# exercise whose function has the fault -> the faults, in the order of their numbers: mutants of the
# zoo, or a known mistake of the exercise and the part that it is in. Append only: the numbers are
# part of the ids.
FAULTS: dict[str, tuple[str | tuple[str, str], ...]] = {
    "tools.gae": ("gae-off-by-one", "gae-lambda-ignored", "returns-undiscounted"),
    "tools.squashed_log_prob": ("sac-no-tanh-correction", "sac-no-scale"),
    "tools.polyak_update": ("polyak-reversed",),
    "tools.replay": (
        ("overwrites-the-last-row", "replay"),
        ("next-observation-shifted", "replay"),
        ("keeps-a-reference", "loop"),
    ),
    "reinforce.rewards_to_go": (("not-to-go", "returns"), ("cut-is-death", "episode-ends")),
    "reinforce.normalize_advantages": (("mean-kept", "returns"),),
    "reinforce.loss_pi": (("old-log-probabilities", "policy-loss"),),
    "vpg.loss_pi": ("pg-sign",),
    "vpg.loss_v": (("fits-old-values", "value-loss"),),
    "vpg.update": (("kl-before-the-step", "logging-saving"),),
    "trpo.conjugate_gradient": ("cg-not-conjugate",),
    "trpo.gaussian_kl": (("reversed", "policy-step"),),
    "trpo.step_length": (("half-step", "policy-step"),),
    "trpo.line_search": (
        ("accepts-worse", "policy-step"),
        ("no-kl-test", "policy-step"),
        ("no-restore", "policy-step"),
    ),
    "ppo.minibatches": (("one-order", "policy-step"),),
    "ppo.early_stop": (("never-stops", "policy-step"),),
    "ppo.loss_pi": (
        "policy-detached",
        "ppo-clip-without-adv",
        "ppo-max",
        "ppo-entropy-sign",
        "ppo-ratio-inverted",
        "ppo-old-is-new",
    ),
    "ppo.loss_v": ("value-fits-advantage",),
    "ddpg.loss_q": ("column-critic", "online-q-in-target"),
    "ddpg.loss_pi": ("pi-sign",),
    "ddpg.update": ("q-gradient-accumulates",),
    "td3.loss_q": ("td3-no-min",),
    "td3.smoothed_action": ("td3-noise-unclipped", "td3-target-out-of-bounds"),
    "sac.soft_value": ("sac-max",),
    "sac.loss_q": ("sac-no-done-mask", "sac-no-entropy-in-target"),
    "sac.loss_alpha": ("sac-alpha-sign",),
    "sac.target_entropy": ("sac-target-entropy-sign",),
    "dqn.loss_q": (
        "no-done-mask",
        "dqn-nstep-gamma",
        "dqn-target-clipped",
        "dqn-max-by-target",
        "dqn-action-of-old-state",
        "per-no-weights",
    ),
    "acer.retrace": ("retrace-uncut", "retrace-rho-off-by-one", "retrace-across-episodes"),
    "acer.loss_pi": ("acer-no-correction",),
    "her.hindsight_goals": ("her-past-goals",),
    "her.relabel": ("her-reward-stale", "her-goal-in-obs-only", "her-achieved-before"),
}

# What the logs of the recorded runs show, and what they do not show. The runs were made by
# benchmarks/record_exercises.py.
FROZEN = "KL is exactly zero in every epoch, and the return stays where it began"
WORSE = "AverageEpRet falls below that of a random policy and stays there"
V_ZERO = "AverageVVals stays near zero while the returns grow"
ENTROPY_GONE = "the Entropy falls to nearly zero within the first epochs"

LOGS: dict[str, Log] = {
    "pg-sign": Log(
        "healthy-vpg",
        WORSE,
        (FROZEN, V_ZERO, "AverageVVals rises above 50, although the returns do not allow it"),
    ),
    "policy-detached": Log("healthy-ppo", FROZEN, (WORSE, V_ZERO, ENTROPY_GONE)),
    "value-fits-advantage": Log("healthy-ppo", V_ZERO, (FROZEN, WORSE, ENTROPY_GONE)),
    "ppo-clip-without-adv": Log(
        "healthy-ppo",
        "LossPi begins near 0.1; in the healthy runs it is zero up to rounding",
        (FROZEN, WORSE, V_ZERO),
    ),
    "ppo-ratio-inverted": Log(
        "healthy-ppo", WORSE, (FROZEN, V_ZERO, "the Entropy rises to its maximum, 0.69")
    ),
    "ppo-entropy-sign": Log(
        "healthy-ppo-entropy",
        "LossPi is about +0.07 before each update; in the healthy runs it is about -0.07",
        (FROZEN, WORSE, V_ZERO),
    ),
    "returns-undiscounted": Log(
        "healthy-ppo-gamma",
        "AverageVVals exceeds 10, which no discounted value can with gamma = 0.9 and rewards of 1",
        (FROZEN, V_ZERO, "AverageEpRet rises faster than in the healthy runs, in all three seeds"),
    ),
    "column-critic": Log(
        "healthy-ddpg",
        "LossQ stays above 10 and StdQVals below 9: Q hardly tells one state from another",
        (
            "LossPi has the same sign as AverageQVals",
            "AverageQVals rises above zero, although all rewards are negative",
            "AverageTestEpRet rises faster than in the healthy runs",
        ),
    ),
    "no-done-mask": Log(
        "healthy-dqn",
        "AverageQVals rises beyond 60 although episodes last ten steps, for a reward of 1 each",
        (
            "AverageQVals stays near 1, whatever the returns are",
            "AverageEpRet rises faster than in the healthy runs, in all three seeds",
            "LossQ grows from the first epoch on, in all three seeds",
        ),
    ),
    "dqn-nstep-gamma": Log(
        "healthy-dqn",
        "AverageQVals ends at 55 to 60 instead of 45, although the returns are not higher",
        (
            "AverageQVals stays at 1, whatever the returns are",
            "LossQ falls to nearly zero, in all three seeds",
            "AverageEpRet is about 10 at the end, in all three seeds",
        ),
    ),
    "dqn-target-clipped": Log(
        "healthy-dqn",
        "AverageQVals stays at 1, whatever the returns are",
        (
            "AverageQVals rises beyond 60 although episodes last ten steps",
            "LossQ grows from epoch to epoch",
            "AverageTestEpRet rises faster than in the healthy runs, in all three seeds",
        ),
    ),
    "her-reward-stale": Log(
        "healthy-her",
        "AverageQVals ends near -2.1 instead of -1.2: few stored transitions are a success",
        (
            "TestSuccessRate stays below 0.3 in every epoch",
            "AverageQVals rises above zero, although no reward is positive",
            "LossQ grows from epoch to epoch",
        ),
    ),
    "sac-alpha-sign": Log(
        "healthy-sac",
        "Alpha rises to several hundred, and AverageLogPi stays at its lowest, -1.38",
        (
            "Alpha falls to nearly zero within the first epoch",
            "AverageLogPi rises above 2: the policy is almost deterministic",
            "AverageQ1Vals stays near zero in every epoch",
        ),
    ),
    "sac-target-entropy-sign": Log(
        "healthy-sac",
        "Alpha rises to several hundred, and AverageLogPi stays at its lowest, -1.38",
        (
            "Alpha falls to nearly zero within the first epoch",
            "AverageLogPi rises above 2: the policy is almost deterministic",
            "AverageQ1Vals stays near zero in every epoch",
        ),
    ),
    "pi-sign": Log(
        "healthy-ddpg",
        "LossPi has the same sign as AverageQVals; in the healthy runs it has the opposite one",
        (
            "StdQVals is close to zero: Q does not tell one state from another",
            "AverageQVals rises above zero, although all rewards are negative",
            "LossQ grows without limit",
        ),
    ),
}


def _bugs() -> tuple[Bug, ...]:
    found, functions = [], _functions()
    for name, faults in FAULTS.items():
        exercise = functions[name]
        for number, given in enumerate(faults, start=1):
            if isinstance(given, tuple):
                found.append(make_bug(exercise, number, mistake(exercise, *given)))
            else:
                found.append(make_bug(exercise, number, mutant(given), LOGS.get(given)))
    return tuple(found)


EXERCISES = _bugs()
