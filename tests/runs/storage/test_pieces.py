"""Pieces of checkpoints: written once, shared, cleaned up, and never trusted blindly."""

import collections
import contextlib
import errno
import json
import os
import pickle
import shutil
import warnings

import numpy as np
import pytest

from spinup.algos.common.replay import ReplayBuffer, Ring
from spinup.runs.storage.arrays import Piece, safetensors_chunks
from spinup.runs.storage.checkpoints import _render_manifest, load_checkpoint, save_checkpoint
from spinup.utils.errors import SpinupError
from spinup.utils.reading import sha256_file
from tests.helpers.bomb import Bomb
from tests.helpers.disks import file_size_limit

FIELDS = {"x": ((2,), np.float32), "k": ((), np.int64), "flag": ((), np.bool_)}


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    """No power failure here, so no waiting for the disk."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def make_ring(size=100, chunk_rows=10):
    """A small ring that still has several chunks."""
    ring = Ring(size, FIELDS)
    ring.chunk_rows = chunk_rows
    ring._pieces = [None] * -(-size // chunk_rows)
    return ring


def add(ring, n):
    """Append n rows that contain their number."""
    k = np.arange(ring.total, ring.total + n)
    ring.store({"x": np.stack([k, -k], 1), "k": k, "flag": k % 2 == 0})


def rows_of(ring):
    return {name: x[: ring.size].tolist() for name, x in ring.data.items()}


def save(folder, ring, step=None, **more):
    step = ring.total if step is None else step
    return save_checkpoint(folder, {"ring": ring.state_dict(), "step": step, **more}, step)


def load(folder, **kwargs):
    """The ring of the newest checkpoint, without a warning, and its state."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state, _ = load_checkpoint(folder)
    ring = make_ring(**kwargs)
    ring.load_state_dict(state["ring"])
    return ring, state


def on_disk(folder):
    """File name -> what changes when the file is written again."""
    found = (folder / "pieces").iterdir() if (folder / "pieces").exists() else ()
    return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns) for p in found}


def named_by(path):
    return set(json.loads((path / "manifest.json").read_text())["pieces"])


def checkpoints(folder):
    return sorted(p for p in folder.iterdir() if p.name.startswith("step-"))


def assert_tidy(folder):
    """Every file in the folder belongs to a checkpoint, and every one they need is there."""
    assert set(on_disk(folder)) == set().union(*(named_by(p) for p in checkpoints(folder)))
    assert not [p for p in folder.rglob("*") if ".tmp-" in p.name or ".again" in p.name]


# ---- written once ----------------------------------------------------------------------------


def test_a_second_save_without_changes_writes_no_piece(tmp_path):
    ring = make_ring()
    add(ring, 95)
    save(tmp_path, ring, 1)
    first = on_disk(tmp_path)
    assert len(first) == 10
    for step in (2, 3, 3):
        save(tmp_path, ring, step)
        assert on_disk(tmp_path) == first
    resumed, _ = load(tmp_path)
    save(tmp_path, resumed, 4)  # nor does a run that was resumed
    assert on_disk(tmp_path) == first


def test_only_the_pieces_that_changed_are_written(tmp_path):
    ring = make_ring()
    add(ring, 95)
    save(tmp_path, ring)
    before = on_disk(tmp_path)
    add(ring, 3)  # still in the last chunk
    save(tmp_path, ring)
    assert len(on_disk(tmp_path).keys() - before.keys()) == 1
    before = on_disk(tmp_path)
    add(ring, 6)  # 98..104: the end of the last chunk, and over the first one
    save(tmp_path, ring)
    assert len(on_disk(tmp_path).keys() - before.keys()) == 2
    before = on_disk(tmp_path)
    ring.data["k"][57] = -1
    ring.changed(np.array([57]))
    save(tmp_path, ring)
    assert len(on_disk(tmp_path).keys() - before.keys()) == 1
    assert load(tmp_path)[0].data["k"][57] == -1


def test_a_save_of_a_million_rows_costs_as_much_as_what_is_new(tmp_path):
    buffer = ReplayBuffer(3, 1, 1e6)
    row = 4 * (3 + 3 + 1 + 1) + 1
    chunk = buffer.ring.chunk_rows * row

    def add_and_save(n):
        obs = np.full((n, 3), buffer.ring.total, np.float32)
        buffer.store_many(obs, obs[:, :1], obs[:, 0], obs, obs[:, 0] > 0)
        before = on_disk(tmp_path)
        save_checkpoint(tmp_path, {"buffer": buffer.state_dict()}, buffer.ring.total)
        new = on_disk(tmp_path).keys() - before.keys()
        return sum((tmp_path / "pieces" / name).stat().st_size for name in new)

    header = 1000
    assert add_and_save(990_000) < 990_000 * row * 1.01
    assert chunk < 2e6 and len(on_disk(tmp_path)) < 40
    total = 0
    for _ in range(8):  # within a chunk, over its end, over the end of the ring
        cost = add_and_save(4000)
        assert 4000 * row <= cost <= 4000 * row + 2 * (chunk + header)
        total += cost
    assert buffer.ring.total > 1_000_000 and total < 8 * (4000 * row + 2 * (chunk + header)) / 1.5


def test_what_comes_back_is_what_was_there_after_any_number_of_saves(tmp_path):
    rng = np.random.default_rng(0)
    ring = make_ring(size=73, chunk_rows=10)
    for _ in range(60):
        add(ring, int(rng.integers(25)))
        if rng.random() < 0.7:
            save(tmp_path, ring)
            assert_tidy(tmp_path)
            loaded, _ = load(tmp_path, size=73)
            assert rows_of(loaded) == rows_of(ring) and loaded.total == ring.total
            if rng.random() < 0.3:
                ring = loaded  # a resumed run continues from it
    assert ring.total > 5 * 73


def test_pieces_are_found_wherever_a_state_holds_them(tmp_path):
    pieces = [Piece({"a": np.full(9, i)}) for i in range(4)]
    state = {
        "list": [1, pieces[0]],
        "tuple": (None, (pieces[1],)),
        "dict": {7: {"deep": pieces[2]}},
        "ordered": collections.OrderedDict(a=pieces[3], again=pieces[0]),
    }
    save_checkpoint(tmp_path, state, 1)
    loaded, _ = load_checkpoint(tmp_path)
    got = [loaded["list"][1], loaded["tuple"][1][0], loaded["dict"][7]["deep"]]
    got += [loaded["ordered"]["a"]]
    assert [piece.load()["a"].tolist() for piece in got] == [[i] * 9 for i in range(4)]
    assert loaded["ordered"]["again"].file == got[0].file and len(on_disk(tmp_path)) == 4


# ---- deleted when no checkpoint needs them ---------------------------------------------------


def test_pieces_stay_while_the_older_checkpoint_needs_them_and_no_longer(tmp_path):
    ring = make_ring(size=20)
    add(ring, 20)
    first = named_by(save(tmp_path, ring))
    add(ring, 20)
    second = named_by(save(tmp_path, ring))
    assert not first & second and set(on_disk(tmp_path)) == first | second
    add(ring, 10)
    third = named_by(save(tmp_path, ring))
    assert len(second & third) == 1 and set(on_disk(tmp_path)) == second | third


def test_a_run_that_fell_back_removes_what_only_the_damaged_checkpoint_needed(tmp_path):
    ring = make_ring()
    add(ring, 30)
    save(tmp_path, ring)
    add(ring, 30)
    bad = save(tmp_path, ring)
    (bad / "state.json").write_bytes(b"{")
    with pytest.warns(RuntimeWarning, match=bad.name):
        state, _ = load_checkpoint(tmp_path)
    resumed = make_ring()
    resumed.load_state_dict(state["ring"])
    add(resumed, 5)
    save(tmp_path, resumed)
    assert_tidy(tmp_path)
    assert rows_of(load(tmp_path)[0]) == rows_of(resumed)


def test_a_state_goes_to_another_folder_with_its_pieces(tmp_path):
    ring = make_ring()
    add(ring, 42)
    save(tmp_path / "a", ring)
    state, _ = load_checkpoint(tmp_path / "a")
    save_checkpoint(tmp_path / "b", state, 1)
    shutil.rmtree(tmp_path / "a")
    assert rows_of(load(tmp_path / "b")[0]) == rows_of(ring)


def test_a_save_brings_back_the_pieces_that_somebody_deleted(tmp_path):
    ring = make_ring()
    add(ring, 42)
    save(tmp_path, ring)
    shutil.rmtree(tmp_path / "pieces")
    save(tmp_path, ring)
    resumed, _ = load(tmp_path)
    assert rows_of(resumed) == rows_of(ring)
    next((tmp_path / "pieces").iterdir()).write_bytes(b"")  # also in a run that was resumed
    save(tmp_path, resumed, 99)
    assert rows_of(load(tmp_path)[0]) == rows_of(ring)


# ---- damage ----------------------------------------------------------------------------------


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def truncate(path):
    path.write_bytes(path.read_bytes()[:-1])


def unlink(path):
    path.unlink()


def directory(path):
    path.unlink()
    path.mkdir()


@pytest.fixture
def two(tmp_path):
    """Two checkpoints: the rows of the older one, the path of the newer, whose pieces differ."""
    ring = make_ring()
    add(ring, 25)
    save(tmp_path, ring)
    older = rows_of(ring)
    add(ring, 25)
    return older, save(tmp_path, ring)


@pytest.mark.parametrize("damage", [flip, truncate, unlink, directory])
def test_a_damaged_piece_falls_back_and_says_which_checkpoint_is_damaged(two, damage):
    older, newest = two
    folder = newest.parent
    own = named_by(newest) - named_by(checkpoints(folder)[0])
    assert len(own) == 3  # the chunk that grew and the two behind it
    damage(folder / "pieces" / min(own))
    with pytest.warns(RuntimeWarning, match=f"{newest.name}: .*{min(own)}"):
        state, path = load_checkpoint(folder)
    ring = make_ring()
    ring.load_state_dict(state["ring"])
    assert path == checkpoints(folder)[0] and rows_of(ring) == older


@pytest.mark.parametrize("damage", [flip, truncate, unlink])
def test_when_every_checkpoint_lost_a_piece_it_is_an_error_and_not_a_fresh_start(two, damage):
    _, newest = two
    folder = newest.parent
    shared = named_by(newest) & named_by(checkpoints(folder)[0])
    damage(folder / "pieces" / min(shared))
    with pytest.warns(RuntimeWarning), pytest.raises(SpinupError, match="none of the 2"):
        load_checkpoint(folder)


def test_a_checkpoint_with_a_damaged_piece_does_not_count_as_kept(two):
    _, newest = two
    folder = newest.parent
    for name in named_by(newest) - named_by(checkpoints(folder)[0]):
        truncate(folder / "pieces" / name)
    save_checkpoint(folder, {"other": 1}, 999)
    assert [p.name for p in checkpoints(folder)] == ["step-000000000025", "step-000000000999"]
    assert_tidy(folder)


# ---- forged files ----------------------------------------------------------------------------


def forge(path, change):
    """Rewrite a manifest, with its right hash."""
    body = json.loads((path / "manifest.json").read_text())
    body.pop("manifest_sha256")
    change(body)
    (path / "manifest.json").write_bytes(_render_manifest(body))


def entry_of(path):
    return {"size": path.stat().st_size, "sha256": sha256_file(path)}


@pytest.mark.parametrize(
    "name",
    ["../x.safetensors", "/etc/passwd", "x", "", f"{'0' * 32}.safetensors/../../x", "..", "0" * 32],
)
def test_a_manifest_that_names_a_file_outside_is_refused(two, name):
    _, newest = two
    secret = newest.parent / "x.safetensors"
    secret.write_bytes(b"".join(bytes(c) for c in safetensors_chunks({})))
    forge(newest, lambda body: body["pieces"].update({name: entry_of(secret)}))
    with pytest.warns(RuntimeWarning, match=f"{newest.name}: .*lists a file that is not a piece"):
        _, path = load_checkpoint(newest.parent)
    assert path != newest


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.update(pieces=list(body["pieces"])),
        lambda body: body.update(pieces=None),
        lambda body: body["pieces"].update({min(body["pieces"]): {"size": 1}}),
        lambda body: body["pieces"].update({min(body["pieces"]): []}),
        lambda body: body["pieces"].pop(min(body["pieces"])),  # the state still names it
        lambda body: body.pop("pieces"),
    ],
    ids=["list", "null", "no_hash", "no_entry", "one_missing", "all_missing"],
)
def test_a_manifest_whose_pieces_make_no_sense_is_refused(two, change):
    _, newest = two
    forge(newest, change)
    with pytest.warns(RuntimeWarning, match=newest.name):
        _, path = load_checkpoint(newest.parent)
    assert path != newest


def test_a_pickle_in_place_of_a_piece_runs_nothing(two, tmp_path):
    _, newest = two
    target = tmp_path / "executed"
    bomb = pickle.dumps(Bomb(target))
    pickle.loads(bomb)
    assert target.exists()  # the bomb is live
    target.rmdir()
    name = min(named_by(newest) - named_by(checkpoints(newest.parent)[0]))
    file = newest.parent / "pieces" / name
    file.write_bytes(bomb)
    forge(newest, lambda body: body["pieces"].update({name: entry_of(file)}))
    state, path = load_checkpoint(newest.parent)
    assert path == newest  # the manifest has its hash
    with pytest.raises(SpinupError, match="not a readable safetensors file"):
        make_ring().load_state_dict(state["ring"])
    assert not target.exists()


def test_checkpoints_from_before_there_were_pieces_still_load(tmp_path):
    for step in (1, 2):
        path = save_checkpoint(tmp_path, {"step": step, "w": np.arange(500.0)}, step)
        assert not (tmp_path / "pieces").exists()
        forge(path, lambda body: body.pop("pieces"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert load_checkpoint(tmp_path)[0]["step"] == 2
    save_checkpoint(tmp_path, {"step": 3}, 3)
    assert [p.name[-1] for p in checkpoints(tmp_path)] == ["2", "3"]


# ---- saves that break off --------------------------------------------------------------------


def fail_at(monkeypatch, n, error):
    """Make the n-th call that changes the disk fail; returns the number of calls, in a list."""
    count = [0]

    def wrap(function):
        def counted(*args, **kwargs):
            count[0] += 1
            if count[0] == n:
                raise error
            return function(*args, **kwargs)

        return counted

    for name in ("fsync", "rename"):
        monkeypatch.setattr(os, name, wrap(getattr(os, name)))
    return count


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), KeyboardInterrupt()], ids=repr)
def test_a_save_that_fails_anywhere_costs_nothing_and_the_next_one_works(
    tmp_path, monkeypatch, error
):
    seen = []
    for n in range(1, 100):
        folder = tmp_path / str(n)
        ring = make_ring()
        add(ring, 25)
        save(folder, ring)
        before = rows_of(ring)
        add(ring, 25)  # three pieces to write
        with monkeypatch.context() as patch:
            count = fail_at(patch, n, error)
            with contextlib.suppress(type(error)):
                save(folder, ring)
        if count[0] < n:  # it came to its end
            break
        other = shutil.copytree(folder, tmp_path / f"{n}-other")
        loaded, state = load(other)
        assert rows_of(loaded) == (before if state["step"] == 25 else rows_of(ring))
        seen.append(state["step"])
        # in the same process, and in another one from what is on the disk
        for place, again in ((folder, ring), (other, loaded)):
            add(again, 7)
            save(place, again)
            assert rows_of(load(place)[0]) == rows_of(again)
            assert_tidy(place)
    assert seen == sorted(seen) and set(seen) == {25, 50} and len(seen) > 10


def test_a_full_disk_keeps_the_earlier_checkpoint_and_no_half_written_piece(tmp_path):
    ring = make_ring(size=4000, chunk_rows=1000)
    add(ring, 500)
    save(tmp_path, ring)
    before = rows_of(ring)
    files = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    add(ring, 3000)
    with file_size_limit(16_000), pytest.raises(OSError) as error:
        save(tmp_path, ring)  # a piece has 17 000 bytes
    assert error.value.errno == errno.EFBIG
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == files
    assert rows_of(load(tmp_path, size=4000, chunk_rows=1000)[0]) == before
    add(ring, 3000)  # around the end, over what the failed save would have kept
    save(tmp_path, ring)
    assert rows_of(load(tmp_path, size=4000, chunk_rows=1000)[0]) == rows_of(ring)
    assert_tidy(tmp_path)


def test_a_state_that_cannot_be_saved_leaves_no_piece_behind(tmp_path):
    ring = make_ring()
    add(ring, 25)
    with pytest.raises(SpinupError, match=r"state\['wrong'\]"):
        save(tmp_path / "c", ring, wrong=object())
    assert not (tmp_path / "c").exists()
