"""The runs of a study: launching them, reading their scores, and deleting what is not needed.

Scores come from the runs' own `progress.txt`, and nothing else decides: a study that is started
again reads the same rows and draws the same conclusions, however it was interrupted.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from spinup.analysis import curves
from spinup.grids.board import Board
from spinup.grids.cells import Job, read_state
from spinup.grids.launching import Launch
from spinup.runs.storage.arrays import PIECE_NAME, PIECES
from spinup.runs.storage.locks import RunLock
from spinup.utils.command import this_command
from spinup.utils.errors import SpinupError
from spinup.utils.files import is_own_folder


class Waiting(Exception):
    """The runs of this step were submitted elsewhere; the same command continues later."""


def launch(
    title: str,
    jobs: Sequence[Job],
    more: Callable[[Job], Sequence[Job]] | None = None,
    **options: Any,
) -> dict[str, str]:
    """Run jobs, each in its own process; return a message for each failed one, by name.

    The options are those of `Launch`. Even with one worker, runs have processes of their own, so
    that their number makes no difference. With Slurm, the jobs are only submitted, and `Waiting` is
    raised. `more` returns the jobs that a finished job allows.
    """
    where = Launch(**options)
    if where.executor == "slurm":
        where.submit(jobs, Path(jobs[0].folder).parent)
        again = this_command()
        raise Waiting(
            f"{title}: {len(jobs)} runs. When they are done, the same command decides which "
            "configurations continue" + (f":\n    {again}" if again else ".")
        )
    return where.run(jobs, Board(title, list(jobs)), more)


def returns(folder: Path) -> np.ndarray:
    """Return the average return of each epoch of a run so far (of test episodes, if it has them).

    NaN is an epoch in which no episode ended. Raises an error if the table was changed.
    """
    if not (folder / "progress.txt").is_file():
        return np.array([])
    run = curves.read_run(folder, ["Performance"])
    if curves.CHANGED in run.problems:
        raise SpinupError(
            f"{folder}: {curves.CHANGED}; restore the file, or delete the folder to repeat the run"
        )
    return run.columns.get("Performance", np.full(run.length, np.nan))


def score_at(values: np.ndarray, epoch: int, rows: int) -> float | None:
    """Return the mean of the last `rows` finite returns among the first `epoch` epochs.

    None means that there are none.
    """
    finite = values[:epoch][np.isfinite(values[:epoch])]
    return float(finite[-rows:].mean()) if len(finite) else None


def is_over(job: Job, epochs: int) -> bool:
    """Return whether a run has this many rows, or diverged before.

    A row that is there stays there: a run that was killed before it could save the epoch repeats it
    with the same numbers. At its last epoch, a run must also have saved its final policy.
    """
    folder = Path(job.output_dir)
    if len(returns(folder)) >= epochs:
        return epochs < job.cell.kwargs["epochs"] or (folder / ".finished").is_file()
    return diverged(job)


def diverged(job: Job) -> bool:
    """Return whether a run ended because of a loss or a parameter that was not finite."""
    state = read_state(job)
    failed = state.get("state") == "failed" and state.get("hash") == job.hash
    return failed and str(state.get("error", "")).startswith("TrainingDiverged")


def delete_replay(run: Path) -> int:
    """Delete a run's saved replay buffer, and nothing else; return how many bytes that freed.

    A buffer is stored in pieces, files of their own, which only a run that continues needs. Tables,
    policies and the rest of the checkpoint stay.
    """
    folder = run / "checkpoints" / PIECES
    if not (is_own_folder(run / "checkpoints") and is_own_folder(folder)):
        return 0
    pieces = [path for path in folder.iterdir() if PIECE_NAME.fullmatch(path.name)]
    if not pieces:
        return 0
    freed = 0
    try:
        lock = RunLock(run)
    except SpinupError:
        return 0  # a process that lost its launcher is still saving: the next start deletes them
    try:
        for path in pieces:
            if path.is_file() and not path.is_symlink():
                freed += path.stat().st_size
                os.unlink(path)
    finally:
        lock.release()
    return freed
