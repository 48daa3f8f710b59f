"""The path under which version 0.1.0 pickled the cells of a grid; see `spinup.grids.cells`."""

from typing import TYPE_CHECKING

from spinup.utils.forwarding import forward

if TYPE_CHECKING:
    from spinup.grids.cells import *  # noqa: F403

__getattr__, __dir__ = forward("spinup.grids.cells")
