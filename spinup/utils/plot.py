"""The path from which user code imports the plotter, which is in `spinup.analysis.plot`."""

import sys
from typing import TYPE_CHECKING

from spinup.utils.forwarding import forward, run_main

if TYPE_CHECKING:
    from spinup.analysis.plot import *  # noqa: F403
    from spinup.cli.plot import main as main

__getattr__, __dir__ = forward("spinup.analysis.plot", main="spinup.cli.plot")

if __name__ == "__main__":
    sys.exit(run_main("spinup.cli.plot"))
