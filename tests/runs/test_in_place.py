"""A run whose files are deleted, moved or replaced under it stops, and never reports success."""

import os
import shutil
import stat

import pytest

from spinup.runs.logger import EpochLogger, Logger
from spinup.runs.run import Run
from spinup.runs.storage.locks import RunLock
from spinup.utils.errors import SpinupError
from tests.helpers.child_environments import at, undisturbed


def replace(path):
    """Put a copy in place of a file or folder, as some editors and synchronization tools do."""
    aside = path.with_name(f"{path.name}-aside")
    path.rename(aside)
    copy = shutil.copytree if aside.is_dir() else shutil.copy
    copy(aside, path)


TROUBLE = {
    "directory deleted": (shutil.rmtree, ""),
    "directory moved": (lambda run: run.rename(run.with_name("elsewhere")), ""),
    "directory replaced": (replace, ""),
    "parent moved": (lambda run: run.parent.rename(run.parents[1] / "elsewhere"), ""),
    "table deleted": (lambda run: (run / "progress.txt").unlink(), "progress.txt"),
    "table replaced": (lambda run: replace(run / "progress.txt"), "progress.txt"),
    "lock deleted": (lambda run: (run / ".lock").unlink(), ".lock"),
    "lock replaced": (lambda run: replace(run / ".lock"), ".lock"),
}


@pytest.mark.parametrize("what", TROUBLE)
@pytest.mark.parametrize("step", [1, 45])
def test_a_run_that_loses_its_files_stops_with_one_sentence(tiny_runs, tmp_path, what, step):
    run = tmp_path / "data" / "run"
    trouble, name = TROUBLE[what]
    with pytest.raises(SpinupError, match="was deleted, moved or replaced") as error:
        tiny_runs.train("vpg", run, at(step, lambda: trouble(run)))
    assert str(run / name) in str(error.value) and "\n" not in str(error.value)
    assert list(tmp_path.rglob(".finished")) == []
    if "moved" in what or what == "directory deleted":
        assert not run.exists(), "it was created again"


@pytest.mark.parametrize("what", ["directory deleted", "directory moved", "table deleted"])
def test_files_lost_in_the_very_last_save_are_noticed(tiny_runs, tmp_path, monkeypatch, what):
    run, save, saves = tmp_path / "data" / "run", Run.save, []

    def saved(self):
        save(self)
        saves.append(self)
        if len(saves) == 2:
            TROUBLE[what][0](run)

    monkeypatch.setattr(Run, "save", saved)
    with pytest.raises(SpinupError, match="was deleted, moved or replaced"):
        tiny_runs.train("vpg", run)
    assert len(saves) == 2 and list(tmp_path.rglob(".finished")) == []


def test_a_directory_lost_while_a_checkpoint_is_written_is_noticed(
    tiny_runs, tmp_path, monkeypatch
):
    from spinup.runs.storage import checkpoints

    run, save = tmp_path / "run", checkpoints.save_checkpoint

    def lost(*args):
        shutil.rmtree(run)
        save(*args)  # this creates the directory again

    monkeypatch.setattr(checkpoints, "save_checkpoint", lost)
    with pytest.raises(SpinupError, match="was deleted, moved or replaced"):
        tiny_runs.train("vpg", run)


def test_a_run_that_was_moved_can_be_put_back_and_resumed(tiny_runs, tmp_path):
    run, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    with pytest.raises(SpinupError, match="put it back and resume"):
        tiny_runs.train("vpg", run, at(45, lambda: run.rename(elsewhere)))
    elsewhere.rename(run)
    tiny_runs.train("vpg", run, undisturbed, resume=True)
    assert (run / ".finished").exists()


def test_a_run_directory_reached_through_a_link_is_in_place(tiny_runs, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    tiny_runs.train("vpg", tmp_path / "data" / "run")
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "run")
    tiny_runs.train("vpg", tmp_path / "link", epochs=3, resume=True)
    assert (tmp_path / "disk" / "run" / ".finished").exists()


def test_an_environment_that_changes_the_working_directory_loses_nothing(
    tiny_runs, tmp_path, monkeypatch
):
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path)
    tiny_runs.train("vpg", "run", at(45, lambda: os.chdir("other")))
    assert (tmp_path / "run" / ".finished").exists()
    assert len(list(tmp_path.glob("run/checkpoints/step-*"))) == 2
    assert list((tmp_path / "other").iterdir()) == []


@pytest.mark.parametrize("lost", [".lock", ""])
def test_a_second_run_cannot_start_unnoticed(tmp_path, lost):
    """Without its lock file, a directory is still locked; a new directory stops the first run."""
    folder = tmp_path / "run"
    first = Logger(folder, quiet=True)
    first.log_tabular("Epoch", 0)
    first.dump_tabular()
    if lost:
        (folder / lost).unlink()
        with pytest.raises(SpinupError, match=r"\(pid unknown\) is writing to"):
            RunLock(folder)
    else:
        shutil.rmtree(folder)
        second = EpochLogger(folder, quiet=True)
        second.log_tabular("Epoch", 0)
        second.dump_tabular()
        assert (folder / "progress.txt").read_text() == "Epoch\n0\n"
    first.log_tabular("Epoch", 1)
    with pytest.raises(SpinupError, match="was deleted, moved or replaced"):
        first.dump_tabular()
    for action in (lambda: first.save_config({}), lambda: first.save_state({"a": 1})):
        with pytest.raises(SpinupError, match="was deleted, moved or replaced"):
            action()
    assert not (folder / "config.json").exists() and not (folder / "vars.pkl").exists()


def test_where_folders_cannot_be_locked_the_file_is(tmp_path, monkeypatch):
    import fcntl

    flock = fcntl.flock

    def only_files(fd, operation):
        if stat.S_ISDIR(os.fstat(fd).st_mode):
            raise OSError(9, "Bad file descriptor")  # as NFS answers
        flock(fd, operation)

    monkeypatch.setattr(fcntl, "flock", only_files)
    with RunLock(tmp_path) as lock:
        with pytest.raises(SpinupError, match="already holds the lock"):
            RunLock(tmp_path)
        lock.check()
        (tmp_path / ".lock").unlink()
        with pytest.raises(SpinupError, match="was deleted, moved or replaced"):
            lock.check()
