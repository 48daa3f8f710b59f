"""Checkpoints: written so that a crash at any instant leaves the last good one.

A checkpoint is one folder ``step-000000000123/`` with ``state.json`` (the tree),
``state.safetensors`` (the arrays) and ``manifest.json`` (size and SHA-256 of both). It is built
under a temporary name, made durable, and only then renamed, so that a name without ``.tmp-`` is
complete or was damaged later; a damaged one fails its hash. Pieces (see ``pieces.py``) are in
``pieces/`` beside the checkpoints and are deleted when no checkpoint lists them any more.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

from spinup.runs.files import (
    TMP_PREFIX,
    fsync_folder,
    read_file,
    read_safetensors,
    safetensors_chunks,
    sha256_file,
    write_durably,
)
from spinup.runs.packing import FORGED, MAX_NESTING, pack, unpack
from spinup.runs.pieces import PIECE_NAME, PIECES, Piece
from spinup.utils.errors import SpinupError

FORMAT = "spinup-checkpoint-1"
_FOLDER = re.compile(r"step-(\d{12,})(\.again)?")


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
            "state.json": write_durably(tmp / "state.json", [text]),
            "state.safetensors": write_durably(
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
        write_durably(tmp / "manifest.json", [manifest])
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
    pieces = {f: Piece.saved(folder, f, e) for f, e in manifest.get("pieces", {}).items()}
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
        if not piece.is_in(store):  # new, of another folder, or somebody deleted it
            store.mkdir(exist_ok=True)
            piece.write(store)
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
        ours = PIECE_NAME.fullmatch(path.name.removeprefix(TMP_PREFIX)) is not None
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
    if type(pieces) is not dict or any(PIECE_NAME.fullmatch(name) is None for name in pieces):
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
