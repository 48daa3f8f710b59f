"""The plotter reads what the files say, also where they are damaged or in the way of each other."""

import json

import numpy as np
import pytest

from benchmarks import plot_reading
from spinup.analysis import curves, plot
from spinup.utils.errors import SpinupError
from tests.helpers.curves import curve, write_run


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


def test_the_benchmark_of_reading_makes_whole_runs_and_its_result_is_seconds(tmp_path):
    size = plot_reading.make_runs(tmp_path, runs=12, rows=4)
    runs = curves.read_runs([tmp_path], ["TotalEnvInteracts", "Performance", "Time"])
    assert len(runs) == 12 and not any(run.problems for run in runs)
    assert size == sum(f.stat().st_size for f in tmp_path.rglob("progress.txt"))
    assert all(run.columns["TotalEnvInteracts"].tolist()[-1] == 16_000 for run in runs)
    kept = json.loads(plot_reading.RESULT.read_text())
    assert kept["command"] == "python benchmarks/plot_reading.py --save"
    assert (kept["runs"], kept["rows"], kept["columns"]) == (1000, 1000, len(plot_reading.COLUMNS))
    assert kept["read_seconds"] < kept["plot_seconds"] < 10
