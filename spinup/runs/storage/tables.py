"""A table's rows on disk and their hash, by which later changes to the rows are noticed.

A checkpoint contains the hash of the rows that it keeps. A small file next to the table records the
hash as of the last save, for `plot` and `compare`. Rows after the last save are not covered.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spinup.utils.errors import SpinupError
from spinup.utils.files import atomic_write, json_bytes, open_own
from spinup.utils.reading import TABLE_LIMIT, read_file


def record_name(fname: str) -> str:
    """Return the name of the file with the hash of the table `fname`."""
    return f".{fname}.sha256"


class Table:
    """An open table, and the hash of the rows that this process has written or read."""

    def __init__(self, path: str) -> None:
        self.path = path
        # append mode: after rows are removed, writing continues at the new end
        self.file = open(path, "a", encoding="utf-8", newline="\n", opener=open_own)  # noqa: SIM115
        self._set(b"")

    def _set(self, data: bytes) -> None:
        self._sha256, self._size = hashlib.sha256(data), len(data)

    def append(self, rows: str, durable: bool = True) -> None:
        """Append rows, whole or not at all; unless `durable`, they do not wait for the disk."""
        self.file.flush()  # what user code wrote to the table itself
        fd, data = self.file.fileno(), rows.encode("utf-8")
        self._hash(os.fstat(fd).st_size)
        append(fd, data, durable)
        self._sha256.update(data)
        self._size += len(data)

    def saved(self) -> tuple[int, str]:
        """Make the table durable; return its size in bytes and its hash."""
        size = self._sync()
        return size, self._hash(size)

    def _sync(self) -> int:
        self.file.flush()
        os.fsync(self.file.fileno())
        return os.fstat(self.file.fileno()).st_size

    def _hash(self, size: int) -> str:
        """Return the hash of the whole table, which has `size` bytes now."""
        if size < self._size:
            raise SpinupError(
                f"another program shortened {self.path} while a run was writing to it, so the run "
                "stopped: restore the file and resume the run, or start the run again"
            )
        if size > self._size:  # user code has written to the file itself
            self._set(_read(self.path)[:size])
        return self._sha256.hexdigest()

    def record(self) -> None:
        """Record the hash of the whole table."""
        _write_record(self.path, *self.saved())

    def read_lines(self) -> list[str]:
        """Read the lines of the table; delete a half-written last line from the file."""
        data = _read(self.path)
        end = data.rfind(b"\n") + 1
        if end != len(data):
            os.truncate(self.file.fileno(), end)
        self._set(data[:end])
        # cut_back rejects a file that is not text, with a clear message
        return data[:end].decode("utf-8", "replace").split("\n")[:-1]

    def cut_back(self, state: Mapping[str, Any]) -> list[str] | None:
        """Truncate the table to `state`; return the lines kept, None if nothing is cut.

        Raises `SpinupError` if the rows are not the ones that the checkpoint belongs to.
        """
        size, offset = self._sync(), int(state["offset"])
        if offset < 0 or size < offset:
            raise SpinupError(
                f"{self.path} has {size} bytes but had {offset} when the checkpoint was saved, "
                "so rows are missing: restore the file, or start again with overwrite=True"
            )
        kept = _read(self.path)[:offset]
        lines = kept.decode("utf-8", "replace").split("\n")[:-1]
        expected = int(state["rows"]) + 1 if state["rows"] else 0
        if len(lines) != expected or (lines and lines[0].split("\t") != list(state["headers"])):
            raise SpinupError(
                f"{self.path} is not the table that belongs to the checkpoint: restore the file, "
                "or start again with overwrite=True"
            )
        self._set(kept)
        digest = self._sha256.hexdigest()
        if state.get("sha256", digest) != digest:  # version 0.1.0 saved no hash
            raise SpinupError(
                f"the rows of {self.path} were changed after they were written (they do not match "
                "the hash in the checkpoint): restore the file, or start again with overwrite=True"
            )
        if size == offset:
            return None
        _write_record(self.path, offset, digest)  # first: it is valid both before and after the cut
        os.truncate(self.file.fileno(), offset)
        self._sync()
        return lines


def append(fd: int, data: bytes, durable: bool = True) -> None:
    """Append bytes to a file and fsync it; if this fails, remove the part that was written."""
    start, rest = os.fstat(fd).st_size, memoryview(data)
    try:
        while rest:  # without a buffer, which would write the rest after a failure
            rest = rest[os.write(fd, rest) :]
        if durable:
            os.fsync(fd)
    except BaseException:
        os.truncate(fd, start)  # the next row must not follow a partial one
        raise


def _read(path: str) -> bytes:
    with open(path, "rb", opener=open_own) as file:
        if os.fstat(file.fileno()).st_size > TABLE_LIMIT:
            raise SpinupError(
                f"{path} has more than {TABLE_LIMIT} bytes, too many for a table; restore the "
                "file, or start again with overwrite=True"
            )
        return file.read(TABLE_LIMIT)


def _record_of(path: str | os.PathLike[str]) -> Path:
    return Path(path).with_name(record_name(Path(path).name))


def _write_record(path: str, size: int, digest: str) -> None:
    atomic_write(_record_of(path), json_bytes({"bytes": size, "sha256": digest}))


def read_record(path: str | os.PathLike[str]) -> bytes | None:
    """Return the recorded hash of the table `path`; None if there is none, as in older runs.

    To check a table that is being written, read the record first.
    """
    try:
        return read_file(_record_of(path), limit=4096)
    except FileNotFoundError:
        return None
    except OSError:
        return b""  # matches no table


def matches(record: bytes, table: bytes) -> bool:
    """Return whether the part of a table that `record` covers is unchanged."""
    try:
        content = json.loads(record)
        size, digest = content["bytes"], content["sha256"]
        covered = table[:size] if 0 <= size <= len(table) else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return covered is not None and hashlib.sha256(covered).hexdigest() == digest
