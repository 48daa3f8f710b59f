"""Python imports this file at its start if the folder is on its path: installs a mutant.

See `child_environment` in spinup_lab/bugs/applying.py.
"""

import os

if os.environ.get("SPINUP_ZOO"):
    from spinup_lab.bugs.applying import install

    install(os.environ["SPINUP_ZOO"])
