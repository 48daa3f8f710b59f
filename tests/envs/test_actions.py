"""Actions on their way to the environments: clipped, shifted, shaped; and random ones."""

import math

import numpy as np
import pytest
from gymnasium import spaces

from spinup.envs.spaces import env_actions, random_actions

LOW, HIGH = np.array([-3, 10], np.float32), np.array([-1, 50], np.float32)

# ---- what is sent ----------------------------------------------------------------------------


def test_continuous_actions_are_clipped_to_the_bounds_of_each_dimension():
    act = np.array([[-5, 5], [0, 99], [-2, 20]], np.float32)
    before = act.copy()
    sent = env_actions(spaces.Box(LOW, HIGH))(act)
    assert sent.tolist() == [[-3, 10], [-1, 50], [-2, 20]] and sent.dtype == np.float32
    assert np.array_equal(act, before)  # what the buffer keeps is the action as it was sampled


def test_unbounded_actions_are_sent_as_they_are():
    space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
    assert env_actions(space)(np.array([[1e6], [-1e6]], np.float32)).tolist() == [[1e6], [-1e6]]


@pytest.mark.parametrize("shape", [(), (1,), (4,), (2, 3)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_continuous_actions_get_the_shape_and_the_type_of_their_space(shape, dtype):
    space = spaces.Box(-1, 1, shape, dtype)
    flat = np.linspace(-2, 2, 3 * math.prod(shape), dtype=np.float32)
    for given in (flat.reshape(3, -1), flat.reshape(3, *shape)):
        sent = env_actions(space)(given)
        assert sent.shape == (3, *shape) and sent.dtype == dtype
        assert all(space.contains(np.asarray(a)) for a in sent)
        np.testing.assert_array_equal(sent.ravel(), flat.clip(-1, 1))


def test_one_number_per_environment_is_sent_as_a_vector_of_one():
    sent = env_actions(spaces.Box(-1, 1, (1,), np.float32))(np.array([5.0, 0.5], np.float32))
    assert sent.tolist() == [[1.0], [0.5]]


def test_discrete_actions_are_counted_from_the_start_of_their_space():
    act = np.array([0, 2, 1])
    assert env_actions(spaces.Discrete(3))(act).tolist() == [0, 2, 1]
    assert env_actions(spaces.Discrete(3, start=-5))(act).tolist() == [-5, -3, -4]
    assert act.tolist() == [0, 2, 1]


@pytest.mark.parametrize(
    "space",
    [
        spaces.MultiDiscrete([3, 2]),
        spaces.MultiDiscrete([3, 2], start=[4, -1]),
        spaces.MultiDiscrete([[3, 2], [2, 2]], dtype=np.int32),
        spaces.MultiBinary(3),
        spaces.MultiBinary((2, 2)),
    ],
    ids=str,
)
def test_vectors_of_integers_get_the_shape_and_the_type_of_their_space(space):
    ones = np.ones((2, math.prod(space.shape)), np.int64)
    sent = env_actions(space)(ones)
    assert sent.shape == (2, *space.shape) and sent.dtype == space.dtype
    assert all(space.contains(a) for a in sent)
    assert np.array_equal(sent - np.asarray(getattr(space, "start", 0)), np.ones(sent.shape))


# ---- random actions --------------------------------------------------------------------------


def test_random_actions_are_uniform_within_the_bounds_of_each_dimension():
    rng = np.random.default_rng(0)
    rows = [random_actions(spaces.Box(LOW, HIGH), 4, rng) for _ in range(1000)]
    acts = np.concatenate(rows).astype(np.float64)
    shares = (acts - LOW) / (HIGH - LOW)  # of the range
    assert rows[0].dtype == np.float32 and acts.shape == (4000, 2)
    assert shares.min() >= 0 and shares.max() <= 1
    for column in shares.T:
        counts = np.histogram(column, 20, (0, 1))[0]
        assert ((counts - 200) ** 2 / 200).sum() < 19 + 4 * math.sqrt(2 * 19)
    assert abs(np.corrcoef(shares.T)[0, 1]) < 4 / math.sqrt(4000)
    assert abs(np.corrcoef(shares[1:, 0], shares[:-1, 0])[0, 1]) < 4 / math.sqrt(4000)


def test_discrete_random_actions_take_every_value_equally_often():
    rng = np.random.default_rng(0)
    acts = random_actions(spaces.Discrete(3, start=5), 3000, rng)
    counts = np.bincount(acts, minlength=3)  # from zero on, as a buffer keeps them
    assert len(counts) == 3 and ((counts - 1000) ** 2 / 1000).sum() < 15


def test_random_actions_come_from_the_given_generator_alone():
    for space in (spaces.Box(LOW, HIGH), spaces.Discrete(100)):
        space.seed(3)
        one, other = (random_actions(space, 5, np.random.default_rng(1)) for _ in range(2))
        assert np.array_equal(one, other)
        space.seed(4)
        assert np.array_equal(random_actions(space, 5, np.random.default_rng(1)), one)
