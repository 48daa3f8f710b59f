"""Checks that every process of a job makes, for a test to read their verdicts."""

import json
import sys
import traceback

from spinup.parallel import mpi as mpi_tools
from spinup.parallel.mpi import num_procs, proc_id


def run_checks(names):
    """Call every function `check_...` of a module; write what failed into results.json."""
    assert num_procs() == int(sys.argv[1])
    results = {}
    for name in [name for name in names if name.startswith("check_")]:
        try:
            names[name]()
            said = ""
        except AssertionError:
            said = f"rank {proc_id()}: {traceback.format_exc()}"
        results[name] = "".join(mpi_tools.gather_lists([said]))
    if proc_id() == 0:
        with open("results.json", "w") as file:
            json.dump(results, file)
