"""Problem set 10: HER."""

from __future__ import annotations

from typing import Any

from spinup_lab.exercises.exercise import Case, Exercise, Wrong

PAGE = "algorithms/her"


class Dice:
    """A stand-in for a NumPy generator that always draws at the same fraction of the range.

    So what an answer draws can be compared, however it draws: `integers(low, high, size)`,
    `choice(a, size)` and `random(size)` all choose the same place.
    """

    def __init__(self, fraction: float):
        self.fraction = fraction

    def integers(self, low, high=None, size=None, endpoint=False, dtype=None):
        """Return low + fraction * (high - low), rounded down."""
        import numpy as np

        if high is None:
            low, high = 0, low
        low, high = np.asarray(low), np.asarray(high) + bool(endpoint)
        shape = np.broadcast(low, high).shape if size is None else size
        drawn = np.broadcast_to((low + self.fraction * (high - low)).astype(np.int64), shape)
        return drawn.copy() if np.ndim(drawn) else int(drawn)

    def random(self, size=None):
        """Return the fraction."""
        import numpy as np

        return self.fraction if size is None else np.full(size, self.fraction)

    def uniform(self, low=0.0, high=1.0, size=None):
        """Return low + fraction * (high - low)."""
        return low + (high - low) * self.random(size)

    def choice(self, a, size=None, replace=True, axis=0):
        """Return the item at the fraction of the length."""
        import numpy as np

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


def _goals_cases():
    import numpy as np

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


def _goals_call(function, case):
    """Return the goals; for a real generator, whether they are in range and differ by copy."""
    import numpy as np

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


def _goals_after(achieved, strategy, k, rng, past=None):
    import numpy as np

    n = len(achieved)
    if strategy == "future":
        low = np.minimum(np.arange(n) + 1, n - 1)[:, None]
        return achieved[rng.integers(low, n, size=(n, k))]
    from spinup.algos.pytorch.her.her import hindsight_goals

    return hindsight_goals(achieved, strategy, k, rng, past)


def _goals_past(achieved, strategy, k, rng, past=None):
    import numpy as np

    n = len(achieved)
    if strategy == "future":
        return achieved[rng.integers(0, np.arange(n)[:, None] + 1, size=(n, k))]
    from spinup.algos.pytorch.her.her import hindsight_goals

    return hindsight_goals(achieved, strategy, k, rng, past)


def _goals_shared(achieved, strategy, k, rng, past=None):
    import numpy as np

    from spinup.algos.pytorch.her.her import hindsight_goals

    return np.repeat(hindsight_goals(achieved, strategy, min(k, 1), rng, past), max(k, 1), axis=1)


GOALS = Exercise(
    id="her.hindsight_goals",
    title="which goals to pretend",
    set=10,
    minutes=20,
    difficulty=3,
    algorithms=("her",),
    page=PAGE,
    task=r"""
Write `hindsight_goals`, in NumPy: draw k goals for each of the T transitions of an episode.

- `achieved` (T, goal): the goal that each transition achieved. Return an array (T, k, goal).
- strategy "future": each goal is drawn uniformly from the goals achieved by the SAME and LATER
  transitions of the episode.
- "final": the last achieved goal. "episode": uniformly from all of the episode. "random":
  uniformly from `past` (n, goal), the goals achieved in all of training so far.
- Every copy gets a draw of its own. `rng` is a NumPy generator: use `rng.integers(low, high,
  size)`, whose `low` may be an array.
""",
    stub='''
import numpy as np

from spinup.exercises import NotYetWritten


def hindsight_goals(achieved, strategy, k, rng, past=None):
    """Return k goals for each transition, (T, k, goal)."""
    raise NotYetWritten("hindsight_goals")
''',
    name="hindsight_goals",
    reference="spinup.algos.pytorch.her.her:hindsight_goals",
    cases=_goals_cases,
    call=_goals_call,
    hints=(
        "Draw INDICES of shape (T, k), then index `achieved` with them once.",
        "future: the index for transition t is uniform on t, ..., T - 1. `rng.integers(low, high)` "
        "excludes `high`.",
        "n = len(achieved)\n"
        'if strategy == "future":\n'
        "    index = rng.integers(np.arange(n)[:, None], n, size=(n, k))\n"
        "    return achieved[index]",
    ),
    wrong=(
        Wrong(
            "past-goals",
            "Your 'future' draws goals from the past. What follows a transition did not lead "
            "there.",
            function=_goals_past,
        ),
        Wrong(
            "own-goal-excluded",
            "You exclude the goal that the transition itself achieved. It belongs to 'future': it "
            "is the transition that gets the reward.",
            function=_goals_after,
        ),
        Wrong(
            "same-goal-for-all-copies",
            "All k copies of a transition get the same goal. Then k = 4 only weighs each "
            "transition four times.",
            function=_goals_shared,
        ),
        Wrong(
            "episode-for-future",
            "Your 'future' draws from the whole episode.",
            edits=(
                (
                    "rng.integers(np.arange(n)[:, None], n, size=(n, k))",
                    "rng.integers(n, size=(n, k))",
                ),
            ),
        ),
        Wrong(
            "first-for-final",
            "Your 'final' takes the first goal of the episode.",
            edits=(("np.full((n, k), n - 1)", "np.full((n, k), 0)"),),
        ),
    ),
)

# ----------------------------------------------------------------------------------------- relabel


def _relabel_cases():
    import numpy as np

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


RELABEL = Exercise(
    id="her.relabel",
    title="store an episode again, with other goals",
    set=10,
    minutes=30,
    difficulty=4,
    algorithms=("her",),
    page=PAGE,
    task=r"""
Write `relabel`: return k copies of each transition of an episode, as if other goals had been
desired.

- `episode` is a dict of arrays with T rows: `obs`, `act`, `rew`, `obs2` and `done`. Return a dict
  with the same keys and T * k rows: the k copies of the first transition, those of the second,
  and so on. Leave `episode` itself unchanged.
- An observation contains its goals: `row[:, goals.achieved]` and `row[:, goals.desired]`.
- `hindsight_goals(achieved, strategy, k, rng, past)` is given; it returns (T, k, goal).
- The goal that an action achieved is in the NEXT observation.
- `goals.reward(achieved, desired)` returns the rewards, one per row. `goals.terminated(achieved,
  desired, was_desired, done)` returns whether the episode would have ended there; `was_desired`
  is the goal before relabeling.
- Both `obs` and `obs2` must show the new goal.
""",
    stub='''
import numpy as np

from spinup.algos.pytorch.her.her import hindsight_goals
from spinup.exercises import NotYetWritten


def relabel(episode, goals, strategy, k, rng, past=None):
    """Return the transitions k times, with new goals, rewards and ends."""
    raise NotYetWritten("relabel")
''',
    name="relabel",
    reference="spinup.algos.pytorch.her.her:relabel",
    cases=_relabel_cases,
    hints=(
        "Copy every field with `np.repeat(x, k, axis=0)`, then change four of the five fields.",
        "new = hindsight_goals(achieved goals of obs2, ...), reshaped to one goal per row. Reward "
        "and end are functions of (achieved, new); write `new` into obs and obs2.",
        "copies = {name: np.repeat(x, k, axis=0) for name, x in episode.items()}\n"
        'achieved, was_desired = (copies["obs2"][:, part] for part in (goals.achieved, '
        "goals.desired))\n"
        "new = hindsight_goals(...).reshape(achieved.shape)\n"
        'copies["rew"] = goals.reward(achieved, new)\n'
        "...",
    ),
    wrong=(
        Wrong(
            "her-reward-stale",
            "The rewards are those of the old goal. A relabeled success then still has the reward "
            "of a failure, and hindsight teaches nothing.",
            edits=(('    copies["rew"] = goals.reward(achieved, new)\n', ""),),
        ),
        Wrong(
            "her-goal-in-obs-only",
            "The next observation keeps the old goal. Its value then belongs to another task than "
            "the transition.",
            edits=(('for name in ("obs", "obs2"):', 'for name in ("obs",):'),),
        ),
        Wrong(
            "achieved-of-obs",
            "You judge the action by what was achieved BEFORE it. The goal that it achieved is in "
            "the next observation.",
            edits=(
                ('(copies["obs2"][:, part]', '(copies["obs"][:, part]'),
                ('episode["obs2"][:, goals.achieved]', 'episode["obs"][:, goals.achieved]'),
            ),
        ),
        Wrong(
            "done-stale",
            "`done` is that of the old goal. Where the new goal is reached the episode would have "
            "ended, and where only the old goal was reached it would have gone on.",
            edits=(
                (
                    'goals.terminated(achieved, new, was_desired, copies["done"])',
                    'copies["done"]',
                ),
            ),
        ),
        Wrong(
            "copies-in-the-wrong-order",
            "The rows are in the order of whole episodes, but the goals in the order of "
            "transitions: rows and goals do not belong together.",
            edits=(("np.repeat(x, k, axis=0)", "np.concatenate([x] * k or [x[:0]])"),),
        ),
    ),
)

EXERCISES = (GOALS, RELABEL)
