"""The path of version 0.1, which copies of its algorithm files import."""

from spinup.utils.forwarding import forward

__getattr__, __dir__ = forward("spinup.algos.pytorch.common.advantages")
