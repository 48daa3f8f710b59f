"""The documented path of `spinup_lab.probe`, which examines training functions."""

from spinup.utils.forwarding import forward

__getattr__, __dir__ = forward("spinup_lab.probe")
