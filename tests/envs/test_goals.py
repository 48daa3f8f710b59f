"""Goal environments: where the parts of an observation are, and what other goals would pay."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from spinup.envs import adapt_env, make_env
from spinup.envs.bitflip import BitFlip
from spinup.envs.goals import Goals
from spinup.utils.errors import SpinupError


class Reach(gymnasium.Env):
    """A point that should come within 0.5 of its goal. Subclasses say how it is paid."""

    def __init__(self, parts=None):
        point = spaces.Box(-5.0, 5.0, (2,), np.float64)
        self.observation_space = spaces.Dict(
            parts
            or {
                "observation": spaces.Box(-5.0, 5.0, (3,), np.float64),
                "achieved_goal": point,
                "desired_goal": point,
            }
        )
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.calls = 0

    def compute_reward(self, achieved_goal, desired_goal, info):
        self.calls += 1
        assert achieved_goal.dtype == np.float64 and info == {}
        far = np.linalg.norm(achieved_goal - desired_goal, axis=-1) > 0.5
        return -far.astype(np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return {k: s.sample() for k, s in self.observation_space.items()}, {}

    def step(self, action):
        return self.reset()[0], 0.0, False, False, {}


class SingleReach(Reach):
    """Refuses batches, as code written for one goal does."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        assert achieved_goal.shape == (2,)
        return super().compute_reward(achieved_goal, desired_goal, info)


class JoiningReach(Reach):
    """Takes a batch for one large goal and returns a single number."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -float(np.linalg.norm(achieved_goal - desired_goal) > 0.5)


class WrongAxisReach(Reach):
    """Sums over the first axis, so a square batch has the right shape and wrong numbers."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(((achieved_goal - desired_goal) ** 2).sum(axis=0) > 0.25).astype(float)


class ListReach(Reach):
    """Pays with an array of one number."""

    def compute_reward(self, achieved_goal, desired_goal, info):
        return np.atleast_1d(super().compute_reward(achieved_goal, desired_goal, info))


ACHIEVED = np.array([[0, 0], [1, 1], [2, 0]], np.float32)
DESIRED = np.array([[0.3, 0.3], [1, 2], [2.4, 0]], np.float32)
PAID = [0.0, -1.0, 0.0]


def test_slices_find_the_parts_in_the_order_of_the_flattened_observation():
    env = Reach()
    goals, flat = Goals(env), adapt_env(env)
    o, _ = env.reset(seed=0)
    row = spaces.flatten(env.observation_space, o).astype(np.float32)
    assert flat.observation_space.shape == (goals.width,) == (7,)
    for part, key in (
        (goals.observation, "observation"),
        (goals.achieved, "achieved_goal"),
        (goals.desired, "desired_goal"),
    ):
        np.testing.assert_array_equal(row[part], o[key].astype(np.float32))


def test_an_ordered_dict_keeps_its_own_order_and_other_parts_keep_their_place():
    point = spaces.Box(-1.0, 1.0, (2,), np.float32)
    pairs = [
        ("desired_goal", point),
        ("camera", spaces.Box(0, 255, (2, 2), np.uint8)),
        ("observation", spaces.Discrete(3)),
        ("achieved_goal", point),
    ]
    goals = Goals(Reach(pairs))
    assert goals.desired == slice(0, 2)
    assert goals.observation == slice(6, 9)
    assert goals.achieved == slice(9, 11)
    assert goals.width == 11


@pytest.mark.parametrize("cls", [Reach, SingleReach, JoiningReach, ListReach])
def test_rewards_are_those_of_single_goals_whatever_form_the_method_has(cls):
    goals = Goals(cls())
    for _ in range(2):  # the form is found out in the first call
        rewards = goals.reward(ACHIEVED, DESIRED)
        assert rewards.shape == (3,)
        np.testing.assert_array_equal(rewards, PAID)


def test_a_method_that_takes_batches_is_called_once_for_all_rows():
    env = Reach()
    goals = Goals(env)
    goals.reward(ACHIEVED, DESIRED)
    before = env.calls
    goals.reward(np.tile(ACHIEVED, (100, 1)), np.tile(DESIRED, (100, 1)))
    assert env.calls == before + 1


def test_a_batch_is_not_trusted_where_it_sums_over_the_wrong_axis():
    # Two goals of two numbers: the batch gives two numbers, [0, -1], whatever their order. They
    # agree with the goals' own the first time, by chance.
    goals = Goals(WrongAxisReach())
    np.testing.assert_array_equal(goals.reward(ACHIEVED[:2], DESIRED[:2]), [0, -1])
    np.testing.assert_array_equal(goals.reward(ACHIEVED[1::-1], DESIRED[1::-1]), [-1, 0])


def test_a_batch_is_not_trusted_where_its_numbers_differ():
    class Lenient(Reach):
        """The longer its argument, the further away counts as near."""

        def compute_reward(self, achieved_goal, desired_goal, info):
            far = np.linalg.norm(achieved_goal - desired_goal, axis=-1)
            return -(far > 0.25 * len(achieved_goal)).astype(float)

    goals = Goals(Lenient())
    achieved, desired = np.zeros((3, 2)), np.array([[0.4, 0], [0.6, 0], [2.0, 0]])
    np.testing.assert_array_equal(goals.reward(achieved, desired), [0, -1, -1])


def test_several_numbers_for_one_goal_are_refused():
    class Parts(Reach):
        def compute_reward(self, achieved_goal, desired_goal, info):
            return np.abs(achieved_goal - desired_goal)

    with pytest.raises(SpinupError, match="compute_reward returned 2 numbers for one goal"):
        Goals(Parts()).reward(ACHIEVED, DESIRED)


def test_goals_get_their_shape_and_dtype_back():
    class Picture(Reach):
        def compute_reward(self, achieved_goal, desired_goal, info):
            assert achieved_goal.shape[-2:] == (2, 3) and achieved_goal.dtype == np.int16
            return -np.any(achieved_goal != desired_goal, axis=(-2, -1)).astype(float)

    grid = spaces.Box(0, 9, (2, 3), np.int16)
    goals = Goals(Picture({"observation": grid, "achieved_goal": grid, "desired_goal": grid}))
    achieved = np.arange(12, dtype=np.float32).reshape(2, 6) % 10
    desired = achieved.copy()
    desired[1, 5] += 1
    np.testing.assert_array_equal(goals.reward(achieved, desired), [0, -1])


def test_goals_of_a_discrete_space_are_given_as_numbers():
    class Cell(Reach):
        def compute_reward(self, achieved_goal, desired_goal, info):
            assert isinstance(achieved_goal, int | np.integer)
            return 1.0 if achieved_goal == desired_goal else 0.0

    cell = spaces.Discrete(3)
    goals = Goals(Cell({"observation": cell, "achieved_goal": cell, "desired_goal": cell}))
    one_hot = np.eye(3, dtype=np.float32)
    np.testing.assert_array_equal(goals.reward(one_hot, one_hot[[0, 2, 2]]), [1, 0, 1])


def test_rewards_of_no_rows_are_no_numbers():
    assert Goals(Reach()).reward(ACHIEVED[:0], DESIRED[:0]).shape == (0,)


def test_the_outermost_compute_reward_counts():
    class Doubled(gymnasium.Wrapper):
        def compute_reward(self, achieved_goal, desired_goal, info):
            return 2 * self.unwrapped.compute_reward(achieved_goal, desired_goal, info)

    np.testing.assert_array_equal(Goals(Doubled(Reach())).reward(ACHIEVED, DESIRED), [0, -2, 0])


def test_success_is_the_reward_of_the_goal_itself():
    goals = Goals(Reach())
    np.testing.assert_array_equal(
        goals.success(np.array([0.0, -1.0, 0.0]), DESIRED), [True, False, True]
    )


# ---- ends of episodes --------------------------------------------------------------------------


def test_without_compute_terminated_the_environments_own_flag_is_kept():
    done = np.array([True, False, True])
    kept = Goals(Reach()).terminated(ACHIEVED, DESIRED, DESIRED, done)
    np.testing.assert_array_equal(kept, done)
    assert kept is not done


def test_with_compute_terminated_an_end_follows_the_goal():
    goals = Goals(BitFlip(2))
    achieved = np.array([[0, 1], [0, 1], [1, 1]], np.float32)
    was_desired = np.array([[0, 1], [1, 1], [1, 0]], np.float32)
    done = np.array([True, False, False])
    desired = np.array([[1, 1], [0, 1], [0, 0]], np.float32)
    # reached its own goal but not this one; reaches this one; neither
    ended = goals.terminated(achieved, desired, was_desired, done)
    np.testing.assert_array_equal(ended, [False, True, False])


def test_an_end_that_the_goal_does_not_explain_stays_one():
    class Falls(BitFlip):
        """Terminates also for reasons of its own."""

    goals = Goals(Falls(2))
    achieved = np.array([[0, 1]], np.float32)
    missed = np.array([[1, 1]], np.float32)
    ended = goals.terminated(achieved, missed, missed, np.array([True]))
    np.testing.assert_array_equal(ended, [True])


def test_compute_terminated_may_answer_a_batch_with_one_word():
    class Continuing(Reach):
        def compute_terminated(self, achieved_goal, desired_goal, info):
            return False

    done = np.zeros(3, dtype=bool)
    ended = Goals(Continuing()).terminated(ACHIEVED, DESIRED, DESIRED, done)
    assert ended.dtype == bool and ended.tolist() == [False] * 3


# ---- what is no goal environment -----------------------------------------------------------------

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
WHOLE = {"observation": BOX, "achieved_goal": BOX, "desired_goal": BOX}


class Mute(gymnasium.Env):
    """A goal environment in all but `compute_reward`."""

    observation_space, action_space = spaces.Dict(WHOLE), BOX


@pytest.mark.parametrize(
    ("env", "fault"),
    [
        (lambda: make_env("CartPole-v1"), "not a dict"),
        (lambda: make_env("FrozenLake-v1"), "not a dict"),
        (lambda: Reach({"observation": BOX, "achieved_goal": BOX}), "lack desired_goal"),
        (lambda: Reach({"x": BOX}), "lack observation and achieved_goal and desired_goal"),
        (lambda: gymnasium.wrappers.FlattenObservation(BitFlip(3)), "not a dict"),
        (Mute, "no compute_reward"),
    ],
)
def test_what_is_no_goal_environment_is_refused_in_one_sentence(env, fault):
    with pytest.raises(SpinupError) as caught:
        Goals(env())
    text = str(caught.value)
    assert "her needs a goal environment" in text and fault in text
    assert "\n" not in text and text.count(". ") == 0 and "spinup/BitFlip-v0" in text


def test_goals_of_two_kinds_are_refused():
    other = spaces.Box(-1.0, 1.0, (3,), np.float32)
    with pytest.raises(SpinupError, match="same space"):
        Goals(Reach({**WHOLE, "achieved_goal": other}))
    with pytest.raises(SpinupError, match="same space"):
        Goals(Reach({**WHOLE, "achieved_goal": spaces.MultiBinary(2)}))


def test_bounds_and_dtypes_of_the_two_goals_may_differ():
    other = spaces.Box(-9.0, 9.0, (2,), np.float64)
    assert Goals(Reach({**WHOLE, "achieved_goal": other})).width == 6


def test_the_first_of_a_synchronous_vector_is_looked_at_and_another_vector_refused():
    vector = SyncVectorEnv([lambda: BitFlip(3)] * 2)
    assert Goals(vector).width == 9
    workers = AsyncVectorEnv([lambda: BitFlip(3)])
    try:
        with pytest.raises(SpinupError, match=r"AsyncVectorEnv.*num_envs"):
            Goals(workers)
    finally:
        workers.close()
