"""Escape sequences in names from files and folders are shown; no terminal obeys them."""

import json
import shutil
import sys

import pytest

import spinup.algos.pytorch.ppo.ppo  # noqa: F401
from spinup import run
from spinup.grids.board import Board
from spinup.grids.cells import Cell, make_jobs, write_state
from spinup.grids.experiments import ExperimentGrid
from spinup.grids.summary import report_failures
from spinup.runs import screen

ESCAPES = "\x1b[2J\x1b]0;owned\x07\x9b31m\r\u202e"


@pytest.fixture
def seen(capsys):
    """What reached the terminal, which must contain the name but nothing that acts."""

    def read(*shown):
        both = capsys.readouterr()
        text = both.out + both.err
        for name in shown or (r"\x1b[2J",):
            assert name in text, text
        acting = [c for c in text if c != "\n" and c != "\t" and not c.isprintable()]
        assert not acting, text
        return text

    return read


def make_run(folder, column="AverageEpRet", **config):
    folder.mkdir(parents=True)
    rows = "\n".join(f"{i}\t{i}\t{i}" for i in range(3))
    (folder / "progress.txt").write_text(f"Epoch\tTotalEnvInteracts\t{column}\n{rows}\n")
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_names_of_commands_and_flags(seen):
    for words in ([ESCAPES], ["ppo", "--env", ESCAPES], ["ppo", "--env", "CartPole-v1", ESCAPES]):
        assert run.main(words) == 2
        seen()


@pytest.mark.parametrize("tool", ["plot", "compare", "runs", "test_policy", "export"])
def test_names_of_folders_and_columns(tool, tmp_path, seen, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    folder = make_run(tmp_path / ESCAPES, ESCAPES, exp_name=ESCAPES, env=ESCAPES)
    more = {"export": ["--onnx", str(tmp_path / "a.onnx")], "compare": [str(folder)]}.get(tool, [])
    run.main([tool, str(folder), *more])
    seen(*(() if tool != "runs" else ("broken",)))


@pytest.mark.parametrize("tool", ["plot", "compare"])
def test_names_in_configurations(tool, tmp_path, seen, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "agg")
    for name in ("a", "b"):
        for seed in range(2):
            kwargs = {ESCAPES: ESCAPES}
            make_run(tmp_path / name / f"s{seed}", exp_name=name + ESCAPES, env_kwargs=kwargs)
    (tmp_path / "a" / "s0" / "progress.txt").write_text("")
    words = [tool, str(tmp_path / "a") + "/", str(tmp_path / "b") + "/"]
    run.main([*words, "--save", str(tmp_path / "x.png")])
    seen("x.png")


def test_wrappers_of_a_saved_policy(tmp_path, seen):
    words = [
        "ppo",
        "--env",
        "CartPole-v1",
        "--epochs",
        "1",
        "--steps",
        "50",
        "--hid",
        "4",
        "--exp_name",
        "a",
        "--data_dir",
    ]
    assert run.main([*words, str(tmp_path)]) == 0
    seen("a_s0")
    path = tmp_path / "a" / "a_s0" / "pyt_save" / "policy.json"
    meta = json.loads(path.read_text())
    meta.pop("sha256")
    for change in (
        {"wrapper_specs": [{"name": ESCAPES, "class": "x:y", "kwargs": {ESCAPES: 1}}]},
        {"kwargs": {ESCAPES: 1}},
        {"id": ESCAPES},
        {"id": f"{ESCAPES}:CartPole-v1"},
    ):
        path.write_text(json.dumps({**meta, "env": {**meta["env"], **change}}))
        code = run.main(["test_policy", str(tmp_path / "a" / "a_s0"), "-nr", "-n", "1"])
        assert code == 2
        seen("spinup: ", *(() if "kwargs" in change else (r"\x1b[2J",)))


def test_the_table_of_a_run(capsys):
    text = screen.table({ESCAPES: 1.0, "Note": ESCAPES})
    assert text.replace("\n", "").isprintable() and text.count(r"\x1b[2J") == 2


def test_a_grid(tmp_path, seen):
    (job,) = make_jobs([Cell("a", print, 0, {})], tmp_path, [str(tmp_path / "a")], "launch")
    report_failures({"a": f"Traceback:\n\t{ESCAPES}"}, [job])
    seen("failed:\nTraceback:\n        \\x1b[2J")
    board = Board("grid", [job], stream=sys.stdout)
    board.say(f"a: {ESCAPES}\nb")
    seen()
    grid = ExperimentGrid("a")
    grid.add(ESCAPES, [ESCAPES, "b"])
    grid.print()
    seen()


def test_a_cell_whose_state_was_edited(tmp_path, seen):
    grid = ExperimentGrid("g")
    grid.add("seed", [0, 1])
    for cell in grid._jobs(grid.cells(print), tmp_path, False, None):
        write_state(cell, "done")
        path = tmp_path / "g" / ".grid" / cell.name / "state.json"
        state = json.loads(path.read_text())
        path.write_text(json.dumps({**state, "hash": "x", "parts": {ESCAPES: "1"}}))
    grid.run(lambda **kwargs: None, data_dir=tmp_path)
    seen()
    shutil.rmtree(tmp_path / "g")
