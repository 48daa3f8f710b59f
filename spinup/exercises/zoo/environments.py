"""The path under which runs of earlier versions recorded the zoo's environments."""

from spinup.utils.forwarding import forward

__getattr__, __dir__ = forward("spinup_lab.bugs.environments")
