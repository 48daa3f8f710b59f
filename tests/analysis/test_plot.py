"""The plotter: what it draws is what the files say, on the screen and in files."""

import json
import os
import pickle

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from spinup.analysis import figures, plot
from spinup.cli.compare import main as compare_command
from spinup.cli.plot import main as plot_command
from spinup.utils.errors import SpinupError
from tests.helpers.bomb import Bomb
from tests.helpers.curves import curve, drawn, write_run
from tests.helpers.processes import environment, run_python
from tests.helpers.svg_reader import SvgFigure

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
    figure = SvgFigure(tmp_path / "o.svg")
    np.testing.assert_allclose(figure.curve(0)[1], 3.0, atol=0.01)
    np.testing.assert_allclose(figure.band(0)[2], 3.0 + np.std([1, 2, 6], ddof=1), atol=0.01)
    plot.make_plots(given, count=True, save=tmp_path / "c.svg")
    assert len(SvgFigure(tmp_path / "c.svg").legend()) == 3
    # With two names it is meant: one line of all, another of some.
    named = plot.get_all_datasets(given, legend=["all", "some"])
    assert [t["Condition1"].iloc[0] for t in named].count("all") == 3 and len(named) > 3


def test_one_folder_may_be_a_string(tmp_path):
    write_run(tmp_path / "r_s0", curve([1.0]))
    assert plot.make_plots(str(tmp_path), save=tmp_path / "o.png") == [tmp_path / "o.png"]


def test_booleans_are_drawn_as_numbers(tmp_path):
    write_run(tmp_path / "r_s0", {**curve([1.0, 2.0, 3.0]), "Success": [False, True, True]})
    plot.make_plots([f"{tmp_path}/r"], values="Success", save=tmp_path / "o.svg")
    np.testing.assert_allclose(SvgFigure(tmp_path / "o.svg").curve(0)[1], [0, 1, 1], atol=0.01)


@pytest.mark.parametrize("values", [[1e6, 1e6 + 0.5, 1e6 + 1], [1e99, 2e99], [12e3, 15e3]])
def test_ticks_differ_whatever_the_numbers_are(tmp_path, values):
    write_run(tmp_path / "r_s0", curve(values))
    plot.make_plots([f"{tmp_path}/r"], save=tmp_path / "o.svg")
    texts = SvgFigure(tmp_path / "o.svg").texts()
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

    figure = SvgFigure(out)
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
    x, y = SvgFigure(out).curve(0)
    np.testing.assert_allclose(x, [100, 150, 200, 300, 400, 500, 600], atol=0.01)
    wanted = [0.5, 4.0, 28 / 3, 20.0, 7.0, 9.0, 11.0]
    np.testing.assert_allclose(y, wanted, atol=0.01)
    x, low, high = SvgFigure(out).band(0)
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
        panel = SvgFigure(out, i + 1)
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
    assert {"Hopper-v5", "td3 (1 seed)"} <= set(SvgFigure(tmp_path / "o.svg").texts())


def test_a_legend_is_shown_as_it_is_in_every_panel(tmp_path):
    write_grid(tmp_path)
    given = [f"{tmp_path}/grid_env{i}_pi{j}/" for j in range(2) for i in range(2)]
    out = tmp_path / "o.svg"
    plot.make_plots(given, legend=["slow", "slow", "fast", "fast"], save=out)
    assert list(SvgFigure(out, 1).legend()) == list(SvgFigure(out, 2).legend()) == ["slow", "fast"]
    assert "seed" not in out.read_text()


def test_count_names_runs_by_their_seeds(tmp_path):
    given, out = write_grid(tmp_path / "data", seeds=(3, 5)), tmp_path / "o.svg"
    plot.make_plots(given, count=True, save=out)
    wanted = [f"pi_lr={lr}, seed {seed}" for lr in (0.001, 0.01) for seed in (3, 5)]
    assert list(SvgFigure(out, 2).legend()) == wanted
    plot.make_plots([f"{tmp_path}/data/grid_env0_pi0"], count=True, save=out)
    assert list(SvgFigure(out).legend()) == ["seed 3", "seed 5"]


def test_runs_with_nothing_to_tell_them_apart_are_numbered(tmp_path):
    for i in range(2):
        write_run(tmp_path / f"d{i}" / "x_s0", curve([float(i), float(i)]), seed=0)
    plot.make_plots([f"{tmp_path}/d"], count=True, save=tmp_path / "o.svg")
    assert list(SvgFigure(tmp_path / "o.svg").legend()) == ["seed 0 (0)", "seed 0 (1)"]


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
    legend = SvgFigure(out).legend()
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
    assert list(SvgFigure(out).legend()) == ["deep", "going", "good"]
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("plot: ") for line in lines)
    for name in ("going", "pickled", "noise", "empty", "deep", "pipe", "gone", "words"):
        assert len([line for line in lines if f"/{name}_s0" in line]) == 1, name
    assert not any("good" in line for line in lines)
    assert not (tmp_path / "executed").exists()
    pickle.loads(bomb)  # the bomb works
    assert (tmp_path / "executed").exists()


def test_one_experiment_in_two_folders_is_one_line(tmp_path):
    """As in the original: a line is an exp_name, wherever its runs are; a legend separates them."""
    for i in range(2):
        write_run(tmp_path / f"d{i}" / "ppo_s0", curve([float(i), float(i)]), "ppo")
    dirs = [f"{tmp_path}/d0/", f"{tmp_path}/d1/"]
    plot.make_plots(dirs, save=tmp_path / "a.svg")
    assert list(SvgFigure(tmp_path / "a.svg").legend()) == ["ppo"]
    plot.make_plots(dirs, legend=["old", "new"], save=tmp_path / "b.svg")
    assert list(SvgFigure(tmp_path / "b.svg").legend()) == ["old", "new"]


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
    env = {k: v for k, v in environment().items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    env["MPLBACKEND"] = "TkAgg"
    done = run_python("-m", "spinup.utils.plot", "r_s0", cwd=tmp_path, env=env)
    assert (tmp_path / "spinup-plot.png").read_bytes().startswith(b"\x89PNG")
    assert "spinup-plot.png" in done.stdout and "no display" in done.stderr


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
