"""The path that version 0.1.0's launchers start as a worker; now `spinup.grids.workers`."""

import sys
from typing import TYPE_CHECKING

from spinup.utils.forwarding import forward, run_main

if TYPE_CHECKING:
    from spinup.grids.workers import *  # noqa: F403

__getattr__, __dir__ = forward("spinup.grids.workers")

if __name__ == "__main__":
    sys.exit(run_main("spinup.grids.workers"))
