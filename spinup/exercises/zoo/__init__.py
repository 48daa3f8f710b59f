"""The documented path of `spinup_lab.bugs`, the bug zoo."""

from spinup.utils.forwarding import forward

__getattr__, __dir__ = forward("spinup_lab.bugs")
