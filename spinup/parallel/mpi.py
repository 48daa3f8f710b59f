"""Processes and shards: how work is distributed, and in which order results are summed.

Everything here works in a single process without mpi4py. `world.py`, which sends the messages,
is imported only when a launcher (`mpirun`, `srun`) has started this process as one of several.

A *shard* is the unit of work of a data-parallel run: its environments, its RNGs, its slice of
the batch. The number of shards determines the arithmetic; the number of processes only determines
where it is done. Floating-point addition is not associative, so sums over shards are always taken
in shard order: the same seed and the same `shards` give the same bits on 1, 2 or 4 processes.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.utils.errors import SpinupError

if TYPE_CHECKING:
    from spinup.parallel.world import World

# Environment variables set by the launchers of Open MPI, MPICH, Intel MPI and Slurm.
_SIZE_VARIABLES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MPI_LOCALNRANKS")
_RANK_VARIABLES = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK", "MPI_LOCALRANKID")


def under_launcher() -> bool:
    """Return whether `mpirun`, `mpiexec` or `srun` started this process."""
    return any(name in os.environ for name in _RANK_VARIABLES)


@functools.cache
def _world() -> World | None:
    """Return the job's processes if a launcher started several, otherwise None."""
    sizes = [int(os.environ[name]) for name in _SIZE_VARIABLES if name in os.environ]
    if not sizes and under_launcher():
        sizes = [int(os.environ.get("SLURM_NTASKS", 1))]
    if max(sizes, default=1) <= 1:
        return None
    from spinup.parallel.world import World

    return World(max(sizes))


def __getattr__(name: str) -> Any:
    """Import mpi4py's `MPI` when user code first reads `mpi_tools.MPI` (PEP 562)."""
    if name != "MPI":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise ImportError("MPI needs mpi4py: run pip install 'spinup[mpi]'") from error
    return MPI


def abort(message: str, status: int) -> None:
    """End all of the job's processes with `status`; the launcher prints `message` last."""
    world = _world()
    if world is None:
        print(message, file=sys.stderr)
        raise SystemExit(status)
    world.abort(message, status)


def sign_of_life() -> None:
    """Tell the launcher that this process is making progress; costs almost nothing."""
    world = _world()
    if world is not None:
        world.sign_of_life()


def in_a_run(running: bool) -> None:
    """Tell the launcher whether this process is training; outside a run, silence is normal."""
    world = _world()
    if world is not None:
        world.in_a_run(running)


def proc_id() -> int:
    """Return this process's rank; 0 if there is only one process."""
    world = _world()
    return 0 if world is None else world.rank


def num_procs() -> int:
    """Return the number of processes that train together."""
    world = _world()
    return 1 if world is None else world.size


def msg(m: Any, string: str = "") -> None:
    """Print `m` with this process's rank."""
    print(f"Message from {proc_id()}: {string} \t {m}")


def mpi_fork(n: int, bind_to_core: bool = False, **options: Any) -> None:
    """Run the current program as `n` processes; if `n <= 1`, return at once.

    This starts the program again with the `mpirun` next to the interpreter or on PATH, waits for
    it, and exits with its status. In a program that a launcher has already started, it returns at
    once. `options` are the other attributes of `spinup.parallel.launch.Launch`.
    """
    if under_launcher():
        world = _world()
        if world is not None:
            world.separate_output()
    elif n > 1:
        from spinup.parallel.launch import start_again

        start_again(n, bind_to_core, **options)


def allreduce(x: np.ndarray, out: np.ndarray, op: Any = None) -> None:
    """Reduce `x` over all processes into `out`, an array of the same shape; sums by default."""
    world = _world()
    if world is None:
        out[...] = x
    else:
        world.allreduce(x, out, op)


def broadcast(x: np.ndarray, root: int = 0) -> None:
    """Overwrite the array `x` in every process with process `root`'s array."""
    world = _world()
    if world is not None:
        world.broadcast(x, root)


def broadcast_object(x: Any) -> Any:
    """Return process 0's `x` in every process."""
    world = _world()
    return x if world is None else world.broadcast_object(x)


def gather_lists(x: list[Any]) -> list[Any]:
    """Gather every process's list on rank 0, in rank order; other ranks get an empty list."""
    world = _world()
    return x if world is None else world.gather_lists(x)


def any_process(flag: bool) -> bool:
    """Return whether `flag` is true in at least one process."""
    return bool(most(int(flag)))


def most(x: int) -> int:
    """Return the largest `x` over all processes."""
    world = _world()
    return x if world is None else max(world.allgather(x))


def mpi_op(x: Any, op: Any = None) -> Any:
    """Reduce a scalar, list or array over processes; a scalar becomes a NumPy scalar."""
    scalar = np.isscalar(x) or np.ndim(x) == 0
    x = np.atleast_1d(np.asarray(x, dtype=np.float32))
    out = np.zeros_like(x)
    allreduce(x, out, op)
    return out[0] if scalar else out


def mpi_sum(x: Any) -> Any:
    """Sum `x` over processes."""
    return mpi_op(x)


def mpi_avg(x: Any) -> Any:
    """Average `x` over processes."""
    return mpi_sum(x) / np.float32(num_procs())


@np.errstate(over="ignore", invalid="ignore")
def mpi_statistics_scalar(x: Any, with_min_and_max: bool = False) -> tuple[Any, ...]:
    """Return the mean and standard deviation of `x` over all processes.

    With `with_min_and_max`, also return the minimum and maximum. Without any values, all are NaN.
    Every process must call this, even with nothing to add.
    """
    values = np.asarray(x, dtype=np.float32).ravel()
    mean, std, low, high = (np.float32(s) for s in chunk_statistics([values]))
    return (mean, std, low, high) if with_min_and_max else (mean, std)


@np.errstate(over="ignore", invalid="ignore")  # of 1e308 twice, the mean is inf
def chunk_statistics(chunks: Sequence[Any]) -> tuple[float, float, float, float]:
    """Return (mean, std, min, max) of all values in `chunks`, over all processes.

    Sums are taken within each chunk, then over chunks in order, then over processes in rank order.
    If each shard passes one chunk, the result does not depend on how the shards are distributed
    over processes.
    """
    arrays = _as_arrays(chunks)
    if isinstance(arrays, np.ndarray):  # only scalars: each chunk is its own sum
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
    """Return a list of vectors or, if every chunk is a number, one vector, which is much faster."""
    try:
        if chunks and all(isinstance(c, (int, float, np.generic)) for c in chunks):
            return np.array(chunks, dtype=np.float64)
        arrays = [np.asarray(c, dtype=np.float64).ravel() for c in chunks]
    except OverflowError:  # an int that no float can hold
        return _as_arrays([[to_float(v) for v in np.ravel(np.asarray(c, object))] for c in chunks])
    return [a for a in arrays if a.size]


def to_float(value: Any) -> float:
    """Convert a number to a float, which is infinite if the number is too large for one."""
    try:
        return float(value)
    except OverflowError:
        return np.inf if value > 0 else -np.inf


def _gather(rows: np.ndarray) -> np.ndarray:
    """Gather all processes' rows, in rank order."""
    world = _world()
    return rows if world is None else np.concatenate(world.allgather(rows))


class Shards:
    """A run's shards: their number, this process's own shards, and sums over all of them.

    With `Shards(4)`, a single process works on all four; each of two processes works on two.
    """

    def __init__(self, count: int | None = None):
        procs = num_procs()
        self.count = procs if count is None else int(count)
        if self.count < 1 or self.count % procs:
            raise SpinupError(
                f"shards={self.count} cannot be divided evenly among {procs} processes: "
                f"use a multiple of {procs}"
            )
        per_process = self.count // procs
        first = proc_id() * per_process
        self.local = range(first, first + per_process)
        self._weights = [1.0] * per_process

    def weigh(self, rows: Sequence[int]) -> None:
        """Weight later means by the number of rows that each local shard has.

        They differ if vector environments used steps for resets. The weights are 1 on average;
        if all shards have the same number of rows, they are exactly 1.
        """
        total = float(self.sum([np.array(float(n)) for n in rows]))
        self._weights = [n * self.count / total for n in rows]

    def split(self, name: str, total: int) -> int:
        """Divide `total` by the number of shards; raise `SpinupError` if there is a remainder."""
        if total < self.count or total % self.count:
            lower = total - total % self.count
            near = f"{lower} or {lower + self.count}" if lower else f"{self.count}"
            raise SpinupError(
                f"{name}={total} does not divide into {self.count} shards: use for example {near}"
            )
        return total // self.count

    def sum(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Sum over all shards, in shard order; `parts` contains one array per local shard."""
        if len(parts) != len(self.local):
            raise ValueError(f"{len(parts)} parts for {len(self.local)} local shards")
        # a single part, the usual case with several processes, is not copied
        stacked = np.stack(parts) if len(parts) > 1 else np.asarray(parts[0])[None]
        world = _world()
        if world is not None:
            flat = np.ascontiguousarray(stacked.reshape(len(stacked), -1))
            return world.ordered_sum(flat).reshape(stacked.shape[1:])
        total = stacked[0].copy()
        for row in stacked[1:]:
            total += row
        return total

    def mean(self, parts: Sequence[np.ndarray]) -> np.ndarray:
        """Average over all shards' rows; `parts` contains the mean of each local shard."""
        pairs = zip(self._weights, parts, strict=True)
        total = self.sum([part if weight == 1 else weight * part for weight, part in pairs])
        if total.dtype.kind == "f":
            total /= self.count  # in place, because no other code uses this array
            return total
        return total / self.count
