"""Interquartile means, bootstraps and permutations by hand; rliable has its own file."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinup.analysis import stats


@pytest.mark.parametrize(
    "values, wanted",
    [
        ([5.0], 5.0),
        ([1.0, 2.0, 9.0], 4.0),  # below four nothing is cut
        ([0.0, 10.0, 20.0, 90.0], 15.0),
        ([7.0, 1.0, 3.0, 5.0, 100.0], 5.0),  # 1 and 100 go
        ([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 1000.0], 4.5),
        ([-1000.0] + [2.0] * 6 + [1000.0], 2.0),
    ],
)
def test_iqm_by_hand(values, wanted):
    assert float(stats.iqm(np.array(values))) == pytest.approx(wanted, abs=1e-12)


def test_iqm_with_weights_by_hand():
    # Two environments of 1 and 3 runs: weights 1/2 and 1/6 each. Of four runs one goes at each end,
    # a quarter of the weight: of the sorted 0 (1/2), 3, 6, 9 (1/6 each) remain 0 with 1/4, 3 with
    # 1/6 and 6 with 1/12.
    values, weights = np.array([0.0, 9.0, 3.0, 6.0]), stats.weights_of([1, 3])
    np.testing.assert_allclose(weights, [1 / 2, 1 / 6, 1 / 6, 1 / 6])
    wanted = (0 / 4 + 3 / 6 + 6 / 12) / (1 / 2)
    assert float(stats.iqm(values, weights)) == pytest.approx(wanted, abs=1e-12)
    assert float(stats.mean(values, weights)) == pytest.approx((0 + 6) / 2, abs=1e-12)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30),
    st.floats(-100, 100),
    st.floats(0.1, 10),
)
def test_iqm_moves_with_its_values_and_stays_between_them(values, shift, scale):
    x = np.array(values)
    middle = float(stats.iqm(x))
    slack = 1e-9 * (1 + np.abs(x).max())
    assert x.min() - slack <= middle <= x.max() + slack
    assert float(stats.iqm(scale * x + shift)) == pytest.approx(
        scale * middle + shift, abs=20 * slack
    )
    # The general formula with equal weights (made unequal by a rounding error) is the plain one.
    weights = np.full(len(x), 1.0 / len(x))
    weights[0] *= 1 + 1e-12
    assert float(stats.iqm(x, weights)) == pytest.approx(middle, abs=1e-6 * (1 + np.abs(x).max()))


def test_the_bootstrap_draws_within_environments_only():
    index = np.concatenate(list(stats.resamples([2, 3], 4000, np.random.default_rng(0))))
    assert index.shape == (4000, 5)
    assert set(index[:, :2].ravel()) == {0, 1} and set(index[:, 2:].ravel()) == {2, 3, 4}
    counts = np.bincount(index[:, 2:].ravel()) / (4000 * 3)
    np.testing.assert_allclose(counts[2:], 1 / 3, atol=0.02)


def test_the_bootstrap_is_the_same_in_one_piece_and_in_many(monkeypatch):
    runs = [np.random.default_rng(i).normal(size=(n, 7)) for i, n in enumerate((3, 5))]
    whole = stats.bootstrap(runs, stats.iqm, 100, np.random.default_rng(1))
    monkeypatch.setattr(stats, "_PIECE", 8 * 7 * 9)
    pieces = stats.bootstrap(runs, stats.iqm, 100, np.random.default_rng(1))
    np.testing.assert_array_equal(whole, pieces)
    assert whole.shape == (100, 7)


def test_permutation_p_by_hand():
    x, y = np.array([3.0, 4.0]), np.array([1.0, 2.0])
    rng = np.random.default_rng(0)
    # Six ways to choose two of four; two of them are as extreme.
    assert stats.permutation_p([x], [y], 1000, rng) == pytest.approx(2 / 6)
    assert stats.smallest_p([2], [2]) == pytest.approx(2 / 6)
    # In two environments both must fall the same way: 2 of 36.
    assert stats.permutation_p([x, x], [y, y], 1000, rng) == pytest.approx(2 / 36)
    assert stats.smallest_p([2, 2], [2, 2]) == pytest.approx(2 / 36)
    # Drawn at random it is the same but for noise and the one that was seen.
    assert stats.permutation_p([x, x], [y, y], 35, rng) == pytest.approx(2 / 36, abs=0.15)
    a, b = np.arange(6.0), np.arange(6.0) + 2.5
    exact = stats.permutation_p([a], [b], 1000, rng)
    drawn = stats.permutation_p([a], [b], 900, rng)
    assert exact == pytest.approx(drawn, abs=4 * math.sqrt(exact * (1 - exact) / 900))
    assert stats.permutation_p([a], [a], 100, rng) == 1.0
    assert 0.0 <= stats.smallest_p([500, 500], [500, 500]) < 1e-300


def test_permutation_p_agrees_with_the_rank_sum_test():
    from scipy.stats import mannwhitneyu

    rng = np.random.default_rng(5)
    x, y = rng.normal(size=7), rng.normal(size=6) + 0.8
    wanted = mannwhitneyu(x, y, method="exact").pvalue
    assert stats.permutation_p([x], [y], 5000, rng) == pytest.approx(wanted, abs=1e-9)
