"""`python -m spinup.run CMD ...`, also installed as `spinup CMD ...`: see `spinup.cli.main`."""

from __future__ import annotations

import sys

from spinup.cli.main import TOOLS, main, parse_and_execute_grid_search

__all__ = ["TOOLS", "main", "parse_and_execute_grid_search"]

if __name__ == "__main__":
    sys.exit(main())
