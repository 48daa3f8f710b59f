"""A run's second table, `diagnostics.txt`: numbers by which to tell a healthy run from a sick one.

`progress.txt` has the columns that the original Spinning Up has. All others are here: one row per
epoch, measured from the run's state at the end of the epoch, without changing that state. A
checkpoint contains the position in this table too, so that a resumed run writes the same rows as
one that was never interrupted. `spinup/algos/common/diagnostics.py` measures the columns.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spinup.parallel.mpi import broadcast_object
from spinup.runs.logger import Logger

if TYPE_CHECKING:
    from spinup.runs.run import Run

FILE = "diagnostics.txt"
OFF = "SPINUP_DIAGNOSTICS"  # the environment variable that turns the table off, with the value 0


def open_diagnostics(run: Run, saved: Mapping[str, Any] | None) -> Diagnostics | None:
    """Open the table of a run, whose logger is open; None if the run writes no such table.

    A resumed run writes the table if it did so before, whatever the environment variable says.
    """
    wanted = os.environ.get(OFF, "1") != "0" if saved is None else "diagnostics" in saved
    if run.config["logger_kwargs"].get("output_fname") == FILE:
        wanted = False
    return Diagnostics(run, saved) if broadcast_object(wanted) else None


class Table(Logger):
    """A table whose rows do not wait for the disk, which can take longer than measuring them.

    They survive the end of the process, however it ends. A checkpoint makes them durable, and a
    resumed run removes those after it.
    """

    durable_rows = False


class Diagnostics:
    """The table, and what its next row needs to know about the last one."""

    def __init__(self, run: Run, saved: Mapping[str, Any] | None = None):
        resume = run.config["resume"]
        self.table = Table(str(run.output_dir), FILE, resume=resume, quiet=True)
        run.closers.append(self.table.close)
        if resume and saved is None:  # from the beginning: the run has no checkpoint
            self.table.load_state_dict(None)
        self.gauges: Any = None  # measures the networks; set with the first row
        self.kept: dict[str, Any] = {}  # arrays that `gauges` compares with
        self.steps = 0  # the run's environment steps at the last row,
        self.seconds = 0.0  # and its training time

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row, which has the same columns as those before it."""
        for name, value in row.items():
            self.table.log_tabular(name, value)
        self.table.dump_tabular()

    def state_dict(self) -> dict[str, Any]:
        """Return what a resumed run needs."""
        return {
            "table": self.table.state_dict(),
            "kept": dict(self.kept),
            "steps": self.steps,
            "seconds": self.seconds,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Return to the saved row; remove those after it."""
        self.kept = dict(state["kept"])
        self.steps, self.seconds = int(state["steps"]), float(state["seconds"])
        self.table.load_state_dict(state["table"])
