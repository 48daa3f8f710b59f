"""Python imports this file at its start if the folder is on its path: installs a mutant.

See `child_environment` in spinup/exercises/zoo/applying.py.
"""

import os

if os.environ.get("SPINUP_ZOO"):
    from spinup.exercises.zoo.applying import install

    install(os.environ["SPINUP_ZOO"])
