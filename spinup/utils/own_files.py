"""Folders and files that a run creates in its directory: a link in their place is never followed.

Whoever can write to a run directory could otherwise make its owner write to any file. The run
directory itself, and the folders above it, may be links.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat

from spinup.utils.errors import SpinupError

# Neither follow a link nor wait for the other end of a pipe. Windows has no such flags.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
# A junction is a link to a folder, on Windows.
_JUNCTION = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)


def is_own_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` is a folder, and not a link to one."""
    try:
        info = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and getattr(info, "st_reparse_tag", ()) != _JUNCTION


def fsync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the names in ``folder`` durable. Windows neither supports nor needs this."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_folders(path: str | os.PathLike[str]) -> None:
    """Create a folder and those above it, durably.

    After a power failure, a new folder's name could otherwise be lost, with all files in it.
    """
    path = os.path.abspath(path)
    if os.path.isdir(path):
        return
    make_folders(os.path.dirname(path))
    try:
        os.mkdir(path)
    except FileExistsError:  # another process was faster
        if not os.path.isdir(path):
            raise
    with contextlib.suppress(PermissionError):  # a folder may be writable and not readable
        fsync_folder(os.path.dirname(path))


def own_folder(path: str | os.PathLike[str], create: bool = True) -> None:
    """Create a folder if it is missing; raise an error for a link or a file in its place.

    With ``create=False``, a folder may be missing.
    """
    if create and not os.path.lexists(path):
        make_folders(path)
    if os.path.lexists(path) and not is_own_folder(path):
        raise SpinupError(
            f"{os.fspath(path)} is a link or a file where a run keeps a folder; move it away (to "
            "store runs on another disk, let data_dir be a link)"
        )


def open_own(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a file, for ``open(..., opener=open_own)``; raise an error for anything but a file."""
    wrong = SpinupError(f"{path} is not a regular file; move it away, or choose another directory")
    if os.path.islink(path):  # for systems without O_NOFOLLOW
        raise wrong
    try:
        fd = os.open(path, flags | _FLAGS, mode)
    except OSError as error:
        if os.path.lexists(path) and not os.path.isfile(path):
            raise wrong from error
        raise
    if not stat.S_ISREG(os.fstat(fd).st_mode):
        os.close(fd)
        raise wrong
    return fd


def delete(path: str | os.PathLike[str]) -> None:
    """Delete a file, a folder with its content, or a link (but not what it leads to)."""
    if is_own_folder(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)
