"""Pieces: large arrays that consecutive checkpoints share.

Large data that changes slowly, such as a replay buffer, is saved as :class:`Piece` objects. Each
piece is a separate file in ``pieces/``. It is written once; the manifest of every checkpoint that
needs it lists its name and hash.
"""

from __future__ import annotations

import contextlib
import copy
import os
import re
import secrets
from pathlib import Path
from typing import Any

import numpy as np

from spinup.runs.storage.files import TMP_PREFIX, write_durably
from spinup.runs.storage.tensors import read_safetensors, safetensors_chunks

PIECES = "pieces"
PIECE_NAME = re.compile(r"[0-9a-f]{32}\.safetensors")


class Piece:
    """Arrays that are written once; later checkpoints only refer to them.

    ``Piece(arrays)`` creates a new piece. Once it has been saved or loaded from a checkpoint,
    passing the same object to the next ``save_checkpoint`` costs nothing. The arrays are not
    copied: do not modify them while the piece is in use; to change the data, create a new piece.
    """

    def __init__(self, arrays: dict[str, np.ndarray] | None = None) -> None:
        self.arrays = arrays  # None if they are only in the file
        # A random name: a run that continues from an older checkpoint writes different data than it
        # did the first time, and must not reuse a file from then.
        self.file = f"{secrets.token_hex(16)}.safetensors"
        self.entry: dict[str, Any] = {}  # size and hash of the file, for the manifest
        self._folder: Path | None = None  # the folder in which the piece is saved

    @classmethod
    def saved(cls, folder: Path, file: str, entry: dict[str, Any]) -> Piece:
        """Return the piece that a manifest lists as ``file`` in ``folder``."""
        piece = cls()
        piece._folder, piece.file, piece.entry = folder, file, entry
        return piece

    def holding(self, arrays: dict[str, np.ndarray]) -> Piece:
        """Return this piece with its arrays in memory, so that a lost file can be rewritten."""
        piece = copy.copy(self)
        piece.arrays = arrays
        return piece

    def is_in(self, folder: Path) -> bool:
        """Return whether the piece was saved in ``folder`` and its file has the right size.

        The hash is not checked.
        """
        try:
            return (
                self._folder == folder and (folder / self.file).stat().st_size == self.entry["size"]
            )
        except OSError:
            return False

    def write(self, folder: Path) -> None:
        """Write the file durably, except that ``folder`` is not fsynced."""
        arrays = self.load()
        tmp = folder / f"{TMP_PREFIX}{self.file}"
        tmp.unlink(missing_ok=True)  # left by a killed process
        try:
            entry = write_durably(tmp, safetensors_chunks(arrays))
            os.rename(tmp, folder / self.file)
        except BaseException:
            with contextlib.suppress(OSError):  # report the first error, not this one
                tmp.unlink(missing_ok=True)
            raise
        self._folder, self.entry = folder, entry

    def load(self) -> dict[str, np.ndarray]:
        """Return the arrays, read from the file if they are not in memory."""
        if self.arrays is not None:
            return self.arrays
        assert self._folder is not None
        return read_safetensors(self._folder / self.file)
