"""Run the jobs of a study as a grid runs its cells: in local processes, on Ray or on Slurm."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from spinup.grids.board import Board
from spinup.grids.cells import Job
from spinup.grids.workers import run_jobs
from spinup.tuning.study import Waiting
from spinup.utils.command import this_command


def launch(
    title: str,
    jobs: Sequence[Job],
    more: Callable[[Job], Sequence[Job]] | None = None,
    *,
    num_workers: int = 1,
    executor: str = "local",
    cpus_per_cell: int | None = None,
    gpus_per_cell: float = 0,
    ray_address: str | None = None,
    slurm_options: Mapping[str, Any] | None = None,
) -> dict[str, str]:
    """Run jobs, each in its own process; return a message for each failed one, by name.

    The options are those of `ExperimentGrid.run`. Even with one worker, runs have processes of
    their own, so that their number makes no difference. With Slurm, the jobs are only submitted,
    and `Waiting` is raised. `more` returns the jobs that a finished job allows.
    """
    if executor == "slurm":
        from spinup.grids.slurm_executor import run_slurm

        folder = Path(jobs[0].folder).parent
        run_slurm(jobs, folder, num_workers, cpus_per_cell, gpus_per_cell, slurm_options)
        again = this_command()
        raise Waiting(
            f"{title}: {len(jobs)} runs. When they are done, the same command decides which "
            "configurations continue" + (f":\n    {again}" if again else ".")
        )
    where = (executor, num_workers, cpus_per_cell, gpus_per_cell, ray_address)
    return run_jobs(jobs, Board(title, list(jobs)), *where, more)
