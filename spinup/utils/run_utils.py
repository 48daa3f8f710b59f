"""The path from which user code imports experiments, which are in `spinup.grids.experiments`."""

from typing import TYPE_CHECKING

from spinup.utils.forwarding import forward

if TYPE_CHECKING:
    from spinup.grids.experiments import *  # noqa: F403

__getattr__, __dir__ = forward("spinup.grids.experiments")
