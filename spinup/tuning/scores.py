"""Scores of a study's runs, read from their own `progress.txt`.

Nothing else decides: a study that is started again reads the same rows and draws the same
conclusions, however it was interrupted.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from spinup.analysis import curves
from spinup.utils.errors import SpinupError


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
