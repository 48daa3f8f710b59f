"""Problem set 10: HER."""

from __future__ import annotations

from typing import Any

import numpy as np

from spinup_lab.exercises.exercise import Case


class Dice:
    """A stand-in for a NumPy generator that always draws at the same fraction of the range.

    So what an answer draws can be compared, however it draws: `integers(low, high, size)`,
    `choice(a, size)` and `random(size)` all choose the same place.
    """

    def __init__(self, fraction: float):
        self.fraction = fraction

    def integers(self, low, high=None, size=None, endpoint=False, dtype=None):
        """Return low + fraction * (high - low), rounded down."""
        if high is None:
            low, high = 0, low
        low, high = np.asarray(low), np.asarray(high) + bool(endpoint)
        shape = np.broadcast(low, high).shape if size is None else size
        drawn = np.broadcast_to((low + self.fraction * (high - low)).astype(np.int64), shape)
        return drawn.copy() if np.ndim(drawn) else int(drawn)

    def random(self, size=None):
        """Return the fraction."""
        return self.fraction if size is None else np.full(size, self.fraction)

    def uniform(self, low=0.0, high=1.0, size=None):
        """Return low + fraction * (high - low)."""
        return low + (high - low) * self.random(size)

    def choice(self, a, size=None, replace=True, axis=0):
        """Return the item at the fraction of the length."""
        a = np.arange(a) if np.ndim(a) == 0 else np.asarray(a)
        return a[self.integers(len(a), size=size)]

    def __repr__(self) -> str:
        return f"a generator that draws at {self.fraction:g} of the range"


class GridGoals:
    """Observations (position, achieved goal, desired goal) of one number each.

    The reward is 0 if the goal is achieved and -1 otherwise. Reaching the goal terminates the
    episode; so does falling, whatever the goal, which `done` shows.
    """

    observation, achieved, desired = slice(0, 1), slice(1, 2), slice(2, 3)

    def reward(self, achieved: Any, desired: Any) -> Any:
        """Return one reward per row: (n, 1), (n, 1) -> (n,)."""
        return -(achieved != desired).any(-1).astype(float)

    def terminated(self, achieved: Any, desired: Any, was_desired: Any, done: Any) -> Any:
        """Return whether the episodes would have terminated with the goals `desired`."""
        reached = (achieved == desired).all(-1)
        fell = done & ~(achieved == was_desired).all(-1)
        return reached | fell


# --------------------------------------------------------------------------------- hindsight_goals


def goals_cases():
    def achieved(n, dim=1):
        return np.arange(n * dim, dtype=float).reshape(n, dim)

    cases = []
    for name, n, dim, strategy, k, fraction in (
        ("future, the earliest goal", 4, 1, "future", 2, 0.0),
        ("future, the latest goal", 4, 1, "future", 2, 0.999),
        ("future, in the middle", 6, 1, "future", 1, 0.5),
        ("final", 4, 1, "final", 3, 0.5),
        ("episode, the earliest goal", 4, 1, "episode", 2, 0.0),
        ("episode, the latest goal", 4, 1, "episode", 2, 0.999),
        ("an episode of one step", 1, 1, "future", 2, 0.5),
        ("goals of three numbers", 5, 3, "future", 2, 0.7),
        ("k = 0: no goals", 3, 2, "future", 0, 0.5),
    ):
        show = (
            f"achieved goals 0 ... {n - 1}, {strategy}, k = {k}, {Dice(fraction)}"
            if dim == 1
            else ""
        )
        cases.append(Case(name, (achieved(n, dim), strategy, k, Dice(fraction)), show=show))
    for name, fraction in (("random, from all of training", 0.5), ("random, the newest", 0.999)):
        args = (achieved(3), "random", 2, Dice(fraction))
        cases.append(Case(name, args, {"past": 100 + achieved(10)}))
    rng = np.random.default_rng(0)
    cases.append(Case("every copy gets a goal of its own", (achieved(50), "future", 30, rng)))
    return cases


def goals_call(function, case):
    """Return the goals; for a real generator, whether they are in range and differ by copy."""
    found = function(*case.args, **case.kwargs)
    if isinstance(case.args[3], Dice) or not isinstance(found, np.ndarray):
        return found
    if found.shape != (50, 30, 1):
        return found
    steps = np.arange(50)[:, None]
    return {
        "no goal is from the past": bool((found[..., 0] >= steps).all()),
        "the copies of a transition have different goals": len(np.unique(found[0])) > 5,
        "the goals of a copy differ by transition": len(np.unique(found[:, 0])) > 5,
        "the mean goal of the first transition is in the middle": bool(
            abs(found[0].mean() - 24.5) < 12
        ),
    }


# ----------------------------------------------------------------------------------------- relabel


def relabel_cases():
    def episode(n, goal, done=False):
        positions = np.arange(n + 1, dtype=float)
        obs = np.stack([positions, positions, np.full(n + 1, goal)], -1)
        achieved = positions[1:]
        return {
            "obs": obs[:-1].copy(),
            "act": np.ones((n, 1)),
            "rew": -(achieved != goal).astype(float),
            "obs2": obs[1:].copy(),
            "done": np.array([*[False] * (n - 1), done]),
        }

    cases = []
    for name, n, goal, done, strategy, k, fraction in (
        ("two steps, the final goal", 2, 9.0, False, "final", 1, 0.5),
        ("three steps, future", 3, 9.0, False, "future", 1, 0.0),
        ("two copies each", 3, 9.0, False, "future", 2, 0.6),
        ("an episode that reached its goal", 3, 3.0, True, "future", 1, 0.0),
        ("an episode that ended by a fall", 3, 9.0, True, "future", 1, 0.0),
        ("a fall, and another goal", 4, 9.0, True, "episode", 2, 0.3),
        ("one step", 1, 9.0, False, "final", 3, 0.5),
        ("k = 0: no rows", 3, 9.0, False, "future", 0, 0.5),
        ("a long episode", 20, 9.0, False, "episode", 4, 0.8),
    ):
        show = f"positions 0 to {n}, desired goal {goal:g}, {strategy}, k = {k}, {Dice(fraction)}"
        args = (episode(n, goal, done), GridGoals(), strategy, k, Dice(fraction))
        cases.append(Case(name, args, show=show))
    return cases
