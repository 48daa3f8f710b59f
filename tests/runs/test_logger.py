"""The Logger: the table and its file, run directories, resuming, saved models."""

import contextlib
import gc
import json
import math
import os
import pickle
import resource
import signal
import subprocess
import sys
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file

from spinup.policies.saved import load_policy
from spinup.runs import logger as logx
from spinup.runs.logger import EpochLogger, Logger, colorize
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint
from spinup.runs.storage.policies import save_policy
from spinup.utils.errors import SpinupError


def write_rows(logger, rows, start=0):
    for i in range(start, start + rows):
        logger.log_tabular("Epoch", i)
        logger.log_tabular("Loss", i / 4)
        logger.dump_tabular()


def table(folder):
    return (folder / "progress.txt").read_bytes()


@contextlib.contextmanager
def file_size_limit(size):
    """Every write beyond ``size`` bytes of a file really fails, as on a full disk."""
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, old[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)


@contextlib.contextmanager
def full_disk(folder):
    """A tiny tmpfs on ``folder``, filled on demand; where we may not mount, limited file sizes."""
    folder.mkdir(exist_ok=True)
    command = ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except FileNotFoundError:
        mounted = False

    @contextlib.contextmanager
    def full():
        if not mounted:
            with file_size_limit(4096):
                yield
            return
        filler = folder / "filler"
        with contextlib.suppress(OSError), open(filler, "wb", buffering=0) as f:
            while True:
                f.write(b"\0" * 4096)
        try:
            yield
        finally:
            filler.unlink()

    try:
        yield full
    finally:
        gc.collect()
        if mounted:
            subprocess.run(["umount", str(folder)], check=True)


# --------------------------------------------------------------------------------------------------
# the table
# --------------------------------------------------------------------------------------------------


def test_table_has_the_documented_format(tmp_path, capsys):
    logger = Logger(tmp_path)
    logger.log_tabular("Epoch", 3)
    logger.log_tabular("AverageEpRet", 123.456789)
    logger.log_tabular("Note", "fine")
    logger.log_tabular("AVeryLongKeyOfMoreThan15", np.float32(1e-7))
    capsys.readouterr()
    logger.dump_tabular()
    assert capsys.readouterr().out.splitlines() == [
        "-" * 46,
        "|                    Epoch |               3 |",
        "|             AverageEpRet |             123 |",
        "|                     Note |            fine |",
        "| AVeryLongKeyOfMoreThan15 |           1e-07 |",
        "-" * 46,
    ]


def test_short_keys_share_a_column_of_fifteen(tmp_path, capsys):
    logger = Logger(tmp_path)
    logger.log_tabular("A", -0.000123456)
    capsys.readouterr()
    logger.dump_tabular()
    assert capsys.readouterr().out.splitlines() == [
        "-" * 37,
        "|               A |       -0.000123 |",
        "-" * 37,
    ]


def test_progress_file_is_tab_separated_byte_for_byte(tmp_path):
    logger = Logger(tmp_path)
    for i in range(2):
        logger.log_tabular("Epoch", i)
        logger.log_tabular("Loss", 0.1 * i)
        logger.log_tabular("NaN", float("nan"))
        logger.log_tabular("F32", np.float32(0.1))
        logger.log_tabular("Text", "a\tb\nc")
        logger.dump_tabular()
    assert table(tmp_path) == (
        b"Epoch\tLoss\tNaN\tF32\tText\n0\t0.0\tnan\t0.1\ta b c\n1\t0.1\tnan\t0.1\ta b c\n"
    )


def test_row_is_on_disk_when_dump_returns(tmp_path):
    logger = Logger(tmp_path)
    write_rows(logger, 1)
    assert table(tmp_path) == b"Epoch\tLoss\n0\t0.0\n"


@pytest.mark.parametrize(
    "value", [np.array(2.5), np.array([2.5]), np.array([[2.5]]), torch.tensor([2.5]), [2.5]]
)
def test_size_one_values_are_squeezed(tmp_path, capsys, value):
    logger = Logger(tmp_path)
    logger.log_tabular("V", value)
    logger.dump_tabular()
    assert table(tmp_path) == b"V\n2.5\n"
    assert "|             2.5 |" in capsys.readouterr().out


def test_batch_arrays_stay_on_one_line(tmp_path):
    logger = Logger(tmp_path)
    logger.log_tabular("V", np.arange(100.0))
    logger.dump_tabular()
    assert len(table(tmp_path).splitlines()) == 2


def test_new_key_after_the_first_row_is_an_error(tmp_path):
    logger = Logger(tmp_path)
    write_rows(logger, 1)
    with pytest.raises(SpinupError, match="not a column"):
        logger.log_tabular("New", 1)


def test_key_set_twice_is_an_error(tmp_path):
    logger = Logger(tmp_path)
    logger.log_tabular("Epoch", 1)
    with pytest.raises(SpinupError, match="already set"):
        logger.log_tabular("Epoch", 2)
    with pytest.raises(AssertionError):
        logger.log_tabular("Epoch", 2)


def test_key_missing_from_a_later_row_leaves_its_cell_empty(tmp_path):
    logger = Logger(tmp_path)
    write_rows(logger, 1)
    logger.log_tabular("Loss", 1.0)
    logger.dump_tabular()
    assert table(tmp_path).splitlines()[-1] == b"\t1.0"


def test_public_attributes(tmp_path):
    logger = EpochLogger(tmp_path, exp_name="test")
    assert logger.output_dir == str(tmp_path) and logger.exp_name == "test"
    assert logger.first_row and logger.log_headers == [] and logger.log_current_row == {}
    assert logger.epoch_dict == {}
    assert Path(logger.output_file.name) == tmp_path / "progress.txt"
    write_rows(logger, 1)
    assert not logger.first_row and logger.log_headers == ["Epoch", "Loss"]


def test_full_disk_leaves_no_half_row_before_the_next(tmp_path):
    logger = Logger(tmp_path, quiet=True)
    write_rows(logger, 1)
    before = table(tmp_path)
    logger.log_tabular("Epoch", "x" * 9000)
    with file_size_limit(len(before) + 100), pytest.raises(OSError):
        logger.dump_tabular()
    assert table(tmp_path) == before
    logger.log_current_row.clear()
    write_rows(logger, 1, start=1)
    assert table(tmp_path) == before + b"1\t0.25\n"


def test_only_the_first_process_writes_and_prints(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(logx, "proc_id", lambda: 1)
    logger = EpochLogger(tmp_path)
    logger.save_config({"a": 1})
    logger.store(Loss=1.0)
    logger.log_tabular("Loss", average_only=True)
    logger.dump_tabular()
    logger.save_state({"a": 1})
    logger.mark_finished()
    logger.load_state_dict(logger.state_dict())
    assert list(tmp_path.iterdir()) == [] and capsys.readouterr().out == ""
    assert logger.output_dir is None and logger.output_file is None and not logger.first_row


def test_colorize_wraps_in_escape_codes():
    assert colorize("hi", "green") == "\x1b[32mhi\x1b[0m"
    assert colorize("hi", "red", bold=True, highlight=True) == "\x1b[41;1mhi\x1b[0m"
    with pytest.raises(SpinupError, match="there is no color 'pink'"):
        colorize("hi", "pink")


def test_log_is_colored_unless_asked_not_to(tmp_path, capsys, monkeypatch):
    logger = Logger(tmp_path)
    monkeypatch.delenv("NO_COLOR", raising=False)
    capsys.readouterr()
    logger.log("hello", color="cyan")
    assert capsys.readouterr().out == "\x1b[36;1mhello\x1b[0m\n"
    monkeypatch.setenv("NO_COLOR", "1")
    logger.log("hello")
    assert capsys.readouterr().out == "hello\n"


def test_quiet_prints_nothing_of_a_normal_run(tmp_path, capsys):
    logger = EpochLogger(tmp_path, quiet=True)
    logger.save_config({"a": 1})
    logger.log("hello")
    write_rows(logger, 2)
    assert capsys.readouterr().out == ""


# --------------------------------------------------------------------------------------------------
# statistics of an epoch
# --------------------------------------------------------------------------------------------------


def test_statistics_columns_have_the_documented_names_and_order(tmp_path):
    logger = EpochLogger(tmp_path)
    logger.store(Ret=1.0, Len=4, Val=np.array([1.0, 2.0]))
    logger.store(Ret=np.array([3.0]), Len=np.array(6), Val=np.array([[3.0], [4.0]]))
    logger.log_tabular("Epoch", 0)
    logger.log_tabular("Ret", with_min_and_max=True)
    logger.log_tabular("Len", average_only=True)
    logger.log_tabular("Val")
    assert logger.log_current_row == {
        "Epoch": 0,
        "AverageRet": 2.0,
        "StdRet": 1.0,
        "MaxRet": 3.0,
        "MinRet": 1.0,
        "Len": 5.0,
        "AverageVal": 2.5,
        "StdVal": pytest.approx(math.sqrt(1.25)),
    }
    assert logger.log_headers == list(logger.log_current_row)
    assert logger.epoch_dict == {"Ret": [], "Len": [], "Val": []}


def test_get_stats_does_not_clear(tmp_path):
    logger = EpochLogger(tmp_path)
    logger.store(X=1.0)
    logger.store(X=torch.tensor([3.0, 5.0], requires_grad=True))
    assert logger.get_stats("X") == logger.get_stats("X") == (3.0, pytest.approx(math.sqrt(8 / 3)))


def test_statistics_of_nothing_are_nan(tmp_path):
    logger = EpochLogger(tmp_path)
    logger.store(Empty=np.array([]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for key in ("Empty", "Never"):
            logger.log_tabular(key, with_min_and_max=True)
            assert all(math.isnan(v) for v in logger.get_stats(key))
    assert len(logger.log_current_row) == 8
    assert all(math.isnan(v) for v in logger.log_current_row.values())


# Files that an earlier test's failed run left open may be collected, with a warning, in this one.
@pytest.mark.filterwarnings("error", "ignore::ResourceWarning")
@pytest.mark.parametrize("sinks", [[], ["tensorboard"]])
@pytest.mark.parametrize(
    "value",
    [1e308, -1e308, float("inf"), 10**400, -(10**5000), np.float32(3e38), 2**70, [1e308, 10**400]],
    ids=["1e308", "-1e308", "inf", "400 digits", "-5000 digits", "3e38", "2**70", "both"],
)
def test_huge_values_are_logged_and_saved_like_any_other(tmp_path, value, sinks):
    logger = EpochLogger(tmp_path, sinks=sinks)
    for i in range(2):
        logger.store(X=value)
        logger.store(X=1.0)
        logger.log_tabular("X", with_min_and_max=True)
        logger.log_tabular("Plain", value)
        logger.log_tabular("TotalEnvInteracts", i if isinstance(value, list) else value)
        logger.dump_tabular()
    state = logger.state_dict()
    save_checkpoint(tmp_path / "checkpoints", state, 1)
    logger.load_state_dict(load_checkpoint(tmp_path / "checkpoints")[0])
    for sink in logger.sinks:
        sink.cut_back(table(tmp_path).decode().splitlines())
    logger.close()
    header, *rows = (line.split("\t") for line in table(tmp_path).decode().splitlines())
    assert len(rows) == 2 and all(len(row) == len(header) for row in rows)
    highest = 1.0 if isinstance(value, (int, float)) and value < 0 else float("inf")
    assert float(rows[0][header.index("MaxX")]) in (highest, value)


def test_what_was_stored_does_not_change_with_its_source(tmp_path):
    logger = EpochLogger(tmp_path)
    array, tensor = np.array([1.0]), torch.tensor([1.0])
    logger.store(A=array, T=tensor)
    array += 1
    tensor += 1
    assert logger.get_stats("A")[0] == logger.get_stats("T")[0] == 1.0


def test_zero_is_a_value_and_not_a_missing_one(tmp_path):
    logger = EpochLogger(tmp_path)
    logger.log_tabular("Epoch", 0)
    assert logger.log_current_row == {"Epoch": 0}


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
    other = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True)
    assert b"another process" in other.stderr


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
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True, capture_output=True)


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


# --------------------------------------------------------------------------------------------------
# configuration and models
# --------------------------------------------------------------------------------------------------


def test_config_is_sorted_indented_strict_json(tmp_path, capsys):
    logger = Logger(tmp_path, exp_name="ppo")
    logger.save_config({"seed": 0, "actor_critic": torch.nn.Linear, "b": (1, 2), "nan": math.nan})
    text = (tmp_path / "config.json").read_text()
    assert text == (
        '{\n    "actor_critic": "Linear",\n    "b": [\n        1,\n        2\n    ],\n'
        '    "exp_name": "ppo",\n    "nan": "nan",\n    "seed": 0\n}\n'
    )
    assert text in capsys.readouterr().out


def test_config_without_exp_name_has_none(tmp_path):
    logger = Logger(tmp_path)
    logger.save_config({"logger": logger, "locals": locals()})
    assert "exp_name" not in json.loads((tmp_path / "config.json").read_text())


@pytest.mark.parametrize(("itr", "suffix"), [(None, ""), (7, "7")])
def test_save_state_writes_variables_model_and_policy(tmp_path, itr, suffix):
    logger = Logger(tmp_path)
    model = torch.nn.Linear(3, 2)
    logger.setup_pytorch_saver(model, policy_meta={"algo": "ppo", "ac_kwargs": {"h": (4, 4)}})
    logger.save_state({"env": [1, 2]}, itr)
    assert pickle.loads((tmp_path / f"vars{suffix}.pkl").read_bytes()) == {"env": [1, 2]}
    folder = tmp_path / "pyt_save"
    assert sorted(p.name for p in folder.iterdir()) == [
        f"model{suffix}.pt",
        f"policy{suffix}.json",
        f"policy{suffix}.safetensors",
    ]
    again = torch.load(folder / f"model{suffix}.pt", weights_only=False)
    assert torch.equal(again.weight, model.weight)
    for path in (tmp_path, folder):
        meta, tensors = load_policy(path, itr)
        assert meta["format"] == "spinup-policy-1" and meta["algo"] == "ppo"
        assert meta["ac_kwargs"] == {"h": [4, 4]}
        assert meta["class"] == {"module": "torch.nn.modules.linear", "qualname": "Linear"}
        np.testing.assert_array_equal(tensors["weight"], model.weight.detach().numpy())
    assert set(load_file(folder / f"policy{suffix}.safetensors")) == {"weight", "bias"}


def test_empty_state_writes_no_variables(tmp_path):
    logger = Logger(tmp_path)
    logger.save_state({}, None)
    assert not (tmp_path / "vars.pkl").exists()


def test_any_picklable_object_can_be_saved(tmp_path):
    logger = Logger(tmp_path)
    logger.setup_pytorch_saver(what_to_save={"pi": torch.nn.Linear(1, 1), "n": 3})
    logger.save_state({})
    assert torch.load(tmp_path / "pyt_save/model.pt", weights_only=False)["n"] == 3
    assert not (tmp_path / "pyt_save/policy.json").exists()


def test_what_cannot_be_pickled_gives_one_warning_each_and_the_policy_is_saved(tmp_path, capsys):
    logger = Logger(tmp_path)
    model = torch.nn.Linear(1, 1)
    model.hook = lambda x: x
    logger.setup_pytorch_saver(model)
    capsys.readouterr()
    for itr in (None, 1, 2):
        logger.save_state({"env": threading.Lock()}, itr)
    assert len(capsys.readouterr().out.splitlines()) == 2
    assert not list(tmp_path.glob("vars*.pkl")) and not list(tmp_path.glob("pyt_save/model*.pt"))
    assert load_policy(tmp_path, 2)[1]["weight"].shape == (1, 1)


def test_half_precision_weights_come_back_exactly(tmp_path):
    logger = Logger(tmp_path)
    model = torch.nn.Linear(4, 4).to(torch.bfloat16)
    logger.setup_pytorch_saver(model)
    logger.save_state({})
    weight = torch.from_numpy(load_policy(tmp_path)[1]["weight"]).to(torch.bfloat16)
    assert torch.equal(weight, model.weight)


def test_full_disk_keeps_the_earlier_model_and_policy(tmp_path):
    disk = tmp_path / "disk"
    with full_disk(disk) as full:
        logger = Logger(disk, quiet=True)
        model = torch.nn.Linear(64, 64)
        logger.setup_pytorch_saver(model)
        logger.save_state({"x": 1})
        weights = model.weight.detach().clone()
        before = {p: p.read_bytes() for p in disk.rglob("*") if p.is_file()}
        torch.nn.init.zeros_(model.weight)
        with full():
            with pytest.raises(OSError):
                logger.save_state({"x": list(range(20_000))})
            with pytest.raises(OSError):
                logger._pytorch_simple_save()
            with pytest.raises(OSError):
                save_policy(str(disk / "pyt_save"), "", model, None)
        assert {p: p.read_bytes() for p in disk.rglob("*") if p.is_file()} == before
        np.testing.assert_array_equal(load_policy(disk)[1]["weight"], weights)
        logger.save_state({})
        assert not load_policy(disk)[1]["weight"].any()
        logger.close()


def test_full_disk_after_the_tensors_keeps_the_earlier_policy(tmp_path):
    """The tensors fit, their description does not: the old pair must still count."""
    model = torch.nn.Linear(2, 2)
    save_policy(str(tmp_path), "", model, {"version": 0})
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    torch.nn.init.zeros_(model.weight)
    with file_size_limit(4096), pytest.raises(OSError):
        save_policy(str(tmp_path), "", model, {"long": ["x" * 90] * 100})
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before


def die_at_call(n):
    """Make this process vanish at its n-th fsync or rename."""
    calls = iter(range(1, n))

    def wrap(function):
        def counted(*args):
            if next(calls, None) is None:
                os._exit(9)
            return function(*args)

        return counted

    os.fsync, os.replace = wrap(os.fsync), wrap(os.replace)


def test_a_crash_at_any_call_leaves_a_loadable_policy(tmp_path):
    """Two files cannot be replaced at once, yet at every instant one whole pair must count."""
    model = torch.nn.Linear(2, 2)

    def save(folder, version):
        torch.nn.init.constant_(model.weight, version)
        save_policy(str(folder), "", model, {"version": version})

    seen = []
    code = 9
    while code == 9:
        folder = tmp_path / str(len(seen))
        folder.mkdir()
        save(folder, 0)
        pid = os.fork()
        if pid == 0:
            try:
                die_at_call(len(seen) + 1)
                save(folder, 1)
            except BaseException:
                os._exit(1)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        meta, tensors = load_policy(folder)
        assert (tensors["weight"] == meta["version"]).all()
        seen.append(meta["version"])
        save(folder, 2)
        assert load_policy(folder)[0]["version"] == 2
        assert not (folder / "policy.safetensors.new").exists()
    assert code == 0
    assert seen == sorted(seen) and set(seen) == {0, 1} and len(seen) > 5
