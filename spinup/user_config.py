"""Settings for all experiments; change the values here.

The environment variable `SPINUP_DATA_DIR` overrides `DEFAULT_DATA_DIR`.
"""

import os

# The folder for run directories if no `data_dir` is given. A relative path starts at the working
# directory at the time when a run starts.
DEFAULT_DATA_DIR = os.environ.get("SPINUP_DATA_DIR") or "data"

# The backend that a bare algorithm name means (`spinup.ppo`, `python -m spinup.run ppo`).
DEFAULT_BACKEND = {
    "reinforce": "pytorch",
    "vpg": "pytorch",
    "trpo": "pytorch",
    "ppo": "pytorch",
    "ddpg": "pytorch",
    "td3": "pytorch",
    "sac": "pytorch",
}

# True puts the date into the name of every run directory.
FORCE_DATESTAMP = False

# True shortens the keys in the names of grid experiments (`ac_kwargs:hidden_sizes` -> `ac-hid`).
DEFAULT_SHORTHAND = True

# Seconds between printing a grid and starting it: time to press Ctrl-C.
WAIT_BEFORE_LAUNCH = 0
