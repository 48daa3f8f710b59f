"""The path that user code loads policies through; it lives in `spinup.policies.play`."""

import sys
from typing import TYPE_CHECKING

from spinup.utils.forwarding import forward, run_main

if TYPE_CHECKING:
    from spinup.policies.play import *  # noqa: F403

__getattr__, __dir__ = forward("spinup.policies.play")

if __name__ == "__main__":
    sys.exit(run_main("spinup.policies.play"))
