"""Checkpoints survive crashes, full disks and damage; what comes back is what went in."""

import errno
import os
import pickle
import random
import shutil
import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from spinup.runs.storage import checkpoints
from spinup.runs.storage.arrays import Piece, read_safetensors, safetensors_chunks
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint
from spinup.runs.storage.packing import pack
from spinup.utils.errors import SpinupError
from spinup.utils.files import atomic_write
from spinup.utils.reading import sha256_file
from tests.helpers.bomb import Bomb
from tests.helpers.crashes import crashes_at_every_call
from tests.helpers.disks import file_size_limit, small_disk
from tests.helpers.processes import run_python

FILES = ["state.json", "state.safetensors", "manifest.json"]


def assert_same(a, b):
    """Equal down to the bits, as `pack` renders both (test_packing.py holds it to that)."""
    (tree_a, arrays_a), (tree_b, arrays_b) = pack(a), pack(b)
    assert tree_a == tree_b and set(arrays_a) == set(arrays_b)
    for name, array in arrays_a.items():
        assert array.tobytes() == arrays_b[name].tobytes()


def state_of(step):
    """A state in which every part contains the step, so that a mixture would show."""
    return {"step": step, "weights": np.full(5000, step, np.float32), "key": (step, [step])}


def assert_consistent(state):
    step = state["step"]
    assert_same(state, state_of(step))


def load_quietly(folder):
    """Load, and fail on any warning about damage."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return load_checkpoint(folder)


def leftovers(folder):
    return [p.name for p in folder.rglob("*") if ".tmp-" in p.name or ".again" in p.name]


def test_our_safetensors_are_read_by_the_library(tmp_path):
    from safetensors.numpy import load_file

    path = tmp_path / "x.safetensors"
    tensors = {
        "f": np.arange(6, dtype=np.float32).reshape(2, 3).T,
        "b": np.array([True, False, True]),
        "e": np.zeros((0, 2)),
        "s": np.array(4, np.int16),
        'q"\n': np.arange(3, dtype=">i8"),
    }
    path.write_bytes(b"".join(bytes(c) for c in safetensors_chunks(tensors)))
    for loaded in (load_file(path), read_safetensors(path)):
        assert set(loaded) == set(tensors)
        for key, value in tensors.items():
            np.testing.assert_array_equal(loaded[key], value)
            assert loaded[key].shape == value.shape


def test_importing_checkpoint_and_logx_imports_no_framework():
    code = (
        "import sys, spinup.runs.storage.checkpoints, spinup.runs.logger;"
        "sys.exit(any(m in sys.modules for m in ('torch', 'tensorflow', 'mpi4py', 'wandb')))"
    )
    run_python("-c", code, cwd=os.getcwd())


# --------------------------------------------------------------------------------------------------
# a disk that is really full
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def disk(tmp_path):
    """A folder that is a small disk, and the function that fills it."""
    with small_disk(tmp_path / "disk", "256k") as full:
        yield tmp_path / "disk", full


@pytest.mark.parametrize("free", [0, 4096, 16384], ids=lambda f: f"{f}_bytes_left")
@pytest.mark.parametrize("step", [2, 3], ids=["same_step", "next_step"])
def test_full_disk_keeps_the_earlier_checkpoints(disk, free, step):
    folder, full = disk[0] / "checkpoints", disk[1]
    for earlier in (1, 2):
        save_checkpoint(folder, state_of(earlier), earlier)
    before = {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    with full(free), pytest.raises(OSError) as error:
        save_checkpoint(folder, {**state_of(step), "more": np.random.rand(9000)}, step)
    assert error.value.errno in (errno.ENOSPC, errno.EFBIG)
    assert leftovers(folder) == []
    assert {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()} == before
    assert load_quietly(folder)[0]["step"] == 2
    save_checkpoint(folder, state_of(9), 9)  # with space on the disk, saving works again
    assert load_quietly(folder)[0]["step"] == 9


def test_write_that_hits_the_file_size_limit_keeps_the_earlier_checkpoint(tmp_path):
    save_checkpoint(tmp_path, state_of(1), 1)
    with file_size_limit(8192), pytest.raises(OSError):
        save_checkpoint(tmp_path, state_of(2), 2)
    assert leftovers(tmp_path) == []
    assert_consistent(load_quietly(tmp_path)[0])


def test_full_disk_leaves_the_old_file_of_an_atomic_write(disk):
    folder, full = disk
    path = folder / "file"
    atomic_write(path, b"old")
    with full(4096), pytest.raises(OSError):
        atomic_write(path, b"x" * 50_000)
    assert path.read_bytes() == b"old"
    assert [p.name for p in folder.iterdir()] == ["file"]


# --------------------------------------------------------------------------------------------------
# damage
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path):
    """A folder with the checkpoints of steps 1 and 2; the second is the newest."""
    save_checkpoint(tmp_path, state_of(1), 1)
    return save_checkpoint(tmp_path, state_of(2), 2)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("part", [0.0, 0.3, 0.99])
def test_truncated_file_falls_back_and_says_so(two, name, part):
    data = (two / name).read_bytes()
    (two / name).write_bytes(data[: int(part * len(data))])
    with pytest.warns(RuntimeWarning, match=two.name):
        state, path = load_checkpoint(two.parent)
    assert path.name == "step-000000000001"
    assert_same(state, state_of(1))


@pytest.mark.parametrize("name", FILES)
def test_a_flipped_bit_anywhere_falls_back_and_says_so(two, name):
    data = (two / name).read_bytes()
    places = range(len(data)) if len(data) < 600 else [*range(0, len(data), len(data) // 300)]
    for place in places:
        bad = bytearray(data)
        bad[place] ^= 1 << (place % 8)
        (two / name).write_bytes(bad)
        with pytest.warns(RuntimeWarning, match=two.name):
            assert load_checkpoint(two.parent)[0]["step"] == 1


@pytest.mark.parametrize("name", FILES)
def test_missing_file_falls_back_and_says_so(two, name):
    (two / name).unlink()
    with pytest.warns(RuntimeWarning, match=two.name):
        assert load_checkpoint(two.parent)[0]["step"] == 1


def test_when_all_are_damaged_it_is_an_error_and_not_a_fresh_start(two):
    for path in two.parent.glob("step-*/state.json"):
        path.write_bytes(b"{}")
    with pytest.warns(RuntimeWarning), pytest.raises(SpinupError, match="none of the 2"):
        load_checkpoint(two.parent)


def test_no_checkpoint_at_all_is_none(tmp_path):
    assert load_checkpoint(tmp_path / "nothing") is None
    assert load_checkpoint(tmp_path) is None


def test_manifest_of_another_checkpoint_is_refused(two):
    shutil.copy(two.parent / "step-000000000001/manifest.json", two / "manifest.json")
    with pytest.warns(RuntimeWarning, match=two.name):
        assert load_checkpoint(two.parent)[0]["step"] == 1


def test_manifest_that_lists_no_files_is_refused(two):
    body = {"format": checkpoints.FORMAT, "step": 2, "serial": 9, "files": {}}
    (two / "manifest.json").write_bytes(checkpoints._render_manifest(body))
    with pytest.warns(RuntimeWarning, match=two.name):
        assert load_checkpoint(two.parent)[0]["step"] == 1


@pytest.mark.parametrize("name", FILES)
def test_pickle_in_place_of_a_file_runs_nothing(two, name, tmp_path):
    target = tmp_path / "executed"
    bomb = pickle.dumps(Bomb(target))
    pickle.loads(bomb)
    assert target.exists()  # the bomb is live
    target.rmdir()
    (two / name).write_bytes(bomb)
    with pytest.warns(RuntimeWarning):
        load_checkpoint(two.parent)
    # also with a manifest that has its hash
    entries = {n: (two / n).read_bytes() for n in FILES[:2]}
    files = {n: {"size": len(d), "sha256": sha256_file(two / n)} for n, d in entries.items()}
    body = {"format": checkpoints.FORMAT, "step": 2, "serial": 9, "files": files}
    if name != "manifest.json":
        (two / "manifest.json").write_bytes(checkpoints._render_manifest(body))
        with pytest.warns(RuntimeWarning):
            load_checkpoint(two.parent)
    assert not target.exists()


# --------------------------------------------------------------------------------------------------
# which ones are kept
# --------------------------------------------------------------------------------------------------


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_the_newest_two_are_kept(tmp_path):
    for step in range(5):
        path = save_checkpoint(tmp_path, state_of(step), step)
        assert path == tmp_path / f"step-{step:012d}"
        assert_same(load_quietly(tmp_path)[0], state_of(step))
    assert names(tmp_path) == ["step-000000000003", "step-000000000004"]


def test_damaged_ones_do_not_count_as_kept(tmp_path):
    save_checkpoint(tmp_path, state_of(1), 1)
    bad = save_checkpoint(tmp_path, state_of(2), 2)
    (bad / "state.safetensors").write_bytes(b"")
    save_checkpoint(tmp_path, state_of(3), 3)
    assert names(tmp_path) == ["step-000000000001", "step-000000000003"]


def test_stale_temporaries_are_deleted(tmp_path):
    (tmp_path / ".tmp-123-abc").mkdir()
    (tmp_path / ".tmp-123-abc" / "state.json").write_bytes(b"half")
    save_checkpoint(tmp_path, state_of(1), 1)
    assert names(tmp_path) == ["step-000000000001"]


def test_saving_a_step_again_replaces_it(tmp_path):
    save_checkpoint(tmp_path, {"v": 1}, 7)
    path = save_checkpoint(tmp_path, {"v": 2}, 7)
    assert names(tmp_path) == [path.name]
    assert load_quietly(tmp_path)[0] == {"v": 2}


def test_the_last_saved_is_the_newest_also_at_a_lower_step(tmp_path):
    """A run that fell back to an older checkpoint saves lower steps than the abandoned one."""
    for step in (100, 200, 150):
        save_checkpoint(tmp_path, state_of(step), step)
    assert load_quietly(tmp_path)[0]["step"] == 150


def test_bad_arguments_are_refused_before_anything_is_written(tmp_path):
    for kwargs in ({"step": -1}, {"step": 1, "keep": 0}):
        with pytest.raises(SpinupError):
            save_checkpoint(tmp_path / "c", {}, **kwargs)
    with pytest.raises(SpinupError):
        save_checkpoint(tmp_path / "c", {"x": object()}, 1)
    assert not (tmp_path / "c").exists()


# --------------------------------------------------------------------------------------------------
# crashes
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1, 2])
@pytest.mark.parametrize("step", [2, 3], ids=["same_step", "next_step"])
def test_a_crash_at_any_call_leaves_a_valid_checkpoint(tmp_path, monkeypatch, keep, step):
    """The old or the new one is intact, without a warning; the next save works and cleans up."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)  # a process dies here, not the machine
    lasting = Piece({"step": np.arange(100)})  # the same file for all of them

    def pieces(number):
        return {"pieces": [lasting, Piece({"step": np.full(100, number)})]}

    def prepare(folder):
        for earlier in (1, 2):
            save_checkpoint(folder, {**state_of(earlier), **pieces(earlier)}, earlier, keep)

    def action(folder):
        save_checkpoint(folder, {**state_of(step), **pieces(step), "new": True}, step, keep)

    seen = []
    for folder in crashes_at_every_call(tmp_path, prepare, action):
        state, _ = load_quietly(folder)
        new = state.pop("new", False)
        seen.append(new)
        saved = step if new else 2
        for piece, want in zip(state.pop("pieces"), pieces(saved)["pieces"], strict=True):
            assert_same(piece.load(), want.load())
        assert_same(state, state_of(saved))
        save_checkpoint(folder, state_of(9), 9, keep)
        left = [p for p in (folder / "pieces").iterdir()]
        assert leftovers(folder) == [] and len(left) == (2 if keep == 2 else 0)
        assert_same(load_quietly(folder)[0], state_of(9))
    assert seen == sorted(seen)  # old up to one instant, new from there on
    assert set(seen) == {False, True} and len(seen) > 6


CHILD = """
import sys, numpy as np
from spinup.runs.storage.checkpoints import save_checkpoint
step = int(sys.argv[2])
while True:
    # every step twice, so that replacing is hit as well
    for _ in range(2):
        state = {"step": step, "weights": np.full(5000, step, np.float32), "key": (step, [step])}
        save_checkpoint(sys.argv[1], state, step)
        print(step, flush=True)
    step += 1
"""


def test_kill_9_at_random_instants_always_leaves_a_valid_checkpoint(tmp_path):
    """A save that has returned is never lost."""
    rng = random.Random(0)
    step = 0
    for _ in range(10):
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, str(tmp_path), str(step)], stdout=subprocess.PIPE
        )
        for _ in range(3):
            acknowledged = int(child.stdout.readline())
        time.sleep(rng.uniform(0, 0.03))
        child.kill()
        child.wait()
        rest = child.stdout.read().split()
        child.stdout.close()
        acknowledged = int(rest[-1]) if rest else acknowledged
        state, _ = load_quietly(tmp_path)
        assert_consistent(state)
        assert acknowledged <= state["step"] <= acknowledged + 1
        step = state["step"]
    assert step >= 10


def test_a_small_checkpoint_costs_milliseconds_beyond_fsync(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda fd: None)
    state = {"w": [np.random.rand(50, 50) for _ in range(5)], "rng": [1.5] * 100}
    save_checkpoint(tmp_path, state, 0)
    times = []
    for step in range(1, 11):
        start = time.process_time()
        save_checkpoint(tmp_path, state, step)
        times.append(time.process_time() - start)
    assert min(times) < 0.02
