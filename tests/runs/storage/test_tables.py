"""Rows that change after they were written are noticed, by resuming and by plotting."""

import os
import shutil
import time

import pytest

from spinup.analysis.curves import read_run
from spinup.cli.compare import main as compare_command
from spinup.cli.plot import main as plot_command
from spinup.runs.logger import EpochLogger, Logger
from spinup.utils.errors import SpinupError

RECORD = ".progress.txt.sha256"


@pytest.fixture
def run(tiny_runs, tmp_path):
    """A copy of a finished run."""
    whole, _ = tiny_runs("vpg")
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def problems(run):
    return read_run(run, ["Performance"]).problems


def flip(path, text=b"\n1\t"):
    """Change one digit of a file, behind `text`."""
    data = bytearray(path.read_bytes())
    data[data.index(text) + len(text)] ^= 1
    path.write_bytes(data)


def test_a_changed_row_is_said_once_and_plotted(run, tiny_runs, tmp_path, capsys):
    assert problems(run) == []
    flip(run / "progress.txt")
    (problem,) = problems(run)
    assert "does not match its hash" in problem
    other, _ = tiny_runs("ppo")
    assert plot_command([str(run), str(other), "--save", str(tmp_path / "figure.png")]) == 0
    assert (tmp_path / "figure.png").stat().st_size > 1000
    err = capsys.readouterr().err
    assert err.count("does not match its hash") == 1 and err.count(str(run)) == 1
    compare_command([str(run), str(other), "--save", str(tmp_path / "comparison.png")])
    assert capsys.readouterr().err.count("does not match its hash") == 1


@pytest.mark.parametrize("keep", ["nothing", "a row less", "half a row"])
def test_lost_rows_are_noticed(run, keep):
    path = run / "progress.txt"
    rows = path.read_bytes().splitlines(keepends=True)
    kept = {"nothing": [], "a row less": rows[:-1], "half a row": [*rows[:-1], rows[-1][:9]]}
    path.write_bytes(b"".join(kept[keep]))
    assert any("does not match its hash" in problem for problem in problems(run))


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"bytes": -1, "sha256": ""}', b"\xff"])
def test_a_damaged_record_is_noticed(run, data):
    (run / RECORD).write_bytes(data)
    assert any("does not match its hash" in problem for problem in problems(run))


def test_what_is_allowed_raises_no_alarm(run):
    path = run / "progress.txt"
    whole = path.read_bytes()
    path.write_bytes(whole + whole.splitlines(keepends=True)[-1])  # rows after the last save
    assert problems(run) == []
    path.write_bytes(whole.replace(b"\n", b"\r\n"))  # as Git does on Windows
    assert problems(run) == []
    flip(path)
    (run / RECORD).unlink()  # as in runs of the original, and of version 0.1.0
    assert problems(run) == []


def test_a_running_run_raises_no_alarm_at_any_time(tmp_path):
    logger = Logger(tmp_path, quiet=True)

    def write(rows):
        for i in range(rows):
            logger.log_tabular("Epoch", i)
            logger.log_tabular("Performance", i)
            logger.dump_tabular()

    write(2)
    assert problems(tmp_path) == ["there is no config.json, so the run is counted as part of " + (
        f"'{tmp_path.name}'"
    )]  # fmt: skip
    logger.save_config({"exp_name": "x"})
    state = logger.state_dict()
    logger.save_state({})
    assert (tmp_path / RECORD).is_file() and problems(tmp_path) == []
    write(3)
    assert problems(tmp_path) == []
    logger.save_state({})
    logger.close()
    # a resumed run that goes back to an earlier checkpoint, and even to the beginning
    logger = Logger(tmp_path, quiet=True, resume=True)
    logger.load_state_dict(state)
    assert problems(tmp_path) == []
    write(1)
    logger.load_state_dict(None)
    assert problems(tmp_path) == ["progress.txt is empty", "the run is left out"]
    write(2)
    assert problems(tmp_path) == []
    logger.mark_finished()
    assert problems(tmp_path) == []


def test_killed_while_the_table_is_cut_back_raises_no_alarm(tmp_path, monkeypatch):
    logger = Logger(tmp_path, quiet=True)
    logger.save_config({"exp_name": "x"})
    states = []
    for i in range(3):
        logger.log_tabular("Epoch", i)
        logger.dump_tabular()
        states.append(logger.state_dict())
        logger.save_state({})

    def killed(fd, size):
        os.ftruncate(fd, size)
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "truncate", killed)
    with pytest.raises(KeyboardInterrupt):
        logger.load_state_dict(states[0])
    assert problems(tmp_path) == []


def test_a_new_run_takes_the_record_of_the_old_one_away(run, tiny_runs):
    for how in ({}, {"overwrite": True}):
        tiny_runs.train("vpg", run, **how)
        assert problems(run) == []
    assert problems(run / ".old" / "001") == []
    flip(run / ".old" / "001" / "progress.txt")
    assert len(problems(run / ".old" / "001")) == 1


def test_resuming_refuses_rows_that_were_changed(run, tiny_runs):
    path = run / "progress.txt"
    whole = path.read_bytes()
    flip(path)
    changed = path.read_bytes()
    with pytest.raises(SpinupError, match="do not match the hash in the checkpoint") as error:
        tiny_runs.train("vpg", run, epochs=3, resume=True)
    assert str(path) in str(error.value) and "restore the file" in str(error.value)
    assert path.read_bytes() == changed, "nothing is thrown away"
    path.write_bytes(whole + b"3\tnot saved")
    tiny_runs.train("vpg", run, epochs=3, resume=True)
    assert path.read_bytes().startswith(whole) and problems(run) == []


def test_a_checkpoint_without_the_hash_is_resumed_as_before(tmp_path):
    logger = EpochLogger(tmp_path, quiet=True)
    for i in range(2):
        logger.log_tabular("Epoch", i)
        logger.dump_tabular()
    state = logger.state_dict()
    del state["sha256"]
    logger.load_state_dict(state)
    logger.log_tabular("Epoch", 2)
    logger.dump_tabular()
    assert (tmp_path / "progress.txt").read_text() == "Epoch\n0\n1\n2\n"


def test_a_table_that_another_program_shortens_stops_the_run(tmp_path):
    logger = Logger(tmp_path, quiet=True)
    for i in range(2):
        logger.log_tabular("Epoch", i)
        logger.dump_tabular()
    os.truncate(tmp_path / "progress.txt", 0)
    logger.log_tabular("Epoch", 2)
    with pytest.raises(SpinupError, match="another program shortened"):
        logger.dump_tabular()
    for action in (logger.mark_finished, logger.state_dict, lambda: logger.save_state({"a": 1})):
        with pytest.raises(SpinupError, match="another program shortened"):
            action()
    assert not (tmp_path / ".finished").exists()


def test_user_code_may_write_to_the_table_itself(tmp_path):
    logger = Logger(tmp_path, quiet=True)
    logger.output_file.write("Epoch\n0\n")
    logger.save_config({"exp_name": "x"})
    logger.save_state({})
    assert problems(tmp_path) == []


def test_checking_many_rows_takes_no_time(tmp_path):
    logger = Logger(tmp_path, quiet=True)
    logger.output_file.write("Epoch\n" + "1234567\n" * 500_000)
    logger.save_state({})
    started = time.process_time()
    for _ in range(20):
        logger.state_dict()
    assert time.process_time() - started < 2.0  # hashing the whole table each time takes longer
