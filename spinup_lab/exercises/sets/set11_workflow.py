"""Problem set 11: workflow. Environments, and conclusions from a few runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from spinup_lab.exercises.exercise import Case


def walk_cases() -> list[Case]:
    rng = np.random.default_rng(0)
    many = [int(a) for a in rng.integers(3, size=70)]
    return [
        Case("the first observation", ([0], []), show="reset(seed=0)"),
        Case("one step to the right", ([0], [2]), show="reset(seed=0), then action 2"),
        Case("one step to the left", ([0], [0]), show="reset(seed=0), then action 0"),
        Case("staying", ([3], [1, 1, 1]), show="reset(seed=3), then action 1 three times"),
        Case("to the right end", ([3], [2] * 25), show="reset(seed=3), then action 2, 25 times"),
        Case("to the left end", ([5], [0] * 25), show="reset(seed=5), then action 0, 25 times"),
        Case(
            "up to the time limit", ([3], [1] * 50), show="reset(seed=3), then action 1, 50 times"
        ),
        Case("random actions", ([7], many), show="reset(seed=7), then 70 random actions"),
        Case("the same seed twice", ([1, 1], [2, 0]), show="reset(seed=1) twice"),
        Case("the next episode draws on", ([1, None], [2]), show="reset(seed=1), then reset()"),
        Case("other seeds", ([11, 12, 13], [0, 1, 2]), show="reset with the seeds 11, 12, 13"),
        Case("what check_env says", (None, None), show="spinup.envs.checking.check_env"),
    ]


def play(make: Any, case: Case) -> Any:
    """Play a case; observations are kept as they were returned and copied only at the end."""
    seeds, actions = case.args
    if seeds is None:
        from spinup.envs.checking import check_env

        found = [str(finding) for finding in check_env(make, steps=600)]
        return {"findings": " ".join(found) or "nothing found"}
    env = make()
    observations, rewards, ends = [], [], []
    for i, seed in enumerate(seeds):
        if seed is None:
            got = env.reset()
        else:
            got = env.reset(seed=seed)
        observations.append(_pair(got, "reset", 2)[0])
        if i < len(seeds) - 1:
            continue
        for action in actions:
            o, r, terminated, truncated, _ = _pair(env.step(action), "step", 5)
            observations.append(o)
            rewards.append(float(r))
            ends.append([bool(terminated), bool(truncated)])
            if terminated or truncated:
                break
    return {
        "observations": np.array(observations, float),
        "rewards": np.array(rewards),
        "terminated, truncated": np.array(ends),
        "the dtype of observations": str(getattr(observations[0], "dtype", "no array")),
    }


def _pair(got: Any, name: str, length: int) -> Any:
    if not isinstance(got, tuple) or len(got) != length:
        raise TypeError(f"{name} must return a tuple of {length} items, not {type(got).__name__}")
    return got


# ----------------------------------------------------------------------------- interquartile mean


def iqm_cases() -> list[Case]:
    return [
        Case("four runs", (np.array([1.0, 2.0, 4.0, 100.0]),)),
        Case("in another order", (np.array([100.0, 1.0, 4.0, 2.0]),)),
        Case("eight runs", (np.array([1.0, 2, 3, 4, 5, 6, 7, 80]),)),
        Case("five runs: one is dropped at each end", (np.array([0.0, 1, 5, 6, 100]),)),
        Case("three runs: nothing is dropped", (np.array([1.0, 5.0, 9.0]),)),
        Case("one run", (np.array([7.0]),)),
        Case("equal runs", (np.array([2.0] * 6),)),
        Case("negative scores", (np.array([-500.0, -200, -150, -1, -160, -170, -180]),)),
        Case("ten random runs", (np.random.randn(10),)),
    ]
