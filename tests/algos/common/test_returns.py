"""Discounted sums and GAE against numbers worked out by hand and against their definitions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spinup.algos.common.exploration import linear_schedule
from spinup.algos.common.returns import discount_cumsum, gae

numbers = st.floats(-100, 100)
fractions = st.floats(0, 1)


@st.composite
def paths(draw):
    """Rewards and values of one path."""
    n = draw(st.integers(1, 12))
    rew = draw(hnp.arrays(np.float64, n, elements=numbers))
    val = draw(hnp.arrays(np.float64, n, elements=numbers))
    return rew, val


def test_discount_cumsum_of_three_numbers():
    np.testing.assert_array_equal(discount_cumsum([1.0, 2.0, 4.0], 0.5), [3.0, 4.0, 4.0])


def test_discount_cumsum_of_nothing_is_nothing():
    assert discount_cumsum([], 0.9).shape == (0,)


def test_discount_cumsum_sums_columns_apart():
    x = np.array([[1.0, 10.0], [2.0, 20.0], [4.0, 40.0]])
    np.testing.assert_array_equal(discount_cumsum(x, 0.5), [[3, 30], [4, 40], [4, 40]])


def test_discount_cumsum_leaves_its_input_alone():
    x = np.array([1.0, 2.0])
    discount_cumsum(x, 0.5)
    np.testing.assert_array_equal(x, [1.0, 2.0])


@given(hnp.arrays(np.float64, st.integers(1, 12), elements=numbers), fractions)
def test_discount_cumsum_is_the_double_sum_of_its_definition(x, discount):
    n = len(x)
    want = [sum(discount ** (k - t) * x[k] for k in range(t, n)) for t in range(n)]
    np.testing.assert_allclose(discount_cumsum(x, discount), want, rtol=1e-9, atol=1e-9)


def test_gae_of_three_steps_worked_out_by_hand():
    # gamma 0.5, lam 0.5, V after the last step 8:
    # deltas: 1 + 0.5 * 4 - 2 = 1, 2 + 0.5 * 6 - 4 = 1, 3 + 0.5 * 8 - 6 = 1
    # adv: 1 + 1/4 + 1/16, 1 + 1/4, 1; ret: 1 + 1 + 3/4 + 1, 2 + 3/2 + 2, 3 + 4
    adv, ret = gae([1.0, 2.0, 3.0], [2.0, 4.0, 6.0], 8.0, gamma=0.5, lam=0.5)
    np.testing.assert_array_equal(adv, [1.3125, 1.25, 1.0])
    np.testing.assert_array_equal(ret, [3.75, 5.5, 7.0])


@given(paths(), numbers, fractions, fractions)
def test_gae_is_the_double_sum_of_its_definition(path, last_val, gamma, lam):
    rew, val = path
    n = len(rew)
    after = [*val[1:], last_val]
    delta = [rew[t] + gamma * after[t] - val[t] for t in range(n)]
    adv = [sum((gamma * lam) ** (k - t) * delta[k] for k in range(t, n)) for t in range(n)]
    ret = [
        sum(gamma ** (k - t) * rew[k] for k in range(t, n)) + gamma ** (n - t) * last_val
        for t in range(n)
    ]
    got_adv, got_ret = gae(rew, val, last_val, gamma, lam)
    np.testing.assert_allclose(got_adv, adv, rtol=1e-9, atol=1e-8)
    np.testing.assert_allclose(got_ret, ret, rtol=1e-9, atol=1e-8)


@given(paths(), numbers, fractions)
def test_gae_with_lambda_one_is_the_return_minus_the_value(path, last_val, gamma):
    rew, val = path
    adv, ret = gae(rew, val, last_val, gamma, lam=1.0)
    np.testing.assert_allclose(adv, ret - val, rtol=1e-9, atol=1e-8)


@given(paths(), numbers, fractions)
def test_gae_with_lambda_zero_is_the_one_step_error(path, last_val, gamma):
    rew, val = path
    adv, _ = gae(rew, val, last_val, gamma, lam=0.0)
    np.testing.assert_allclose(adv, rew + gamma * np.append(val[1:], last_val) - val)


@given(paths(), st.floats(0.1, 0.99), fractions)
def test_advantages_are_zero_where_the_value_function_is_right(path, gamma, lam):
    rew, _ = path
    val = discount_cumsum(rew, gamma)
    adv, ret = gae(rew, val, 0.0, gamma, lam)
    np.testing.assert_allclose(adv, 0, atol=1e-9)
    np.testing.assert_allclose(ret, val, atol=1e-9)


def test_gae_on_death_bootstraps_with_nothing_and_not_with_the_last_reward():
    # A path that dies after one step: delta = r - V(s), whatever the reward is.
    adv, ret = gae([5.0], [2.0], 0.0, gamma=0.9, lam=0.9)
    assert adv.tolist() == [3.0] and ret.tolist() == [5.0]
    # And one that is cut: delta = r + gamma * V(s') - V(s).
    adv, ret = gae([5.0], [2.0], 10.0, gamma=0.9, lam=0.9)
    assert adv.tolist() == [12.0] and ret.tolist() == [14.0]


def test_long_paths_keep_double_precision():
    rew = np.full(10_000, 0.1, np.float32)
    adv, ret = gae(rew, np.zeros(10_000), 0.0, gamma=1.0, lam=1.0)
    assert adv.dtype == ret.dtype == np.float64
    assert ret[0] == pytest.approx(10_000 * float(np.float32(0.1)), rel=1e-12)


@given(numbers, numbers, st.floats(-1, 2))
def test_linear_schedule_is_a_line_that_stays_within_its_ends(start, end, fraction):
    value = linear_schedule(start, end, fraction)
    t = min(max(fraction, 0.0), 1.0)
    assert value == pytest.approx((1 - t) * start + t * end, abs=1e-9)
    assert min(start, end) - 1e-9 <= value <= max(start, end) + 1e-9
