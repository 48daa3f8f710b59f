"""The plotter: what it draws is what the files say."""

import json
import os
import subprocess
import sys

import matplotlib
import numpy as np
import pandas as pd
import pytest

matplotlib.use("Agg")
import matplotlib.pyplot as plt

from spinup.utils import plot
from spinup.utils.errors import SpinupError


@pytest.fixture(autouse=True)
def _no_figure_is_left_over():
    yield
    plt.close("all")


def write_run(folder, columns, exp_name="ppo", tail=""):
    """A run directory whose progress.txt holds `columns` (name -> values), then `tail` as it is."""
    folder.mkdir(parents=True, exist_ok=True)
    names = list(columns)
    rows = ["\t".join(names)]
    rows += ["\t".join(str(v) for v in row) for row in zip(*columns.values(), strict=True)]
    (folder / "progress.txt").write_text("\n".join(rows) + "\n" + tail)
    if exp_name is not None:
        (folder / "config.json").write_text(json.dumps({"exp_name": exp_name}))
    return folder


def curve(returns, step=1000, key="AverageEpRet"):
    n = len(returns)
    return {
        "Epoch": list(range(n)),
        key: list(returns),
        "TotalEnvInteracts": [step * (i + 1) for i in range(n)],
    }


def drawn(ax):
    """Label -> (x, y) of the lines drawn (not of the legend's handles)."""
    lines = [line for line in ax.lines if len(line.get_xdata())]
    _, labels = ax.get_legend_handles_labels()
    return {
        label: (np.asarray(line.get_xdata(), float), np.asarray(line.get_ydata(), float))
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


def test_folders_that_begin_with_a_dot_are_ignored(tmp_path):
    write_run(tmp_path / "x_s0", curve([1.0]))
    write_run(tmp_path / "x_s0" / ".old" / "001", curve([99.0]))
    write_run(tmp_path / ".hidden", curve([98.0]))
    assert [d["AverageEpRet"].tolist() for d in plot.get_datasets(tmp_path)] == [[1.0]]


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
    with pytest.raises(SpinupError, match="loosen"):
        plot.get_all_datasets(every, select=["nothing-like-it"])


@pytest.mark.parametrize("with_folder", [True, False])
def test_pitfall_32_prefixes_are_completed_also_without_a_slash(tmp_path, monkeypatch, with_folder):
    for name in ("exp_s0", "exp_s1", "other_exp"):
        write_run(tmp_path / name, curve([1.0]))
    (tmp_path / "exp.txt").write_text("a file, not a folder")
    monkeypatch.chdir(tmp_path)
    prefix = f"{tmp_path}/exp" if with_folder else "exp"
    assert len(plot.get_all_datasets([prefix])) == 2
    assert len(plot.get_all_datasets([f"{prefix}_s1/"])) == 1
    with pytest.raises(SpinupError, match="No folder begins with"):
        plot.get_all_datasets([f"{prefix}_s7"])


def test_dot_and_dotdot_are_folders_not_prefixes(tmp_path, monkeypatch):
    write_run(tmp_path / "run", curve([1.0]))
    monkeypatch.chdir(tmp_path)
    assert len(plot.get_all_datasets(["."])) == 1
    monkeypatch.chdir(tmp_path / "run")
    assert len(plot.get_all_datasets([".."])) == 1


def test_pitfall_32_half_written_and_empty_files_are_read_as_far_as_they_go(tmp_path, capsys):
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


def test_pitfall_32_a_window_longer_than_the_run_works(tmp_path):
    write_run(tmp_path / "r", curve([1.0, 2.0, 6.0]))
    tidy = plot.prepare_data(plot.get_datasets(tmp_path), "Epoch", "Performance", smooth=50)
    np.testing.assert_allclose(tidy["Performance"], [3.0, 3.0, 3.0])
    assert len(tidy) == 3


def test_pitfall_32_smoothing_does_not_change_the_data(tmp_path):
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


def test_pitfall_32_different_x_grids_meet_on_a_common_one(tmp_path):
    write_run(tmp_path / "r_s0", curve([0.0, 10.0, 20.0], step=100))  # x 100, 200, 300: y = x/10-10
    write_run(tmp_path / "r_s1", curve([5.0, 35.0], step=150))  # x 150, 300: y = x/5 - 25
    tidy = plot.prepare_data(plot.get_datasets(tmp_path), "TotalEnvInteracts", "Performance")
    first, second = (tidy[tidy["Unit"] == u] for u in (0, 1))
    assert first["TotalEnvInteracts"].tolist() == [100, 150, 200, 300]
    np.testing.assert_allclose(first["Performance"], [0, 5, 10, 20])
    # Nothing is made up before the second run's first row.
    assert second["TotalEnvInteracts"].tolist() == [150, 200, 300]
    np.testing.assert_allclose(second["Performance"], [5, 15, 35])
    x, y = drawn(plot.plot_data(plot.get_datasets(tmp_path), "TotalEnvInteracts", "Performance"))[
        "ppo"
    ]
    np.testing.assert_allclose(x, [100, 150, 200, 300])
    np.testing.assert_allclose(y, [0, 5, 12.5, 27.5])


def test_many_different_x_end_up_on_an_even_grid_over_the_same_range():
    rng = np.random.default_rng(0)
    runs = []
    for unit in range(5):
        x = np.sort(rng.uniform(0, 1e6, size=1000))
        runs.append(pd.DataFrame({"x": x, "y": 2 * x, "Condition1": "c", "Unit": unit}))
    tidy = plot.prepare_data(runs, "x", "y")
    assert tidy["x"].nunique() == plot.MAX_GRID
    np.testing.assert_allclose(tidy["y"], 2 * tidy["x"], rtol=1e-9)
    every = np.concatenate([r["x"] for r in runs])
    assert tidy["x"].min() == every.min() and tidy["x"].max() == every.max()


def test_epochs_without_an_episode_are_bridged_not_drawn_as_zero(tmp_path):
    write_run(tmp_path / "r", curve([float("nan"), 2.0, float("nan"), 4.0]))
    tidy = plot.prepare_data(plot.get_datasets(tmp_path), "Epoch", "Performance")
    assert tidy["Epoch"].tolist() == [1, 3] and tidy["Performance"].tolist() == [2.0, 4.0]


def test_one_table_of_several_runs_is_smoothed_run_by_run(tmp_path):
    write_run(tmp_path / "r_s0", curve([0.0, 0.0]))
    write_run(tmp_path / "r_s1", curve([100.0, 100.0]))
    table = pd.concat(plot.get_datasets(tmp_path), ignore_index=True)
    tidy = plot.prepare_data(table, "Epoch", "Performance", smooth=3)
    assert sorted(tidy["Performance"]) == [0.0, 0.0, 100.0, 100.0]


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
    np.testing.assert_allclose(y, getattr(np, estimator)(values, axis=0))


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


def test_count_draws_every_run_by_itself(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"r_s{seed}", curve([seed, seed]))
    ax = plot.plot_data(plot.get_datasets(tmp_path), "Epoch", "Performance", "Condition2")
    assert sorted(y[0] for _, y in drawn(ax).values()) == [0, 1, 2]


def test_runs_without_the_column_are_named_and_left_out(tmp_path, capsys):
    write_run(tmp_path / "a", curve([1.0]), "has-it")
    write_run(tmp_path / "b", {"Epoch": [0], "Loss": [2.0]}, "has-not")
    tidy = plot.prepare_data(plot.get_datasets(tmp_path), "Epoch", "Performance")
    assert set(tidy["Condition1"]) == {"has-it"}
    assert "has-not" in capsys.readouterr().err


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
    monkeypatch.setattr(plot, "has_display", lambda: display)
    monkeypatch.setattr(matplotlib, "get_backend", lambda: backend)
    monkeypatch.setattr(matplotlib, "use", chosen.append)
    plot._use_a_backend_that_works()
    assert chosen == wanted


@pytest.mark.parametrize(
    "suffix, magic", [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")]
)
def test_main_writes_a_file_of_each_kind(tmp_path, suffix, magic):
    write_run(tmp_path / "data" / "r_s0", curve([1.0, 2.0, 3.0], step=100_000))
    out = tmp_path / "figures" / f"o.{suffix}"
    assert plot.main([f"{tmp_path}/data/r", "-s", "2", "--save", str(out)]) == 0
    assert out.read_bytes().startswith(magic)


def test_main_writes_one_file_a_value(tmp_path, capsys):
    write_run(tmp_path / "r_s0", curve([1.0, 2.0]))
    out = tmp_path / "o.png"
    args = [f"{tmp_path}/r", "-x", "Epoch", "-y", "AverageEpRet", "TotalEnvInteracts", "--count"]
    assert plot.main([*args, "--save", str(out)]) == 0
    said = capsys.readouterr().out
    for path in (tmp_path / "o-AverageEpRet.png", tmp_path / "o-TotalEnvInteracts.png"):
        assert path.is_file() and str(path) in said


@pytest.mark.parametrize(
    "args", [["nowhere/at-all"], ["{}/r", "--save", "o.bmp"], ["{}/r", "-s", "0"]]
)
def test_main_says_one_sentence_and_fails_on_wrong_input(tmp_path, capsys, args):
    write_run(tmp_path / "r_s0", curve([1.0]))
    args = [a.format(tmp_path) for a in args] + ([] if "--save" in args else ["--save", "o.png"])
    assert plot.main(args) == 2
    err = capsys.readouterr().err
    assert err.startswith("spinup: ") and "Traceback" not in err and err.count("\n") == 1


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
