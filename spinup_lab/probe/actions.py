"""Probes of the policy: what it does, compared with what is best, and with what it was asked to do.

A policy is judged twice: by the agent that the function returned, and by the actions that reached
the environment in the last quarter of training. If only one of them is good, that is a fault too.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup.utils.findings import Finding
from spinup_lab.probe.calling import Outcome, Subject
from spinup_lab.probe.values import refusal
from spinup_lab.probe.verdict import fault


@dataclass(frozen=True)
class Acted:
    """How a trained policy acts in a probe, as regret: the value lost per step.

    `agent` is the regret of the returned agent (None if it cannot be asked), `behavior` that of
    the last quarter of training, `random` that of uniformly random actions.
    """

    outcome: Outcome
    agent: float | None
    behavior: float
    random: float
    critic: float | None  # root mean squared error of Q at actions that were taken, if it has Q

    @property
    def share(self) -> float:
        """The agent's regret (or the behavior's) as a fraction of that of random actions."""
        regret = self.behavior if self.agent is None else self.agent
        return regret / max(self.random, 1e-9)


def act(subject: Subject, name: str, seed: int, **changes: Any) -> Acted | Finding:
    """Train in an action probe; return how the policy acts, or what the environment refused."""
    outcome = subject.train(name, seed, acts=True, **{"alpha": 0.02, **changes})
    return refusal(outcome) or measure(outcome, subject.gamma)


def measure(outcome: Outcome, gamma: float) -> Acted:
    """Compute the regrets of an outcome."""
    env: Any = outcome.record.envs[0].unwrapped
    steps = outcome.record.steps(outcome.num_envs)
    late = steps[-max(1, len(steps) // 4) :]
    space = env.action_space
    space.seed(0)
    late = [step for step in late if env.optimal_action(step.obs) is not None]
    some = late[:: max(1, len(late) // 60)]

    def regret(obs: Any, action: Any) -> float:
        return env.true_value(obs, gamma) - env.true_q(obs, action, gamma)

    behavior = float(np.mean([regret(s.obs, s.act) for s in late]))
    random = float(np.mean([regret(s.obs, space.sample()) for s in some for _ in range(10)]))
    agent = None
    chosen = [outcome.answers.action(s.obs) for s in some]
    if all(a is not None for a in chosen):
        clipped = [_inside(space, a) for a in chosen]
        agent = float(np.mean([regret(s.obs, a) for s, a in zip(some, clipped, strict=True)]))
    return Acted(outcome, agent, behavior, random, _critic_error(outcome, some, env, gamma))


def _inside(space: spaces.Space, a: Any) -> Any:
    if isinstance(space, spaces.Box):
        return np.clip(np.asarray(a, np.float64).reshape(space.shape), space.low, space.high)
    return a


def _critic_error(outcome: Outcome, steps: list[Any], env: Any, gamma: float) -> float | None:
    errors: list[float] = []
    if not isinstance(env.action_space, spaces.Box | spaces.Discrete):
        return None
    for step in steps:
        a = step.act if isinstance(env.action_space, spaces.Box) else [int(np.asarray(step.act))]
        q = outcome.answers.q_values(step.obs, [a] if isinstance(a, np.ndarray) else a)
        if q is None:
            return None
        errors += [float(x) - env.true_q(step.obs, step.act, gamma) for x in q.reshape(-1)]
    return float(np.sqrt(np.mean(np.square(errors)))) if errors else None


def action_fault(name: str, acted: Acted, subject: Subject) -> Iterator[Finding]:
    """Yield what is wrong with a policy that was trained in `name`; nothing if it learned.

    A policy has learned if it loses less than a fifth of what random actions lose.
    """
    limit = 0.35 if subject.adapter else 0.25
    if acted.share <= limit:
        may_differ = acted.agent is None or subject.adapter
        if subject.kind == "on" and not may_differ and acted.behavior > 0.8 * acted.random:
            yield fault("stale-weights", name=name)
        return
    said = f"in {name}, the policy loses {acted.share:.0%} of what random actions lose"
    if acted.agent is not None and acted.behavior < limit * acted.random:
        yield fault("other-policy", said=said)
    if stale_observation(acted):
        yield fault("stale-observation", said=said)
    if acted.critic is not None and acted.critic > 0.35:
        yield fault(
            "critic-off", "replay" if "Sequence" in name else "", said=said, error=acted.critic
        )
    if "Sequence" in name:
        yield fault("mixed-actions", said=said)
    if "Delayed" in name:
        yield fault("reward-not-credited", "" if subject.kind == "on" else "value-loss", said=said)
    if acted.share > 1.3:
        yield fault("avoids-best", said=said)
    kl = acted.outcome.column("KL")
    if subject.has("delta", "backtrack_iters") and abs(kl) < 1e-5:
        yield fault("no-step", said=said, kl=kl)
    yield fault("ignores-observation" if "Observation" in name else "not-better", said=said)


def stale_observation(acted: Acted) -> bool:
    """Return whether the policy's actions in training were chosen for the previous observation."""
    steps = acted.outcome.record.stepped(1)[0].steps
    late = steps[-max(20, len(steps) // 4) :]
    pairs = [(a, b) for a, b in itertools.pairwise(late) if not b.first]
    pairs = [(a, b) for a, b in pairs if not np.array_equal(a.obs, b.obs)][:100]
    if len(pairs) < 20:
        return False
    now, before, apart = [], [], []
    for previous, current in pairs:
        at_now, at_before = (acted.outcome.answers.action(s.obs) for s in (current, previous))
        if at_now is None or at_before is None:
            return False
        taken = np.asarray(current.act, np.float64).reshape(-1)
        now.append(np.abs(taken - np.asarray(at_now, np.float64).reshape(-1)).mean())
        before.append(np.abs(taken - np.asarray(at_before, np.float64).reshape(-1)).mean())
        apart.append(float(np.abs(np.subtract(at_now, at_before)).mean()))
    return bool(np.mean(apart) > 0.1 and np.mean(before) < 0.6 * np.mean(now))


def entropy_of(samples: np.ndarray) -> float:
    """Estimate the entropy of a one-dimensional density from samples (Vasicek's estimator)."""
    x = np.sort(np.asarray(samples, np.float64).reshape(-1))
    n = len(x)
    m = max(1, int(math.sqrt(n) / 2))
    upper, lower = x[np.minimum(np.arange(n) + m, n - 1)], x[np.maximum(np.arange(n) - m, 0)]
    return float(np.mean(np.log(np.maximum((upper - lower) * n / (2 * m), 1e-12))))
