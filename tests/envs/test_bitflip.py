"""The bit-flipping environment: what it pays, when it ends, what its goal methods answer."""

import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from spinup.envs import adapt_env, make_env
from spinup.envs.bitflip import BitFlip
from spinup.utils.errors import SpinupError

ID = "spinup/BitFlip-v0"


def differing(obs):
    return np.flatnonzero(obs["achieved_goal"] != obs["desired_goal"])


@pytest.mark.parametrize("n", [1, 2, 15])
def test_it_keeps_to_the_interface(n):
    check_env(BitFlip(n), skip_render_check=True)


def test_it_is_registered_with_fifteen_bits_and_takes_another_number():
    assert make_env(ID).action_space.n == 15
    assert make_env(ID, {"n": 4}).action_space.n == 4
    assert adapt_env(make_env(ID, {"n": 4})).observation_space.shape == (12,)


@pytest.mark.parametrize("n", [0, -1, 2.0, True, "3"])
def test_a_wrong_number_of_bits_is_refused(n):
    with pytest.raises(SpinupError, match="whole number of bits"):
        BitFlip(n)


def test_an_action_flips_its_bit_and_no_other_and_leaves_the_goal():
    env = BitFlip(6)
    o, _ = env.reset(seed=3)
    for action in (4, 0, 4):
        o2, *_ = env.step(action)
        changed = np.flatnonzero(o2["observation"] != o["observation"])
        assert changed.tolist() == [action]
        np.testing.assert_array_equal(o2["achieved_goal"], o2["observation"])
        np.testing.assert_array_equal(o2["desired_goal"], o["desired_goal"])
        o = o2


def test_flipping_what_differs_pays_minus_one_a_step_and_zero_at_the_goal():
    env = BitFlip(8)
    for seed in range(10):
        o, _ = env.reset(seed=seed)
        steps = [env.step(action) for action in differing(o)]
        assert [r for _, r, *_ in steps] == [-1.0] * (len(steps) - 1) + [0.0]
        assert [terminated for _, _, terminated, *_ in steps] == [False] * (len(steps) - 1) + [True]
        assert not any(truncated for *_, truncated, _ in steps)
        assert [info["is_success"] for *_, info in steps][-2:] in ([False, True], [True])


def test_an_episode_that_misses_its_goal_is_cut_after_n_steps_and_not_terminated():
    env = BitFlip(5)
    o, _ = env.reset(seed=0)
    right = differing(o)[0]  # flipped back and forth, in a state where it is not the only one
    assert len(differing(o)) > 1
    steps = [env.step(right) for _ in range(5)]
    assert [r for _, r, *_ in steps] == [-1.0] * 5
    assert not any(terminated for _, _, terminated, *_ in steps)
    assert [truncated for *_, truncated, _ in steps] == [False] * 4 + [True]
    with pytest.raises(RuntimeError, match="reset"):
        env.step(0)


def test_reaching_the_goal_in_the_last_step_is_a_termination_and_no_truncation():
    env = BitFlip(2)
    seed = next(s for s in range(50) if len(differing(env.reset(seed=s)[0])) == 2)
    env.reset(seed=seed)
    env.step(0)
    _, r, terminated, truncated, _ = env.step(1)
    assert (r, terminated, truncated) == (0.0, True, False)


def test_states_and_goals_are_uniform_and_never_the_same():
    env = BitFlip(3)
    counts = np.zeros((8, 8))
    env.reset(seed=0)
    for _ in range(5600):
        o, _ = env.reset()
        state, goal = (int(o[key] @ [1, 2, 4]) for key in ("observation", "desired_goal"))
        counts[state, goal] += 1
    assert np.trace(counts) == 0
    off = counts[~np.eye(8, dtype=bool)]
    assert (np.abs(off - 100) < 5 * np.sqrt(100)).all()  # 56 pairs, five standard deviations


def test_an_observation_stays_as_it_was_when_the_episode_goes_on():
    env = BitFlip(4)
    o, _ = env.reset(seed=1)
    kept = {key: x.copy() for key, x in o.items()}
    o2, *_ = env.step(2)
    o2["observation"][:] = 7  # nor does whoever has it change the environment
    o2["desired_goal"][:] = 7
    o3, *_ = env.step(2)
    for key, x in kept.items():
        np.testing.assert_array_equal(o[key], x)
        np.testing.assert_array_equal(o3[key], x)


@pytest.mark.parametrize("action", [-1, 4, 1.0, None])
def test_an_action_that_is_no_bit_is_refused(action):
    env = BitFlip(4)
    env.reset(seed=0)
    with pytest.raises(ValueError, match="not one of the 4 bits"):
        env.step(action)


def test_reward_and_termination_of_other_goals_one_by_one_and_in_batches():
    env = BitFlip(3)
    achieved = np.array([[0, 1, 0], [1, 1, 1], [0, 0, 0]])
    desired = np.array([[0, 1, 0], [1, 1, 0], [1, 1, 1]])
    np.testing.assert_array_equal(env.compute_reward(achieved, desired, {}), [0, -1, -1])
    ended = env.compute_terminated(achieved, desired, {})
    np.testing.assert_array_equal(ended, [True, False, False])
    for a, d, r in zip(achieved, desired, [0.0, -1.0, -1.0], strict=True):
        assert env.compute_reward(a, d, {}) == r
        assert env.compute_terminated(a, d, {}) == (r == 0)
