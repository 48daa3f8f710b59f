"""Delete the saved replay buffers of dropped runs, and nothing else.

A buffer is stored in pieces, files of their own, which only a run that continues needs. Tables,
policies and the rest of the checkpoint stay.
"""

from __future__ import annotations

import os
from pathlib import Path

from spinup.runs.storage.arrays import PIECE_NAME, PIECES
from spinup.runs.storage.locks import RunLock
from spinup.utils.errors import SpinupError
from spinup.utils.files import is_own_folder


def delete_replay(run: Path) -> int:
    """Delete the pieces of a run's checkpoints; return how many bytes that freed."""
    folder = run / "checkpoints" / PIECES
    if not (is_own_folder(run / "checkpoints") and is_own_folder(folder)):
        return 0
    pieces = [path for path in folder.iterdir() if PIECE_NAME.fullmatch(path.name)]
    if not pieces:
        return 0
    freed = 0
    try:
        lock = RunLock(run)
    except SpinupError:
        return 0  # a process that lost its launcher is still saving: the next start deletes them
    try:
        for path in pieces:
            if path.is_file() and not path.is_symlink():
                freed += path.stat().st_size
                os.unlink(path)
    finally:
        lock.release()
    return freed
