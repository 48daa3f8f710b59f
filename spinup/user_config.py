"""Settings for all experiments; edit the values here.

The environment variable `SPINUP_DATA_DIR` overrides `DEFAULT_DATA_DIR`.
"""

import os

# The folder for run directories if `data_dir` is not set. A relative path is resolved against the
# working directory when a run starts.
DEFAULT_DATA_DIR = os.environ.get("SPINUP_DATA_DIR") or "data"

# The backend that a bare algorithm name selects (`spinup.ppo`, `python -m spinup.run ppo`). Six
# algorithms also have 'tf1': vpg, trpo, ppo, ddpg, td3 and sac.
DEFAULT_BACKEND = {
    "reinforce": "pytorch",
    "vpg": "pytorch",
    "trpo": "pytorch",
    "ppo": "pytorch",
    "ddpg": "pytorch",
    "td3": "pytorch",
    "sac": "pytorch",
    "dqn": "pytorch",
    "acer": "pytorch",
    "her": "pytorch",
}

# If True, the name of every run directory includes the date.
FORCE_DATESTAMP = False

# If True, abbreviate keys in the names of grid experiments (`ac_kwargs:hidden_sizes` -> `ac-hid`).
DEFAULT_SHORTHAND = True

# Seconds to wait between printing a grid and starting it, which leaves time to press Ctrl-C.
WAIT_BEFORE_LAUNCH = 0
