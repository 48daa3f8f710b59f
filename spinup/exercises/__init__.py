"""The original's problem sets, and the documented path of `spinup_lab.exercises`."""

from spinup.utils.forwarding import forward

__getattr__, __dir__ = forward("spinup_lab.exercises")
