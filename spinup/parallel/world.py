"""An MPI job from one process's perspective: messages, and status reports to the launcher.

Only a process that a launcher started as one of several imports this module; in a single process,
`mpi.py` needs no messages. `job.py` defines how launcher and processes communicate.
"""

import contextlib
import itertools
import os
import sys
import traceback
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from spinup.parallel import job
from spinup.utils.errors import SpinupError
from spinup.utils.files import open_own, own_folder

# Up to this many numbers (over all shards), one message to every process beats two to each.
SMALL = 1 << 16


class World:
    """All of the job's processes.

    Args:
        started: how many processes the launcher reports that it started.
    """

    def __init__(self, started: int):
        try:
            from mpi4py import MPI
        except (ImportError, RuntimeError) as error:  # RuntimeError: the MPI library is missing
            raise SpinupError(
                "an MPI launcher started this program, but mpi4py or its MPI library is missing "
                f"({error}): run {job.INSTALL}"
            ) from error
        self._mpi, self._comm = MPI, MPI.COMM_WORLD
        self.rank: int = self._comm.Get_rank()
        self.size: int = self._comm.Get_size()
        if self.size == 1:
            library = MPI.Get_library_version().split(",")[0].strip()
            raise SpinupError(
                f"a launcher started {started} processes, but it does not belong to the MPI "
                f"library of mpi4py ({library}), so they cannot see each other: use that library's "
                "mpirun"
            )
        self._table = self._open_table()
        if self._table is not None:
            self._table[job.PID] = os.getpid()
        self._stderr: int | None = None  # the original stderr, once the output is separated
        sys.excepthook = self._abort_on_exception

    # ---- the launcher ---------------------------------------------------------------------------

    def _open_table(self) -> np.ndarray | None:
        """Return this process's row of the table, if our launcher is watching."""
        folder = os.environ.get(job.JOB_VARIABLE)
        path = os.path.join(folder, "table") if folder else ""
        if not os.path.isfile(path):
            return None
        shape = self.size, job.COLUMNS
        table = np.memmap(path, dtype=np.int64, mode="r+", shape=shape)
        return np.asarray(table)[self.rank]  # ten times as fast as a memmap

    def sign_of_life(self) -> None:
        """Tell the launcher that this process is making progress."""
        if self._table is not None:
            self._table[job.STEPS] += 1

    def in_a_run(self, running: bool) -> None:
        """Tell the launcher whether this process is training."""
        if self._table is not None:
            self._table[job.RUNNING] = int(running)

    @contextlib.contextmanager
    def collective(self) -> Iterator[None]:
        """Tell the launcher that this process is waiting for the others."""
        if self._table is None:
            yield
            return
        self._table[job.ENTERED] += 1
        try:
            yield
        finally:
            self._table[job.LEFT] += 1

    def separate_output(self) -> None:
        """Let only the first process print; redirect the others' output to files, or discard it."""
        if self.rank == 0 or self._stderr is not None:
            return
        self._stderr = os.dup(2)
        target, folder = os.devnull, os.environ.get(job.LOG_VARIABLE)
        if folder:
            own_folder(folder)
            target = os.path.join(folder, f"rank-{self.rank}.txt")
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        fd = open_own(target, flags) if folder else os.open(target, flags)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(fd, stream.fileno())
        os.close(fd)

    def abort(self, message: str, status: int, kept: str = job.ERROR) -> None:
        """End all processes with `status`; the launcher prints `message` last.

        `kept` is the prefix of the file in which the launcher finds the message: `job.ERROR`
        for an error of the program itself, or `job.LOST`.
        """
        message = message if message.endswith("\n") else message + "\n"
        sys.stdout.flush()
        sys.stderr.flush()
        folder = os.environ.get(job.JOB_VARIABLE, "")
        if os.path.isdir(folder):
            # write under another name first, so that the launcher never reads a partial message
            part = os.path.join(folder, f"part-{self.rank}")
            with open(part, "w", encoding="utf-8") as file:
                file.write(message)
            os.replace(part, os.path.join(folder, f"{kept}-{self.rank}"))
        else:  # not our launcher, or the launcher is on another machine
            stderr = 2 if self._stderr is None else self._stderr
            with open(stderr, "w", encoding="utf-8", closefd=False) as file:
                file.write(message)
        self._comm.Abort(status)

    def _abort_on_exception(
        self, kind: type[BaseException], error: BaseException, trace: types.TracebackType | None
    ) -> None:
        """End the job when one process raises; otherwise, the others would wait for it forever."""
        if issubclass(kind, KeyboardInterrupt):
            self.abort(f"Rank {self.rank} of {self.size} was interrupted", 130)
        text = "".join(traceback.format_exception(kind, error, trace))
        # MPI calls fail once another process has died: that process is the cause, not this one.
        kept = job.LOST if issubclass(kind, self._mpi.Exception) else job.ERROR
        self.abort(f"Rank {self.rank} of {self.size} failed:\n{text}", 1, kept)

    # ---- messages -------------------------------------------------------------------------------

    def allreduce(self, x: np.ndarray, out: np.ndarray, op: Any = None) -> None:
        """Reduce `x` over all processes into `out`; sums by default."""
        with self.collective():
            self._comm.Allreduce(x, out, op=self._mpi.SUM if op is None else op)

    def broadcast(self, x: np.ndarray, root: int) -> None:
        """Overwrite the array `x` in every process with process `root`'s array."""
        with self.collective():
            self._comm.Bcast(x, root=root)

    def broadcast_object(self, x: Any) -> Any:
        """Return process 0's `x` in every process."""
        with self.collective():
            return self._comm.bcast(x)

    def gather_lists(self, x: list[Any]) -> list[Any]:
        """Gather every process's list on rank 0, in rank order; other ranks get an empty list."""
        with self.collective():
            parts = self._comm.gather(x)
        return [] if parts is None else [item for part in parts for item in part]

    def allgather(self, x: Any) -> list[Any]:
        """Return every process's `x`, in rank order."""
        with self.collective():
            parts: list[Any] = self._comm.allgather(x)
        return parts

    def ordered_sum(self, parts: np.ndarray) -> np.ndarray:
        """Sum all rows of all processes' (k, n) arrays, row by row in rank order.

        As fast as an allreduce, but with a fixed order of additions. Large arrays are split into
        as many parts as there are processes. Each process sums one part, and then all processes
        exchange their sums. The lengths of the parts may differ by one, so no padding is needed
        and a single row is sent without a copy.
        """
        comm, procs, (k, n) = self._comm, self.size, parts.shape
        if procs * k == 2:  # a + b and b + a are bit-identical
            total = np.empty(n, parts.dtype)
            with self.collective():
                comm.Allreduce(parts, total)
            return total
        if procs * k * n <= SMALL:
            rows = np.empty((procs * k, n), parts.dtype)
            with self.collective():
                comm.Allgather(parts, rows)
            for row in rows[1:]:
                rows[0] += row
            return rows[0]
        cuts = [n * rank // procs for rank in range(procs + 1)]
        sizes = [stop - start for start, stop in itertools.pairwise(cuts)]
        own = sizes[self.rank]
        if k > 1:  # make the rows of each part contiguous
            packed = np.empty(k * n, parts.dtype)
            for start, stop in itertools.pairwise(cuts):
                packed[k * start : k * stop].reshape(k, -1)[:] = parts[:, start:stop]
            parts = packed
        sending = [k * size for size in sizes], [k * cut for cut in cuts[:-1]]
        received = np.empty((procs * k, own), parts.dtype)  # in rank order, which is shard order
        total = np.empty(n, parts.dtype)
        with self.collective():
            comm.Alltoallv([parts, sending], [received, [k * own] * procs])
            for row in received[1:]:
                received[0] += row
            comm.Allgatherv(received[0], [total, (sizes, cuts[:-1])])
        return total
