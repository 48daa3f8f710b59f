"""Reading files that somebody else may have written, without waiting and without filling memory."""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
from pathlib import Path
from typing import Any, BinaryIO

from spinup.utils.errors import SpinupError

JSON_LIMIT = 1 << 24  # bytes; the largest files that the library writes have a tenth of this
TABLE_LIMIT = 1 << 29  # a progress.txt with a million rows


def open_regular(path: str | os.PathLike[str], limit: float = math.inf) -> BinaryIO:
    """Open a regular file of at most `limit` bytes; raise `OSError` for anything else.

    Opening a pipe or a device could wait forever, and reading one might never end.
    """

    def without_waiting(path: str, flags: int) -> int:
        return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))

    try:
        file = open(path, "rb", opener=without_waiting)  # noqa: SIM115
    except ValueError as error:  # a NUL in the name
        raise OSError(errno.EINVAL, "its name contains a NUL") from error
    info = os.fstat(file.fileno())
    if stat.S_ISREG(info.st_mode) and info.st_size <= limit:
        return file
    file.close()
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    raise OSError(errno.EFBIG, "too large for a file of this name")


def read_file(path: str | os.PathLike[str], limit: int = JSON_LIMIT) -> bytes:
    """Read a regular file of at most `limit` bytes; raise `OSError` for anything else."""
    with open_regular(path, limit) as file:
        return file.read(limit)


def read_json(path: str | os.PathLike[str], limit: int = JSON_LIMIT) -> Any:
    """Read a JSON file; raise `OSError` or a `ValueError` that says why it cannot be read."""
    return parse_json(read_file(path, limit))


def read_object(path: str | Path, kind: str, content: str) -> dict[str, Any]:
    """Return the JSON object in a file; `kind` and `content` are what errors call the two."""
    try:
        found = read_json(path)
    except FileNotFoundError as error:
        raise SpinupError(f"the {kind} '{path}' does not exist") from error
    except OSError as error:
        raise SpinupError(f"the {kind} '{path}' cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise SpinupError(f"the {kind} '{path}' is not valid JSON: {error}") from error
    if not isinstance(found, dict):
        raise SpinupError(f"the {kind} '{path}' must contain one JSON object of {content}")
    return found


def parse_json(data: bytes) -> Any:
    """Parse JSON; raise a `ValueError` that says why it cannot be parsed, and nothing else."""
    try:
        return json.loads(data)
    except json.JSONDecodeError:
        raise
    except UnicodeDecodeError as error:
        raise ValueError("it is not text") from error
    except ValueError as error:  # Python refuses to convert thousands of digits
        raise ValueError("it contains a number with too many digits") from error
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error


def read_table(path: str | os.PathLike[str]) -> str:
    """Read a table such as `progress.txt` as text; raise `OSError` if it is not one."""
    with open_regular(path, TABLE_LIMIT) as file:
        start = file.read(1 << 16)
        # Before the rest is read: a file of zeros may take no room on disk.
        if b"\0" in start.partition(b"\n")[0]:
            raise OSError(errno.EINVAL, "not a text file")
        text = (start + file.read(TABLE_LIMIT)).decode("utf-8", errors="replace")
    return text.replace("\r\n", "\n") if "\r" in text else text


def sha256_file(path: str | os.PathLike[str], limit: float = math.inf) -> str:
    """Compute a regular file's SHA-256 in hexadecimal, block by block."""
    digest = hashlib.sha256()
    with open_regular(path, limit) as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def count_rows(path: Path) -> int:
    """Count the complete rows of a table, without its header."""
    with open_regular(path, TABLE_LIMIT) as file:
        lines = sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
    return max(0, lines - 1)
