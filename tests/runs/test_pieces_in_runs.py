"""A ring saved in pieces comes back as it was at every save, whatever changed in between."""

import os

import numpy as np
import pytest

from spinup.algos.common import replay
from spinup.algos.common.replay import Ring
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint
from spinup.utils.errors import SpinupError

FIELDS = {"obs": ((3,), np.float32), "done": ((), np.bool_)}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Chunks of a few rows, and no waiting for the disk."""
    monkeypatch.setattr(replay, "_CHUNK_BYTES", 100)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def rows(rng, n):
    """Random rows to store."""
    return {"obs": rng.random((n, 3), np.float32), "done": rng.random(n) < 0.5}


def contents(ring):
    """A copy of everything a ring holds."""
    return ring.total, {name: x[: ring.size].copy() for name, x in ring.data.items()}


def assert_holds(ring, expected):
    total, arrays = expected
    assert ring.total == total
    for name, x in arrays.items():
        np.testing.assert_array_equal(ring.data[name][: ring.size], x)


@pytest.mark.parametrize("size", [5, 7, 40, 64])
@pytest.mark.parametrize("seed", [0, 1])
def test_every_save_holds_the_rows_of_its_moment(tmp_path, size, seed):
    """Rows come in all numbers, over the ends of chunks and of the ring; now and then one changes,
    the run goes on from a loaded checkpoint, or from the one before the newest."""
    rng = np.random.default_rng(seed)
    ring = Ring(size, FIELDS)
    saved = {}  # what the ring held, by the number of the save
    for step in range(40):
        for _ in range(rng.integers(0, 4)):
            ring.store(rows(rng, int(rng.integers(1, 1 + min(size, 30)))))
        if ring.size and rng.random() < 0.3:
            row = int(rng.integers(ring.size))
            ring.data["done"][row] ^= True
            ring.changed(row)
        path = save_checkpoint(tmp_path, {"ring": ring.state_dict(), "step": step}, step)
        saved[step] = contents(ring)
        if rng.random() < 0.2 and step:  # the newest is lost
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
        if rng.random() < 0.4:  # another process goes on
            state, _ = load_checkpoint(tmp_path)
            ring = Ring(size, FIELDS)
            ring.load_state_dict(state["ring"])
            assert_holds(ring, saved[state["step"]])
    state, _ = load_checkpoint(tmp_path)
    ring = Ring(size, FIELDS)
    ring.load_state_dict(state["ring"])
    assert_holds(ring, saved[state["step"]])


def test_a_save_writes_the_chunks_that_changed_and_no_others(tmp_path):
    ring = Ring(70, FIELDS)
    assert ring.chunk_rows == 7
    rng = np.random.default_rng(0)

    def files_after(n):
        before = set(names())
        ring.store(rows(rng, n))
        save_checkpoint(tmp_path, {"ring": ring.state_dict()}, ring.total, keep=1)
        after = set(names())
        return len(after - before), len(after)

    def names():
        store = tmp_path / "pieces"
        return os.listdir(store) if store.exists() else []

    assert files_after(10) == (2, 2)  # 7 + 3
    assert files_after(4) == (1, 2)  # the second is full now
    assert files_after(35) == (5, 7)
    assert files_after(21) == (3, 10)  # full
    assert files_after(1) == (1, 10)  # over the oldest row
    assert files_after(13) == (2, 10)
    assert files_after(70) == (10, 10)


def test_rows_with_other_fields_are_not_loaded():
    """They would leave a field empty, or fail without a sentence."""
    ring = Ring(10, {"obs": ((3,), np.float32), "flag": ((), np.bool_)})
    ring.store({"obs": np.ones((4, 3)), "flag": [True] * 4})
    with pytest.raises(SpinupError, match="different fields"):
        Ring(10, FIELDS).load_state_dict(ring.state_dict())
