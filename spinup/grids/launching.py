"""Run jobs: one after the other in this process, in parallel, on Ray or on Slurm."""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spinup.grids.board import Board
from spinup.grids.cells import CellBusy, CellFailed, Job, decide, read_state, run_cell
from spinup.grids.ray_executor import run_ray
from spinup.grids.single import process_count
from spinup.grids.slurm_executor import check_options, run_slurm
from spinup.grids.summary import say_how_to_continue
from spinup.grids.workers import run_local
from spinup.parallel.mpi import broadcast_object, num_procs, proc_id
from spinup.utils.errors import SpinupError, printable
from spinup.utils.files import own_folder

EXECUTORS = ("local", "ray", "slurm")


@dataclass(frozen=True)
class Launch:
    """Where cells run, and how many at a time; `ExperimentGrid.run` explains the options."""

    num_workers: int = 1
    executor: str = "local"
    cpus_per_cell: int | None = None
    gpus_per_cell: float = 0
    ray_address: str | None = None
    slurm_options: Mapping[str, Any] | None = None

    @property
    def here(self) -> bool:
        """Whether the cells run in this process."""
        return self.executor == "local" and self.num_workers == 1

    def check(self, num_cpu: int | str) -> None:
        """Raise for options that do not work together, before anything is created."""
        if self.executor not in EXECUTORS:
            known = ", ".join(EXECUTORS)
            raise SpinupError(f"executor must be one of {known}, not {self.executor!r}")
        for name in ("num_workers", "cpus_per_cell"):
            value = getattr(self, name)
            if value is None and name == "cpus_per_cell":
                continue
            if type(value) is not int or value < 1:
                raise SpinupError(f"{name} must be a positive integer, not {value!r}")
        gpus = self.gpus_per_cell
        if type(gpus) not in (int, float) or not 0 <= gpus < math.inf:
            raise SpinupError(f"gpus_per_cell must be a non-negative number, not {gpus!r}")
        if self.executor == "local" and gpus:
            raise SpinupError(
                "gpus_per_cell requests GPUs from a cluster: use it with executor 'ray' or "
                "'slurm', or use device='cuda' on this machine"
            )
        if not self.here and (process_count(num_cpu) > 1 or num_procs() > 1):
            raise SpinupError(
                "cells in their own processes cannot have several MPI processes each: use either "
                "num_cpu (--cpu), or num_workers and executor"
            )
        if self.executor == "slurm":
            check_options(self.slurm_options, gpus)

    def submit(self, jobs: Sequence[Job], folder: Path) -> None:
        """Write the Slurm script of these jobs to the grid's folder, and submit it."""
        cpus, gpus = self.cpus_per_cell, self.gpus_per_cell
        run_slurm(jobs, folder, self.num_workers, cpus, gpus, self.slurm_options)

    def run(
        self,
        jobs: Sequence[Job],
        board: Board,
        more: Callable[[Job], Sequence[Job]] | None = None,
    ) -> dict[str, str]:
        """Run jobs in other processes, here or on Ray; return a message for each failed one.

        `more`, see `run_local`, needs local processes.
        """
        if self.executor == "ray":
            most = self.num_workers if self.num_workers > 1 else len(jobs)
            cpus = self.cpus_per_cell or 1
            return run_ray(jobs, board, most, cpus, self.gpus_per_cell, self.ray_address)
        return run_local(jobs, self.num_workers, board, more)


def check_place(folder: Path) -> None:
    """Create a folder if it is missing; raise if it is not writable."""
    try:
        own_folder(folder)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise SpinupError(
            f"cannot write in {folder} ({error.strerror}): choose another data_dir"
        ) from error


def survey(jobs: Sequence[Job]) -> list[Job]:
    """Print which cells are already done or partial; return the jobs that remain."""
    decisions = [decide(job) for job in jobs]
    for decision in decisions:
        if decision.note:
            print(printable(decision.note))
    if any(job.dated for job in jobs):
        print(
            "Every run has a date in its name, so all runs are new: nothing is skipped or resumed."
        )
    count = {action: sum(d.action == action for d in decisions) for action in ("skip", "resume")}
    if any(count.values()):
        again = f" To run all again, delete {Path(jobs[0].folder).parent}." if count["skip"] else ""
        print(
            f"Of {len(jobs)} cells, {count['skip']} are already done and are skipped, and "
            f"{count['resume']} continue from their checkpoints.{again}"
        )
    sys.stdout.flush()
    return [job for job, decision in zip(jobs, decisions, strict=True) if decision.action != "skip"]


def run_here(jobs: Sequence[Job], num_cpu: int | str) -> dict[str, str]:
    """Run jobs sequentially in this process; return a message for each failed one."""
    todo: list[int] = []
    if proc_id() == 0:
        todo = [jobs.index(job) for job in survey(jobs)]
        if num_procs() > 1:
            # A failed cell ends all processes and thus the grid. When the grid is launched again,
            # cells that have not run yet come first.
            todo.sort(key=lambda i: bool(read_state(jobs[i])))
    failures: dict[str, str] = {}
    for i in broadcast_object(todo):
        try:
            run_cell(jobs[i], num_cpu)
        except (KeyboardInterrupt, SystemExit):
            if proc_id() == 0:
                say_how_to_continue(jobs)
            raise
        except (CellFailed, CellBusy, OSError) as error:  # OSError: its state cannot be written
            failures[jobs[i].name] = str(error)
            last = printable(str(error).splitlines()[-1])
            print(f"{jobs[i].name} failed: {last}", file=sys.stderr, flush=True)
    return failures
