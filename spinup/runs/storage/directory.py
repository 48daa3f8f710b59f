"""A run's files in its directory, and clearing the directory for a new run."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from spinup.runs.storage.files import TMP_PREFIX
from spinup.utils.own_files import delete, fsync_folder, is_own_folder, own_folder

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
    """Move an earlier run to ``.old/<NNN>``, which the plotter skips; return a message.

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
