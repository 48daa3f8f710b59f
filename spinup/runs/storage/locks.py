"""The lock on a run directory: one process writes to it, and notices if the directory is gone."""

from __future__ import annotations

import os
import warnings
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

from spinup.utils.errors import SpinupError
from spinup.utils.files import make_folders


class RunLock:
    """This process's exclusive right to write to `folder`, until `release()`.

    The operating system locks `<folder>/.lock` and, where it can, the folder itself, so that
    deleting the file does not let a second process in. It frees both locks when the process ends,
    even if it is killed. The process ID in the file is only used in error messages.
    """

    # Locks that this process holds. A second Logger on the same directory shares the first one's
    # lock, because the operating system would not grant a second one.
    _held: ClassVar[weakref.WeakValueDictionary[str, RunLock]] = weakref.WeakValueDictionary()

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        # output file name -> token of the Logger that writes to it
        self.claims: dict[str, object] = {}
        self._users = 1
        self._fd: int | None = None
        self._folder_fd: int | None = None
        self._key = os.path.realpath(folder)
        self.path = os.path.abspath(folder)  # valid even if the working directory changes
        make_folders(self.folder)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        flags |= getattr(os, "O_NOFOLLOW", 0)  # never truncate a file through a link
        fd = os.open(self.folder / ".lock", flags, 0o644)
        try:
            if not (self._try_lock_folder() and _try_lock(fd, self.folder)):
                holder = os.pread(fd, 32, 0) if hasattr(os, "pread") else b""
                pid = holder.decode("ascii", "replace").strip() or "unknown"
                raise SpinupError(
                    f"another process (pid {pid}) is writing to {self.folder}: wait until it ends, "
                    "or choose another output_dir, exp_name or seed"
                    if pid != str(os.getpid())
                    else f"this process (pid {pid}) already holds the lock on {self.folder}: "
                    "release that one first"
                )
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode())
        except BaseException:
            self._fd = fd
            self._close()
            raise
        self._fd = fd
        RunLock._held[self._key] = self

    def _try_lock_folder(self) -> bool:
        """Lock the folder itself, if possible; return False if another process has locked it."""
        try:
            import fcntl

            self._folder_fd = os.open(self.folder, os.O_RDONLY)
            fcntl.flock(self._folder_fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except (ImportError, OSError):
            pass  # Windows, and some network file systems: the lock on the file has to suffice
        return True

    def moved(self, files: Mapping[str, int] = MappingProxyType({})) -> str | None:
        """Return the path of what was deleted, moved or replaced; None if everything is in place.

        Checks the lock file and `files`, which maps names to open file descriptors.
        """
        for name, fd in {"": self._folder_fd, ".lock": self._fd, **files}.items():
            path = os.path.join(self.path, name) if name else self.path
            if fd is not None and not _is_at(fd, path, follow=not name):
                return path
        return None

    def check(self, files: Mapping[str, int] = MappingProxyType({})) -> None:
        """Raise an error if the folder or a file in it was deleted, moved or replaced."""
        if path := self.moved(files):
            raise SpinupError(
                f"{path} was deleted, moved or replaced while a run was writing to it, so the "
                "run stopped: put it back and resume the run, or start the run again"
            )

    @classmethod
    def shared(cls, folder: str | os.PathLike[str]) -> RunLock:
        """Share the lock that this process already holds on `folder`, or take a new one."""
        lock = cls._held.get(os.path.realpath(folder))
        if lock is None or not lock.held or lock.moved():
            try:
                return cls(folder)
            except OSError as error:
                raise SpinupError(
                    f"cannot write to {folder} ({error.strerror}): choose another output_dir"
                ) from error
        lock._users += 1
        return lock

    @property
    def held(self) -> bool:
        """Whether this object holds the lock now."""
        return self._fd is not None

    def release(self) -> None:
        """Release the lock, or this share of it. Calling this twice is harmless."""
        self._users -= 1
        if self._users <= 0:
            self._close()

    def _close(self) -> None:
        # Close without unlocking: an unlock in a forked child would release the parent's lock.
        fds, self._fd, self._folder_fd = (self._fd, self._folder_fd), None, None
        for fd in fds:
            if fd is not None:
                os.close(fd)
        if RunLock._held.get(self._key) is self:
            del RunLock._held[self._key]

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_fd", None) is not None:
            self._close()

    @classmethod
    def _drop_in_child(cls) -> None:
        """Close the locks in a forked worker, which may outlive its killed parent."""
        for lock in list(cls._held.values()):
            lock._close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RunLock._drop_in_child)


def _is_at(fd: int, path: str, follow: bool) -> bool:
    """Return whether `path` still leads to the open file `fd`; the folder may be a link."""
    try:
        return os.path.samestat(os.fstat(fd), os.stat(path, follow_symlinks=follow))
    except (FileNotFoundError, NotADirectoryError):
        return False


def _try_lock(fd: int, folder: Path) -> bool:
    """Lock without waiting; return False if another process holds the lock."""
    try:
        try:
            import fcntl
        except ImportError:
            return _try_lock_windows(fd)
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError) as error:  # some network file systems do not support locks
        warnings.warn(
            f"files in {folder} cannot be locked ({getattr(error, 'strerror', None) or error}); "
            "make sure that no second process writes there",
            RuntimeWarning,
            stacklevel=3,
        )
    return True


def _try_lock_windows(fd: int) -> bool:
    import msvcrt

    # Lock a byte far beyond the process ID: on Windows, others cannot read a locked range.
    os.lseek(fd, 1 << 20, os.SEEK_SET)
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    finally:
        os.lseek(fd, 0, os.SEEK_SET)
    return True
