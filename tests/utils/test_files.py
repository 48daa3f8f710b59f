"""Folders that a run creates survive a power failure, together with the files in them."""

import os
import stat

import numpy as np
import pytest

from spinup.runs.logger import Logger
from spinup.runs.storage.arrays import Piece
from spinup.runs.storage.checkpoints import save_checkpoint
from spinup.utils.files import make_folders


@pytest.fixture
def durable(monkeypatch):
    """The names in each folder at its last fsync, by inode."""
    names, fsync = {}, os.fsync

    def noted(fd):
        fsync(fd)
        info = os.fstat(fd)
        if stat.S_ISDIR(info.st_mode):
            names[info.st_ino] = set(os.listdir(fd))

    monkeypatch.setattr(os, "fsync", noted)
    return names


def lost(root, durable):
    """The files and folders below `root` that a power failure may lose."""
    return [
        str(path.relative_to(root))
        for path in root.rglob("*")
        if path.name not in durable.get(path.parent.stat().st_ino, ())
    ]


def test_every_name_in_a_run_directory_is_durable_after_a_save(tmp_path, durable):
    run = tmp_path / "data" / "exp" / "exp_s0"
    with open(tmp_path / "unsaved", "w"):
        pass
    assert lost(tmp_path, durable) == ["unsaved"]  # this test can see
    os.unlink(tmp_path / "unsaved")
    logger = Logger(run, quiet=True)
    logger.write_config({"a": 1})
    logger.log_tabular("Epoch", 0)
    logger.dump_tabular()
    logger.setup_pytorch_saver({"w": 1})
    logger.save_state({})
    save_checkpoint(run / "checkpoints", {"replay": Piece({"obs": np.zeros(3)})}, 1)
    logger.mark_finished()
    logger.close()
    assert lost(tmp_path, durable) == []


def test_a_run_may_start_below_a_folder_that_cannot_be_read(tmp_path, monkeypatch):
    def refuse(path, flags, *args, **kwargs):
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "open", refuse)
    make_folders(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_a_file_in_place_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(OSError):
        make_folders(tmp_path / "a" / "b")
