"""Reading and writing arrays as safetensors: a JSON header, then raw bytes."""

from __future__ import annotations

import json
import os
import struct
import types
from collections.abc import Iterator
from typing import Any

import numpy as np

from spinup.utils.errors import SpinupError
from spinup.utils.reading import JSON_LIMIT, open_regular

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

    Raises ``SpinupError`` for dtypes that safetensors does not support.
    """
    header: dict[str, dict[str, Any]] = {}
    offset = 0
    # widest dtype first, so that every tensor is aligned
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    for name in order:
        array = arrays[name]
        if array.dtype.name not in SAFE_DTYPES:
            raise SpinupError(
                f"cannot save {name!r}: safetensors has no dtype {array.dtype}; convert it first"
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
    """Read a safetensors file into writable arrays; raise ``SpinupError`` if it is unreadable."""
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
            f"{os.fspath(path)} is not a readable safetensors file ({error}); use another save"
        ) from error
    return {k: v if v.flags.writeable else v.copy() for k, v in arrays.items()}
