"""A run's directory: its files, clearing it for a new run, and which job it belongs to."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from spinup.parallel.job import ID_VARIABLE
from spinup.parallel.mpi import proc_id
from spinup.utils.files import (
    TMP_PREFIX,
    DiskError,
    atomic_write,
    delete,
    fsync_folder,
    is_own_folder,
    own_folder,
)
from spinup.utils.reading import count_rows

# The user's own files in the directory are never touched.
RUN_FILES = (
    "config.json",
    "progress.txt",
    "diagnostics.txt",
    ".diagnostics.txt.sha256",
    "vars*.pkl",
    "pyt_save",
    "tf1_save*",
    "best",
    "checkpoints",
    "tensorboard",
    "wandb",
    "wandb_id.txt",
    ".finished",
)
# The file with the name of the restartable job that writes to the directory.
_JOB_FILE = ".mpi_job"
_FOLDERS = ("pyt_save", "best", "checkpoints", "checkpoints/pieces", "tensorboard", "wandb")


def check_folders(output_dir: str) -> None:
    """Raise an error if one of a run's folders is a link."""
    for name in _FOLDERS:
        own_folder(os.path.join(output_dir, name), create=False)


def remove_temporaries(output_dir: str) -> None:
    """Delete half-written files left by killed processes; call this only with the lock held."""
    for name in ("", "pyt_save", "best", "checkpoints"):
        folder = Path(output_dir, name)
        if name and not is_own_folder(folder):
            continue
        for path in folder.glob(f"{TMP_PREFIX}*-????????"):
            with contextlib.suppress(OSError):
                delete(path)


def delete_files(output_dir: str, patterns: Sequence[str]) -> None:
    """Delete the files and folders of an earlier run."""
    for path in _matching(output_dir, patterns):
        delete(path)


def move_to_old(output_dir: str, patterns: Sequence[str]) -> str:
    """Move an earlier run to `.old/<NNN>`, which the plotter skips; return a message.

    The message is empty if there was no earlier run.
    """
    found = _matching(output_dir, patterns)
    if not found:
        return ""
    folder = Path(output_dir)
    unfinished = folder / "checkpoints" in found and folder / ".finished" not in found
    own_folder(folder / ".old")
    taken = [int(p.name) for p in folder.glob(".old/*") if p.name.isdecimal()]
    old = folder / ".old" / f"{max(taken, default=0) + 1:03d}"
    own_folder(old)
    for path in found:
        os.rename(path, old / path.name)
    fsync_folder(old)
    fsync_folder(folder)
    line = f"{folder} contained an earlier run; its files are now in {old}."
    if unfinished:
        line += (
            " That run was not finished. To continue it, move these files back and pass "
            "resume=True (--resume on the command line)."
        )
    return line


def _matching(output_dir: str, patterns: Sequence[str]) -> list[Path]:
    paths = Path(output_dir).iterdir()
    return sorted(path for path in paths if any(fnmatch(path.name, p) for p in patterns))


def failed(error: OSError, output_dir: str, name: str) -> DiskError:
    """Return the error for the file `name` of a run, with what the run still has."""
    folder, path = Path(output_dir), os.path.join(output_dir, name)
    try:
        rows = count_rows(folder / "progress.txt")
        saved = sorted(path.stem for path in folder.glob("checkpoints/step-*"))  # or step-*.again
    except OSError:
        return DiskError(error, path)
    table = f"{rows} row{'' if rows == 1 else 's'} in progress.txt"
    if not saved:
        kept = f"the run has no checkpoint yet, and {table}"
        return DiskError(error, path, kept, "start it again")
    kept = f"the checkpoint {saved[-1]} and {table} are still there"
    return DiskError(error, path, kept, "continue with resume=True (--resume)")


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
