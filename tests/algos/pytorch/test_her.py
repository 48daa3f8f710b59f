"""Hindsight Experience Replay: which goals transitions are replayed with, and what they pay."""

import numpy as np
import pytest

from spinup.algos.pytorch.her.her import her_update, hindsight_goals, relabel
from spinup.envs.bitflip import BitFlip
from spinup.envs.goals import Goals
from spinup.runs.arguments.table import ARGUMENTS

STRATEGIES = ARGUMENTS["strategy"].domain.words


# ---- which goals ---------------------------------------------------------------------------------

# Goals that tell where they come from: transition t achieved (t, 10 t).
T = 5
ACHIEVED = np.array([[t, 10 * t] for t in range(T)], np.float32)


def drawn_from(strategy, draws=4000, past=None, seed=0):
    """How often each transition (rows) was given each goal (columns)."""
    goals = hindsight_goals(ACHIEVED, strategy, draws, np.random.default_rng(seed), past)
    assert goals.shape == (T, draws, 2)
    np.testing.assert_array_equal(goals[..., 1], 10 * goals[..., 0])  # a goal stays whole
    which = goals[..., 0].astype(int)
    return np.stack([np.bincount(row, minlength=which.max() + 1) for row in which])


def assert_uniform(counts):
    """Counts of one row agree with equal probabilities: chi-square below its 99.99 % quantile."""
    quantile = {1: 15.2, 2: 18.5, 3: 21.2, 4: 23.6, 6: 27.9}[len(counts) - 1]
    expected = counts.sum() / len(counts)
    assert ((counts - expected) ** 2 / expected).sum() < quantile


def test_final_is_the_last_goal_of_the_episode():
    counts = drawn_from("final", draws=3)
    np.testing.assert_array_equal(counts, [[0] * (T - 1) + [3]] * T)


def test_future_is_uniform_over_the_same_and_later_transitions_and_never_an_earlier_one():
    counts = drawn_from("future")
    assert counts.shape == (T, T)
    for t in range(T):
        assert counts[t, :t].sum() == 0
        if t < T - 1:
            assert_uniform(counts[t, t:])
    assert counts[T - 1, T - 1] == 4000  # nothing but the end is left


def test_episode_is_uniform_over_the_whole_episode():
    counts = drawn_from("episode")
    assert counts.shape == (T, T)
    for row in counts:
        assert_uniform(row)


def test_random_is_uniform_over_the_past():
    past = np.array([[t, 10 * t] for t in range(100, 107)], np.float32)
    counts = drawn_from("random", past=past)
    assert counts[:, :100].sum() == 0
    for row in counts:
        assert_uniform(row[100:])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_goals_are_drawn_from_the_generator_that_is_given(strategy):
    past = np.arange(40, dtype=np.float32).reshape(20, 2)
    first, same, other = (
        hindsight_goals(ACHIEVED, strategy, 8, np.random.default_rng(seed), past)
        for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, same)
    assert (strategy == "final") == np.array_equal(first, other)


def test_a_strategy_that_there_is_not_is_refused():
    with pytest.raises(ValueError, match="there is no strategy 'past'"):
        hindsight_goals(ACHIEVED, "past", 1, np.random.default_rng(0), ACHIEVED)


# ---- what becomes of the transitions -------------------------------------------------------------

GOALS = Goals(BitFlip(2))  # columns: achieved 0:2, desired 2:4, observation 4:6
BITS = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], np.float32)  # flips 0, 1, 0
WANTED = np.array([1, 0], np.float32)


def rows(bits, goal=WANTED):
    bits = np.asarray(bits, np.float32)
    return np.concatenate([bits, np.broadcast_to(goal, bits.shape), bits], axis=1)


def episode():
    """Three flips that go through the goal (no BitFlip would let them: it would end there)."""
    return {
        "obs": rows(BITS[:-1]),
        "act": np.array([0, 1, 0]),
        "rew": np.array([0.0, -1.0, -1.0]),
        "obs2": rows(BITS[1:]),
        "done": np.array([True, False, False]),
    }


class Replies:
    """A generator that draws what it is told."""

    def __init__(self, replies):
        self.replies = np.array(replies)

    def integers(self, *bounds, size):
        assert self.replies.shape == size
        return self.replies


def test_relabeling_with_the_final_goal_by_hand():
    copies = relabel(episode(), GOALS, "final", 1, None)
    end = [0, 1]
    np.testing.assert_array_equal(copies["obs"], rows(BITS[:-1], end))
    np.testing.assert_array_equal(copies["obs2"], rows(BITS[1:], end))
    np.testing.assert_array_equal(copies["act"], [0, 1, 0])
    np.testing.assert_array_equal(copies["rew"], [-1, -1, 0])
    np.testing.assert_array_equal(copies["done"], [False, False, True])


@pytest.mark.parametrize("strategy", ["future", "episode"])
def test_relabeling_with_goals_of_the_episode_by_hand(strategy):
    replies = [[0, 2], [1, 2], [2, 2]]  # of which transition each copy gets the goal
    copies = relabel(episode(), GOALS, strategy, 2, Replies(replies))
    new = BITS[1:][[0, 2, 1, 2, 2, 2]]
    np.testing.assert_array_equal(copies["act"], [0, 0, 1, 1, 0, 0])
    np.testing.assert_array_equal(copies["obs"], rows(BITS[[0, 0, 1, 1, 2, 2]], new))
    np.testing.assert_array_equal(copies["obs2"], rows(BITS[[1, 1, 2, 2, 3, 3]], new))
    np.testing.assert_array_equal(copies["rew"], [0, -1, 0, -1, 0, 0])
    np.testing.assert_array_equal(copies["done"], [True, False, True, False, True, True])


def test_relabeling_with_goals_of_the_past_by_hand():
    past = np.array([[1, 1], [0, 0], [1, 0]], np.float32)
    copies = relabel(episode(), GOALS, "random", 1, Replies([[0], [0], [1]]), past)
    new = np.array([[1, 1], [1, 1], [0, 0]], np.float32)
    np.testing.assert_array_equal(copies["obs"], rows(BITS[:-1], new))
    np.testing.assert_array_equal(copies["obs2"], rows(BITS[1:], new))
    np.testing.assert_array_equal(copies["rew"], [-1, 0, -1])
    # The first really ended, in its own goal, and had it desired this one it would not have.
    np.testing.assert_array_equal(copies["done"], [False, True, False])


def test_a_goal_is_reached_by_the_next_observation_and_not_by_the_one_acted_on():
    # Every transition is asked to achieve the state it starts from.
    past = BITS
    copies = relabel(episode(), GOALS, "random", 1, Replies([[0], [1], [2]]), past)
    np.testing.assert_array_equal(copies["obs"][:, GOALS.achieved], copies["obs"][:, GOALS.desired])
    np.testing.assert_array_equal(copies["rew"], [-1, -1, -1])
    assert not copies["done"].any()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_episode_itself_is_left_as_it_was(strategy):
    before, given = episode(), episode()
    relabel(given, GOALS, strategy, 3, np.random.default_rng(0), BITS)
    for name, x in before.items():
        np.testing.assert_array_equal(given[name], x)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_no_goals_a_transition_give_no_copies(strategy):
    copies = relabel(episode(), GOALS, strategy, 0, np.random.default_rng(0), BITS)
    assert {name: x.shape for name, x in copies.items()} == {
        "obs": (0, 6),
        "act": (0,),
        "rew": (0,),
        "obs2": (0, 6),
        "done": (0,),
    }


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_copies_of_a_long_episode_pay_what_the_environment_says_one_by_one(strategy):
    env, rng = BitFlip(4), np.random.default_rng(1)
    goals = Goals(env)
    bits = rng.integers(2, size=(31, 4)).astype(np.float32)
    long = {
        "obs": rows(bits[:-1], rng.integers(2, size=(30, 4))),
        "act": rng.integers(4, size=30),
        "rew": rng.random(30),
        "obs2": rows(bits[1:], rng.integers(2, size=(30, 4))),
        "done": np.zeros(30, bool),
    }
    copies = relabel(long, goals, strategy, 4, rng, bits)
    assert len(copies["rew"]) == 120
    hits = 0
    for i in range(120):
        o, o2 = long["obs"][i // 4], long["obs2"][i // 4]
        for part in (goals.achieved, goals.observation):
            np.testing.assert_array_equal(copies["obs"][i][part], o[part])
            np.testing.assert_array_equal(copies["obs2"][i][part], o2[part])
        assert copies["act"][i] == long["act"][i // 4]
        goal = copies["obs2"][i][goals.desired]
        np.testing.assert_array_equal(copies["obs"][i][goals.desired], goal)
        reached = bool((o2[goals.achieved] == goal).all())
        assert copies["rew"][i] == env.compute_reward(o2[goals.achieved], goal, {}) == reached - 1
        assert copies["done"][i] == reached
        hits += reached
    assert 0 < hits < 120


# ---- one update of the base ----------------------------------------------------------------------


def test_the_base_is_shown_the_picked_columns_and_everything_else_as_it_is():
    batch = {name: np.arange(12.0).reshape(2, 6) for name in ("obs", "obs2")}
    batch.update(act=np.array([1, 2]), rew=np.array([0.5, 1.5]), done=np.array([0, 1]))
    shown = {}

    def base_update(given, step):
        shown.update(given, step=step)
        return {"LossQ": 7}

    assert her_update(base_update, lambda rows: rows[..., 2:], batch, 5) == {"LossQ": 7}
    np.testing.assert_array_equal(shown["obs"], [[2, 3, 4, 5], [8, 9, 10, 11]])
    np.testing.assert_array_equal(shown["obs2"], shown["obs"])
    assert shown["step"] == 5 and shown["act"] is batch["act"] and shown["done"] is batch["done"]
    assert batch["obs"].shape == (2, 6)
