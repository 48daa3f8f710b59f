"""The path from which user code imports the loggers, which are in `spinup.runs.logger`."""

from typing import TYPE_CHECKING

from spinup.utils.forwarding import forward

if TYPE_CHECKING:
    from spinup.policies.saved import load_policy as load_policy
    from spinup.policies.tf_loader import restore_tf_graph as restore_tf_graph
    from spinup.runs.logger import *  # noqa: F403

__getattr__, __dir__ = forward(
    "spinup.runs.logger",
    load_policy="spinup.policies.saved",
    restore_tf_graph="spinup.policies.tf_loader",
)
