"""Writing files safely, despite crashes and full disks: `spinup.utils.reading` reads them.

Writes go to a temporary file, which is flushed to disk (fsync) and then renamed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from spinup.utils.errors import SpinupError
from spinup.utils.own_files import fsync_folder

TMP_PREFIX = ".tmp-"


def atomic_write(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace the content of ``path``; a crash leaves either the old or the new file, complete.

    On failure, the temporary file is removed, the old file is unchanged, and the error is raised.
    """
    path = Path(path)
    tmp = path.with_name(f"{TMP_PREFIX}{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        write_durably(tmp, [data])
        os.replace(tmp, path)
        fsync_folder(path.parent)
    except BaseException as error:
        with contextlib.suppress(OSError):  # report the first error, not this one
            tmp.unlink(missing_ok=True)
        if isinstance(error, OSError):
            from spinup.runs.storage.disk import DiskError

            raise DiskError(error, path) from error
        raise


def json_bytes(content: Any) -> bytes:
    """Encode ``content`` as the text of a JSON file: sorted, indented, strict."""
    return json.dumps(content, indent=4, sort_keys=True, allow_nan=False).encode() + b"\n"


def self_hash(content: dict[str, Any]) -> str:
    """Hash JSON data except for its entry ``sha256``, in which the hash can be stored."""
    rest = {key: value for key, value in content.items() if key != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


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


def save_number(itr: int | str | None) -> str:
    """Return the number in a save's file names; empty for ``itr=None``."""
    if itr is None:
        return ""
    try:
        return str(int(itr))
    except ValueError as error:
        raise SpinupError(f"itr must be a number, None or 'last', not {itr!r}") from error
