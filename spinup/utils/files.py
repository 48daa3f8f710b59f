"""Files and folders of our own, written so that a crash or a full disk costs nothing.

Writes go to a temporary name, are flushed to disk (fsync) and then renamed. A link in place of such
a folder or file is never followed: whoever can write to a run directory could otherwise make its
owner write to any file. The run directory itself, and the folders above it, may be links.
`spinup.utils.reading` reads what somebody else may have written.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import secrets
import shutil
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spinup.utils.errors import SpinupError

TMP_PREFIX = ".tmp-"

# Neither follow a link nor wait for the other end of a pipe. Windows has no such flags.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NOFOLLOW", "O_NONBLOCK"))
# A junction is a link to a folder, on Windows.
_JUNCTION = getattr(stat, "IO_REPARSE_TAG_MOUNT_POINT", None)
_FULL = tuple(getattr(errno, name, -1) for name in ("ENOSPC", "EDQUOT", "EFBIG"))


# ------------------------------------------------------------------------------- folders and links


def is_own_folder(path: str | os.PathLike[str]) -> bool:
    """Return whether `path` is a folder, and not a link to one."""
    try:
        info = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and getattr(info, "st_reparse_tag", ()) != _JUNCTION


def fsync_folder(folder: str | os.PathLike[str]) -> None:
    """Make the names in `folder` durable. Windows neither supports nor needs this."""
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

    With `create=False`, a folder may be missing.
    """
    if create and not os.path.lexists(path):
        make_folders(path)
    if os.path.lexists(path) and not is_own_folder(path):
        raise SpinupError(
            f"{os.fspath(path)} is a link or a file where a run keeps a folder: move it away (to "
            "store runs on another disk, let data_dir be a link)"
        )


def open_own(path: str, flags: int, mode: int = 0o666) -> int:
    """Open a file, for `open(..., opener=open_own)`; raise an error for anything but a file."""
    wrong = SpinupError(f"{path} is not a regular file: move it away, or choose another directory")
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


# ----------------------------------------------------------------------------------------- writing


class DiskError(OSError, SpinupError):
    """A file could not be written; also an `OSError`, for existing user code."""

    exit_code = 1
    path: str
    reason: str

    def __init__(
        self,
        error: OSError,
        path: str | os.PathLike[str],
        kept: str = "files that were saved before are still there",
        then: str = "try again",
    ) -> None:
        if isinstance(error, DiskError):  # reported again: it knows best which file it was
            self.path, self.reason = error.path, error.reason
        else:
            self.path, self.reason = os.fspath(path), error.strerror or str(error)
        self._given = (OSError(error.errno, self.reason), self.path, kept, then)
        fix = "free some space" if error.errno in _FULL else "solve this problem"
        super().__init__(f"cannot write {self.path} ({self.reason}); {kept}: {fix} and {then}")
        self.errno = error.errno

    def __reduce__(self) -> tuple[Any, ...]:  # worker processes send their errors as pickles
        return DiskError, self._given


@contextlib.contextmanager
def removed_on_error(tmp: str | os.PathLike[str]) -> Iterator[None]:
    """Delete the file or folder with a temporary name if the block fails; it may not exist yet."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):  # report the first error, not this one
            delete(tmp)
        raise


def atomic_write(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the content of `path`; a crash leaves either the old or the new file, complete.

    On failure, the temporary file is removed, the old file is unchanged, and the error is raised.
    """
    path = Path(path)
    tmp = path.with_name(f"{TMP_PREFIX}{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        with removed_on_error(tmp):
            write_durably(tmp, [data])
            os.replace(tmp, path)
            fsync_folder(path.parent)
    except OSError as error:
        raise DiskError(error, path) from error


def write_durably(path: Path, chunks: Iterable[bytes | memoryview]) -> dict[str, Any]:
    """Write a new file and fsync it; return its size and hash, for a manifest."""
    digest = hashlib.sha256()
    size = 0
    with open(path, "xb") as f:
        for chunk in chunks:
            f.write(chunk)
            digest.update(chunk)
            size += len(chunk)
        f.flush()
        os.fsync(f.fileno())
    return {"size": size, "sha256": digest.hexdigest()}


def json_bytes(content: Any) -> bytes:
    """Encode `content` as the text of a JSON file: sorted, indented, strict."""
    return json.dumps(content, indent=4, sort_keys=True, allow_nan=False).encode() + b"\n"


def self_hash(content: dict[str, Any]) -> str:
    """Hash JSON data except for its entry `sha256`, in which the hash can be stored."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
