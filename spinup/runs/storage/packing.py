"""Packing a run's state into JSON and arrays, and unpacking it again, bit for bit.

A state consists of nested dicts, lists and tuples of plain values, NumPy arrays and torch tensors.
It cannot contain anything executable. Torch is imported only to unpack a tensor.
"""

from __future__ import annotations

import ast
import base64
import functools
import math
import struct
import sys
from collections import OrderedDict
from typing import Any

import numpy as np

from spinup.runs.storage.arrays import SAFE_DTYPES, Piece
from spinup.utils.errors import SpinupError

MAX_NESTING = 100  # also catches a state that contains itself
INLINE_BYTES = 64  # arrays up to this size go into the JSON: many tiny tensors load slowly
# The exceptions that our own code raises when a damaged or forged file contains unexpected data.
FORGED = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    RecursionError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
)


def pack(state: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Split `state` into a JSON-compatible tree and a dict of plain arrays.

    `state` consists of nested dicts, lists and tuples of None, bool, int, float, str, bytes,
    NumPy scalars and arrays, torch tensors and pieces. Raises a `SpinupError` with the location
    of any other value. The arrays may share memory with `state`: write them before you modify it.
    """
    arrays: dict[str, np.ndarray] = {}
    return _pack(state, "state", 0, arrays), arrays


def unpack(tree: Any, arrays: dict[str, np.ndarray], pieces: dict[str, Piece] | None = None) -> Any:
    """Invert :func:`pack` exactly; raise `SpinupError` for a tree that `pack` did not create.

    Torch tensors are restored to the CPU. The result may share memory with `arrays`. `pieces`
    contains the saved pieces that the tree may refer to, by file name.
    """
    try:
        return _unpack(tree, arrays, pieces or {}, 0)
    except SpinupError:
        raise
    except FORGED as error:
        raise SpinupError(
            "this saved state does not follow the checkpoint format "
            f"({type(error).__name__}: {error}): use another checkpoint"
        ) from error


def _pack(x: Any, path: str, depth: int, arrays: dict[str, np.ndarray]) -> Any:
    # Exact types only: a subclass (a namedtuple, a masked array) would be restored as its base.
    kind = type(x)
    if x is None or kind is bool or kind is str:
        return x
    if kind is float:
        # JSON has no NaN or infinity; the bytes also keep a NaN's sign and payload
        return x if math.isfinite(x) else {"$": "float", "v": struct.pack("<d", x).hex()}
    if kind is int:
        return x if -(2**63) <= x < 2**63 else {"$": "int", "v": hex(x)}
    if depth > MAX_NESTING:
        raise SpinupError(
            f"{path[:80]}... is nested deeper than {MAX_NESTING} levels, or contains itself: "
            "flatten it before saving"
        )
    if kind is dict or kind is OrderedDict:
        return _pack_dict(x, path, depth, arrays)
    if kind is list:
        return [_pack(v, f"{path}[{i}]", depth + 1, arrays) for i, v in enumerate(x)]
    if kind is tuple:
        return {
            "$": "tuple",
            "v": [_pack(v, f"{path}[{i}]", depth + 1, arrays) for i, v in enumerate(x)],
        }
    if kind is bytes:
        return {"$": "bytes", **_pack_raw(np.frombuffer(x, np.uint8), arrays)}
    if isinstance(x, np.generic):
        if x.dtype.hasobject:
            raise _cannot_save(x, path)
        data = x.tobytes() if x.dtype.itemsize else b""  # NumPy pads empty strings
        if len(data) <= INLINE_BYTES:  # like _pack_raw, but fast for thousands of scalars
            placed = {"b": base64.b64encode(data).decode("ascii")}
        else:
            placed = _pack_raw(np.frombuffer(data, np.uint8), arrays)
        return {"$": "scalar", "d": _dtype_text(x.dtype), **placed}
    if kind is np.ndarray:
        return _pack_array(x, path, arrays)
    if kind is Piece:
        return {"$": "piece", "f": x.file}
    torch = sys.modules.get("torch")  # if torch is not imported, x cannot be a tensor
    if torch is not None and isinstance(x, torch.Tensor):
        return _pack_tensor(x, path, arrays, torch)
    raise _cannot_save(x, path)


def _cannot_save(x: Any, path: str) -> SpinupError:
    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    return SpinupError(
        f"cannot save {path}, a {kind}: convert it to dicts, lists, numbers, strings or arrays"
    )


def _pack_dict(x: dict, path: str, depth: int, arrays: dict[str, np.ndarray]) -> Any:
    if type(x) is dict and "$" not in x and all(type(k) is str for k in x):
        return {k: _pack(v, f"{path}[{k!r}]", depth + 1, arrays) for k, v in x.items()}
    items = [
        [
            _pack(k, f"key {k!r} of {path}", depth + 1, arrays),
            _pack(v, f"{path}[{k!r}]", depth + 1, arrays),
        ]
        for k, v in x.items()
    ]
    return {"$": "dict" if type(x) is dict else "odict", "v": items}


def _pack_raw(data: np.ndarray, arrays: dict[str, np.ndarray]) -> dict[str, str]:
    """Store an array as text in the tree if it is small, otherwise as an entry of `arrays`."""
    if data.nbytes <= INLINE_BYTES:
        return {"b": base64.b64encode(data.tobytes()).decode("ascii")}
    name = f"t{len(arrays)}"
    arrays[name] = data
    return {"a": name}


def _as_bytes(x: np.ndarray) -> np.ndarray:
    return np.frombuffer(x.tobytes(), np.uint8)


@functools.lru_cache(maxsize=64)
def _dtype_text(dtype: np.dtype) -> str:
    return repr(np.lib.format.dtype_to_descr(dtype))


@functools.lru_cache(maxsize=64)
def _dtype_from_text(text: str) -> np.dtype:
    dtype = np.lib.format.descr_to_dtype(ast.literal_eval(text))
    if dtype.hasobject:  # NumPy would use the file's bytes as pointers
        raise SpinupError(
            "this saved state contains an array of Python objects: use another checkpoint"
        )
    return dtype


def _pack_array(x: np.ndarray, path: str, arrays: dict[str, np.ndarray]) -> Any:
    if x.dtype.hasobject:
        raise SpinupError(
            f"cannot save {path}, an array of Python objects: convert it to numbers first"
        )
    direct = x.dtype.isnative and x.dtype.name in SAFE_DTYPES and x.nbytes > INLINE_BYTES
    # not np.ascontiguousarray, which turns a 0-d array into a 1-d one
    data = np.asarray(x, order="C") if direct else _as_bytes(x)
    return {
        "$": "array",
        "d": _dtype_text(x.dtype),
        "s": list(x.shape),
        **_pack_raw(data, arrays),
    }


def _pack_tensor(x: Any, path: str, arrays: dict[str, np.ndarray], torch: Any) -> Any:
    if (
        x.layout != torch.strided
        or x.is_quantized
        or type(x) not in (torch.Tensor, torch.nn.Parameter)
    ):
        raise SpinupError(
            f"cannot save {path}, a {x.layout} {type(x).__name__}: make it a dense tensor first"
        )
    dense = x.detach().cpu().resolve_conj().resolve_neg().contiguous()
    name = str(dense.dtype).removeprefix("torch.")
    if name in SAFE_DTYPES and dense.numel() * dense.element_size() > INLINE_BYTES:
        data = dense.numpy()
    elif dense.numel():  # NumPy lacks some dtypes, such as bfloat16, so store raw bytes
        # A single element is contiguous with any stride, but view() requires stride 1.
        flat = dense.as_strided((dense.numel(),), (1,))
        data = flat.view(torch.uint8).numpy()
    else:
        data = np.empty(0, np.uint8)
    kind = "parameter" if isinstance(x, torch.nn.Parameter) else "tensor"
    # only leaf tensors keep requires_grad; others are saved by value
    grad = bool(x.requires_grad and x.is_leaf)
    return {"$": kind, "d": name, "s": list(x.shape), "g": grad, **_pack_raw(data, arrays)}


def _unpack(x: Any, arrays: dict[str, np.ndarray], pieces: dict[str, Piece], depth: int) -> Any:
    if depth > 2 * MAX_NESTING:
        raise SpinupError("this saved state is nested too deeply: use another checkpoint")
    if isinstance(x, list):
        return [_unpack(v, arrays, pieces, depth + 1) for v in x]
    if not isinstance(x, dict):
        return x
    if "$" not in x:
        return {k: _unpack(v, arrays, pieces, depth + 1) for k, v in x.items()}
    tag = x["$"]
    if tag == "float":
        return struct.unpack("<d", bytes.fromhex(x["v"]))[0]
    if tag == "int":
        return int(x["v"], 16)
    if tag == "tuple":
        return tuple(_unpack(v, arrays, pieces, depth + 1) for v in x["v"])
    if tag in ("dict", "odict"):
        items = [
            (_unpack(k, arrays, pieces, depth + 1), _unpack(v, arrays, pieces, depth + 1))
            for k, v in x["v"]
        ]
        return dict(items) if tag == "dict" else OrderedDict(items)
    if tag == "bytes":
        return _unpack_raw(x, arrays).tobytes()
    if tag in ("scalar", "array"):
        dtype = _dtype_from_text(x["d"])
        shape = tuple(x["s"]) if tag == "array" else ()
        array = _shaped(_unpack_raw(x, arrays), dtype, shape)
        return array if tag == "array" else array[()]
    if tag in ("tensor", "parameter"):
        return _unpack_tensor(x, _unpack_raw(x, arrays))
    if tag == "piece":
        return pieces[x["f"]]
    raise SpinupError(
        f"this saved state contains an unknown kind of value, {tag!r}: use another checkpoint"
    )


def _unpack_raw(x: dict, arrays: dict[str, np.ndarray]) -> np.ndarray:
    if "a" in x:
        return arrays[x["a"]]
    # a bytearray, because an array over bytes is read-only
    return np.frombuffer(bytearray(base64.b64decode(x["b"], validate=True)), np.uint8)


def _shaped(data: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if data.dtype == dtype and data.shape == shape:
        return data
    if data.nbytes != math.prod(shape) * dtype.itemsize:
        raise ValueError("the size of an array does not match its shape")
    if data.nbytes == 0:
        return np.zeros(shape, dtype)
    return data.reshape(-1).view(dtype).reshape(shape)


def _unpack_tensor(x: dict, data: np.ndarray) -> Any:
    import torch

    dtype = getattr(torch, x["d"], None)
    if not isinstance(dtype, torch.dtype):
        raise SpinupError(
            f"this saved state names an unknown torch dtype, {x['d']!r}: use another checkpoint"
        )
    shape = tuple(x["s"])
    if data.nbytes != math.prod(shape) * torch.empty(0, dtype=dtype).element_size():
        raise ValueError("the size of a tensor does not match its shape")
    if data.nbytes == 0:
        value = torch.empty(shape, dtype=dtype)
    elif data.dtype == np.uint8 and dtype != torch.uint8:
        value = torch.from_numpy(data.reshape(-1)).view(dtype).reshape(shape)
    else:
        value = torch.from_numpy(data).reshape(shape)
    if x["$"] == "parameter":
        return torch.nn.Parameter(value, requires_grad=bool(x["g"]))
    return value.requires_grad_() if x["g"] else value
