"""The documented path of `spinup_tune.report`."""

from spinup.utils.forwarding import forward

__getattr__, __dir__ = forward("spinup_tune.report")
