"""The path from which user code loads and plays policies; the code is in `spinup.policies`."""

import sys
from typing import TYPE_CHECKING

from spinup.utils.forwarding import forward, run_main

if TYPE_CHECKING:
    from spinup.cli.test_policy import main as main
    from spinup.policies.loading import *  # noqa: F403
    from spinup.policies.play import *  # noqa: F403
    from spinup.policies.video import *  # noqa: F403

__getattr__, __dir__ = forward(
    "spinup.policies.play",
    "spinup.policies.loading",
    "spinup.policies.video",
    main="spinup.cli.test_policy",
)

if __name__ == "__main__":
    sys.exit(run_main("spinup.cli.test_policy"))
