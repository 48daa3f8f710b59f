"""Processes and shards: one process needs no MPI, and sums do not depend on who takes them."""

import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spinup.parallel import job as mpi_job
from spinup.parallel import mpi as mpi_tools
from spinup.parallel.mpi import Shards, chunk_statistics
from spinup.parallel.world import World
from spinup.utils.errors import SpinupError
from tests.helpers.processes import run_python

numbers = st.floats(-1e6, 1e6)
chunks = st.lists(
    hnp.arrays(np.float64, st.integers(0, 8), elements=numbers), min_size=1, max_size=6
)


# ---- one process -----------------------------------------------------------------------------


def test_a_single_process_imports_no_mpi():
    code = (
        "import sys; from spinup.utils import mpi_tools as m; "
        "assert (m.proc_id(), m.num_procs()) == (0, 1); m.mpi_avg(1.0); m.Shards(3); "
        "m.mpi_statistics_scalar([1.0]); assert 'mpi4py' not in sys.modules"
    )
    run_python("-c", code)


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
        mpi_tools._world.__wrapped__()
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "1")
    assert mpi_tools._world.__wrapped__() is None


def test_without_our_launcher_a_users_file_is_not_taken_for_its_table(monkeypatch, tmp_path):
    monkeypatch.delenv(mpi_job.JOB_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table").write_bytes(b"a user's own data" * 10)
    world = object.__new__(World)  # one of two processes that another launcher started
    world.rank, world.size = 0, 2
    assert world._open_table() is None


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


def test_statistics_of_nothing_are_nan():
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


def test_uneven_splits_are_refused_with_what_would_divide():
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
