"""Links in place of a run's own files and folders: what they lead to is never changed."""

import os
import shutil
import sys
import types

import pytest

from spinup.runs.logger import Logger
from spinup.runs.sinks import make_sink
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint
from spinup.runs.storage.directory import RUN_FILES, delete_files, remove_temporaries
from spinup.utils import files
from spinup.utils.errors import SpinupError
from tests.helpers.child_environments import at, undisturbed

FOLDERS = ("pyt_save", "checkpoints", "checkpoints/pieces", ".old", "step")
FILES = ("config.json", "progress.txt", ".lock", ".finished", "pyt_save/policy.json", "piece")


def contents(folder):
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


def linked(run, name, theirs):
    """Move a file or folder of a run to `theirs`, which holds other files too, and link to it."""
    path = run / name
    if name in ("step", "piece"):
        path = max(run.glob({"step": "checkpoints/step-*", "piece": "checkpoints/pieces/*"}[name]))
    if not os.path.lexists(path):
        path.mkdir()
    shutil.move(path, theirs)
    path.symlink_to(theirs)
    if theirs.is_dir():
        (theirs / ".tmp-x-12345678").write_text("precious")
        (theirs / f"{'0' * 32}.safetensors").write_text("precious")
        shutil.copytree(theirs, theirs / ".tmp-folder-12345678")


@pytest.fixture
def finished(tiny_runs, tmp_path):
    """A copy of a finished run with an earlier one in .old."""
    whole, _ = tiny_runs("dqn", undisturbed, replay_size=60)
    run = tmp_path / "run"
    shutil.copytree(whole, run)
    (run / ".old" / "001").mkdir(parents=True)
    (run / ".old" / "001" / "progress.txt").write_text("Epoch\n")
    return run


@pytest.mark.filterwarnings("ignore:skipping the damaged checkpoint")
@pytest.mark.parametrize("how", ["again", "overwrite", "resume", "while training"])
@pytest.mark.parametrize("name", FOLDERS + FILES)
def test_what_a_link_leads_to_stays_as_it_was(tiny_runs, finished, tmp_path, name, how):
    theirs, seen = tmp_path / "theirs", []

    def link():
        linked(finished, name, theirs)
        seen.append(contents(tmp_path) if theirs.is_file() else contents(theirs))

    arguments = {"replay_size": 60, "epochs": 4}
    if how == "while training":
        env, arguments["resume"] = at(20, link), True
    else:
        link()
        env = undisturbed
        arguments |= {} if how == "again" else {how: True}
    sentence = ""
    try:
        tiny_runs.train("dqn", finished, env, **arguments)
    except SpinupError as error:
        sentence = str(error)
    assert len(seen) == 1
    if theirs.is_dir():
        assert contents(theirs) == seen[0]
    else:
        assert theirs.read_bytes() == seen[0]["theirs"]
    assert sentence or (finished / ".finished").is_file()
    assert "\n" not in sentence
    if (how in ("resume", "while training") and name in FOLDERS[:3]) or (
        how == "again" and name == ".old"
    ):
        assert "is a link or a file where a run keeps a folder" in sentence


def test_the_data_folder_may_be_a_link(tiny_runs, tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to("disk")
    for how in ({}, {}, {"epochs": 3, "resume": True}):
        tiny_runs.train("vpg", tmp_path / "data" / "run", **how)
    assert (tmp_path / "disk" / "run" / ".old" / "001" / "progress.txt").is_file()


@pytest.mark.parametrize("sink, name", [("tensorboard", "tensorboard"), ("wandb", "wandb")])
def test_sinks_do_not_write_through_a_link(tmp_path, monkeypatch, sink, name):
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=None))
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / name).symlink_to(theirs)
    with pytest.raises(SpinupError, match="is a link"):
        make_sink(sink, str(tmp_path / "run"))
    assert list(theirs.iterdir()) == []


def test_the_id_of_a_wandb_run_is_not_read_or_written_through_a_link(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", types.SimpleNamespace(init=None))
    secret = tmp_path / "secret"
    secret.write_text("key")
    (tmp_path / "wandb_id.txt").symlink_to(secret)
    with pytest.raises(SpinupError, match="not a regular file"):
        make_sink("wandb", str(tmp_path))
    assert secret.read_text() == "key"


def test_deleting_and_tidying_stop_at_links(tmp_path):
    theirs, run = tmp_path / "theirs", tmp_path / "run"
    theirs.mkdir()
    run.mkdir()
    (theirs / ".tmp-a-12345678").write_text("precious")
    for name in ("pyt_save", "checkpoints", "tensorboard", ".tmp-b-12345678"):
        (run / name).symlink_to(theirs)
    remove_temporaries(str(run))
    assert not os.path.lexists(run / ".tmp-b-12345678")
    delete_files(str(run), RUN_FILES)
    assert list(run.iterdir()) == []
    assert contents(theirs) == {".tmp-a-12345678": b"precious"}


@pytest.mark.parametrize("leads_to", ["theirs", "nowhere"])
def test_a_checkpoint_that_is_a_link_is_damaged_and_replaced(tmp_path, leads_to):
    folder, theirs = tmp_path / "checkpoints", tmp_path / "theirs"
    save_checkpoint(folder, {"a": 1}, 1)
    save_checkpoint(folder, {"a": 2}, 2)
    shutil.move(folder / "step-000000000002", theirs)
    (folder / "step-000000000002").symlink_to(tmp_path / leads_to)
    before = contents(theirs)
    with pytest.warns(RuntimeWarning, match="it is a link"):
        state, _ = load_checkpoint(folder)
    assert state == {"a": 1}
    save_checkpoint(folder, {"a": 3}, 2)
    assert load_checkpoint(folder)[0] == {"a": 3}
    assert sorted(p.name for p in folder.iterdir()) == ["step-000000000001", "step-000000000002"]
    assert contents(theirs) == before


def test_pipes_and_folders_in_place_of_a_file_are_one_sentence(tmp_path):
    for make in (os.mkfifo, os.mkdir):
        make(tmp_path / "progress.txt")
        with pytest.raises(SpinupError, match="not a regular file"):
            Logger(tmp_path, quiet=True, resume=True)
        files.delete(tmp_path / "progress.txt")


def test_links_are_refused_where_the_system_has_no_flag_for_it(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_FLAGS", 0)
    (tmp_path / "theirs").write_text("precious")
    (tmp_path / "progress.txt").symlink_to("theirs")
    with pytest.raises(SpinupError, match="not a regular file"):
        Logger(tmp_path, quiet=True, resume=True)
    assert (tmp_path / "theirs").read_text() == "precious"
