"""The version, at the path where user code written for the original Spinning Up reads it."""

from spinup import __version__

version_info = tuple(int(part) for part in __version__.split("."))

__all__ = ["__version__", "version_info"]
