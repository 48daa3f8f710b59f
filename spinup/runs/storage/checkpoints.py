"""Crash-safe checkpoints: the last good one is on disk at every instant.

A checkpoint is a folder `step-000000000123/` with `state.json` (the tree),
`state.safetensors` (the arrays) and `manifest.json` (the size and SHA-256 of both). It is
written under a temporary name and renamed once it is complete and durable. A folder without
`.tmp-` in its name is therefore complete; if it is damaged later, a hash does not match.
Pieces (see `arrays.py`) are stored in `pieces/`, next to the checkpoints, and are deleted
once no checkpoint lists them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from spinup.runs.storage.arrays import (
    PIECE_NAME,
    PIECES,
    Piece,
    read_safetensors,
    safetensors_chunks,
)
from spinup.runs.storage.packing import FORGED, MAX_NESTING, pack, unpack
from spinup.utils.errors import SpinupError, printable
from spinup.utils.files import (
    TMP_PREFIX,
    delete,
    fsync_folder,
    is_own_folder,
    own_folder,
    removed_on_error,
    self_hash,
    write_durably,
)
from spinup.utils.reading import parse_json, read_file, read_json, sha256_file

FORMAT = "spinup-checkpoint-1"
STATE_LIMIT = 1 << 28  # bytes of a checkpoint's tree, without its arrays
_FOLDER = re.compile(r"step-(\d{12,})(\.again)?")


def save_checkpoint(folder: str | os.PathLike[str], state: dict, step: int, keep: int = 2) -> Path:
    """Save `state` as the newest checkpoint in `folder` and return its path.

    The newest `keep` valid checkpoints remain. If the folder contained a valid checkpoint before,
    it contains one at every instant, even while the same step is saved again. If saving fails (for
    example, on a full disk), the unfinished checkpoint is removed, earlier ones are left alone, and
    the error is raised.

    Args:
        folder: usually `<output_dir>/checkpoints`; created if missing. Only one process may
            write to it.
        state: anything that :func:`pack` accepts.
        step: a non-negative number that names the checkpoint; normally increasing.
        keep: how many checkpoints to keep, at least 1.
    """
    if step < 0 or keep < 1:
        raise SpinupError(f"step must be >= 0 and keep >= 1, not step={step} and keep={keep}")
    tree, arrays = pack(state)
    text = json.dumps(tree, separators=(",", ":"), allow_nan=False).encode()
    if len(text) > STATE_LIMIT:
        raise SpinupError(
            f"the run's state has {len(text)} bytes besides its arrays, more than a checkpoint may "
            f"have ({STATE_LIMIT}): keep large data in arrays"
        )
    folder = Path(folder)
    own_folder(folder)
    _tidy(folder)
    pieces = _write_pieces(folder, state)
    old = _found(folder)
    serial = 1 + max((m["serial"] for _, m, _ in old if m is not None), default=0)

    tmp = folder / f"{TMP_PREFIX}{os.getpid()}-{secrets.token_hex(4)}"
    final = folder / f"step-{step:012d}"
    taken = os.path.lexists(final)
    placed = final.with_name(final.name + ".again") if taken else final
    with removed_on_error(tmp):
        tmp.mkdir()
        chunks = {"state.json": [text], "state.safetensors": safetensors_chunks(arrays)}
        manifest = {
            "format": FORMAT,
            "step": int(step),
            "serial": serial,
            "files": {name: write_durably(tmp / name, data) for name, data in chunks.items()},
            "pieces": pieces,
        }
        write_durably(tmp / "manifest.json", [_render_manifest(manifest)])
        fsync_folder(tmp)
        os.rename(tmp, placed)
    fsync_folder(folder)
    if taken:  # load_checkpoint reads both names, so the new checkpoint is already valid
        _promote(placed)
    _prune(folder, keep, newest=final, known=pieces)
    return final


def load_checkpoint(folder: str | os.PathLike[str]) -> tuple[dict, Path] | None:
    """Load the newest valid checkpoint: `(state, path)`, or None if there is no checkpoint.

    A damaged checkpoint is skipped with a warning that describes the damage. If all are damaged,
    raises `SpinupError`: whether to start over is the user's decision.
    """
    folder = Path(folder)
    own_folder(folder, create=False)
    own_folder(folder / PIECES, create=False)
    if not folder.is_dir():
        return None
    found = _found(folder)
    for path, manifest, damage in found:
        if manifest is not None and (damage := _damage(path, manifest)) is None:
            try:
                return _read_state(path, manifest), path
            except (OSError, *FORGED) as error:
                damage = str(error)
        message = printable(f"skipping the damaged checkpoint {path}: {damage}")
        warnings.warn(message, RuntimeWarning, stacklevel=2)
    if found:
        raise SpinupError(
            f"none of the {len(found)} checkpoints in {folder} is intact: restore one from a "
            "backup, or start the run again with overwrite=True"
        )
    return None


def _read_state(path: Path, manifest: dict[str, Any]) -> dict:
    tree = read_json(path / "state.json", STATE_LIMIT)
    folder = path.parent / PIECES
    pieces = {f: Piece.saved(folder, f, e) for f, e in manifest.get("pieces", {}).items()}
    return unpack(tree, read_safetensors(path / "state.safetensors"), pieces)


def _pieces_in(state: Any, depth: int = 0) -> Iterator[Piece]:
    """Yield every piece in a state, at any depth."""
    if type(state) is Piece:
        yield state
    elif isinstance(state, (dict, list, tuple)) and depth <= MAX_NESTING:
        for value in state.values() if isinstance(state, dict) else state:
            if isinstance(value, (Piece, dict, list, tuple)):
                yield from _pieces_in(value, depth + 1)


def _write_pieces(folder: Path, state: dict) -> dict[str, Any]:
    """Write the new pieces of `state`; return the manifest's entries for all its pieces."""
    store = folder / PIECES
    entries: dict[str, Any] = {}
    own_folder(store, create=any(True for _ in _pieces_in(state)))
    for piece in _pieces_in(state):
        if not piece.is_in(store):  # new, saved in another folder, or deleted
            piece.write(store)
        entries[piece.file] = piece.entry
    if entries:  # also makes pieces from an interrupted save durable
        fsync_folder(store)
    return entries


def drop_pieces(folder: Path) -> None:
    """Delete pieces that no checkpoint lists: outdated ones, and leftovers of interrupted saves."""
    store = folder / PIECES
    if not (is_own_folder(folder) and is_own_folder(store)):
        return
    needed: set[str] = set()
    for _, manifest, _ in _found(folder):
        needed.update(manifest.get("pieces", {}) if manifest else {})
    for path in store.iterdir():
        # Check the name: a user's own files must survive.
        ours = PIECE_NAME.fullmatch(path.name.removeprefix(TMP_PREFIX)) is not None
        if ours and path.name not in needed:
            path.unlink(missing_ok=True)


def _render_manifest(body: dict[str, Any]) -> bytes:
    """Return the bytes of a manifest, including a hash of its own content."""
    sealed = {**body, "manifest_sha256": self_hash(body)}
    return json.dumps(sealed, indent=1, sort_keys=True).encode() + b"\n"


def _read_manifest(path: Path) -> dict[str, Any]:
    """Read a checkpoint's manifest; raise a `ValueError` that describes any problem with it."""
    if not is_own_folder(path):
        raise ValueError("it is a link or a file, not a folder")
    data = read_file(path / "manifest.json")
    manifest = parse_json(data)
    if not isinstance(manifest, dict):
        raise ValueError("manifest.json is not a JSON object")
    manifest.pop("manifest_sha256", None)
    if _render_manifest(manifest) != data:
        raise ValueError("manifest.json does not match its own hash")
    if manifest.get("format") != FORMAT:
        raise ValueError(f"its format is {manifest.get('format')!r}, not {FORMAT!r}")
    if path.name.removesuffix(".again") != f"step-{manifest['step']:012d}":
        raise ValueError("manifest.json belongs to another step")
    if type(manifest["serial"]) is not int:
        raise ValueError("manifest.json has no serial number")
    # If the manifest listed fewer files, the missing ones would be read unchecked.
    if set(manifest["files"]) != {"state.json", "state.safetensors"}:
        raise ValueError("manifest.json does not list the checkpoint's files")
    pieces = manifest.get("pieces", {})
    if type(pieces) is not dict or any(PIECE_NAME.fullmatch(name) is None for name in pieces):
        raise ValueError("manifest.json lists a file that is not a piece")
    entries = (*manifest["files"].values(), *pieces.values())
    if any(set(entry) != {"size", "sha256"} for entry in entries):
        raise ValueError("manifest.json lacks the size or the hash of a file")
    return manifest


def _found(folder: Path) -> list[tuple[Path, dict[str, Any] | None, str | None]]:
    """Return (path, manifest, problem) tuples: unreadable first, then newest to oldest.

    One of the manifest and the problem is None.
    """
    found: list[tuple[Path, dict[str, Any] | None, str | None]] = []
    for path in folder.iterdir():
        if _FOLDER.fullmatch(path.name) is None:
            continue
        try:
            found.append((path, _read_manifest(path), None))
        except (OSError, *FORGED) as error:
            found.append((path, None, f"{type(error).__name__}: {error}"))
    # In the order of saving, not of steps: a run that returned to an older state repeats steps.
    found.sort(key=lambda f: (f[1] is None, f[1]["serial"] if f[1] else 0, f[0].name), reverse=True)
    return found


def _damage(path: Path, manifest: dict[str, Any], known: Collection[str] = ()) -> str | None:
    """Describe the damage to a checkpoint's files, or return None; its manifest must be valid.

    For pieces in `known`, only the size is checked, so that a save need not read a whole buffer.
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
    """Clean up after an interrupted save: temporary files, and a step that was being replaced."""
    for path in list(folder.iterdir()):
        if path.name.startswith(TMP_PREFIX):
            with contextlib.suppress(OSError):
                delete(path)
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
    """Replace a step's old checkpoint with the new one, which is already durable."""
    final = again.with_name(again.name.removesuffix(".again"))
    if os.path.lexists(final):
        _discard(final)
    os.rename(again, final)
    fsync_folder(final.parent)


def _prune(folder: Path, keep: int, newest: Path, known: Collection[str]) -> None:
    """Delete all but the newest `keep` intact checkpoints; `newest` was just written.

    `known` lists its pieces, whose hashes were already verified while writing or resuming.
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
    """Rename a checkpoint, then delete it: a half-deleted one must not look damaged."""
    doomed = path.with_name(f"{TMP_PREFIX}{path.name}-{secrets.token_hex(4)}")
    os.rename(path, doomed)
    with contextlib.suppress(OSError):  # the next save removes any remains
        delete(doomed)
