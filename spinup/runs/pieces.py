"""Pieces: large arrays that several checkpoints share.

What is large and changes little (a replay buffer) is saved as :class:`Piece` objects. Each is a
file of its own in ``pieces/``, written once and listed with its hash in the manifest of every
checkpoint that needs it.
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

from spinup.runs.files import TMP_PREFIX, read_safetensors, safetensors_chunks, write_durably

PIECES = "pieces"
PIECE_NAME = re.compile(r"[0-9a-f]{32}\.safetensors")


class Piece:
    """Arrays that are saved once and named by every later checkpoint for as long as they hold.

    ``Piece(arrays)`` is something new to write. Once it was saved, or when it came from a loaded
    checkpoint, handing the same object to the next ``save_checkpoint`` costs nothing. The arrays
    are not copied and must not change while the object is in use; make a new one when they do.
    """

    def __init__(self, arrays: dict[str, np.ndarray] | None = None) -> None:
        self.arrays = arrays  # None: only the file has them
        # A random name: a run that goes on from an older checkpoint never meets a file of the
        # future that it is about to make differently.
        self.file = f"{secrets.token_hex(16)}.safetensors"
        self.entry: dict[str, Any] = {}  # size and hash of the file
        self._folder: Path | None = None  # where it was saved

    @classmethod
    def saved(cls, folder: Path, file: str, entry: dict[str, Any]) -> Piece:
        piece = cls()
        piece._folder, piece.file, piece.entry = folder, file, entry
        return piece

    def holding(self, arrays: dict[str, np.ndarray]) -> Piece:
        """The same piece, of which these arrays are a copy: a lost file can be written again."""
        piece = copy.copy(self)
        piece.arrays = arrays
        return piece

    def is_in(self, folder: Path) -> bool:
        """Was it saved there, and is the file still what it was, as far as a glance tells?"""
        try:
            return (
                self._folder == folder and (folder / self.file).stat().st_size == self.entry["size"]
            )
        except OSError:
            return False

    def write(self, folder: Path) -> None:
        arrays = self.load()
        tmp = folder / f"{TMP_PREFIX}{self.file}"
        tmp.unlink(missing_ok=True)  # of a save that was killed
        try:
            entry = write_durably(tmp, safetensors_chunks(arrays))
            os.rename(tmp, folder / self.file)
        except BaseException:
            with contextlib.suppress(OSError):  # the first error is the one to report
                tmp.unlink(missing_ok=True)
            raise
        self._folder, self.entry = folder, entry

    def load(self) -> dict[str, np.ndarray]:
        """The arrays, from the file if need be."""
        if self.arrays is not None:
            return self.arrays
        assert self._folder is not None
        return read_safetensors(self._folder / self.file)
