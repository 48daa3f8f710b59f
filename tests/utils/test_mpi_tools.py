"""Processes and shards: one process needs no MPI, and sums do not depend on who takes them."""

import subprocess
import sys
import threading
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spinup.utils import mpi_tools
from spinup.utils.errors import SpinupError
from spinup.utils.mpi_tools import Shards, chunk_statistics

numbers = st.floats(-1e6, 1e6)
chunks = st.lists(
    hnp.arrays(np.float64, st.integers(0, 8), elements=numbers), min_size=1, max_size=6
)


class World:
    """Processes played by threads: enough of an MPI communicator for what the library asks."""

    def __init__(self, size):
        self.size = size
        self.messages = 0
        self._barrier = threading.Barrier(size, timeout=20)
        self._slots = [None] * size
        self._rank = threading.local()

    def comm(self):
        return self if self.size > 1 else None

    def Get_rank(self):
        return self._rank.value

    def Get_size(self):
        return self.size

    def allgather(self, x):
        rank = self._rank.value
        self._slots[rank] = x
        self._barrier.wait()
        out = list(self._slots)
        if self._barrier.wait() == 0:
            self.messages += 1
        return out

    def Allreduce(self, x, out, op=None):
        parts = np.stack(self.allgather(x.copy()))
        out[...] = parts.max(0) if op == "max" else parts.sum(0)

    def Bcast(self, x, root=0):
        x[...] = self.allgather(x.copy())[root]

    def run(self, function):
        """`function(rank)` on every process; the results in rank order."""
        results, errors = [None] * self.size, []

        def work(rank):
            self._rank.value = rank
            try:
                results[rank] = function(rank)
            except BaseException as error:
                errors.append(error)
                self._barrier.abort()

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        if errors:
            raise errors[0]
        return results


@pytest.fixture
def world(monkeypatch):
    """A function that makes this a job of so many processes."""

    def make(size):
        world = World(size)
        monkeypatch.setattr(mpi_tools, "_comm", world.comm)
        package = ModuleType("mpi4py")
        package.MPI = SimpleNamespace(SUM="sum", MAX="max")
        monkeypatch.setitem(sys.modules, "mpi4py", package)
        return world

    return make


# ---- one process -----------------------------------------------------------------------------


def test_a_single_process_imports_no_mpi():
    code = (
        "import sys; from spinup.utils import mpi_tools as m; "
        "assert (m.proc_id(), m.num_procs()) == (0, 1); m.mpi_avg(1.0); m.Shards(3); "
        "m.mpi_statistics_scalar([1.0]); assert 'mpi4py' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("n", [1, 0, -1])
def test_one_process_or_fewer_means_no_fork(n):
    assert mpi_tools.mpi_fork(n) is None


def test_reductions_of_one_process_are_its_own_numbers():
    assert mpi_tools.mpi_sum(3.0) == 3.0 and mpi_tools.mpi_avg(3) == 3.0
    assert isinstance(mpi_tools.mpi_sum(3), np.generic)
    assert isinstance(mpi_tools.mpi_avg(3.0), np.generic)
    np.testing.assert_array_equal(mpi_tools.mpi_avg([1.0, 2.0]), [1.0, 2.0])
    assert mpi_tools.mpi_op(np.ones((2, 3))).shape == (2, 3)
    x, out = np.array([1.0, 2.0]), np.zeros(2)
    mpi_tools.allreduce(x, out)
    assert out.tolist() == [1, 2]
    mpi_tools.broadcast(x)
    assert x.tolist() == [1, 2]


def test_msg_says_who_speaks(capsys):
    mpi_tools.msg("hello")
    assert "0" in capsys.readouterr().out


def test_a_launcher_without_mpi4py_is_a_clear_error(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "mpi4py", None)  # as if it were not installed
    with pytest.raises(SpinupError, match=r"spinup\[mpi\]"):
        mpi_tools._comm.__wrapped__()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    assert mpi_tools._comm.__wrapped__() is None


# ---- statistics ------------------------------------------------------------------------------


@given(chunks)
def test_statistics_of_chunks_are_numpys_on_the_joined_data(parts):
    joined = np.concatenate(parts)
    got = chunk_statistics(parts)
    if joined.size == 0:
        assert np.isnan(got).all()
        return
    want = (joined.mean(), joined.std(), joined.min(), joined.max())
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-6)
    assert all(type(x) is float for x in got)


def test_pitfall_22_statistics_of_nothing_are_nan():
    for nothing in ([], [[]], [np.zeros(0), np.zeros(0)]):
        assert np.isnan(chunk_statistics(nothing)).all()
    assert np.isnan(mpi_tools.mpi_statistics_scalar([], with_min_and_max=True)).all()


def test_statistics_of_a_large_offset_keep_their_deviation():
    x = 1e8 + np.array([-1.0, 1.0])
    assert chunk_statistics([x])[1] == pytest.approx(1.0, rel=1e-9)


def test_mpi_statistics_scalar_gives_two_or_four_numbers():
    x = [1.0, 2.0, 6.0]
    mean, std = mpi_tools.mpi_statistics_scalar(x)
    assert float(mean) == 3 and float(std) == pytest.approx(np.std(x), rel=1e-6)
    four = mpi_tools.mpi_statistics_scalar(x, with_min_and_max=True)
    assert [float(v) for v in four[2:]] == [1, 6] and len(four) == 4


# ---- shards ----------------------------------------------------------------------------------


def test_shards_default_to_one_a_process():
    shards = Shards()
    assert shards.count == 1 and list(shards.local) == [0]
    assert list(Shards(4).local) == [0, 1, 2, 3]


def test_sums_and_means_are_over_shards_in_order():
    parts = [np.array([1e16, 1.0]), np.array([1.0, 2.0]), np.array([-1e16, 4.0])]
    # (1e16 + 1) - 1e16 is 0 in floating point: the order is part of the result
    assert Shards(3).sum(parts).tolist() == [0.0, 7.0]
    assert Shards(3).mean(parts).tolist() == [0.0, 7.0 / 3]
    with pytest.raises(ValueError, match="2 parts for 3"):
        Shards(3).sum(parts[:2])


def test_sums_leave_their_parts_alone():
    for count in (1, 2):
        parts = [np.ones(2) for _ in range(count)]
        total = Shards(count).sum(parts)
        total += 5
        assert all(p.tolist() == [1, 1] for p in parts)


def test_pitfall_23_uneven_splits_are_refused_with_what_would_divide():
    assert Shards(4).split("steps_per_epoch", 40) == 10
    with pytest.raises(SpinupError, match=r"steps_per_epoch=42 .* 4 shards: .* 40 or 44"):
        Shards(4).split("steps_per_epoch", 42)
    with pytest.raises(SpinupError, match=r"minibatch_size=3 .* for example 4$"):
        Shards(4).split("minibatch_size", 3)


@pytest.mark.parametrize("count", [0, -2])
def test_fewer_than_one_shard_is_refused(count):
    with pytest.raises(SpinupError, match="shards="):
        Shards(count)


# ---- several processes, played by threads ----------------------------------------------------


@pytest.mark.parametrize("procs", [1, 2, 4])
def test_sums_over_shards_are_the_same_bits_on_any_number_of_processes(world, procs):
    rng = np.random.default_rng(0)
    parts = [rng.normal(size=5) * 10.0**k for k in (8, -8, 3, 0)]
    want = ((parts[0] + parts[1]) + parts[2]) + parts[3]

    def work(rank):
        shards = Shards(4)
        return shards.sum([parts[i] for i in shards.local]), list(shards.local)

    results = world(procs).run(work)
    assert [i for _, local in results for i in local] == [0, 1, 2, 3]
    for total, _ in results:
        np.testing.assert_array_equal(total, want)


@pytest.mark.parametrize("procs", [1, 2, 4])
def test_statistics_are_the_same_bits_however_shards_are_grouped(world, procs):
    rng = np.random.default_rng(1)
    parts = [rng.normal(size=n) * s for n, s in ((3, 1e7), (5, 1e-3), (0, 1), (4, 1.0))]
    want = chunk_statistics(parts)

    def work(rank):
        per = 4 // procs
        return chunk_statistics(parts[rank * per : (rank + 1) * per])

    assert world(procs).run(work) == [want] * procs


def test_pitfall_22_a_process_with_nothing_takes_part_in_the_statistics(world):
    results = world(2).run(lambda rank: chunk_statistics([[1.0, 3.0]] if rank else [[]]))
    assert results == [(2.0, 1.0, 1.0, 3.0)] * 2
    results = world(2).run(lambda rank: mpi_tools.mpi_statistics_scalar([5.0] if rank else []))
    assert [float(mean) for mean, _ in results] == [5, 5]


def test_reductions_over_processes(world):
    results = world(4).run(lambda rank: (mpi_tools.mpi_sum(rank), mpi_tools.mpi_avg([rank, 1.0])))
    for total, mean in results:
        assert total == 6 and mean.tolist() == [1.5, 1.0]

    def send(rank):
        x = np.full(2, float(rank))
        mpi_tools.broadcast(x, root=3)
        return x.tolist()

    assert world(4).run(send) == [[3, 3]] * 4
    assert world(2).run(lambda rank: mpi_tools.mpi_op(rank, "max")) == [1, 1]


def test_pitfall_23_shards_must_divide_among_the_processes(world):
    with pytest.raises(SpinupError, match="shards=3 cannot be split evenly over 2 processes"):
        world(2).run(lambda rank: Shards(3))
    assert world(2).run(lambda rank: list(Shards().local)) == [[0], [1]]


def test_inside_a_launcher_nothing_is_forked(world):
    assert world(2).run(lambda rank: mpi_tools.mpi_fork(4)) == [None, None]
