"""Processes and shards: who does the work, and in which order results are added up.

Everything here works in a single process with no mpi4py installed; the MPI library is imported only
when a launcher (`mpirun`, `srun`) has started this process as one of several.

A *shard* is the unit of work of a data-parallel run: its environments, its generators, its slice of
the batch. The number of shards decides the arithmetic, the number of processes only who carries it
out. Floating-point addition is not associative, so every sum over shards is taken in shard order:
the same seed and the same `shards` give the same bits on 1, 2 or 4 processes.
"""

import functools
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from spinup.utils.errors import SpinupError

# Set by the launchers of Open MPI, MPICH/Intel MPI (PMI) and Slurm's PMIx plug-in.
_SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")


@functools.cache
def _comm() -> Any:
    """MPI's world communicator when a launcher started several of us, else None."""
    sizes = [int(os.environ[name]) for name in _SIZE_VARIABLES if name in os.environ]
    if max(sizes, default=1) <= 1:
        return None
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise SpinupError(
            "this program was started by an MPI launcher but mpi4py is missing: "
            "pip install 'spinup[mpi]'"
        ) from error
    return MPI.COMM_WORLD


def proc_id() -> int:
    """Rank of this process, 0 when there is only one."""
    comm = _comm()
    return 0 if comm is None else comm.Get_rank()


def num_procs() -> int:
    """Number of processes that train together."""
    comm = _comm()
    return 1 if comm is None else comm.Get_size()


def msg(m: Any, string: str = "") -> None:
    """Print `m` with the rank of the process that says it."""
    print(f"Message from {proc_id()}: {string} \t {m}")


def mpi_fork(n: int, bind_to_core: bool = False) -> None:
    """Run the current program as `n` processes; `n <= 1` means no fork and returns at once.

    Inside a program that a launcher has already started this returns too: the processes exist.
    """
    if n <= 1 or _comm() is not None:
        return
    raise SpinupError(
        f"training over {n} processes is not available in this version: "
        "use num_envs (--num_envs) to step several environments in one process"
    )


def allreduce(x: np.ndarray, out: np.ndarray, op: Any = None) -> None:
    """Reduce `x` over all processes into `out`, an array of the same shape; sums by default."""
    comm = _comm()
    if comm is None:
        out[...] = x
        return
    from mpi4py import MPI

    comm.Allreduce(x, out, op=MPI.SUM if op is None else op)


def broadcast(x: np.ndarray, root: int = 0) -> None:
    """Overwrite the array `x` on every process with the one of process `root`."""
    comm = _comm()
    if comm is not None:
        comm.Bcast(x, root=root)


def mpi_op(x: Any, op: Any = None) -> Any:
    """Reduce a scalar, list or array over processes; a scalar in gives a NumPy scalar out."""
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
    """Mean and standard deviation (and minimum and maximum) of `x` joined over all processes.

    Statistics of nothing are NaN; a process with nothing to add still takes part.
    """
    values = np.asarray(x, dtype=np.float32).ravel()
    mean, std, low, high = (np.float32(s) for s in chunk_statistics([values]))
    return (mean, std, low, high) if with_min_and_max else (mean, std)


def chunk_statistics(chunks: Sequence[Any]) -> tuple[float, float, float, float]:
    """(mean, std, min, max) of all values in `chunks`, joined over processes.

    Sums are taken within a chunk, then over chunks in order, then over processes in rank order.
    When each shard hands in one chunk, the result does not depend on how shards are spread over
    processes.
    """
    arrays = _as_arrays(chunks)
    if isinstance(arrays, np.ndarray):  # all scalars: every chunk is its own sum
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
    """One vector when every chunk is a number (by far the quickest), else a list of vectors."""
    if chunks and all(isinstance(c, (int, float, np.generic)) for c in chunks):
        return np.array(chunks, dtype=np.float64)
    arrays = [np.asarray(c, dtype=np.float64).ravel() for c in chunks]
    return [a for a in arrays if a.size]


def _gather(rows: np.ndarray) -> np.ndarray:
    """The rows of all processes, in rank order."""
    comm = _comm()
    return rows if comm is None else np.concatenate(comm.allgather(rows))


class Shards:
    """The shards of a run: how many there are, which ones this process works on, sums over them.

    `Shards(4)` in a single process works on all four; on two processes, each works on two.
    """

    def __init__(self, count: int | None = None):
        procs = num_procs()
        self.count = procs if count is None else int(count)
        if self.count < 1 or self.count % procs:
            raise SpinupError(
                f"shards={self.count} cannot be split evenly over {procs} processes: "
                f"use a multiple of {procs}"
            )
        per_process = self.count // procs
        first = proc_id() * per_process
        self.local = range(first, first + per_process)

    def split(self, name: str, total: int) -> int:
        """`total` divided evenly among the shards, or one sentence about what would divide."""
        if total < self.count or total % self.count:
            lower = total - total % self.count
            near = f"{lower} or {lower + self.count}" if lower else f"{self.count}"
            raise SpinupError(
                f"{name}={total} does not divide into {self.count} shards: use for example {near}"
            )
        return total // self.count

    def sum(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Sum over all shards, in shard order, of one array for each local shard."""
        if len(parts) != len(self.local):
            raise ValueError(f"{len(parts)} parts for {len(self.local)} local shards")
        stacked = _gather(np.stack(parts)) if self.count > 1 else parts
        total = np.array(stacked[0])
        for part in stacked[1:]:
            total += part
        return total

    def mean(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Mean over all shards of one array for each local shard."""
        return self.sum(parts) / self.count
