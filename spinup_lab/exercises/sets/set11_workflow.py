"""Problem set 11: workflow. Environments, and conclusions from a few runs."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

from spinup_lab.exercises.exercise import Case, Exercise, Wrong

PAGE = "environments"
WALK = "spinup_lab.exercises.walk:Walk"
SOURCE = Path(__file__).parents[1].joinpath("walk.py").read_text(encoding="utf-8")
MOVE = (
    "        self.position = float(np.clip(self.position + 0.1 * (int(action) - 1), -1.0, 1.0))\n"
)
RANDOM_PAIR = """\
        self.position = self.np_random.uniform(-1.0, 1.0)
        self.goal = self.np_random.uniform(-1.0, 1.0)
"""


def _given(*edits: tuple[str, str]) -> str:
    """Return the source of the environment with faults, without the module's docstring."""
    source = SOURCE.partition('"""\n')[2]
    for old, new in edits:
        if source.count(old) != 1:
            raise ValueError(f"{old!r} occurs {source.count(old)} times in walk.py")
        source = source.replace(old, new)
    return source.strip()


def _walk_cases() -> list[Case]:
    import numpy as np

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


def _play(make: Any, case: Case) -> Any:
    """Play a case; observations are kept as they were returned and copied only at the end."""
    import numpy as np

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


def _fix(
    id: str,
    title: str,
    symptom: str,
    edits: tuple[tuple[str, str], ...],
    hints: tuple[str, str, str],
    wrong: tuple[Wrong, ...],
    difficulty: int = 2,
) -> Exercise:
    return Exercise(
        id=id,
        title=title,
        set=11,
        minutes=15,
        difficulty=difficulty,
        page=PAGE,
        task=f"""
{textwrap.fill("Somebody wrote this environment, and nothing learns in it. " + symptom, 98)}

Find the fault and mend it. What the environment should do is in the docstring of `Walk` and here:
the reward is minus the distance to the goal AFTER the move, an episode terminates closer than 0.05
to the goal, and is cut after 50 steps. `reset` draws the position, then the goal, uniformly from
-1 to 1.
""",
        stub=_given(*edits),
        name="Walk",
        reference=WALK,
        cases=_walk_cases,
        call=_play,
        hints=hints,
        wrong=(
            Wrong(
                "unchanged",
                "This environment still behaves as the one that you were given.",
                edits=edits,
            ),
            *wrong,
        ),
    )


WRITE = Exercise(
    id="workflow.write_env",
    title="write an environment",
    set=11,
    minutes=40,
    difficulty=3,
    page=PAGE,
    task=r"""
Write the class `Walk`, an environment that agents can learn from and that `spinup check_env`
accepts: walk left or right on a line until the goal is reached.

- `observation_space`: a Box from -1 to 1, float32, (position, goal). `action_space`: Discrete(3);
  the actions 0, 1 and 2 move by -0.1, 0 and 0.1. The position stays within -1 and 1.
- `reset(seed=None, options=None)` returns (observation, {}). It draws the position and then the
  goal with `self.np_random.uniform(-1.0, 1.0)`.
- `step(action)` returns (observation, reward, terminated, truncated, {}). The reward is minus the
  distance to the goal after the move. The episode terminates if that distance is below 0.05, and
  is truncated after 50 steps.
- Observations are new arrays, float32. Rewards are plain floats.
""",
    stub='''
import gymnasium
import numpy as np
from gymnasium import spaces

from spinup.exercises import NotYetWritten


class Walk(gymnasium.Env):
    """Walk left or right on the line from -1 to 1 until the goal is reached."""

    def __init__(self):
        raise NotYetWritten("Walk")

    def reset(self, seed=None, options=None):
        """Start an episode; return (observation, {})."""

    def step(self, action):
        """Move; return (observation, reward, terminated, truncated, {})."""
''',
    name="Walk",
    reference=WALK,
    cases=_walk_cases,
    call=_play,
    hints=(
        "An environment is a state and a clock. `reset` fills both, `step` moves both, and one "
        "helper turns the state into an observation.",
        "`super().reset(seed=seed)` seeds `self.np_random`. After the move: distance = |position - "
        "goal|, reward = -distance, terminated = distance < 0.05, truncated = steps >= 50.",
        "def reset(self, seed=None, options=None):\n"
        "    super().reset(seed=seed)\n"
        "    self.position = self.np_random.uniform(-1.0, 1.0)\n"
        "    self.goal = ...\n"
        "    self.steps = 0\n"
        "    return np.array([self.position, self.goal], np.float32), {}",
    ),
    wrong=(
        Wrong(
            "time-limit-as-death",
            "After 50 steps your episode TERMINATES. Agents then learn that the state at the "
            "limit has no future; a clock is a truncation.",
            edits=(
                (
                    "terminated = distance < 0.05",
                    "terminated = distance < 0.05 or self.steps >= 50",
                ),
                ("truncated = self.steps >= self.LIMIT", "truncated = False"),
            ),
        ),
        Wrong(
            "reward-of-previous-state",
            "The reward belongs to the state before the move, so an action is never blamed for "
            "what it did.",
            edits=(
                (MOVE, f"        before = abs(self.position - self.goal)\n{MOVE}"),
                ("reward = -distance", "reward = -before"),
            ),
        ),
        Wrong(
            "limit-off-by-one",
            "The episode is cut one step too late: after 51 steps.",
            edits=(("self.steps >= self.LIMIT", "self.steps > self.LIMIT"),),
        ),
        Wrong(
            "not-clipped",
            "The position leaves the line from -1 to 1, and so the observation leaves its space.",
            edits=(
                (
                    "float(np.clip(self.position + 0.1 * (int(action) - 1), -1.0, 1.0))",
                    "self.position + 0.1 * (int(action) - 1)",
                ),
            ),
        ),
        Wrong(
            "goal-first",
            "You draw the goal before the position. It is as good an environment, but with the "
            "same seed it starts elsewhere, so that results cannot be compared.",
            edits=(
                (
                    "self.position = self.np_random.uniform(-1.0, 1.0)\n        self.goal = "
                    "self.np_random.uniform(-1.0, 1.0)",
                    "self.goal = self.np_random.uniform(-1.0, 1.0)\n        self.position = "
                    "self.np_random.uniform(-1.0, 1.0)",
                ),
            ),
        ),
        Wrong(
            "unseeded",
            "Random numbers come from somewhere else than `self.np_random`, so a seed does not "
            "repeat an episode.",
            edits=(("super().reset(seed=seed)", "super().reset(seed=0)"),),
        ),
    ),
)

FIX_REWARD = _fix(
    "workflow.fix_reward",
    "mend: actions do not seem to matter",
    "The critic fits well, but the advantages of all actions look the same.",
    (
        (
            f"{MOVE}        self.steps += 1\n        distance = abs(self.position - self.goal)\n"
            "        reward = -distance\n",
            f"        reward = -abs(self.position - self.goal)\n{MOVE}        self.steps += 1\n"
            "        distance = abs(self.position - self.goal)\n",
        ),
    ),
    (
        "Play one step by hand: print the position before and after, and the reward.",
        "Which position does the reward belong to, the one before or after the move?",
        "Compute the reward after self.position has changed.",
    ),
    (
        Wrong(
            "progress-reward",
            "You reward the progress of the move. That is a sensible reward too, but not the one "
            "that was asked for: minus the distance after the move.",
            edits=(
                (MOVE, f"        before = abs(self.position - self.goal)\n{MOVE}"),
                ("reward = -distance", "reward = before - distance"),
            ),
        ),
        Wrong(
            "sign",
            "The reward is the distance itself: the agent is paid for staying away.",
            edits=(("reward = -distance", "reward = distance"),),
        ),
    ),
)

FIX_LIMIT = _fix(
    "workflow.fix_time_limit",
    "mend: values collapse near the end",
    "The critic says that every state is worth little, most of all late in an episode, and "
    "policies that need more than 50 steps never look good.",
    (
        (
            "terminated = distance < 0.05",
            "terminated = distance < 0.05 or self.steps >= self.LIMIT",
        ),
        ("truncated = self.steps >= self.LIMIT", "truncated = False"),
    ),
    (
        "`step` returns two flags. What does each of them mean to an agent's backup?",
        "terminated: nothing follows, the value is zero. truncated: the clock stopped the episode, "
        "the value is V of the last observation.",
        "terminated depends on the distance only, truncated on the number of steps only.",
    ),
    (
        Wrong(
            "both-flags",
            "At the limit you return both flags. `terminated` alone decides whether the value is "
            "zero, so the fault is still there.",
            edits=(
                (
                    "terminated = distance < 0.05",
                    "terminated = distance < 0.05 or self.steps >= self.LIMIT",
                ),
            ),
        ),
        Wrong(
            "endless",
            "Nothing ends the episode after 50 steps any more.",
            edits=(("truncated = self.steps >= self.LIMIT", "truncated = False"),),
        ),
        Wrong(
            "limit-off-by-one",
            "The episode is cut one step too late.",
            edits=(("self.steps >= self.LIMIT", "self.steps > self.LIMIT"),),
        ),
    ),
)

_OBSERVATION = """\
        return np.array([self.position, self.goal], np.float32)
"""
_ALIASED = """\
        if not hasattr(self, "_obs"):
            self._obs = np.zeros(2, np.float32)
        self._obs[:] = self.position, self.goal
        return self._obs
"""

FIX_ALIAS = _fix(
    "workflow.fix_observation",
    "mend: obs and obs2 are always equal",
    "Every transition in the replay buffer has the same observation before and after the action.",
    ((_OBSERVATION, _ALIASED),),
    (
        "Keep the observations of two steps in a list, and look at the first one again after the "
        "second step.",
        "The environment returns the same array each time and writes into it.",
        "Return a new array: np.array([...], np.float32).",
    ),
    (
        Wrong(
            "float64",
            "The observations are new arrays now, but float64, and the space promises float32.",
            edits=((_OBSERVATION, _OBSERVATION.replace(", np.float32", "")),),
        ),
        Wrong(
            "fresh-at-reset-only",
            "`reset` makes a new array, but the steps of an episode still share one.",
            edits=(
                (
                    _OBSERVATION,
                    _ALIASED.replace('not hasattr(self, "_obs")', "self.steps == 0"),
                ),
            ),
        ),
    ),
    difficulty=3,
)

FIX_SEED = _fix(
    "workflow.fix_seed",
    "mend: the same seed gives another run",
    "Two runs with the same seed give different curves, so no result can be repeated.",
    ((RANDOM_PAIR, RANDOM_PAIR.replace("self.np_random", "np.random")),),
    (
        "Where do the random numbers come from, and who seeds that?",
        "`super().reset(seed=seed)` seeds `self.np_random`, and nothing else.",
        "Replace np.random by self.np_random.",
    ),
    (
        Wrong(
            "new-generator-each-time",
            "You make a new generator in every `reset`. Without a seed, the next episode must "
            "continue the old generator; yours starts it anew, so all of them are alike.",
            edits=(
                (
                    RANDOM_PAIR,
                    "        rng = np.random.default_rng(seed or 0)\n"
                    + RANDOM_PAIR.replace("self.np_random", "rng"),
                ),
            ),
        ),
        Wrong(
            "fixed-seed",
            "Every episode starts the same, whatever the seed.",
            edits=(("super().reset(seed=seed)", "super().reset(seed=0)"),),
        ),
        Wrong(
            "seeds-the-global-generator",
            "You seed NumPy's global generator. Other parts of a program draw from it too, and an "
            "environment must not change their numbers.",
            edits=(
                (
                    RANDOM_PAIR,
                    "        if seed is not None:\n            np.random.seed(seed)\n"
                    + RANDOM_PAIR.replace("self.np_random", "np.random"),
                ),
            ),
        ),
    ),
)

# ----------------------------------------------------------------------------- interquartile mean


def _iqm_cases() -> list[Case]:
    import numpy as np

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


def _iqm_unsorted(values):
    cut = len(values) // 4
    return values[cut : len(values) - cut].mean()


def _iqm_median(values):
    import numpy as np

    return np.median(values)


def _iqm_mean(values):
    return values.mean()


def _iqm_one_sided(values):
    import numpy as np

    cut = len(values) // 4
    return np.sort(values)[: len(values) - cut].mean()


IQM = Exercise(
    id="workflow.iqm",
    title="one number for several runs",
    set=11,
    minutes=10,
    difficulty=1,
    page="plotting",
    task=r"""
A mean of runs is moved by one lucky run, and a median ignores most of the data. `spinup compare`
reports the interquartile mean (IQM). Write `iqm(values)`, in NumPy:

- sort the n scores, drop the n // 4 lowest and the n // 4 highest, and return the mean of the
  rest;
- with fewer than four runs nothing is dropped.

`values` (n,) contains one score per run. Return one number.
""",
    stub='''
import numpy as np

from spinup.exercises import NotYetWritten


def iqm(values):
    """Return the mean of the middle half."""
    raise NotYetWritten("iqm")
''',
    name="iqm",
    reference="spinup.analysis.stats:iqm",
    cases=_iqm_cases,
    hints=(
        "Sort first; then a slice is enough.",
        "cut = n // 4; the mean of the sorted values from cut to n - cut.",
        "ordered = np.sort(values)\nreturn ordered[cut : len(values) - cut].mean()",
    ),
    wrong=(
        Wrong(
            "unsorted",
            "You drop the first and last runs, not the lowest and highest: sort first.",
            function=_iqm_unsorted,
        ),
        Wrong(
            "median",
            "This is the median. The IQM uses half of the data, the median one or two runs.",
            function=_iqm_median,
        ),
        Wrong("mean", "This is the plain mean: nothing is dropped.", function=_iqm_mean),
        Wrong(
            "one-sided",
            "You drop the best runs only. That makes every algorithm look worse than it is.",
            function=_iqm_one_sided,
        ),
    ),
)

EXERCISES = (WRITE, FIX_REWARD, FIX_LIMIT, FIX_ALIAS, FIX_SEED, IQM)
