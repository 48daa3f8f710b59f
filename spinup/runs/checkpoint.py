"""Crash-safe files: atomic writes, checkpoints with a manifest, and the lock of a run directory.

A checkpoint is one folder ``step-000000000123/`` with ``state.json`` (the tree),
``state.safetensors`` (the arrays) and ``manifest.json`` (size and SHA-256 of both). It is built
under a temporary name, made durable, and only then renamed, so that a name without ``.tmp-`` is
complete or was damaged later; a damaged one fails its hash. Nothing in it is executable and
nothing is unpickled.

What is large and changes little (a replay buffer) is saved as :class:`Piece` objects: files of
their own in ``pieces/``, written once, listed with their hashes in the manifest of every checkpoint
that needs them, and deleted when none does any more.

This module needs NumPy only; torch is imported when a torch tensor is met.
"""

from __future__ import annotations

import ast
import base64
import contextlib
import copy
import errno
import functools
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import stat
import struct
import sys
import types
import warnings
import weakref
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from spinup.utils.errors import SpinupError

FORMAT = "spinup-checkpoint-1"
TMP_PREFIX = ".tmp-"
MAX_NESTING = 100  # also what ends a cycle
INLINE_BYTES = 64  # smaller arrays go into the tree: thousands of scalars make a slow tensor file

# dtype name <-> the name in a safetensors header; everything else travels as raw bytes
_SAFE_DTYPES = types.MappingProxyType(
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
_FOLDER = re.compile(r"step-(\d{12,})(\.again)?")
PIECES = "pieces"
_PIECE = re.compile(r"[0-9a-f]{32}\.safetensors")
# What plain data of the wrong kind makes of code that expects another.
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
    def _saved(cls, folder: Path, file: str, entry: dict[str, Any]) -> Piece:
        piece = cls()
        piece._folder, piece.file, piece.entry = folder, file, entry
        return piece

    def holding(self, arrays: dict[str, np.ndarray]) -> Piece:
        """The same piece, of which these arrays are a copy: a lost file can be written again."""
        piece = copy.copy(self)
        piece.arrays = arrays
        return piece

    def _is_in(self, folder: Path) -> bool:
        """Was it saved there, and is the file still what it was, as far as a glance tells?"""
        try:
            return (
                self._folder == folder and (folder / self.file).stat().st_size == self.entry["size"]
            )
        except OSError:
            return False

    def _write(self, folder: Path) -> None:
        arrays = self.load()
        tmp = folder / f"{TMP_PREFIX}{self.file}"
        tmp.unlink(missing_ok=True)  # of a save that was killed
        try:
            entry = _write_durably(tmp, safetensors_chunks(arrays))
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


# --------------------------------------------------------------------------------------------------
# pack / unpack
# --------------------------------------------------------------------------------------------------


def pack(state: Any) -> tuple[Any, dict[str, np.ndarray]]:
    """Split ``state`` into a tree that JSON can hold and a dict of plain arrays.

    ``state`` is nested dicts, lists and tuples of None, bool, int, float, str, bytes, NumPy
    scalars and arrays, and torch tensors. Anything else is a ``SpinupError`` that names where it
    sits. The arrays may share memory with ``state``: write them before changing it.
    """
    arrays: dict[str, np.ndarray] = {}
    return _pack(state, "state", 0, arrays), arrays


def unpack(tree: Any, arrays: dict[str, np.ndarray], pieces: dict[str, Piece] | None = None) -> Any:
    """The exact inverse of :func:`pack`; a tree that ``pack`` did not make is a ``SpinupError``.

    Torch tensors come back on the CPU; the arrays may share memory with ``arrays``. ``pieces`` are
    the saved ones that the tree may name, by their files.
    """
    try:
        return _unpack(tree, arrays, pieces or {}, 0)
    except SpinupError:
        raise
    except FORGED as error:
        raise SpinupError(
            "this saved state does not follow the checkpoint format "
            f"({type(error).__name__}: {error}); use another checkpoint."
        ) from error


def _pack(x: Any, path: str, depth: int, arrays: dict[str, np.ndarray]) -> Any:
    # exact types: a subclass (a namedtuple, a masked array) would come back as something else
    kind = type(x)
    if x is None or kind is bool or kind is str:
        return x
    if kind is float:
        # JSON has no NaN, and a NaN's sign and payload count too
        return x if math.isfinite(x) else {"$": "float", "v": struct.pack("<d", x).hex()}
    if kind is int:
        return x if -(2**63) <= x < 2**63 else {"$": "int", "v": hex(x)}
    if depth > MAX_NESTING:
        raise SpinupError(
            f"{path[:80]}... nests deeper than {MAX_NESTING} levels, or contains itself; "
            "flatten it before saving."
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
        data = x.tobytes() if x.dtype.itemsize else b""  # NumPy pads an empty string
        if len(data) <= INLINE_BYTES:  # as _pack_raw has it, but there can be thousands of these
            placed = {"b": base64.b64encode(data).decode("ascii")}
        else:
            placed = _pack_raw(np.frombuffer(data, np.uint8), arrays)
        return {"$": "scalar", "d": _dtype_text(x.dtype), **placed}
    if kind is np.ndarray:
        return _pack_array(x, path, arrays)
    if kind is Piece:
        return {"$": "piece", "f": x.file}
    torch = sys.modules.get("torch")  # without it loaded there can be no tensor
    if torch is not None and isinstance(x, torch.Tensor):
        return _pack_tensor(x, path, arrays, torch)
    raise _cannot_save(x, path)


def _cannot_save(x: Any, path: str) -> SpinupError:
    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    return SpinupError(
        f"cannot save {path}, a {kind}; convert it to dicts, lists, numbers, strings or arrays."
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
    """Place an array: text in the tree when small, else an entry of ``arrays``."""
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
    if dtype.hasobject:  # its bytes would be read as pointers
        raise SpinupError(
            "this saved state holds an array of Python objects; use another checkpoint."
        )
    return dtype


def _pack_array(x: np.ndarray, path: str, arrays: dict[str, np.ndarray]) -> Any:
    if x.dtype.hasobject:
        raise SpinupError(
            f"cannot save {path}, an array of Python objects; convert it to numbers first."
        )
    direct = x.dtype.isnative and x.dtype.name in _SAFE_DTYPES and x.nbytes > INLINE_BYTES
    # np.ascontiguousarray would make a 0-d array 1-d
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
            f"cannot save {path}, a {x.layout} {type(x).__name__}; make it a dense tensor first."
        )
    dense = x.detach().cpu().resolve_conj().resolve_neg().contiguous()
    name = str(dense.dtype).removeprefix("torch.")
    if name in _SAFE_DTYPES and dense.numel() * dense.element_size() > INLINE_BYTES:
        data = dense.numpy()
    elif dense.numel():  # NumPy has no bfloat16 and the like, but every dtype is bytes
        # of one number any stride counts as contiguous, but a view wants it to be 1
        flat = dense.as_strided((dense.numel(),), (1,))
        data = flat.view(torch.uint8).numpy()
    else:
        data = np.empty(0, np.uint8)
    kind = "parameter" if isinstance(x, torch.nn.Parameter) else "tensor"
    # a tensor inside a graph is saved as its value
    grad = bool(x.requires_grad and x.is_leaf)
    return {"$": kind, "d": name, "s": list(x.shape), "g": grad, **_pack_raw(data, arrays)}


def _unpack(x: Any, arrays: dict[str, np.ndarray], pieces: dict[str, Piece], depth: int) -> Any:
    if depth > 2 * MAX_NESTING:
        raise SpinupError("this saved state nests too deeply; use another checkpoint.")
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
        f"this saved state holds an unknown kind of value, {tag!r}; use another checkpoint."
    )


def _unpack_raw(x: dict, arrays: dict[str, np.ndarray]) -> np.ndarray:
    if "a" in x:
        return arrays[x["a"]]
    # a bytearray, because arrays over bytes are read-only
    return np.frombuffer(bytearray(base64.b64decode(x["b"], validate=True)), np.uint8)


def _shaped(data: np.ndarray, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if data.dtype == dtype and data.shape == shape:
        return data
    if data.nbytes != math.prod(shape) * dtype.itemsize:
        raise ValueError("an array's size differs from its shape")
    if data.nbytes == 0:
        return np.zeros(shape, dtype)
    return data.reshape(-1).view(dtype).reshape(shape)


def _unpack_tensor(x: dict, data: np.ndarray) -> Any:
    import torch

    dtype = getattr(torch, x["d"], None)
    if not isinstance(dtype, torch.dtype):
        raise SpinupError(
            f"this saved state names an unknown torch dtype, {x['d']!r}; use another checkpoint."
        )
    shape = tuple(x["s"])
    if data.nbytes != math.prod(shape) * torch.empty(0, dtype=dtype).element_size():
        raise ValueError("a tensor's size differs from its shape")
    if data.nbytes == 0:
        value = torch.empty(shape, dtype=dtype)
    elif data.dtype == np.uint8 and dtype != torch.uint8:
        value = torch.from_numpy(data.reshape(-1)).view(dtype).reshape(shape)
    else:
        value = torch.from_numpy(data).reshape(shape)
    if x["$"] == "parameter":
        return torch.nn.Parameter(value, requires_grad=bool(x["g"]))
    return value.requires_grad_() if x["g"] else value


# --------------------------------------------------------------------------------------------------
# files
# --------------------------------------------------------------------------------------------------


def safetensors_chunks(arrays: dict[str, np.ndarray]) -> Iterator[bytes | memoryview]:
    """The bytes of a safetensors file, piece by piece: no second copy of a large replay buffer.

    Takes the dtypes that the format and NumPy share; anything else is a ``SpinupError``.
    """
    header: dict[str, dict[str, Any]] = {}
    offset = 0
    # widest items first keeps every tensor aligned
    order = sorted(arrays, key=lambda name: -arrays[name].dtype.itemsize)
    for name in order:
        array = arrays[name]
        if array.dtype.name not in _SAFE_DTYPES:
            raise SpinupError(
                f"cannot save {name!r}: safetensors has no dtype {array.dtype}; convert it first."
            )
        header[name] = {
            "dtype": _SAFE_DTYPES[array.dtype.name],
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
    """The tensors of a safetensors file as writable arrays; a bad file is a ``SpinupError``."""
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        arrays = load_file(path)
    except (SafetensorError, KeyError) as error:
        raise SpinupError(
            f"{os.fspath(path)} is not a readable safetensors file ({error})."
        ) from error
    return {k: v if v.flags.writeable else v.copy() for k, v in arrays.items()}


def atomic_write(path: str | os.PathLike[str], data: bytes) -> None:
    """Replace ``path`` by ``data`` so that a crash leaves the old file or the new one, whole.

    On failure the temporary file is removed, the old file is as it was, and the error is raised.
    """
    path = Path(path)
    tmp = path.with_name(f"{TMP_PREFIX}{path.name}-{os.getpid()}-{secrets.token_hex(4)}")
    try:
        _write_durably(tmp, [data])
        os.replace(tmp, path)
    except BaseException:
        with contextlib.suppress(OSError):  # the first error is the one to report
            tmp.unlink(missing_ok=True)
        raise
    fsync_folder(path.parent)


def fsync_folder(folder: str | os.PathLike[str]) -> None:
    """Make renames in ``folder`` durable; Windows cannot and need not."""
    if os.name == "nt":
        return
    fd = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def read_file(path: str | os.PathLike[str], limit: int = 2**30) -> bytes:
    """The bytes of a file; an ``OSError`` for what is none, or larger than ``limit``."""
    _check_regular(path, limit)
    return Path(path).read_bytes()


def _check_regular(path: str | os.PathLike[str], limit: float = math.inf) -> None:
    """Refuse what never ends when it is read: pipes, devices, links to them."""
    info = os.stat(path)
    if not stat.S_ISREG(info.st_mode):
        raise OSError(errno.EINVAL, "not a regular file")
    if info.st_size > limit:
        raise OSError(errno.EFBIG, "too large to be what its name says")


def sha256_file(path: str | os.PathLike[str]) -> str:
    """Hexadecimal SHA-256 of a file, read in pieces."""
    _check_regular(path)
    digest = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _write_durably(path: Path, chunks: Iterable[bytes | memoryview]) -> dict[str, Any]:
    """Write and fsync; return the manifest's entry, with the hash of what was meant to be there."""
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


# --------------------------------------------------------------------------------------------------
# checkpoints
# --------------------------------------------------------------------------------------------------


def save_checkpoint(folder: str | os.PathLike[str], state: dict, step: int, keep: int = 2) -> Path:
    """Save ``state`` as the newest checkpoint of ``folder`` and return where it is.

    Afterwards the newest ``keep`` valid checkpoints remain. At every instant, also when saving one
    step a second time, the folder holds a valid checkpoint if it did before. A failure (a full
    disk) removes what it began, leaves the earlier ones alone and raises.

    Args:
        folder: usually ``<output_dir>/checkpoints``; made when missing. One process writes it.
        state: what :func:`pack` takes.
        step: a non-negative number that names the checkpoint; normally growing.
        keep: how many to keep, at least 1.
    """
    if step < 0 or keep < 1:
        raise SpinupError(f"step must be >= 0 and keep >= 1, not step={step} and keep={keep}.")
    tree, arrays = pack(state)
    text = json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    _tidy(folder)
    pieces = _write_pieces(folder, state)
    old = _found(folder)
    serial = 1 + max((m["serial"] for _, m, _ in old if m is not None), default=0)

    tmp = folder / f"{TMP_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    final = folder / f"step-{step:012d}"
    taken = final.exists()
    placed = final.with_name(final.name + ".again") if taken else final
    try:
        tmp.mkdir()
        files = {
            "state.json": _write_durably(tmp / "state.json", [text]),
            "state.safetensors": _write_durably(
                tmp / "state.safetensors", safetensors_chunks(arrays)
            ),
        }
        manifest = _render_manifest(
            {
                "format": FORMAT,
                "step": int(step),
                "serial": serial,
                "files": files,
                "pieces": pieces,
            }
        )
        _write_durably(tmp / "manifest.json", [manifest])
        fsync_folder(tmp)
        os.rename(tmp, placed)
    except BaseException:
        shutil.rmtree(tmp, ignore_errors=True)
        raise
    fsync_folder(folder)
    if taken:  # the loader knows both names, so the new one counts from the rename above on
        _promote(placed)
    _prune(folder, keep, newest=final, known=pieces)
    return final


def load_checkpoint(folder: str | os.PathLike[str]) -> tuple[dict, Path] | None:
    """Load the newest valid checkpoint: ``(state, path)``, or None where there is none at all.

    A damaged checkpoint is passed over with a warning that names it and the reason. If every one is
    damaged, that is a ``SpinupError``: starting afresh is the user's decision.
    """
    folder = Path(folder)
    if not folder.is_dir():
        return None
    found = _found(folder)
    for path, manifest, reason in found:
        if manifest is None:
            _warn_damaged(path, reason)
    for path, manifest, _ in found:
        if manifest is None:
            continue
        damage = _damage(path, manifest)
        if damage is None:
            try:
                return _read_state(path, manifest), path
            except (OSError, *FORGED) as error:
                damage = str(error)
        _warn_damaged(path, damage)
    if found:
        raise SpinupError(
            f"none of the {len(found)} checkpoints in {folder} is intact; restore one from a "
            "backup, or start the run again with overwrite=True."
        )
    return None


def _warn_damaged(path: Path, reason: str) -> None:
    warnings.warn(f"ignoring the damaged checkpoint {path}: {reason}", RuntimeWarning, stacklevel=3)


def _read_state(path: Path, manifest: dict[str, Any]) -> dict:
    tree = json.loads(read_file(path / "state.json"))
    folder = path.parent / PIECES
    pieces = {f: Piece._saved(folder, f, e) for f, e in manifest.get("pieces", {}).items()}
    return unpack(tree, read_safetensors(path / "state.safetensors"), pieces)


def _pieces_in(state: Any, depth: int = 0) -> Iterator[Piece]:
    """Every piece somewhere in a state."""
    if type(state) is Piece:
        yield state
    elif isinstance(state, (dict, list, tuple)) and depth <= MAX_NESTING:
        for value in state.values() if isinstance(state, dict) else state:
            if isinstance(value, (Piece, dict, list, tuple)):
                yield from _pieces_in(value, depth + 1)


def _write_pieces(folder: Path, state: dict) -> dict[str, Any]:
    """Make the new pieces of ``state`` durable; the manifest's entries of all of them."""
    store = folder / PIECES
    entries: dict[str, Any] = {}
    for piece in _pieces_in(state):
        if not piece._is_in(store):  # new, of another folder, or somebody deleted it
            store.mkdir(exist_ok=True)
            piece._write(store)
        entries[piece.file] = piece.entry
    if entries:  # also those that an earlier save wrote before it broke off
        fsync_folder(store)
    return entries


def drop_pieces(folder: Path) -> None:
    """Delete the pieces that no checkpoint names: outdated ones, and those of a broken-off save."""
    store = folder / PIECES
    if not store.is_dir():
        return
    needed: set[str] = set()
    for _, manifest, _ in _found(folder):
        needed.update(manifest.get("pieces", {}) if manifest else {})
    for path in store.iterdir():
        # by its name, lest a link to another folder cost the files that are there
        ours = _PIECE.fullmatch(path.name.removeprefix(TMP_PREFIX)) is not None
        if ours and path.name not in needed:
            path.unlink(missing_ok=True)


def _render_manifest(body: dict[str, Any]) -> bytes:
    """The manifest's bytes. It carries its own hash, for nothing else vouches for it."""
    digest = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    return (
        json.dumps({**body, "manifest_sha256": digest}, indent=1, sort_keys=True).encode() + b"\n"
    )


def _read_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a checkpoint; ``ValueError`` says what is wrong with it."""
    data = read_file(path / "manifest.json")
    manifest = json.loads(data)
    if not isinstance(manifest, dict):
        raise ValueError("manifest.json is no JSON object")
    manifest.pop("manifest_sha256", None)
    if _render_manifest(manifest) != data:
        raise ValueError("manifest.json does not match its own hash")
    if manifest.get("format") != FORMAT:
        raise ValueError(f"its format is {manifest.get('format')!r}, not {FORMAT!r}")
    if path.name.removesuffix(".again") != f"step-{manifest['step']:012d}":
        raise ValueError("manifest.json belongs to another step")
    if type(manifest["serial"]) is not int:
        raise ValueError("manifest.json does not say when it was made")
    # a manifest that vouches for fewer files would let the others in unchecked
    if set(manifest["files"]) != {"state.json", "state.safetensors"}:
        raise ValueError("manifest.json does not list the checkpoint's files")
    pieces = manifest.get("pieces", {})
    if type(pieces) is not dict or any(_PIECE.fullmatch(name) is None for name in pieces):
        raise ValueError("manifest.json names a piece that is none")
    entries = (*manifest["files"].values(), *pieces.values())
    if any(set(entry) != {"size", "sha256"} for entry in entries):
        raise ValueError("manifest.json does not say the size and hash of every file")
    return manifest


def _found(folder: Path) -> list[tuple[Path, dict[str, Any] | None, str]]:
    """(path, manifest or None, what is wrong with the manifest), unreadable first, then newest."""
    found: list[tuple[Path, dict[str, Any] | None, str]] = []
    for path in folder.iterdir():
        if _FOLDER.fullmatch(path.name) is None:
            continue
        try:
            found.append((path, _read_manifest(path), ""))
        except (OSError, *FORGED) as error:
            found.append((path, None, f"{type(error).__name__}: {error}"))
    # by order of saving, not by step: a run that went back to an older state repeats steps
    found.sort(key=lambda f: (f[1] is None, f[1]["serial"] if f[1] else 0, f[0].name), reverse=True)
    return found


def _damage(path: Path, manifest: dict[str, Any], known: Collection[str] = ()) -> str | None:
    """What is wrong with the files of a checkpoint whose manifest is sound; None if nothing is.

    The pieces in ``known`` are looked at but not read, for a save must not cost what loading does.
    """
    own = {name: (path / name, entry) for name, entry in manifest["files"].items()}
    store = path.parent / PIECES
    pieces = {name: (store / name, entry) for name, entry in manifest.get("pieces", {}).items()}
    for name, (file, entry) in {**own, **pieces}.items():
        try:
            size = file.stat().st_size
            if size != entry["size"]:
                return f"{name} has {size} bytes instead of {entry['size']}"
            if name not in known and sha256_file(file) != entry["sha256"]:
                return f"the content of {name} does not match its hash"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
    return None


def _tidy(folder: Path) -> None:
    """Remove what an interrupted save left: temporaries, and a second name for one step."""
    for path in list(folder.iterdir()):
        if path.name.startswith(TMP_PREFIX):
            shutil.rmtree(path, ignore_errors=True)
        elif path.name.endswith(".again") and _FOLDER.fullmatch(path.name):
            try:
                sound = _damage(path, _read_manifest(path)) is None
            except (OSError, *FORGED):
                sound = False
            if sound:
                _promote(path)
            else:
                _discard(path)


def _promote(again: Path) -> None:
    """Give the re-saved checkpoint the plain name; it is durable, so the old one may go first."""
    final = again.with_name(again.name.removesuffix(".again"))
    if final.exists():
        _discard(final)
    os.rename(again, final)
    fsync_folder(final.parent)


def _prune(folder: Path, keep: int, newest: Path, known: Collection[str]) -> None:
    """Delete all but the newest ``keep`` intact checkpoints; the one just written is.

    ``known`` are the pieces it is made of: written, or read when the run was resumed.
    """
    left = keep - 1
    for path, manifest, _ in _found(folder):
        if path == newest:
            continue
        if left and manifest is not None and _damage(path, manifest, known) is None:
            left -= 1
        else:
            _discard(path)
    drop_pieces(folder)


def _discard(path: Path) -> None:
    """Delete a checkpoint under a temporary name, lest a half-deleted one look damaged."""
    doomed = path.with_name(f"{TMP_PREFIX}{path.name}-{secrets.token_hex(4)}")
    os.rename(path, doomed)
    shutil.rmtree(doomed, ignore_errors=True)  # what stays is removed by the next save


# --------------------------------------------------------------------------------------------------
# the lock of a run directory
# --------------------------------------------------------------------------------------------------


class RunLock:
    """Exclusive right of this process to write ``folder``, until ``release()`` or its end.

    It is a lock of the operating system on ``<folder>/.lock``, so that a killed holder never
    blocks. The process id inside is for the message only.
    """

    # The lock belongs to the process, and so does the knowledge of holding it: a second Logger on
    # one directory must find the first one's lock, which the operating system would refuse to it.
    _held: ClassVar[weakref.WeakValueDictionary[str, RunLock]] = weakref.WeakValueDictionary()

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        # output file name -> token of the Logger that writes it
        self.claims: dict[str, object] = {}
        self._users = 1
        self._fd: int | None = None
        self._key = os.path.realpath(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        flags |= getattr(os, "O_NOFOLLOW", 0)  # what a link leads to is not ours to empty
        fd = os.open(self.folder / ".lock", flags, 0o644)
        try:
            if not _try_lock(fd, self.folder):
                holder = os.pread(fd, 32, 0) if hasattr(os, "pread") else b""
                pid = holder.decode("ascii", "replace").strip() or "unknown"
                raise SpinupError(
                    f"another process (pid {pid}) is writing {self.folder}; wait until it ends, "
                    "or choose another output_dir, exp_name or seed."
                    if pid != str(os.getpid())
                    else f"this process (pid {pid}) already holds the lock of {self.folder}; "
                    "release that one first."
                )
            os.ftruncate(fd, 0)
            os.write(fd, f"{os.getpid()}\n".encode())
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        RunLock._held[self._key] = self

    @classmethod
    def shared(cls, folder: str | os.PathLike[str]) -> RunLock:
        """The lock that this process holds on ``folder`` already, once more; else a new one."""
        lock = cls._held.get(os.path.realpath(folder))
        if lock is None or not lock.held:
            return cls(folder)
        lock._users += 1
        return lock

    @property
    def held(self) -> bool:
        """Does this object hold the lock now?"""
        return self._fd is not None

    def release(self) -> None:
        """Give the lock back (a shared one: when its last user does); twice is harmless."""
        self._users -= 1
        if self._users <= 0:
            self._close()

    def _close(self) -> None:
        # Closing is all: an explicit unlock in a forked child would take the parent's lock away.
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)
            if RunLock._held.get(self._key) is self:
                del RunLock._held[self._key]

    def __enter__(self) -> RunLock:
        return self

    def __exit__(self, *exc: object) -> None:
        self.release()

    def __del__(self) -> None:
        if getattr(self, "_fd", None) is not None:
            self._close()

    @classmethod
    def _drop_in_child(cls) -> None:
        """A forked worker must not keep the lock alive after its parent was killed."""
        for lock in list(cls._held.values()):
            lock._close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=RunLock._drop_in_child)


def _try_lock(fd: int, folder: Path) -> bool:
    """Lock without waiting; False when another holder has it."""
    try:
        import fcntl
    except ImportError:  # Windows
        return _try_lock_windows(fd)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:  # some network file systems have no locks at all
        warnings.warn(
            f"the file system of {folder} cannot lock files ({error.strerror}): make sure "
            "yourself that no second process writes there.",
            RuntimeWarning,
            stacklevel=3,
        )
    return True


def _try_lock_windows(fd: int) -> bool:
    import msvcrt

    # far behind the process id: a locked range cannot be read there
    os.lseek(fd, 1 << 20, os.SEEK_SET)
    try:
        msvcrt.locking(fd, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
    except OSError:
        return False
    finally:
        os.lseek(fd, 0, os.SEEK_SET)
    return True
