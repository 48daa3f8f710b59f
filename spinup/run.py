"""`python -m spinup.run CMD ...`, also installed as `spinup CMD ...`: see `spinup.cli.main`."""

from __future__ import annotations

import sys

from spinup.utils.importing import is_here

if __name__ == "__main__" and is_here(sys.path[0]):
    # `python -m` searches the working directory first: there, any file could hide a package.
    sys.path.append(sys.path.pop(0))

from spinup.cli.main import TOOLS, main, parse_and_execute_grid_search

__all__ = ["TOOLS", "main", "parse_and_execute_grid_search"]

if __name__ == "__main__":
    sys.exit(main())
