"""The plotter: what it draws is what the files say."""

import importlib.util
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from spinup.analysis import curves, figures, plot
from spinup.cli.compare import main as compare_command
from spinup.cli.plot import main as plot_command
from spinup.utils.errors import SpinupError


def svg_reader():
    spec = importlib.util.spec_from_file_location(
        "svg_reader", Path(__file__).with_name("svg_reader.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def svg_figure(path, axes=1):
    return svg_reader().SvgFigure(path, axes)


@pytest.fixture(autouse=True)
def _no_figure_is_left_over():
    yield
    plt.close("all")


def write_run(folder, columns, exp_name="ppo", tail="", **config):
    """A run directory whose progress.txt holds `columns` (name -> values), then `tail` as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(columns)
    rows = ["\t".join(names)]
    rows += ["\t".join(str(v) for v in row) for row in zip(*columns.values(), strict=True)]
    (folder / "progress.txt").write_text("\n".join(rows) + "\n" + tail)
    if exp_name is not None:
        (folder / "config.json").write_text(json.dumps({"exp_name": exp_name, **config}))
    return folder


def curve(returns, step=1000, key="AverageEpRet"):
    n = len(returns)
    return {
        "Epoch": list(range(n)),
        key: list(returns),
        "TotalEnvInteracts": [step * (i + 1) for i in range(n)],
    }


def drawn(ax):
    """Condition -> (x, y) of the lines drawn (not of the legend's handles)."""
    lines = [line for line in ax.lines if len(line.get_xdata())]
    _, labels = ax.get_legend_handles_labels()
    condition = svg_reader().condition
    return {
        condition(label): (np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float))
        for label, line in zip(labels, lines, strict=True)
    }


# ------------------------------------------------------------------------------------- reading


def test_datasets_hold_the_numbers_of_the_files(tmp_path):
    write_run(tmp_path / "a" / "a_s0", curve([1.5, 2.25, -3.0]), "a")
    write_run(tmp_path / "a" / "a_s1", curve([4.0, 5.0, 6.0]), "a")
    write_run(tmp_path / "b" / "b_s0", curve([7.0, 8.0, 9.0]), "b")
    data = plot.get_datasets(tmp_path)
    assert [d["AverageEpRet"].tolist() for d in data] == [[1.5, 2.25, -3], [4, 5, 6], [7, 8, 9]]
    assert [d["TotalEnvInteracts"].tolist() for d in data] == [[1000, 2000, 3000]] * 3
    assert [d["Condition1"][0] for d in data] == ["a", "a", "b"]
    assert [int(d["Unit"][0]) for d in data] == [0, 1, 0]
    assert len({d["Condition2"][0] for d in data}) == 3


def test_performance_is_the_test_return_where_there_is_one(tmp_path):
    both = curve([1.0, 2.0])
    both["AverageTestEpRet"] = [10.0, 20.0]
    write_run(tmp_path / "off", both, "sac")
    write_run(tmp_path / "on", curve([3.0, 4.0]), "ppo")
    write_run(tmp_path / "other", {"Epoch": [0, 1], "Loss": [1.0, 2.0]}, "mine")
    off, on, other = plot.get_datasets(tmp_path)
    assert off["Performance"].tolist() == [10.0, 20.0]
    assert on["Performance"].tolist() == [3.0, 4.0]
    assert "Performance" not in other.columns


def test_columns_of_the_diagnostics_belong_to_the_rows_of_the_same_epochs(tmp_path, capsys):
    folder = write_run(tmp_path / "a_s0", curve([1.0, 2.0, 3.0]), "a")
    table = "Epoch\tAverageEpRet\tQBias\n0\t9\t0.5\n2\t9\t-1.5\n"
    (folder / "diagnostics.txt").write_text(table + "3\t9")
    wanted = {"TotalEnvInteracts", "AverageEpRet", "QBias", "Missing"}
    run = curves.read_run(folder, wanted)
    assert run.columns["AverageEpRet"].tolist() == [1, 2, 3]  # not that of the other table
    assert np.array_equal(run.columns["QBias"], [0.5, np.nan, -1.5], equal_nan=True)
    assert "Missing" not in run.columns
    assert run.problems == ["diagnostics.txt ends in a half-written line, which is ignored"]
    assert curves.read_run(folder, {"AverageEpRet"}).problems == []  # it is not needed here
    (drawn_to,) = plot.make_plots([str(tmp_path)], values="QBias", save=tmp_path / "q.svg")
    assert drawn_to.stat().st_size > 1000
    assert "diagnostics.txt ends" in capsys.readouterr().err
    with pytest.raises(SpinupError, match="no run has a column QBia; did you mean QBias"):
        plot.make_plots([str(tmp_path)], values="QBia")


def test_folders_that_begin_with_a_dot_are_ignored(tmp_path):
    write_run(tmp_path / "x_s0", curve([1.0]))
    write_run(tmp_path / "x_s0" / ".old" / "001", curve([99.0]))
    write_run(tmp_path / ".hidden", curve([98.0]))
    assert [d["AverageEpRet"].tolist() for d in plot.get_datasets(tmp_path)] == [[1.0]]


def test_runs_are_found_in_runs_but_not_in_their_checkpoints(tmp_path):
    write_run(tmp_path / "outer", curve([1.0]))
    write_run(tmp_path / "outer" / "inner", curve([2.0]))
    write_run(tmp_path / "outer" / "checkpoints" / "step-1", curve([99.0]))
    write_run(tmp_path / "checkpoints" / "named-like-that", curve([3.0]))
    found = [d["AverageEpRet"].tolist() for d in plot.get_datasets(tmp_path)]
    assert found == [[3.0], [1.0], [2.0]]


def test_units_are_counted_over_all_logdirs(tmp_path):
    for seed in (0, 1):
        write_run(tmp_path / f"d{seed}" / "r", curve([1.0, 2.0]), "same")
    data = plot.get_all_datasets([f"{tmp_path}/d0/", f"{tmp_path}/d1/"])
    assert [int(d["Unit"][0]) for d in data] == [0, 1]


def test_legend_select_and_exclude(tmp_path):
    for name in ("ppo-a", "ppo-b", "vpg-a"):
        write_run(tmp_path / name, curve([1.0]), name)

    def names(data):
        return [d["Condition1"][0] for d in data]

    here = f"{tmp_path}/"
    every = [f"{here}ppo", f"{here}vpg"]
    assert names(plot.get_all_datasets(every)) == ["ppo-a", "ppo-b", "vpg-a"]
    assert names(plot.get_all_datasets(every, select=["ppo-"])) == ["ppo-a", "ppo-b"]
    assert names(plot.get_all_datasets(every, exclude=["-a"])) == ["ppo-b"]
    assert names(plot.get_all_datasets(every, legend=["1", "2", "3"])) == ["1", "2", "3"]
    with pytest.raises(SpinupError, match="2 names for 3 folders"):
        plot.get_all_datasets(every, legend=["1", "2"])
    with pytest.raises(SpinupError, match="relax them"):
        plot.get_all_datasets(every, select=["nothing-like-it"])


@pytest.mark.parametrize("with_folder", [True, False])
def test_prefixes_are_completed_also_without_a_slash(tmp_path, monkeypatch, with_folder):
    for name in ("exp_s0", "exp_s1", "other_exp"):
        write_run(tmp_path / name, curve([1.0]))
    (tmp_path / "exp.txt").write_text("a file, not a folder")
    monkeypatch.chdir(tmp_path)
    prefix = f"{tmp_path}/exp" if with_folder else "exp"
    assert len(plot.get_all_datasets([prefix])) == 2
    assert len(plot.get_all_datasets([f"{prefix}_s1/"])) == 1
    with pytest.raises(SpinupError, match="no folder begins with"):
        plot.get_all_datasets([f"{prefix}_s7"])


def test_dot_and_dotdot_are_folders_not_prefixes(tmp_path, monkeypatch):
    write_run(tmp_path / "run", curve([1.0]))
    monkeypatch.chdir(tmp_path)
    assert len(plot.get_all_datasets(["."])) == 1
    monkeypatch.chdir(tmp_path / "run")
    assert len(plot.get_all_datasets([".."])) == 1


def test_half_written_and_empty_files_are_read_as_far_as_they_go(tmp_path, capsys):
    write_run(tmp_path / "a-going", curve([1.0, 2.0]), tail="2\t3.1")
    write_run(tmp_path / "b-torn", curve([4.0, 5.0]), tail="2\t6.0\t30")  # 30 of 3000
    write_run(tmp_path / "c-header-only", {"Epoch": [], "AverageEpRet": []})
    (tmp_path / "d-empty").mkdir()
    (tmp_path / "d-empty" / "progress.txt").write_text("")
    write_run(tmp_path / "e-half-header", {})
    (tmp_path / "e-half-header" / "progress.txt").write_text("Epoch\tAver")
    data = plot.get_datasets(tmp_path)
    assert [d["AverageEpRet"].tolist() for d in data] == [[1.0, 2.0], [4.0, 5.0]]
    noted = capsys.readouterr().err
    for name in ("a-going", "b-torn", "c-header-only", "d-empty", "e-half-header"):
        assert name in noted


def test_damaged_lines_in_the_middle_are_named_and_skipped(tmp_path, capsys):
    run = write_run(tmp_path / "r", curve([1.0, 2.0]))
    text = (run / "progress.txt").read_text().splitlines()
    text.insert(2, "\x00\x00\x00")
    text.append(text[0])  # a second header, as some resumed runs of old have it
    (run / "progress.txt").write_text("\n".join(text) + "\n")
    (data,) = plot.get_datasets(tmp_path)
    assert data["AverageEpRet"].tolist() == [1.0, 2.0]
    assert "damaged lines (3, 5)" in capsys.readouterr().err


@pytest.mark.parametrize("config", [None, "{not json", "[1, 2]", '{"exp_name": null}'])
def test_a_run_without_a_usable_config_is_named_after_its_folder(tmp_path, capsys, config):
    run = write_run(tmp_path / "hopper_s3", curve([1.0]), exp_name=None)
    if config is not None:
        (run / "config.json").write_text(config)
    (data,) = plot.get_datasets(tmp_path)
    assert data["Condition1"][0] == "hopper"
    if config in (None, "{not json"):
        assert "hopper_s3" in capsys.readouterr().err


def test_nothing_to_read_is_one_clear_sentence(tmp_path):
    (tmp_path / "nothing").mkdir()
    with pytest.raises(SpinupError, match="complete row"):
        plot.get_all_datasets([f"{tmp_path}/"])


# ------------------------------------------------------------------------------------- numbers


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


# ------------------------------------------------------------------------------------- drawing


@pytest.mark.parametrize("estimator", plot.ESTIMATORS)
def test_the_line_is_the_estimate_over_the_runs_of_the_files(tmp_path, estimator):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(4, 6))
    for seed in range(4):
        write_run(tmp_path / f"r_s{seed}", curve(values[seed]))
    ax = plot.plot_data(
        plot.get_datasets(tmp_path), "TotalEnvInteracts", "Performance", estimator=estimator
    )
    x, y = drawn(ax)["ppo"]
    np.testing.assert_array_equal(x, 1000 * np.arange(1, 7))
    middle = np.sort(values, axis=0)[1:3].mean(axis=0)  # iqm of four
    wanted = middle if estimator == "iqm" else getattr(np, estimator)(values, axis=0)
    np.testing.assert_allclose(y, wanted)


def test_the_band_is_one_standard_deviation_over_the_runs(tmp_path):
    values = np.array([[1.0, 2.0, 3.0], [3.0, 6.0, 3.0]])
    for seed in range(2):
        write_run(tmp_path / f"r_s{seed}", curve(values[seed]))
    ax = plot.plot_data(plot.get_datasets(tmp_path), "Epoch", "Performance")
    band = ax.collections[0].get_paths()[0].vertices
    mean, sd = values.mean(axis=0), values.std(axis=0, ddof=1)
    for i in range(3):
        at = band[np.isclose(band[:, 0], i), 1]
        assert at.min() == pytest.approx(mean[i] - sd[i])
        assert at.max() == pytest.approx(mean[i] + sd[i])


@pytest.mark.parametrize("again", ["{}/ppo/", "{}/", "{}/ppo/ppo_s1/"])
def test_a_run_that_is_named_twice_counts_once(tmp_path, again):
    for seed, value in enumerate((1.0, 2.0, 6.0)):
        write_run(tmp_path / "ppo" / f"ppo_s{seed}", curve([value, value]))
    given = [f"{tmp_path}/ppo", again.format(tmp_path)]
    tables = plot.get_all_datasets(given)
    assert [t["Unit"].iloc[0] for t in tables] == [0, 1, 2]
    plot.make_plots(given, save=tmp_path / "o.svg")
    figure = svg_figure(tmp_path / "o.svg")
    np.testing.assert_allclose(figure.curve(0)[1], 3.0, atol=0.01)
    np.testing.assert_allclose(figure.band(0)[2], 3.0 + np.std([1, 2, 6], ddof=1), atol=0.01)
    plot.make_plots(given, count=True, save=tmp_path / "c.svg")
    assert len(svg_figure(tmp_path / "c.svg").legend()) == 3
    # With two names it is meant: one line of all, another of some.
    named = plot.get_all_datasets(given, legend=["all", "some"])
    assert [t["Condition1"].iloc[0] for t in named].count("all") == 3 and len(named) > 3


def test_one_folder_may_be_a_string(tmp_path):
    write_run(tmp_path / "r_s0", curve([1.0]))
    assert plot.make_plots(str(tmp_path), save=tmp_path / "o.png") == [tmp_path / "o.png"]


def test_booleans_are_drawn_as_numbers(tmp_path):
    write_run(tmp_path / "r_s0", {**curve([1.0, 2.0, 3.0]), "Success": [False, True, True]})
    plot.make_plots([f"{tmp_path}/r"], values="Success", save=tmp_path / "o.svg")
    np.testing.assert_allclose(svg_figure(tmp_path / "o.svg").curve(0)[1], [0, 1, 1], atol=0.01)


@pytest.mark.parametrize("values", [[1e6, 1e6 + 0.5, 1e6 + 1], [1e99, 2e99], [12e3, 15e3]])
def test_ticks_differ_whatever_the_numbers_are(tmp_path, values):
    write_run(tmp_path / "r_s0", curve(values))
    plot.make_plots([f"{tmp_path}/r"], save=tmp_path / "o.svg")
    texts = svg_figure(tmp_path / "o.svg").texts()
    assert len(texts) == len(set(texts)) and not any("e+" in text for text in texts)


def test_count_draws_every_run_by_itself(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"r_s{seed}", curve([seed, seed]))
    ax = plot.plot_data(plot.get_datasets(tmp_path), "Epoch", "Performance", "Condition2")
    assert sorted(y[0] for _, y in drawn(ax).values()) == [0, 1, 2]


def test_runs_without_the_column_are_named_and_left_out(tmp_path, capsys):
    write_run(tmp_path / "a", curve([1.0]), "has-it")
    write_run(tmp_path / "b", {"Epoch": [0], "Loss": [2.0]}, "has-not")
    ax = plot.plot_data(plot.get_datasets(tmp_path), "Epoch", "Performance")
    assert set(drawn(ax)) == {"has-it"}
    assert "has-not" in capsys.readouterr().err
    plot.make_plots([f"{tmp_path}/"], xaxis="Epoch", save=tmp_path / "o.png")
    assert f"{tmp_path / 'b'}: there is no column Performance" in capsys.readouterr().err


def test_an_unknown_column_names_the_nearest(tmp_path):
    write_run(tmp_path / "a", curve([1.0]))
    with pytest.raises(SpinupError, match="did you mean AverageEpRet"):
        plot.make_plots([f"{tmp_path}/"], values="AverageEpRat", save=tmp_path / "o.png")


def test_style_of_the_callers_figures_is_left_alone(tmp_path):
    write_run(tmp_path / "a", curve([1.0, 2.0]))
    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever other tests left behind
        matplotlib.rcParams["lines.linewidth"] = 7.5
        before = dict(matplotlib.rcParams)
        plot.make_plots([f"{tmp_path}/"], save=tmp_path / "o.png")
        assert dict(matplotlib.rcParams) == before
    assert plt.get_fignums() == []


@pytest.mark.parametrize(
    "backend, display, wanted",
    [
        ("TkAgg", False, ["Agg"]),
        ("qtagg", False, ["Agg"]),
        ("TkAgg", True, []),
        ("module://matplotlib_inline.backend_inline", False, []),
        ("agg", False, []),
    ],
)
def test_only_windows_without_a_display_become_agg(monkeypatch, backend, display, wanted):
    chosen = []
    monkeypatch.setattr(figures, "has_display", lambda: display)
    monkeypatch.setattr(matplotlib, "get_backend", lambda: backend)
    monkeypatch.setattr(matplotlib, "use", chosen.append)
    figures._use_a_backend_that_works()
    assert chosen == wanted


# ------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("estimator", ["mean", "median", "iqm"])
@pytest.mark.parametrize("band", ["sd", "ci", "minmax"])
def test_the_file_shows_the_numbers_of_the_runs(tmp_path, estimator, band):
    """From progress.txt to the SVG and back, through the ticks and labels that are in the file."""
    rng = np.random.default_rng(7)
    steps = 4000 * np.arange(1, 41)
    values = {
        name: top * (1 - np.exp(-steps / 5e4)) + 0.1 * top * rng.normal(size=(6, 40))
        for name, top in (("ppo", 300.0), ("td3", -900.0))
    }
    for name, runs in values.items():
        for seed, returns in enumerate(runs):
            write_run(tmp_path / name / f"{name}_s{seed}", curve(returns, step=4000), name)
    out = tmp_path / "o.svg"
    args = [f"{tmp_path}/ppo/", f"{tmp_path}/td3/", "--est", estimator, "--band", band]
    assert plot_command([*args, "--save", str(out)]) == 0

    figure = svg_figure(out)
    order = figure.legend()
    assert order == {"ppo": 0, "td3": 1}
    assert {"Environment steps", "Average return"} <= set(figure.texts())
    for name, runs in values.items():
        middle = np.sort(runs, axis=0)[1:5]  # of six, one goes at either end
        line = {
            "mean": runs.mean(axis=0),
            "median": np.median(runs, axis=0),
            "iqm": middle.mean(axis=0),
        }[estimator]
        # SVG has six decimals of a point and the axes are about 400 points wide.
        accuracy = 1e-4 * np.ptp(np.concatenate(list(values.values())))
        x, y = figure.curve(order[name])
        np.testing.assert_allclose(x, steps, atol=1.0)
        np.testing.assert_allclose(y, line, atol=accuracy)
        x, low, high = figure.band(order[name])
        np.testing.assert_allclose(x, steps, atol=1.0)
        if band == "sd":
            sd = runs.std(axis=0, ddof=1)
            edges = line - sd, line + sd
        elif band == "minmax":
            edges = runs.min(axis=0), runs.max(axis=0)
        else:
            _, *edges = plot.estimate(runs, estimator, "ci")
        np.testing.assert_allclose(low, edges[0], atol=accuracy)
        np.testing.assert_allclose(high, edges[1], atol=accuracy)


def test_the_file_shows_runs_of_different_lengths_and_grids(tmp_path):
    write_run(tmp_path / "r_s0", curve([0.0, 10.0, 20.0], step=100))
    write_run(tmp_path / "r_s1", curve([5.0, 35.0], step=150))
    write_run(tmp_path / "r_s2", curve([1.0, 3.0, 5.0, 7.0, 9.0, 11.0], step=100))
    out = tmp_path / "o.svg"
    plot.make_plots([f"{tmp_path}/"], band="minmax", save=out)
    x, y = svg_figure(out).curve(0)
    np.testing.assert_allclose(x, [100, 150, 200, 300, 400, 500, 600], atol=0.01)
    wanted = [0.5, 4.0, 28 / 3, 20.0, 7.0, 9.0, 11.0]
    np.testing.assert_allclose(y, wanted, atol=0.01)
    x, low, high = svg_figure(out).band(0)
    np.testing.assert_allclose(low, [0, 2, 3, 5, 7, 9, 11], atol=0.01)
    np.testing.assert_allclose(high, [1, 5, 15, 35, 7, 9, 11], atol=0.01)


def write_grid(folder, seeds=(0, 1)):
    """Two learning rates in two environments; the returns are 10 * panel + line + seed / 10."""
    for i, env in enumerate(("CartPole-v1", "Acrobot-v1")):
        for j, lr in enumerate((0.001, 0.01)):
            name = f"grid_env{i}_pi{j}"
            for seed in seeds:
                columns = curve([10 * i + j + seed / 10] * 3)
                config = {"algo": "ppo", "env": {"id": env}, "pi_lr": lr, "seed": seed}
                write_run(folder / name / f"{name}_s{seed}", columns, name, **config)
    return [f"{folder}/"]


def test_every_environment_has_a_titled_panel_and_lines_are_what_varies(tmp_path):
    given, out = write_grid(tmp_path / "data"), tmp_path / "o.svg"
    plot.make_plots(given, save=out)
    for i, env in enumerate(("CartPole-v1", "Acrobot-v1")):
        panel = svg_figure(out, i + 1)
        assert env in panel.texts()
        order = panel.legend()
        assert list(order) == ["pi_lr=0.001", "pi_lr=0.01"]
        for j, name in enumerate(order):
            np.testing.assert_allclose(panel.curve(order[name])[1], 10 * i + j + 0.05, atol=0.01)
    text = out.read_text()
    assert text.count("pi_lr=0.01 (2 seeds)") == 1 and "grid" not in text  # one legend for both


def test_a_single_environment_is_the_title_of_its_figure(tmp_path):
    write_run(tmp_path / "r_s0", curve([1.0, 2.0]), env={"id": "Hopper-v5"}, algo="td3", seed=0)
    plot.make_plots([f"{tmp_path}/r"], save=tmp_path / "o.svg")
    assert {"Hopper-v5", "td3 (1 seed)"} <= set(svg_figure(tmp_path / "o.svg").texts())


def test_a_legend_is_shown_as_it_is_in_every_panel(tmp_path):
    write_grid(tmp_path)
    given = [f"{tmp_path}/grid_env{i}_pi{j}/" for j in range(2) for i in range(2)]
    out = tmp_path / "o.svg"
    plot.make_plots(given, legend=["slow", "slow", "fast", "fast"], save=out)
    assert (
        list(svg_figure(out, 1).legend()) == list(svg_figure(out, 2).legend()) == ["slow", "fast"]
    )
    assert "seed" not in out.read_text()


def test_count_names_runs_by_their_seeds(tmp_path):
    given, out = write_grid(tmp_path / "data", seeds=(3, 5)), tmp_path / "o.svg"
    plot.make_plots(given, count=True, save=out)
    wanted = [f"pi_lr={lr}, seed {seed}" for lr in (0.001, 0.01) for seed in (3, 5)]
    assert list(svg_figure(out, 2).legend()) == wanted
    plot.make_plots([f"{tmp_path}/data/grid_env0_pi0"], count=True, save=out)
    assert list(svg_figure(out).legend()) == ["seed 3", "seed 5"]


def test_runs_with_nothing_to_tell_them_apart_are_numbered(tmp_path):
    for i in range(2):
        write_run(tmp_path / f"d{i}" / "x_s0", curve([float(i), float(i)]), seed=0)
    plot.make_plots([f"{tmp_path}/d"], count=True, save=tmp_path / "o.svg")
    assert list(svg_figure(tmp_path / "o.svg").legend()) == ["seed 0 (0)", "seed 0 (1)"]


@pytest.mark.parametrize("panels, shape", [(1, (1, 1)), (3, (1, 3)), (4, (2, 2)), (7, (3, 3))])
def test_panels_fill_rows_and_are_labelled_at_the_left_and_at_the_bottom(panels, shape):
    _, axes = figures.panel_grid(panels, on_screen=False)
    figures.label_panels(axes, "steps", "return")
    places = [ax.get_subplotspec() for ax in axes]
    assert places[0].get_gridspec().get_geometry() == shape
    assert [i for i, ax in enumerate(axes) if ax.get_ylabel()] == list(range(0, panels, shape[1]))
    below = [i for i in range(panels) if i + shape[1] >= panels]
    assert [i for i, ax in enumerate(axes) if ax.get_xlabel()] == below


def test_plot_data_draws_the_return_over_steps_unless_it_is_told_otherwise(tmp_path):
    data = plot.get_all_datasets(write_grid(tmp_path))
    ax = plot.plot_data(data)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("Environment steps", "Average return")
    wanted = [f"{e}, pi_lr={lr}" for e in ("CartPole-v1", "Acrobot-v1") for lr in (0.001, 0.01)]
    assert list(drawn(ax)) == wanted
    assert "(2 seeds)" in ax.get_legend().get_texts()[0].get_text()
    assert ax.get_title() == ""
    plt.figure()
    ax = plot.plot_data(data[:2], xaxis="Epoch", value="AverageEpRet", condition="Condition1")
    assert (ax.get_title(), list(drawn(ax))) == ("CartPole-v1", ["grid_env0_pi0"])
    plt.figure()
    ax = plot.plot_data(data, xaxis="Epoch", value="AverageEpRet", condition="Condition1", smooth=1)
    assert ax.get_xlabel() == "Epoch"
    assert list(drawn(ax)) == [f"grid_env{i}_pi{j}" for i in range(2) for j in range(2)]
    plt.figure()
    others = pd.DataFrame({"Epoch": [0, 1], "AverageEpRet": [2.0, 3.0]})
    ax = plot.plot_data(others)
    assert ax.get_xlabel() == "Epoch" and ax.lines[0].get_ydata().tolist() == [2, 3]


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_the_same_data_gives_the_same_file(tmp_path, suffix):
    for seed, returns in enumerate(np.random.default_rng(0).normal(size=(4, 5))):
        write_run(tmp_path / "d" / f"r_s{seed}", curve(returns))
    for name in ("a", "b"):
        plot.make_plots([f"{tmp_path}/d/"], band="ci", save=tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_several_files_are_written_at_once(tmp_path):
    write_run(tmp_path / "r_s0", curve([1.0, 2.0]))
    files = [tmp_path / name for name in ("a.png", "b.pdf", "c.svg")]
    args = [f"{tmp_path}/r", "--save", str(files[0]), str(files[1]), "--save", str(files[2])]
    assert plot_command(args) == 0
    assert all(file.stat().st_size > 1000 for file in files)


def test_names_that_mean_something_to_matplotlib_are_shown_as_they_are(tmp_path):
    for i, name in enumerate(["_private", "cost_$5$_{x}", "100%", "a<b&c"]):
        write_run(tmp_path / f"r{i}", curve([1.0 + i, 2.0 + i]), name)
    out = tmp_path / "o.svg"
    plot.make_plots([f"{tmp_path}/"], save=out)
    legend = svg_figure(out).legend()
    assert list(legend) == ["_private", "cost_$5$_{x}", "100%", "a<b&c"]


@pytest.mark.parametrize("lines", [1, 3, 7, 8, 9, 30])
def test_the_legend_covers_no_curve_and_lines_differ(tmp_path, lines):
    rng = np.random.default_rng(lines)
    tables = []
    for i in range(lines):  # all over the axes: no corner is free with many
        y = rng.uniform(0, 1, size=30) if lines > 3 else np.linspace(0, 1, 30) ** (i + 1)
        tables.append(pd.DataFrame({"x": np.arange(30), "y": y, "Condition1": f"line{i}"}))
    figure = plt.figure(figsize=(8, 5.5), layout="constrained")
    ax = plot.plot_data(tables, "x", "y", ax=figure.subplots())
    figure.canvas.draw()
    box = ax.get_legend().get_window_extent()
    assert [t.get_text() for t in ax.get_legend().get_texts()] == [f"line{i}" for i in range(lines)]
    for line in ax.lines:
        points = line.get_transform().transform_path(line.get_path())
        assert not points.intersects_bbox(box, filled=False)
    styles = {(line.get_color(), str(line._unscaled_dash_pattern)) for line in ax.lines}
    assert len(styles) == min(lines, len(figures.COLORS) * len(figures.DASHES))


@pytest.mark.parametrize(
    "column, label",
    [
        ("TotalEnvInteracts", "Environment steps"),
        ("Performance", "Average return"),
        ("LossPi", "Policy loss"),
        ("MaxEpRet", "Maximum return (training)"),
        ("StdQ1Vals", "Standard deviation of the Q1 value"),
        ("QVals", "Q value"),
        ("Epoch", "Epoch"),
        ("MyOwnThing", "My own thing"),
        ("success_rate", "success rate"),
        ("KLDivergence2", "KLDivergence2"),
    ],
)
def test_axes_are_labelled_in_words(column, label):
    assert figures.axis_label(column) == label


@pytest.mark.parametrize(
    "value, text",
    [(0, "0"), (500, "500"), (1000, "1K"), (2500, "2.5K"), (1e5, "100K"), (3e6, "3M"), (2e9, "2B")],
)
def test_thousands_are_short(value, text):
    assert figures.thousands(value) == text
    assert figures.thousands(-value) == (f"\N{MINUS SIGN}{text}" if value else "0")


@pytest.mark.parametrize(
    "suffix, magic", [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_main_writes_a_file_of_each_kind(tmp_path, suffix, magic):
    write_run(tmp_path / "data" / "r_s0", curve([1.0, 2.0, 3.0], step=100_000))
    out = tmp_path / "figures" / f"o.{suffix}"
    assert plot_command([f"{tmp_path}/data/r", "-s", "2", "--save", str(out)]) == 0
    assert out.read_bytes().startswith(magic)


def test_main_writes_one_file_a_value(tmp_path, capsys):
    write_run(tmp_path / "r_s0", curve([1.0, 2.0]))
    out = tmp_path / "o.png"
    args = [f"{tmp_path}/r", "-x", "Epoch", "-y", "AverageEpRet", "TotalEnvInteracts", "--count"]
    assert plot_command([*args, "--save", str(out)]) == 0
    said = capsys.readouterr().out
    for path in (tmp_path / "o-AverageEpRet.png", tmp_path / "o-TotalEnvInteracts.png"):
        assert path.is_file() and str(path) in said


@pytest.mark.parametrize(
    "args, sentence",
    [
        ([], "the following arguments are required: logdir; 'spinup plot --help' explains"),
        (["nowhere/at-all"], "no folder begins with nowhere/at-all: check the path"),
        (["{}/rr_s0"], "no folder begins with {}/rr_s0; did you mean {}/r_s0?"),
        (["{}/r_s0/progress.txt"], "progress.txt is a file: pass its run directory"),
        (["{}/files"], "no folder begins with {}/files: check the path"),
        (["{}/nothing/"], "{}/nothing/ is not a folder: pass a run directory"),
        (["{}/empty"], "no run in {}/empty has a complete row of results: check the path, or"),
        (["{}/r", "-y", "AverageEpRat"], "no run has a column AverageEpRat; did you mean Average"),
        (["{}/r", "-x", "Steps"], "no run has a column Steps: choose from"),
        (["{}/r", "-s", "0"], "the smoothing window must be a positive integer, not 0"),
        (["{}/r", "-s", "three"], "argument -s/--smooth: invalid int value: 'three'; 'spinup plot"),
        (["{}/r", "--est", "iq"], "one of mean, median, iqm, max, min, not iq; did you mean iqm"),
        (["{}/r", "--est", "os.system"], "one of mean, median, iqm, max, min, not os.system"),
        (
            ["{}/r", "--band", "std"],
            "--band must be one of sd, ci, minmax, none, not std; did you me",
        ),
        (["{}/r", "--smoth", "3"], "there is no argument --smoth; did you mean --smooth?"),
        (["{}/r", "-l", "a", "b"], "--legend has 2 names for 1 folder ({}/r_s0): pass one name"),
        (["{}/r", "--select", "x"], "no folders are left after --select and --exclude: relax them"),
        (["{}/r", "--save", "o.bmp"], "--save takes a file that ends in .png, .pdf, .svg, not o.b"),
        (["{}/r", "--save", "{}/file/o.png"], "cannot write {}/file/o.png ("),
        (["{}/r", "--save", "{}/dir.png"], "cannot write {}/dir.png (it is a folder)"),
    ],
)
def test_wrong_input_is_one_sentence_and_exit_status_2(tmp_path, capsys, args, sentence):
    write_run(tmp_path / "r_s0", curve([1.0]))
    (tmp_path / "empty").mkdir()
    (tmp_path / "dir.png").mkdir()
    (tmp_path / "file").write_text("")
    args = [a.format(tmp_path) for a in args]
    if args and "--save" not in args:
        args += ["--save", str(tmp_path / "o.png")]
    assert plot_command(args) == 2
    said = capsys.readouterr()
    assert said.err.startswith("spinup: ") and said.err.count("\n") == 1 and said.out == ""
    assert sentence.replace("{}", str(tmp_path)) in said.err
    assert not (tmp_path / "o.png").exists()


class Bomb:
    """Opening the pickle of one makes a file."""

    def __init__(self, canary):
        self.canary = canary

    def __reduce__(self):
        return open, (str(self.canary), "w")


def test_broken_runs_are_named_in_one_line_each_and_do_not_stop_the_rest(tmp_path, capsys):
    data = tmp_path / "data"
    write_run(data / "good_s0", curve([1.0, 2.0, 3.0]), "good")
    write_run(data / "going_s0", curve([4.0, 5.0]), "going", tail="2\t3.")
    bomb = pickle.dumps(Bomb(tmp_path / "executed"))
    write_run(data / "pickled_s0", curve([1.0]))
    for name in ("progress.txt", "config.json"):
        (data / "pickled_s0" / name).write_bytes(bomb)
    write_run(data / "noise_s0", curve([1.0]))
    (data / "noise_s0" / "progress.txt").write_bytes(np.random.default_rng(0).bytes(5000))
    (data / "empty_s0").mkdir()
    (data / "empty_s0" / "progress.txt").touch()
    write_run(
        data / "words_s0",
        {"Epoch": [0, 1], "AverageEpRet": ["no", "number"], "TotalEnvInteracts": [1, 2]},
        "words",
    )
    deep = write_run(data / "deep_s0", curve([7.0, 8.0]))
    (deep / "config.json").write_text("[" * 100_000)
    pipe = data / "pipe_s0"
    pipe.mkdir()
    os.mkfifo(pipe / "progress.txt")
    (data / "gone_s0").mkdir()
    (data / "gone_s0" / "progress.txt").symlink_to("nowhere")
    out = tmp_path / "o.svg"
    assert plot_command([f"{data}/", "--save", str(out)]) == 0
    assert list(svg_figure(out).legend()) == ["deep", "going", "good"]
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("plot: ") for line in lines)
    for name in ("going", "pickled", "noise", "empty", "deep", "pipe", "gone", "words"):
        assert len([line for line in lines if f"/{name}_s0" in line]) == 1, name
    assert not any("good" in line for line in lines)
    assert not (tmp_path / "executed").exists()
    pickle.loads(bomb).close()  # the bomb works
    assert (tmp_path / "executed").exists()


def test_one_experiment_in_two_folders_is_one_line(tmp_path):
    """As in the original: a line is an exp_name, wherever its runs are; a legend separates them."""
    for i in range(2):
        write_run(tmp_path / f"d{i}" / "ppo_s0", curve([float(i), float(i)]), "ppo")
    dirs = [f"{tmp_path}/d0/", f"{tmp_path}/d1/"]
    plot.make_plots(dirs, save=tmp_path / "a.svg")
    assert list(svg_figure(tmp_path / "a.svg").legend()) == ["ppo"]
    plot.make_plots(dirs, legend=["old", "new"], save=tmp_path / "b.svg")
    assert list(svg_figure(tmp_path / "b.svg").legend()) == ["old", "new"]


def test_scripts_of_the_original_still_work(tmp_path):
    values = np.random.default_rng(0).normal(size=(3, 4))
    for seed in range(3):
        write_run(tmp_path / f"r_s{seed}", curve(values[seed]))
    data = plot.get_all_datasets([f"{tmp_path}/r"])
    plt.figure()
    plot.plot_data(
        data,
        xaxis="Epoch",
        value="Performance",
        condition="Condition1",
        smooth=1,
        estimator=np.median,
        ci="sd",
        linewidth=3,
    )
    ax = plt.gca()
    np.testing.assert_allclose(ax.lines[0].get_ydata(), np.median(values, axis=0))
    assert ax.lines[0].get_linewidth() == 3 and len(ax.collections) == 1


def test_without_a_display_a_window_backend_becomes_agg_and_the_figure_a_file(tmp_path):
    write_run(tmp_path / "r_s0", curve([1.0, 2.0]))
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    env["MPLBACKEND"] = "TkAgg"
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(plot.__file__))))
    env["PYTHONPATH"] = root
    done = subprocess.run(
        [sys.executable, "-m", "spinup.utils.plot", "r_s0"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "spinup-plot.png").read_bytes().startswith(b"\x89PNG")
    assert "spinup-plot.png" in done.stdout and "no display" in done.stderr


def test_the_benchmark_of_reading_makes_whole_runs_and_its_result_is_seconds(tmp_path, repo_root):
    path = repo_root / "benchmarks" / "plot_reading.py"
    spec = importlib.util.spec_from_file_location("plot_reading", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    size = module.make_runs(tmp_path, runs=12, rows=4)
    runs = curves.read_runs([tmp_path], ["TotalEnvInteracts", "Performance", "Time"])
    assert len(runs) == 12 and not any(run.problems for run in runs)
    assert size == sum(f.stat().st_size for f in tmp_path.rglob("progress.txt"))
    assert all(run.columns["TotalEnvInteracts"].tolist()[-1] == 16_000 for run in runs)
    kept = json.loads(module.RESULT.read_text())
    assert kept["command"] == "python benchmarks/plot_reading.py --save"
    assert (kept["runs"], kept["rows"], kept["columns"]) == (1000, 1000, len(module.COLUMNS))
    assert kept["read_seconds"] < kept["plot_seconds"] < 10


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize(
    "values",
    [["1e308"], ["1e308", "-1e308"], ["inf", "1.0"], ["1" * 5000, "2"], ["nan", "1e308"]],
    ids=["1e308", "both signs", "inf", "5000 digits", "nan"],
)
@pytest.mark.parametrize("column", ["AverageEpRet", "TotalEnvInteracts"])
def test_values_whose_sums_overflow_are_named_and_left_out(tmp_path, capsys, values, column):
    for name, seeds in (("huge", 3), ("plain", 3)):
        for seed in range(seeds):
            folder = tmp_path / name / f"{name}_s{seed}"
            folder.mkdir(parents=True)
            rows = [["AverageEpRet", "TotalEnvInteracts"]]
            rows += [[str(seed + epoch), str(100 * epoch)] for epoch in range(4)]
            if name == "huge":
                for epoch, row in enumerate(rows[1:]):
                    row[rows[0].index(column)] = values[epoch % len(values)]
            (folder / "progress.txt").write_text("".join("\t".join(r) + "\n" for r in rows))
            record = {"exp_name": name, "env": {"id": "CartPole-v1"}}
            (folder / "config.json").write_text(json.dumps(record))
    both, figure = [str(tmp_path / "huge"), str(tmp_path / "plain")], str(tmp_path / "figure.png")
    for more in ([], ["--smooth", "3"], ["--est", "max"], ["--est", "min"]):
        assert plot_command([*both, "--save", figure, *more]) == 0
        assert capsys.readouterr().err.count("are larger than 1e+100, and are ignored") == 3
    assert compare_command([*both, "--save", figure]) in (0, 2)  # there may be nothing to compare
    err = capsys.readouterr().err
    assert err.count("are larger than 1e+100") == 3 and "Traceback" not in err
