"""The documented path of `spinup_lab.doctor`, which examines runs."""

from spinup.utils.forwarding import forward

__getattr__, __dir__ = forward("spinup_lab.doctor")
