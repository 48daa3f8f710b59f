"""Checking the index of a TensorFlow checkpoint before TensorFlow reads it.

A forged index can make TensorFlow's reader end the whole process. The file is a table: blocks of
keys and values, a block that lists the others, and a footer that says where that block is.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from spinup.utils.reading import read_file

INDEX_LIMIT = 1 << 22  # bytes; a variable takes about 50
_FOOTER = 48  # bytes at the end of the file
_MAGIC = 0xDB4775248B80FB57
_LONGEST_KEY = 4096
_MOST_ENTRIES = 20_000


class Entry(NamedTuple):
    """One variable of a checkpoint."""

    dtype: int  # of TensorFlow's enumeration
    shape: tuple[int, ...]


def read_index(path: str | os.PathLike[str]) -> dict[str, Entry]:
    """Return the variables in a file `*.index`.

    Raises `OSError` or `ValueError` for anything that TensorFlow itself would not have written.
    """
    protos = importlib.import_module("tensorflow.core.protobuf.tensor_bundle_pb2")
    pairs = _table(read_file(path, INDEX_LIMIT))
    empty, header = next(pairs, (b"no header", b""))
    if empty:
        raise ValueError("the index has no header")
    _parsed(protos.BundleHeaderProto, header)
    found: dict[str, Entry] = {}
    for key, value in pairs:
        entry = _parsed(protos.BundleEntryProto, value)
        sizes = tuple(dim.size for dim in entry.shape.dim)
        known = not entry.shape.unknown_rank and min(sizes, default=0) >= 0 and len(sizes) < 255
        named = any(dim.name for dim in entry.shape.dim)
        if named or not known or entry.slices or len(found) >= _MOST_ENTRIES:
            raise ValueError("the index has an unusual entry")
        found[key.decode()] = Entry(entry.dtype, sizes)
    return found


def _parsed(kind: Any, data: bytes) -> Any:
    """Parse a message that has exactly one form, so that every parser reads the same."""
    message = kind()
    try:
        message.ParseFromString(data)
    except Exception as error:  # protobuf's own class; its module differs between versions
        raise ValueError("the index has an unreadable entry") from error
    if message.SerializeToString(deterministic=True) != data:
        raise ValueError("the index has an unusual entry")
    return message


def _table(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield all keys and values of a table."""
    if len(data) < _FOOTER or int.from_bytes(data[-8:], "little") != _MAGIC:
        raise ValueError("the index is not a table")
    footer, at, end = data[-_FOOTER:], 0, 0
    for _ in range(2):  # where an unused block is
        _, at = _varint(footer, at)
    for _, handle in _block(data, footer[at:])[0]:
        pairs, start, stop = _block(data, handle)
        if start < end:
            raise ValueError("the index has overlapping blocks")
        yield from pairs
        end = stop


def _block(data: bytes, handle: bytes) -> tuple[Iterator[tuple[bytes, bytes]], int, int]:
    """Return the keys and values of a block, where it starts and where it stops."""
    start, at = _varint(handle, 0)
    size, _ = _varint(handle, at)
    stop = start + size
    if size < 4 or stop >= len(data) or data[stop] != 0:  # not compressed
        raise ValueError("the index has an unusual block")
    return _pairs(data[start:stop]), start, stop


def _pairs(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    """Yield the keys and values of a block; each key omits what it shares with the one before."""
    end = len(block) - 4 - 4 * int.from_bytes(block[-4:], "little")  # offsets of some keys
    key, at = b"", 0
    while at < end:
        shared, at = _varint(block, at)
        rest, at = _varint(block, at)
        size, at = _varint(block, at)
        if shared > len(key) or shared + rest > _LONGEST_KEY or at + rest + size > end:
            raise ValueError("the index has an unusual block")
        key = key[:shared] + block[at : at + rest]
        yield key, block[at + rest : at + rest + size]
        at += rest + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at a position, seven bits per byte, and the position after it."""
    value = 0
    for i, byte in enumerate(data[at : at + 10]):
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return value, at + i + 1
    raise ValueError("the index has an unreadable number")
