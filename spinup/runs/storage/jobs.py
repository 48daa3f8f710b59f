"""Restartable jobs: which run directory belongs to which job."""

import os
from pathlib import Path

from spinup.parallel.job import ID_VARIABLE
from spinup.parallel.mpi import proc_id
from spinup.runs.storage.files import atomic_write

# The file in a run directory with the name of the restartable job that writes to it.
_JOB_FILE = ".mpi_job"


def is_of_this_job(output_dir: Path) -> bool:
    """Return whether an earlier launch of this job opened the run in `output_dir`.

    Any other run there is older; a job that restarts after losing a process must not continue it.
    """
    job, path = os.environ.get(ID_VARIABLE), output_dir / _JOB_FILE
    if job is None or not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(len(job) + 1) == job.encode()


def sign_for_this_job(output_dir: Path) -> None:
    """Write this job's name to its run directory."""
    job = os.environ.get(ID_VARIABLE)
    if job is not None and proc_id() == 0:
        atomic_write(output_dir / _JOB_FILE, job.encode())
