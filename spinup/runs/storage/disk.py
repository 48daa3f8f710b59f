"""A disk that is full, or that fails otherwise: which file it was, and what is still there."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

from spinup.utils.errors import SpinupError
from spinup.utils.reading import count_rows

_FULL = tuple(getattr(errno, name, -1) for name in ("ENOSPC", "EDQUOT", "EFBIG"))


class DiskError(OSError, SpinupError):
    """A file could not be written; also an ``OSError``, for existing user code."""

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


def failed(error: OSError, output_dir: str, name: str) -> DiskError:
    """Return the error for the file ``name`` of a run, with what the run still has."""
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
