"""Saved policies are read whole or refused, and nothing in them is executed."""

import json
import os
import pickle
import shutil

import pytest
import torch

from spinup.policies import saved
from spinup.policies.saved import load_policy
from spinup.runs.logger import Logger
from spinup.utils.errors import SpinupError
from spinup.utils.files import self_hash
from spinup.utils.reading import sha256_file
from tests.helpers.bomb import Bomb


def save_policies(folder, *itrs):
    logger = Logger(folder, quiet=True)
    for itr in itrs:
        model = torch.nn.Linear(1, 1)
        torch.nn.init.constant_(model.weight, -1.0 if itr is None else itr)
        logger.setup_pytorch_saver(model)
        logger.save_state({}, itr)
    logger.close()


@pytest.mark.parametrize(
    ("saved", "asked", "expected"),
    [
        ([None, 3], None, -1),
        ([None, 3], "last", 3),
        ([3, None], -1, 3),
        ([None], "last", -1),
        ([2, 10, 9], None, 10),
        ([2, 10, 9], "last", 10),
        ([2, 10, 9], -1, 10),
        ([None, 2, 10], 2, 2),
        ([0, None], 0, 0),
    ],
)
def test_the_policy_asked_for_is_loaded(tmp_path, saved, asked, expected):
    save_policies(tmp_path, *saved)
    assert load_policy(tmp_path, asked)[1]["weight"] == expected


def test_pickles_in_place_of_policy_files_execute_nothing(tmp_path):
    target = tmp_path / "executed"
    bomb = pickle.dumps(Bomb(target))
    pickle.loads(bomb)
    assert target.exists()  # the bomb is live
    target.rmdir()
    save_policies(tmp_path, None)
    folder = tmp_path / "pyt_save"
    (folder / "model.pt").write_bytes(bomb)
    (tmp_path / "vars.pkl").write_bytes(bomb)
    load_policy(tmp_path)
    good = {p: p.read_bytes() for p in folder.iterdir()}
    for name in ("policy.json", "policy.safetensors"):
        (folder / name).write_bytes(bomb)
        with pytest.raises(SpinupError):
            load_policy(tmp_path)
        (folder / name).write_bytes(good[folder / name])
    # the right hash does not help a pickle
    (folder / "policy.safetensors").write_bytes(bomb)
    meta = json.loads(good[folder / "policy.json"])
    meta["tensors"] = sha256_file(folder / "policy.safetensors")
    meta["sha256"] = self_hash(meta)
    (folder / "policy.json").write_text(json.dumps(meta))
    with pytest.raises(SpinupError, match="not a readable safetensors"):
        load_policy(tmp_path)
    Logger(tmp_path, resume=True).close()
    assert not target.exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "policy.safetensors").unlink(),
        lambda f: os.truncate(f / "policy.safetensors", 50),
        lambda f: (f / "policy.json").write_text("{"),
        lambda f: (f / "policy.json").write_text("[" * 100_000),
        lambda f: (f / "policy.json").write_text('{"format": "other"}'),
        lambda f: (f / "policy.json").unlink(),
    ],
    ids=["no_tensors", "truncated", "half_json", "deep_json", "other_format", "no_json"],
)
def test_damaged_policy_is_a_clear_error(tmp_path, damage):
    save_policies(tmp_path, None)
    damage(tmp_path / "pyt_save")
    with pytest.raises(SpinupError):
        load_policy(tmp_path)


def test_flipped_bit_in_the_policy_is_noticed(tmp_path):
    save_policies(tmp_path, None)
    path = tmp_path / "pyt_save/policy.safetensors"
    data = path.read_bytes()
    for place in range(0, len(data), 7):
        bad = bytearray(data)
        bad[place] ^= 1 << (place % 8)
        path.write_bytes(bad)
        with pytest.raises(SpinupError, match="damaged"):
            load_policy(tmp_path)


@pytest.mark.parametrize("name", ["policy.json", "policy7.json"])
def test_a_flipped_bit_in_the_description_never_changes_what_is_loaded(tiny_runs, tmp_path, name):
    run, _ = tiny_runs("ddpg")
    shutil.copytree(run / "pyt_save", tmp_path / "pyt_save")
    path, itr = tmp_path / "pyt_save" / name, 7 if "7" in name else None
    if itr is not None:
        for kind in ("json", "safetensors"):
            shutil.copy(tmp_path / "pyt_save" / f"policy.{kind}", path.with_suffix(f".{kind}"))
    data = path.read_bytes()
    whole, _ = load_policy(tmp_path, itr)
    assert whole["action_space"]["high"] == 2.0  # this and the rest are covered by the hash
    noticed = 0
    bound = 8 * data.index(b'"high": 2.0') + 8 * 8 + 1  # this one turns 2.0 into 0.0
    for place in (bound, *range(0, len(data) * 8, 31)):
        bad = bytearray(data)
        bad[place // 8] ^= 1 << (place % 8)
        path.write_bytes(bad)
        try:
            meta, _ = load_policy(tmp_path, itr)
        except SpinupError as error:
            noticed += "does not match its own hash" in str(error)
            assert place != bound or "does not match its own hash" in str(error)
        else:  # only the name of the hash itself was hit
            assert place != bound
            assert {k: v for k, v in meta.items() if k in whole and k != "sha256"} == {
                k: v for k, v in whole.items() if k != "sha256"
            }
    assert noticed > 100


def test_a_description_without_a_hash_is_loaded_as_before(tmp_path):
    save_policies(tmp_path, None)
    path = tmp_path / "pyt_save" / "policy.json"
    meta = json.loads(path.read_text())
    path.write_text(json.dumps({**meta, "ac_kwargs": "mine"}))
    with pytest.raises(SpinupError, match="delete the line 'sha256'"):
        load_policy(tmp_path)
    del meta["sha256"]
    path.write_text(json.dumps({**meta, "ac_kwargs": "mine"}))
    assert load_policy(tmp_path)[0]["ac_kwargs"] == "mine"


@pytest.mark.parametrize("itr", [5, "first", -3])
def test_policy_that_does_not_exist_is_a_clear_error(tmp_path, itr):
    save_policies(tmp_path, None)
    with pytest.raises(SpinupError):
        load_policy(tmp_path, itr)
    with pytest.raises(SpinupError):
        load_policy(tmp_path / "nowhere")


def test_a_policy_that_is_replaced_while_it_is_read_is_loaded(tmp_path, monkeypatch):
    save_policies(tmp_path, None)

    def replaced_first(*args):
        monkeypatch.undo()
        save_policies(tmp_path / "newer", None)
        shutil.rmtree(tmp_path / "pyt_save")
        os.rename(tmp_path / "newer" / "pyt_save", tmp_path / "pyt_save")
        path = tmp_path / "pyt_save" / "policy.json"
        meta = {**json.loads(path.read_text()), "version": 2}
        path.write_text(json.dumps({**meta, "sha256": self_hash(meta)}))
        return sha256_file(*args)

    monkeypatch.setattr(saved, "sha256_file", replaced_first)
    assert load_policy(tmp_path)[0]["version"] == 2
