"""The documented path of `python -m spinup_lab.bugs`."""

from spinup.utils.forwarding import run_main

raise SystemExit(run_main("spinup_lab.bugs.__main__"))
