"""The path that version 0.1.0's Slurm jobs start; now `spinup.grids.slurm_executor`."""

import sys
from typing import TYPE_CHECKING

from spinup.utils.forwarding import forward, run_main

if TYPE_CHECKING:
    from spinup.grids.slurm_executor import *  # noqa: F403

__getattr__, __dir__ = forward("spinup.grids.slurm_executor")

if __name__ == "__main__":
    sys.exit(run_main("spinup.grids.slurm_executor"))
