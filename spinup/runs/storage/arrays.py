"""Arrays in files: safetensors (a JSON header, then raw bytes), and pieces.

A piece is a file with arrays that consecutive checkpoints share. Large data that changes slowly,
such as a replay buffer, is saved as :class:`Piece` objects in `pieces/`. Each is written once;
the manifest of every checkpoint that needs it lists its name and hash.
"""

from __future__ import annotations

import copy
import json
import os
import re
import secrets
import struct
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from spinup.utils.errors import SpinupError
from spinup.utils.files import TMP_PREFIX, removed_on_error, write_durably
from spinup.utils.reading import JSON_LIMIT, open_regular

PIECES = "pieces"
PIECE_NAME = re.compile(r"[0-9a-f]{32}\.safetensors")
# NumPy dtype -> its name in a safetensors header; other dtypes are stored as raw bytes
SAFE_DTYPES = types.MappingProxyType(
    {
        "float64": "F64",
        "float32": "F32",
        "float16": "F16",
        "int64": "I64",
        "uint64": "U64",
        "int32": "I32",
        "uint32": "U32",
        "int16": "I16",
        "uint16": "U16",
        "int8": "I8",
        "uint8": "U8",
        "bool": "BOOL",
    }
)


def safetensors_chunks(arrays: dict[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    """Yield a safetensors file's bytes in chunks, so that a large replay buffer is not copied.

    Raises `SpinupError` for dtypes that safetensors does not support.
    """
    header: dict[str, dict[str, Any]] = {}
    offset = 0
    # widest dtype first, so that every tensor is aligned
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    for name in order:
        array = arrays[name]
        if array.dtype.name not in SAFE_DTYPES:
            raise SpinupError(
                f"cannot save {name!r}, as safetensors has no dtype {array.dtype}: convert it first"
            )
        header[name] = {
            "dtype": SAFE_DTYPES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for name in order:
        array = arrays[name]
        little = np.asarray(array, dtype=array.dtype.newbyteorder("<"), order="C")
        if little.nbytes:
            yield little.reshape(-1).view(np.uint8).data


def read_safetensors(path: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read a safetensors file into writable arrays; raise `SpinupError` if it is unreadable."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    with open_regular(path) as file:
        (size,) = struct.unpack("<Q", file.read(8).ljust(8, b"\0"))
    try:
        if size > JSON_LIMIT:
            raise SafetensorError(f"its header claims to have {size} bytes")
        arrays = load_file(path)
    except (SafetensorError, KeyError) as error:
        raise SpinupError(
            f"{os.fspath(path)} is not a readable safetensors file ({error}): use another save"
        ) from error
    return {k: v if v.flags.writeable else v.copy() for k, v in arrays.items()}


class Piece:
    """Arrays that are written once; later checkpoints only refer to them.

    `Piece(arrays)` creates a new piece. Once it has been saved or loaded from a checkpoint,
    passing the same object to the next `save_checkpoint` costs nothing. The arrays are not
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
        """Return the piece that a manifest lists as `file` in `folder`."""
        piece = cls()
        piece._folder, piece.file, piece.entry = folder, file, entry
        return piece

    def holding(self, arrays: dict[str, np.ndarray]) -> Piece:
        """Return this piece with its arrays in memory, so that a lost file can be rewritten."""
        piece = copy.copy(self)
        piece.arrays = arrays
        return piece

    def is_in(self, folder: Path) -> bool:
        """Return whether the piece was saved in `folder` and its file has the right size.

        The hash is not checked.
        """
        try:
            return (
                self._folder == folder and (folder / self.file).stat().st_size == self.entry["size"]
            )
        except OSError:
            return False

    def write(self, folder: Path) -> None:
        """Write the file durably, except that `folder` is not fsynced."""
        arrays = self.load()
        tmp = folder / f"{TMP_PREFIX}{self.file}"
        tmp.unlink(missing_ok=True)  # left by a killed process
        with removed_on_error(tmp):
            entry = write_durably(tmp, safetensors_chunks(arrays))
            os.rename(tmp, folder / self.file)
        self._folder, self.entry = folder, entry

    def load(self) -> dict[str, np.ndarray]:
        """Return the arrays, read from the file if they are not in memory."""
        if self.arrays is not None:
            return self.arrays
        assert self._folder is not None
        return read_safetensors(self._folder / self.file)
