"""The path from which user code imports what is in `spinup.parallel.pytorch`."""

from typing import TYPE_CHECKING

from spinup.utils.forwarding import forward

if TYPE_CHECKING:
    from spinup.parallel.pytorch import *  # noqa: F403

__getattr__, __dir__ = forward(
    "spinup.parallel.pytorch", shard_mean="spinup.algos.pytorch.common.gradients"
)
