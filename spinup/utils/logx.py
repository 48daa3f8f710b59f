"""The path that user code imports the loggers from; they live in `spinup.runs.logger`."""

from typing import TYPE_CHECKING

from spinup.utils.forwarding import forward

if TYPE_CHECKING:
    from spinup.runs.logger import *  # noqa: F403

__getattr__, __dir__ = forward("spinup.runs.logger")
