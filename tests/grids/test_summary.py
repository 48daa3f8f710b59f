"""The end of a grid: its table, its failures, and commands that can be pasted as they are."""

import json
import re
import shlex
import sys

import pytest

from spinup.analysis import compare, curves
from spinup.cli.compare import main as compare_command
from spinup.cli.plot import main as plot_command
from spinup.grids import summary
from spinup.grids.experiments import CellsFailed, ExperimentGrid

HEADER = "Epoch\tAverageEpRet\tTotalEnvInteracts\n"


def train(seed=0, env_name="CartPole-v1", pi_lr=0.1, fail=False, logger_kwargs=None, **kwargs):
    """Writes what a run leaves; the return is 100 * pi_lr + seed, after a bad start."""
    from pathlib import Path

    if fail:
        raise ValueError("no luck")
    env = kwargs["env_fn"].args[0] if "env_fn" in kwargs else env_name
    folder = Path(logger_kwargs["output_dir"])
    folder.mkdir(parents=True)
    returns = [-1000.0] * 5 + [100 * pi_lr + seed] * 10
    rows = [f"{i}\t{ret}\t{100 * (i + 1)}\n" for i, ret in enumerate(returns)]
    (folder / "progress.txt").write_text(HEADER + "".join(rows))
    config = {"exp_name": logger_kwargs["exp_name"], "env": {"id": env}, "algo": "ppo"}
    (folder / "config.json").write_text(json.dumps({**config, "pi_lr": pi_lr, "seed": seed}))


def grid(**keys):
    eg = ExperimentGrid(name="g")
    for key, values in keys.items():
        eg.add(key, values)
    return eg


def pasted(text, tool):
    """The words after `spinup TOOL` of each such line at the end of a grid."""
    end = text.partition(" runs done in ")[2]
    lines = re.findall(rf"^    python -m spinup\.run {tool} (.*)$", end, re.M)
    return [shlex.split(line) for line in lines]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("spinup.user_config.DEFAULT_DATA_DIR", "data")
    monkeypatch.setattr(sys, "argv", ["my script.py", "--fast"])
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", None)
    return tmp_path


def test_a_row_per_condition_has_the_mean_and_the_spread_of_the_last_returns(folder, capsys):
    grid(pi_lr=[0.1, 0.2], seed=[0, 2, 4]).run(train)
    text = capsys.readouterr().out
    assert re.search(r"^g: 6 of 6 runs done in \d\d:\d\d$", text, re.M)
    rows = [line.split() for line in text.splitlines() if line.startswith("  pi_lr=")]
    assert rows == [
        ["pi_lr=0.1", "3", "12", "2", "10", "14"],
        ["pi_lr=0.2", "3", "22", "2", "20", "24"],
    ]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_the_table_fits_the_screen_and_keeps_every_name(folder, columns):
    long = ["x" * 50, "y" * 70]
    runs = []
    for name in long:
        train(seed=0, logger_kwargs={"output_dir": f"data/{name}/{name}_s0", "exp_name": name})
        runs.append(curves.read_run(folder / "data" / name / f"{name}_s0", ["Performance"]))
    lines = summary.table(runs, columns)
    assert [name for name in long if any(name in line for line in lines)] == long
    numbers = [line for line in lines if line.rstrip().endswith("10")]
    assert len(numbers) == 2 and all(
        len(line) <= max(columns, 65) for line in lines if "x" not in line and "y" not in line
    )


def test_the_lines_to_paste_select_the_grids_runs_and_nothing_else(folder, capsys, monkeypatch):
    stranger = {"output_dir": "data/g_pi0-15/g_pi0-15_s0", "exp_name": "g_pi0-15"}
    train(seed=0, logger_kwargs=stranger)  # begins like a folder of the grid
    grid(pi_lr=[0.1, 0.2], seed=[0, 1]).run(train)
    text = capsys.readouterr().out
    ((first, second),) = pasted(text, "plot")
    assert (first, second) == ("data/g_pi0-1/", "data/g_pi0-2/")
    monkeypatch.setattr(compare.compare_figures, "save_figures", lambda *a: [])
    ((*folders,),) = pasted(text, "compare")
    assert compare_command(folders) == 0
    assert "pi_lr=0.1 " in capsys.readouterr().out
    assert plot_command([first, second, "--save", "o.svg"]) == 0
    assert "pi_lr=0.2 (2 seeds)" in (folder / "o.svg").read_text()


def test_conditions_in_several_environments_are_compared_over_all_of_them(folder, capsys):
    keys = {"pi_lr": [0.1, 0.2], "env_name": ["CartPole-v1", "Acrobot-v1"], "seed": [0, 1]}
    grid(**keys).run(train)
    text = capsys.readouterr().out
    ((prefix,),) = pasted(text, "plot")
    assert len(curves.read_runs(curves.complete([prefix]), [])) == 8
    ((*folders,),) = pasted(text, "compare")
    found = compare.read_algorithms(folders)
    assert {name: {e: len(c) for e, c in envs.items()} for name, envs in found.items()} == {
        "pi_lr=0.1": {"Acrobot-v1": 2, "CartPole-v1": 2},
        "pi_lr=0.2": {"Acrobot-v1": 2, "CartPole-v1": 2},
    }


def test_where_no_prefix_selects_a_condition_each_environment_is_compared_by_itself(folder, capsys):
    grid(env_name=["CartPole-v1", "Acrobot-v1"], pi_lr=[0.1, 0.2]).run(train)
    commands = pasted(capsys.readouterr().out, "compare")
    assert len(commands) == 2
    for words in commands:
        assert list(compare.read_algorithms(words)) == ["pi_lr=0.1", "pi_lr=0.2"]


def test_failed_cells_are_listed_with_the_command_that_tries_them_again(folder, capsys):
    with pytest.raises(CellsFailed, match="2 of 4 cells failed"):
        grid(fail=[False, True], seed=[0, 1]).run(train)
    text = capsys.readouterr().out
    assert "g: 2 of 4 runs done" in text
    assert text.index("2 failed:\n    g_fai_s0\n    g_fai_s1\n") > text.index("ppo")
    assert "    python 'my script.py' --fast\n" in text


def test_the_log_of_a_failed_worker_is_named(folder, capsys):
    with pytest.raises(CellsFailed):
        grid(fail=True, seed=[0, 1]).run(train, num_workers=2)
    assert "    g_s1 (output: data/g/.grid/g_s1/log.txt)\n" in capsys.readouterr().out


def test_functions_that_log_nothing_have_no_table(folder, capsys):
    grid(seed=[0, 1]).run(lambda seed, logger_kwargs: None)
    text = capsys.readouterr().out
    end = text.partition("g: 2 of 2 runs done")[2]
    assert end and "plot" not in end and "return" not in end


def test_a_stopped_grid_repeats_its_command(folder, capsys):
    def stop(seed, logger_kwargs):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        grid(seed=[0, 1]).run(stop)
    said = capsys.readouterr().err
    assert said.endswith(
        "Stopped with 0 of 2 cells done. This command skips finished cells and continues the "
        "others:\n"
        "    python 'my script.py' --fast\n"
    )
