"""The logger and its directory: old runs are moved, one process writes, a resumed run continues."""

import gc
import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from spinup.runs import logger as logx
from spinup.runs.logger import EpochLogger, Logger
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint
from spinup.utils.errors import SpinupError
from tests.helpers.loggers import table, write_rows
from tests.helpers.processes import run_python

# --------------------------------------------------------------------------------------------------
# the run directory
# --------------------------------------------------------------------------------------------------


def make_old_run(folder, finished=False):
    logger = Logger(folder, quiet=True)
    logger.save_config({"lr": 1})
    write_rows(logger, 2)
    logger.save_state({"a": 1}, 3)
    save_checkpoint(folder / "checkpoints", {"a": 1}, 1)
    if finished:
        logger.mark_finished()
    logger.close()
    (folder / "notes.md").write_text("mine")
    return {
        p.relative_to(folder): p.read_bytes()
        for p in folder.rglob("*")
        if p.is_file() and p.name not in (".lock", "notes.md")
    }


def test_old_run_is_moved_to_old_whole(tmp_path, capsys):
    before = make_old_run(tmp_path)
    capsys.readouterr()
    logger = Logger(tmp_path)
    write_rows(logger, 1)
    old = tmp_path / ".old" / "001"
    kept = {p.relative_to(old): p.read_bytes() for p in old.rglob("*") if p.is_file()}
    assert kept == before and len(before) == 7
    assert len(table(tmp_path).splitlines()) == 2
    assert not (tmp_path / "checkpoints").exists() and not (tmp_path / "config.json").exists()
    assert (tmp_path / "notes.md").read_text() == "mine"
    logger.close()
    Logger(tmp_path).close()
    assert (tmp_path / ".old" / "002" / "progress.txt").exists()
    assert kept[Path("progress.txt")] == (old / "progress.txt").read_bytes()


def test_moving_an_old_run_is_reported_in_one_line_even_when_quiet(tmp_path, capsys):
    make_old_run(tmp_path, finished=True)
    capsys.readouterr()
    Logger(tmp_path, quiet=True).close()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert str(tmp_path / ".old" / "001") in lines[0] and "resume" not in lines[0]


def test_unfinished_run_is_announced_with_how_to_resume(tmp_path, capsys):
    make_old_run(tmp_path, finished=False)
    capsys.readouterr()
    Logger(tmp_path, quiet=True).close()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1
    assert "resume=True" in lines[0] and "--resume" in lines[0]


def test_overwrite_replaces_the_old_run_only(tmp_path):
    make_old_run(tmp_path)
    Logger(tmp_path, overwrite=True).close()
    assert sorted(p.name for p in tmp_path.iterdir()) == [".lock", "notes.md", "progress.txt"]
    assert table(tmp_path) == b""


def test_resume_appends(tmp_path):
    make_old_run(tmp_path)
    logger = Logger(tmp_path, resume=True)
    write_rows(logger, 1, start=2)
    assert table(tmp_path) == b"Epoch\tLoss\n0\t0.0\n1\t0.25\n2\t0.5\n"
    assert not (tmp_path / ".old").exists()


def test_resume_drops_a_half_written_last_line(tmp_path):
    (tmp_path / "progress.txt").write_bytes(b"Epoch\tLoss\n0\t0.0\n1\t0.")
    logger = Logger(tmp_path, resume=True)
    write_rows(logger, 1, start=1)
    assert table(tmp_path) == b"Epoch\tLoss\n0\t0.0\n1\t0.25\n"


def test_resume_and_overwrite_exclude_each_other(tmp_path):
    with pytest.raises(SpinupError, match="exclude"):
        Logger(tmp_path, resume=True, overwrite=True)


def test_a_new_row_makes_a_finished_run_unfinished(tmp_path):
    make_old_run(tmp_path, finished=True)
    logger = Logger(tmp_path, resume=True)
    assert (tmp_path / ".finished").exists()
    write_rows(logger, 1, start=2)
    assert not (tmp_path / ".finished").exists()


def test_output_dir_that_is_a_file_is_a_clear_error(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(SpinupError, match="choose another output_dir"):
        Logger(tmp_path / "file")


def test_default_directories_are_never_shared(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr(logx.time, "strftime", lambda fmt: "the-same-second")
    made = []
    threads = [
        threading.Thread(target=lambda: made.append(Logger(quiet=True).output_dir))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(made)) == 8 and all(Path(d, "progress.txt").exists() for d in made)


HOLDER = """
import sys
from spinup.runs.logger import Logger
logger = Logger(sys.argv[1], quiet=True)
logger.log_tabular("Epoch", 0)
logger.dump_tabular()
print("ready", flush=True)
sys.stdin.read()
"""


def test_two_processes_cannot_write_one_run_directory(tmp_path):
    child = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert child.stdout.readline() == b"ready\n"
    try:
        for kwargs in ({}, {"resume": True}, {"overwrite": True}):
            with pytest.raises(SpinupError, match=rf"pid {child.pid}\) is writing"):
                Logger(tmp_path, **kwargs)
        assert table(tmp_path) == b"Epoch\n0\n"  # nothing was moved, cut or deleted
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()
    Logger(tmp_path).close()  # the dead process does not block


def test_newer_logger_of_the_same_process_takes_over(tmp_path):
    first = Logger(tmp_path)
    write_rows(first, 2)
    second = Logger(tmp_path)
    write_rows(second, 1)
    assert len(table(tmp_path).splitlines()) == 2
    for use in (first.dump_tabular, lambda: first.save_config({}), lambda: first.save_state({})):
        with pytest.raises(SpinupError, match="newer"):
            use()
    first.close()  # does not take the newer one's lock away
    write_rows(second, 1, start=1)
    code = "import sys; from spinup.runs.logger import Logger; Logger(sys.argv[1])"
    other = run_python("-c", code, tmp_path, expect=None)
    assert "another process" in other.stderr


def test_second_table_of_one_process_shares_the_directory(tmp_path):
    train = Logger(tmp_path)
    write_rows(train, 1)
    test = Logger(tmp_path, output_fname="test.txt")
    write_rows(test, 1)
    write_rows(train, 1, start=1)
    assert len(table(tmp_path).splitlines()) == 3
    assert len((tmp_path / "test.txt").read_bytes().splitlines()) == 2


def test_running_a_notebook_cell_again_retires_all_its_loggers(tmp_path):
    old = [Logger(tmp_path), Logger(tmp_path, output_fname="test.txt")]
    new = [Logger(tmp_path), Logger(tmp_path, output_fname="test.txt")]
    for logger in new:
        write_rows(logger, 1)
    for logger in old:
        with pytest.raises(SpinupError, match="newer"):
            logger.dump_tabular()
    assert len(table(tmp_path).splitlines()) == 2


def test_a_retired_logger_cannot_touch_the_new_runs_files(tmp_path):
    Logger(tmp_path).close()
    other = Logger(tmp_path, output_fname="test.txt")
    again = Logger(tmp_path, output_fname="test.txt")
    joined = Logger(tmp_path)
    with pytest.raises(SpinupError, match="newer"):
        other.save_config({})
    third = Logger(tmp_path)  # the first table anew: the whole directory is a new run
    with pytest.raises(SpinupError, match="newer"):
        again.save_config({})
    with pytest.raises(SpinupError, match="newer"):
        joined.save_config({})
    third.save_config({})


def test_collected_logger_gives_the_directory_back(tmp_path):
    logger = EpochLogger(tmp_path)
    file = logger.output_file
    del logger
    gc.collect()
    assert file.closed
    code = "import sys; from spinup.runs.logger import Logger; Logger(sys.argv[1])"
    run_python("-c", code, tmp_path)


def test_closed_logger_refuses_to_write(tmp_path):
    logger = Logger(tmp_path)
    logger.close()
    logger.close()
    with pytest.raises(SpinupError, match="closed"):
        logger.dump_tabular()


# --------------------------------------------------------------------------------------------------
# resuming
# --------------------------------------------------------------------------------------------------


def test_progress_is_cut_back_to_the_checkpoint(tmp_path):
    """No row twice, none missing, and the same bytes as a run that never stopped."""
    straight = EpochLogger(tmp_path / "straight")
    for i in range(4):
        straight.store(X=i / 3)
        straight.log_tabular("Epoch", i)
        straight.log_tabular("X", with_min_and_max=True)
        straight.dump_tabular()

    run = tmp_path / "killed"
    logger = EpochLogger(run)
    for i in range(4):
        logger.store(X=i / 3)
        if i == 2:  # in the middle of an epoch
            save_checkpoint(run / "checkpoints", {"logger": logger.state_dict()}, i)
        logger.log_tabular("Epoch", i)
        logger.log_tabular("X", with_min_and_max=True)
        logger.dump_tabular()
    logger.output_file.write("4\t0.")  # killed while writing
    logger.close()

    logger = EpochLogger(run, resume=True)
    logger.load_state_dict(load_checkpoint(run / "checkpoints")[0]["logger"])
    for i in (2, 3):
        if i == 3:
            logger.store(X=i / 3)
        logger.log_tabular("Epoch", i)
        logger.log_tabular("X", with_min_and_max=True)
        logger.dump_tabular()
    assert table(run) == table(tmp_path / "straight")


def test_load_none_goes_back_to_an_empty_table(tmp_path):
    make_old_run(tmp_path)
    logger = EpochLogger(tmp_path, resume=True)
    logger.store(X=1)
    logger.load_state_dict(None)
    assert table(tmp_path) == b"" and logger.first_row and logger.epoch_dict == {}
    write_rows(logger, 1)
    assert table(tmp_path) == b"Epoch\tLoss\n0\t0.0\n"


def test_file_shorter_than_the_checkpoint_is_an_error(tmp_path):
    logger = Logger(tmp_path)
    write_rows(logger, 3)
    state = logger.state_dict()
    logger.close()
    os.truncate(tmp_path / "progress.txt", state["offset"] - 1)
    logger = Logger(tmp_path, resume=True)
    with pytest.raises(SpinupError, match="rows are missing"):
        logger.load_state_dict(state)


def test_file_of_another_run_is_an_error(tmp_path):
    logger = Logger(tmp_path)
    write_rows(logger, 3)
    state = logger.state_dict()
    logger.close()
    (tmp_path / "progress.txt").write_bytes(b"Other\tKeys\n" + b"1\t2\n" * 50)
    before = table(tmp_path)
    logger = Logger(tmp_path, resume=True)
    with pytest.raises(SpinupError, match="not the table"):
        logger.load_state_dict(state)
    assert table(tmp_path) == before


def test_state_goes_through_a_checkpoint_with_every_kind_of_value(tmp_path):
    logger = EpochLogger(tmp_path)
    logger.store(A=1, B=np.float32(2), C=np.ones((2, 3)), D=torch.ones(3), E=[1.0, 2.0])
    logger.log_tabular("Epoch", np.int64(1))
    save_checkpoint(tmp_path / "checkpoints", logger.state_dict(), 0)
    state, _ = load_checkpoint(tmp_path / "checkpoints")
    stats = {k: logger.get_stats(k) for k in "ABCDE"}
    logger.load_state_dict(state)
    assert {k: logger.get_stats(k) for k in "ABCDE"} == stats
    assert logger.log_current_row == {"Epoch": 1} and logger.log_headers == ["Epoch"]
