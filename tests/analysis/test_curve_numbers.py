"""The numbers of a curve: smoothing, grids that differ, estimates over the runs, and bands."""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from spinup.analysis import curves, plot
from spinup.utils.errors import SpinupError
from tests.helpers.curves import curve, drawn, write_run


@pytest.mark.parametrize("window", [1, 2, 3, 4, 5, 9, 10, 100])
def test_smoothing_is_the_mean_over_a_centred_window(window):
    y = np.random.default_rng(0).normal(size=9)
    left, right = window // 2, (window - 1) // 2
    wanted = [np.mean(y[max(0, i - left) : i + right + 1]) for i in range(9)]
    np.testing.assert_allclose(plot.smooth_values(y, window), wanted, rtol=0, atol=1e-12)


def test_smoothing_leaves_out_what_is_not_there():
    nan, inf = float("nan"), float("inf")
    smoothed = curves.smooth_values([1.0, nan, 3.0, nan, nan, nan, 8.0, inf], 3)
    np.testing.assert_allclose(smoothed, [1, 2, 3, 3, nan, 8, 8, 8])


def test_a_window_longer_than_the_run_works(tmp_path):
    write_run(tmp_path / "r", curve([1.0, 2.0, 6.0]))
    x, y = drawn(plot.plot_data(plot.get_datasets(tmp_path), "Epoch", "Performance", smooth=50))[
        "ppo"
    ]
    np.testing.assert_array_equal(x, [0, 1, 2])
    np.testing.assert_allclose(y, [3.0, 3.0, 3.0])


def test_smoothing_does_not_change_the_data(tmp_path):
    write_run(tmp_path / "r_s0", curve([1.0, 5.0, 2.0]))
    write_run(tmp_path / "r_s1", curve([2.0, 4.0, 9.0]))
    data = plot.get_datasets(tmp_path)
    before = [d.copy(deep=True) for d in data]
    once = drawn(plot.plot_data(data, "Epoch", "AverageEpRet", smooth=3))
    plt.close("all")
    twice = drawn(plot.plot_data(data, "Epoch", "AverageEpRet", smooth=3))
    for d, b in zip(data, before, strict=True):
        pd.testing.assert_frame_equal(d, b)
    np.testing.assert_array_equal(once["ppo"][1], twice["ppo"][1])


def test_different_x_grids_meet_on_a_common_one(tmp_path):
    write_run(tmp_path / "r_s0", curve([0.0, 10.0, 20.0], step=100))  # x 100, 200, 300: y = x/10-10
    write_run(tmp_path / "r_s1", curve([5.0, 35.0], step=150))  # x 150, 300: y = x/5 - 25
    runs = curves.read_runs([tmp_path], ["TotalEnvInteracts", "Performance"])
    grid, matrix = curves.align(
        [(r.columns["TotalEnvInteracts"], r.columns["Performance"]) for r in runs]
    )
    np.testing.assert_array_equal(grid, [100, 150, 200, 300])
    # Nothing is made up before the second run's first row.
    np.testing.assert_allclose(matrix, [[0, 5, 10, 20], [np.nan, 5, 15, 35]])
    x, y = drawn(plot.plot_data(plot.get_datasets(tmp_path), "TotalEnvInteracts", "Performance"))[
        "ppo"
    ]
    np.testing.assert_allclose(x, [100, 150, 200, 300])
    np.testing.assert_allclose(y, [0, 5, 12.5, 27.5])


@pytest.mark.parametrize("seed", range(5))
def test_alignment_interpolates_inside_a_runs_own_range_and_nowhere_else(seed):
    rng = np.random.default_rng(seed)
    runs = []
    for _ in range(4):
        x = np.unique(rng.integers(0, 1000, size=rng.integers(1, 30))).astype(float)
        runs.append((x, rng.normal(size=len(x))))
    grid, matrix = curves.align(runs)
    np.testing.assert_array_equal(grid, sorted({v for x, _ in runs for v in x}))
    for (x, y), row in zip(runs, matrix, strict=True):
        inside = (grid >= x[0]) & (grid <= x[-1])
        np.testing.assert_array_equal(np.isfinite(row), inside)
        np.testing.assert_allclose(row[np.isin(grid, x)], y)  # its own points as they are
        for g, v in zip(grid[inside], row[inside], strict=True):
            k = min(np.searchsorted(x, g, side="right"), len(x) - 1)
            if len(x) > 1:
                slope = (y[k] - y[k - 1]) / (x[k] - x[k - 1])
                assert v == pytest.approx(y[k - 1] + slope * (g - x[k - 1]))


def test_many_different_x_end_up_on_an_even_grid_over_the_same_range():
    rng = np.random.default_rng(0)
    runs = []
    for _ in range(5):
        x = np.sort(rng.uniform(0, 1e6, size=1000))
        runs.append((x, 2 * x))
    grid, matrix = curves.align(runs)
    assert len(grid) == curves.MAX_GRID
    every = np.concatenate([x for x, _ in runs])
    assert grid[0] == every.min() and grid[-1] == every.max()
    np.testing.assert_allclose(np.nanmean(matrix, axis=0), 2 * grid, rtol=1e-9)


def test_several_rows_at_one_x_become_their_mean_and_x_is_sorted():
    x, y = curves.clean_curve([3.0, 1.0, 3.0, 2.0], [10.0, 0.0, 20.0, 5.0])
    np.testing.assert_array_equal(x, [1, 2, 3])
    np.testing.assert_array_equal(y, [0, 5, 15])


def test_epochs_without_an_episode_are_bridged_not_drawn_as_zero(tmp_path):
    write_run(tmp_path / "r", curve([float("nan"), 2.0, float("nan"), 4.0]))
    x, y = drawn(plot.plot_data(plot.get_datasets(tmp_path), "Epoch", "Performance"))["ppo"]
    assert x.tolist() == [1, 3] and y.tolist() == [2.0, 4.0]


def test_one_table_of_several_runs_is_smoothed_run_by_run(tmp_path):
    write_run(tmp_path / "r_s0", curve([0.0, 0.0]))
    write_run(tmp_path / "r_s1", curve([100.0, 100.0]))
    table = pd.concat(plot.get_datasets(tmp_path), ignore_index=True)
    ax = plot.plot_data(table, "Epoch", "Performance", smooth=3, band="minmax")
    assert drawn(ax)["ppo"][1].tolist() == [50.0, 50.0]
    heights = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert set(heights) == {0.0, 100.0}


def test_a_condition_of_the_callers_own_takes_no_two_runs_for_one(tmp_path):
    # Both are unit 0 of their experiment.
    write_run(tmp_path / "a_s0", curve([0.0, 0.0]), exp_name="a")
    write_run(tmp_path / "b_s0", curve([100.0, 100.0]), exp_name="b")
    table = pd.concat(plot.get_datasets(tmp_path), ignore_index=True)
    table["Algo"] = "both"
    ax = plot.plot_data(table, "Epoch", "Performance", "Algo", band="minmax")
    assert drawn(ax)["both"][1].tolist() == [50.0, 50.0]
    assert set(ax.collections[0].get_paths()[0].vertices[:, 1]) == {0.0, 100.0}


def test_the_window_may_be_an_integer_of_numpy(tmp_path):
    write_run(tmp_path / "r_s0", curve([0.0, 30.0, 0.0]))
    ax = plot.plot_data(plot.get_datasets(tmp_path), smooth=np.int64(3))
    assert drawn(ax)["ppo"][1].tolist() == [15.0, 10.0, 15.0]
    with pytest.raises(SpinupError, match=r"positive integer, not 1\.5"):
        plot.plot_data(plot.get_datasets(tmp_path), smooth=1.5)


def test_seeds_of_one_row_are_a_point_with_a_bar(tmp_path):
    for seed, value in enumerate((1.0, 5.0)):
        write_run(tmp_path / f"r_s{seed}", curve([value]))
    ax = plot.plot_data(plot.get_datasets(tmp_path), value="Performance", band="minmax")
    assert [v.tolist() for v in drawn(ax)["ppo"]] == [[1000.0], [3.0]]
    (bar,) = ax.collections
    assert (
        bar.get_segments()[0].tolist() == [[1000.0, 1.0], [1000.0, 5.0]]
        and bar.get_gid() == "band-0"
    )
    assert bar.get_linewidth()[0] > ax.lines[0].get_linewidth()


# By hand: of 8 values the 2 lowest and 2 highest go, of 7 one each, of 3 none.
@pytest.mark.parametrize(
    "values, wanted",
    [
        ([1, 2, 3, 4, 5, 6, 7, 1000], (3 + 4 + 5 + 6) / 4),
        ([-100, 2, 3, 4, 5, 6, 7], (2 + 3 + 4 + 5 + 6) / 5),
        ([9, 1, 2], 4.0),
        ([0, 10, 20, 90], 15.0),
        ([5], 5.0),
    ],
)
def test_iqm_by_hand(values, wanted):
    line, _, _ = plot.estimate(np.array(values, float)[:, None], "iqm", "none")
    assert line[0] == pytest.approx(wanted, abs=1e-12)


def test_where_a_run_has_ended_the_line_is_that_of_the_others():
    matrix = np.array([[1.0, 2.0, np.nan], [3.0, 6.0, 8.0]])
    for band, low, high in (
        ("sd", [2 - 2**0.5, 4 - 8**0.5, 8], [2 + 2**0.5, 4 + 8**0.5, 8]),
        ("minmax", [1, 2, 8], [3, 6, 8]),
        ("none", [2, 4, 8], [2, 4, 8]),
    ):
        line, lower, upper = plot.estimate(matrix, "mean", band)
        np.testing.assert_allclose(line, [2, 4, 8])
        np.testing.assert_allclose(lower, low)
        np.testing.assert_allclose(upper, high)


@pytest.mark.parametrize("estimator", ["mean", "median", "iqm"])
def test_the_bootstrap_band_is_an_interval_of_the_estimate_and_always_the_same(estimator):
    # 40 normal runs: the interval of the mean is about 2 * 1.96 / sqrt(40) wide.
    matrix = np.random.default_rng(3).normal(size=(40, 60))
    line, low, high = plot.estimate(matrix, estimator, "ci")
    again = plot.estimate(matrix, estimator, "ci")
    for first, second in zip((line, low, high), again, strict=True):
        np.testing.assert_array_equal(first, second)
    assert (low < line).all() and (line < high).all()
    wider = {"mean": 1.0, "iqm": 1.09, "median": 1.25}[estimator]  # asymptotic standard errors
    assert np.mean(high - low) == pytest.approx(wider * 2 * 1.96 / 40**0.5, rel=0.1)
    # It covers the truth, 0, at about 95 of 100 points.
    assert 0.8 <= np.mean((low <= 0) & (high >= 0)) <= 1.0
