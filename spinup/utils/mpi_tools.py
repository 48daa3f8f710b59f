"""Processes and shards: who does the work, and in which order results are summed.

Everything here works in a single process without mpi4py. The MPI library is imported only when a
launcher (`mpirun`, `srun`) has started this process as one of several.

A *shard* is the unit of work of a data-parallel run: its environments, its generators, its slice of
the batch. The number of shards determines the arithmetic; the number of processes only determines
who does it. Floating-point addition is not associative, so sums over shards are always taken in
shard order: the same seed and the same `shards` give the same bits on 1, 2 or 4 processes.
"""

import contextlib
import functools
import importlib.util
import itertools
import os
import sys
import traceback
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spinup.utils import mpi_job
from spinup.utils.errors import SpinupError

# The launchers of Open MPI, MPICH, Intel MPI and Slurm set these.
_SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")
_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MPI_LOCALRANKID")


def under_launcher() -> bool:
    """Whether `mpirun`, `mpiexec` or `srun` started this process."""
    return any(name in os.environ for name in _RANK_VARIABLES)


@functools.cache
def _comm() -> Any:
    """MPI's world communicator if a launcher started several processes, else None."""
    sizes = [int(os.environ[name]) for name in _SIZE_VARIABLES if name in os.environ]
    if not sizes and under_launcher():
        sizes = [int(os.environ.get("SLURM_NTASKS", 1))]
    if max(sizes, default=1) <= 1:
        return None
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py cannot find its MPI library
        raise SpinupError(
            "an MPI launcher started this program, but mpi4py or its MPI library is missing "
            f"({error}); run {mpi_job.INSTALL}"
        ) from error
    comm = MPI.COMM_WORLD
    if comm.Get_size() == 1:
        library = MPI.Get_library_version().split(",")[0].strip()
        raise SpinupError(
            f"a launcher started {max(sizes)} processes, but it does not belong to the MPI library "
            f"of mpi4py ({library}), so they cannot see each other; use that library's mpirun"
        )
    sys.excepthook = _abort_on_exception
    return comm


def _abort_on_exception(
    kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
) -> None:
    """End the job when one process raises: the others would wait for it forever."""
    if issubclass(kind, KeyboardInterrupt):
        abort(f"Rank {proc_id()} of {num_procs()} was interrupted", 130)
    from mpi4py import MPI

    text = "".join(traceback.format_exception(kind, error, trace))
    # MPI itself fails when another process is gone: that process is the cause, not this one.
    kept = mpi_job.LOST if issubclass(kind, MPI.Exception) else mpi_job.ERROR
    abort(f"Rank {proc_id()} of {num_procs()} failed:\n{text}", 1, kept)


def abort(message: str, status: int, kept: str = mpi_job.ERROR) -> None:
    """End all processes with `status`; the launcher prints `message` last.

    `kept` starts the name of the file for the launcher; by default an error of the program.
    """
    message = message if message.endswith("\n") else message + "\n"
    sys.stdout.flush()
    sys.stderr.flush()
    folder = os.environ.get(mpi_job.JOB_VARIABLE, "")
    if os.path.isdir(folder):
        # written under another name first: the launcher must never read half a message
        part = os.path.join(folder, f"part-{proc_id()}")
        with open(part, "w", encoding="utf-8") as file:
            file.write(message)
        os.replace(part, os.path.join(folder, f"{kept}-{proc_id()}"))
    else:  # not our launcher, or it is on another machine
        with open(_first_stderr(), "w", encoding="utf-8", closefd=False) as file:
            file.write(message)
    comm = _comm()
    if comm is None:
        raise SystemExit(status)
    comm.Abort(status)


@functools.cache
def _table() -> np.ndarray | None:
    """This process's row of the table, if our launcher is watching."""
    path = os.path.join(os.environ.get(mpi_job.JOB_VARIABLE, ""), "table")
    if _comm() is None or not os.path.isfile(path):
        return None
    shape = num_procs(), mpi_job.COLUMNS
    table = np.memmap(path, dtype=np.int64, mode="r+", shape=shape)
    return np.asarray(table)[proc_id()]  # ten times as fast as a memmap


def sign_of_life() -> None:
    """Tell the launcher that this process makes progress; costs almost nothing."""
    table = _table()
    if table is not None:
        table[mpi_job.STEPS] += 1


def in_a_run(running: bool) -> None:
    """Tell the launcher whether this process is training; if not, silence is normal."""
    table = _table()
    if table is not None:
        table[mpi_job.RUNNING] = int(running)


@contextlib.contextmanager
def _collective() -> Iterator[None]:
    """Tell the launcher that this process is waiting for the others."""
    table = _table()
    if table is None:
        yield
        return
    table[mpi_job.ENTERED] += 1
    try:
        yield
    finally:
        table[mpi_job.LEFT] += 1


def proc_id() -> int:
    """The rank of this process; 0 if there is only one."""
    comm = _comm()
    return 0 if comm is None else comm.Get_rank()


def num_procs() -> int:
    """The number of processes that train together."""
    comm = _comm()
    return 1 if comm is None else comm.Get_size()


def msg(m: Any, string: str = "") -> None:
    """Print `m` with the rank of this process."""
    print(f"Message from {proc_id()}: {string} \t {m}")


def mpi_fork(n: int, bind_to_core: bool = False, **options: Any) -> None:
    """Run the current program as `n` processes; with `n <= 1`, return at once.

    This starts the program again with the `mpirun` next to the interpreter or on PATH, waits for
    it, and exits with its status. In a program that a launcher has already started, it returns at
    once. `options` are the other attributes of `spinup.utils.mpi_launch.Launch`.
    """
    if under_launcher():
        _separate_output()
        return
    if n <= 1:
        return
    if hasattr(sys, "ps1") or Path(sys.argv[0]).name == "ipykernel_launcher.py":
        raise SpinupError(
            f"training on {n} processes starts the program again, which does not work in an "
            "interactive session; put the code into a file and run that"
        )
    if importlib.util.find_spec("mpi4py") is None:
        raise SpinupError(f"training on {n} processes needs mpi4py and MPI; run {mpi_job.INSTALL}")
    from spinup.utils import mpi_launch

    launch = mpi_launch.Launch(n, bind_to_core, **options)
    sys.stdout.flush()
    sys.exit(mpi_launch.run_job(launch))


@functools.cache
def _separate_output() -> None:
    """Let only the first process print; send the output of the others to files, or drop it."""
    if proc_id() == 0:
        return
    _first_stderr()
    target, folder = os.devnull, os.environ.get(mpi_job.LOG_VARIABLE)
    if folder:
        os.makedirs(folder, exist_ok=True)
        target = os.path.join(folder, f"rank-{proc_id()}.txt")
    fd = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        os.dup2(fd, stream.fileno())
    os.close(fd)


@functools.cache
def _first_stderr() -> int:
    """The original standard error, before `_separate_output` redirected it: for last words."""
    return os.dup(2)


def allreduce(x: np.ndarray, out: np.ndarray, op: Any = None) -> None:
    """Reduce `x` over all processes into `out`, an array of the same shape; sums by default."""
    comm = _comm()
    if comm is None:
        out[...] = x
        return
    from mpi4py import MPI

    with _collective():
        comm.Allreduce(x, out, op=MPI.SUM if op is None else op)


def broadcast(x: np.ndarray, root: int = 0) -> None:
    """Overwrite the array `x` in every process with that of process `root`."""
    comm = _comm()
    if comm is not None:
        with _collective():
            comm.Bcast(x, root=root)


def broadcast_object(x: Any) -> Any:
    """What process 0 passes in, in every process."""
    comm = _comm()
    if comm is None:
        return x
    with _collective():
        return comm.bcast(x)


def gather_lists(x: list[Any]) -> list[Any]:
    """The lists of all processes in rank order, in process 0; an empty list in the others."""
    comm = _comm()
    if comm is None:
        return x
    with _collective():
        parts = comm.gather(x)
    return [] if parts is None else [item for part in parts for item in part]


def any_process(flag: bool) -> bool:
    """Whether `flag` is true in at least one process."""
    return bool(most(int(flag)))


def most(x: int) -> int:
    """The largest `x` of all processes."""
    comm = _comm()
    if comm is None:
        return x
    with _collective():
        return max(comm.allgather(x))


def mpi_op(x: Any, op: Any = None) -> Any:
    """Reduce a scalar, list or array over processes; a scalar gives a NumPy scalar."""
    scalar = np.isscalar(x) or np.ndim(x) == 0
    x = np.atleast_1d(np.asarray(x, dtype=np.float32))
    out = np.zeros_like(x)
    allreduce(x, out, op)
    return out[0] if scalar else out


def mpi_sum(x: Any) -> Any:
    """Sum over processes."""
    return mpi_op(x)


def mpi_avg(x: Any) -> Any:
    """Mean over processes."""
    return mpi_sum(x) / np.float32(num_procs())


def mpi_statistics_scalar(x: Any, with_min_and_max: bool = False) -> tuple[Any, ...]:
    """The mean and standard deviation (minimum, maximum) of `x` over all processes.

    Statistics of nothing are NaN. Every process must call this, even with nothing to add.
    """
    values = np.asarray(x, dtype=np.float32).ravel()
    mean, std, low, high = (np.float32(s) for s in chunk_statistics([values]))
    return (mean, std, low, high) if with_min_and_max else (mean, std)


def chunk_statistics(chunks: Sequence[Any]) -> tuple[float, float, float, float]:
    """(mean, std, min, max) of all values in `chunks`, over all processes.

    Sums are taken within each chunk, then over chunks in order, then over processes in rank order.
    If each shard passes one chunk, the result does not depend on how the shards are distributed
    over processes.
    """
    arrays = _as_arrays(chunks)
    if isinstance(arrays, np.ndarray):  # only scalars: every chunk is its own sum
        ours = np.stack([np.ones_like(arrays), arrays, arrays, arrays], axis=1)
    else:
        ours = np.array([(a.size, a.sum(), a.min(), a.max()) for a in arrays]).reshape(-1, 4)
    parts = _gather(ours)
    if len(parts) == 0:
        nan = float("nan")
        return nan, nan, nan, nan
    count = sum(parts[:, 0].tolist())
    mean = sum(parts[:, 1].tolist()) / count
    if isinstance(arrays, np.ndarray):
        deviations = np.square(arrays - mean)
    else:
        deviations = np.array([np.square(a - mean).sum() for a in arrays])
    squares = _gather(deviations.reshape(-1, 1))
    std = float(np.sqrt(sum(squares[:, 0].tolist()) / count))
    return float(mean), std, float(parts[:, 2].min()), float(parts[:, 3].max())


def _as_arrays(chunks: Sequence[Any]) -> np.ndarray | list[np.ndarray]:
    """One vector if every chunk is a number (by far the fastest), else a list of vectors."""
    if chunks and all(isinstance(c, (int, float, np.generic)) for c in chunks):
        return np.array(chunks, dtype=np.float64)
    arrays = [np.asarray(c, dtype=np.float64).ravel() for c in chunks]
    return [a for a in arrays if a.size]


def _gather(rows: np.ndarray) -> np.ndarray:
    """The rows of all processes, in rank order."""
    comm = _comm()
    if comm is None:
        return rows
    with _collective():
        return np.concatenate(comm.allgather(rows))


# Up to this many numbers (over all shards), one message to everybody beats two to each.
_SMALL = 1 << 16


def _ordered_sum(comm: Any, parts: np.ndarray) -> np.ndarray:
    """The sum over all rows of all processes' (k, n) arrays, row by row in rank order.

    As fast as an Allreduce, but with a fixed order of additions. Large arrays are cut into as many
    parts as there are processes. Each process sums one part, then all share their sums. The lengths
    of the parts may differ by one, so nothing is padded and a single row is sent without a copy.
    """
    procs, (k, n) = comm.Get_size(), parts.shape
    if procs * k == 2:  # a + b and b + a are the same bits
        total = np.empty(n, parts.dtype)
        with _collective():
            comm.Allreduce(parts, total)
        return total
    if procs * k * n <= _SMALL:
        rows = np.empty((procs * k, n), parts.dtype)
        with _collective():
            comm.Allgather(parts, rows)
        for row in rows[1:]:
            rows[0] += row
        return rows[0]
    cuts = [n * rank // procs for rank in range(procs + 1)]
    sizes = [stop - start for start, stop in itertools.pairwise(cuts)]
    own = sizes[comm.Get_rank()]
    if k > 1:  # put the rows of each part next to each other
        packed = np.empty(k * n, parts.dtype)
        for start, stop in itertools.pairwise(cuts):
            packed[k * start : k * stop].reshape(k, -1)[:] = parts[:, start:stop]
        parts = packed
    sending = [k * size for size in sizes], [k * cut for cut in cuts[:-1]]
    received = np.empty((procs * k, own), parts.dtype)  # in rank order, which is shard order
    total = np.empty(n, parts.dtype)
    with _collective():
        comm.Alltoallv([parts, sending], [received, [k * own] * procs])
        for row in received[1:]:
            received[0] += row
        comm.Allgatherv(received[0], [total, (sizes, cuts[:-1])])
    return total


def _add_up(rows: np.ndarray) -> np.ndarray:
    total = rows[0].copy()
    for row in rows[1:]:
        total += row
    return total


class Shards:
    """The shards of a run: their number, those that this process works on, and sums over all.

    With `Shards(4)`, a single process works on all four; each of two processes works on two.
    """

    def __init__(self, count: int | None = None):
        procs = num_procs()
        self.count = procs if count is None else int(count)
        if self.count < 1 or self.count % procs:
            raise SpinupError(
                f"shards={self.count} cannot be divided evenly among {procs} processes; "
                f"use a multiple of {procs}"
            )
        per_process = self.count // procs
        first = proc_id() * per_process
        self.local = range(first, first + per_process)

    def split(self, name: str, total: int) -> int:
        """`total` divided by the number of shards; a remainder is a `SpinupError`."""
        if total < self.count or total % self.count:
            lower = total - total % self.count
            near = f"{lower} or {lower + self.count}" if lower else f"{self.count}"
            raise SpinupError(
                f"{name}={total} does not divide into {self.count} shards; use for example {near}"
            )
        return total // self.count

    def sum(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """The sum over all shards, in shard order; `parts` holds one array per local shard."""
        if len(parts) != len(self.local):
            raise ValueError(f"{len(parts)} parts for {len(self.local)} local shards")
        # a single part, usual with several processes, is not copied
        stacked = np.stack(parts) if len(parts) > 1 else np.asarray(parts[0])[None]
        comm = _comm()
        if comm is None:
            return _add_up(stacked)
        flat = np.ascontiguousarray(stacked.reshape(len(stacked), -1))
        return _ordered_sum(comm, flat).reshape(stacked.shape[1:])

    def mean(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """The mean over all shards; `parts` holds one array per local shard."""
        total = self.sum(parts)
        if total.dtype.kind == "f":
            total /= self.count  # in place: nobody else has this array
            return total
        return total / self.count
