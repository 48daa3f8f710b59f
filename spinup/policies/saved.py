"""Read a saved policy: its description (JSON) and its tensors (safetensors).

Nothing is executed or unpickled, so even a policy from an untrusted source is safe to open.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spinup.policies.save_numbers import chosen_save, folder_of_files
from spinup.runs.storage.arrays import read_safetensors
from spinup.runs.storage.policies import POLICY_FORMAT
from spinup.utils.errors import SpinupError
from spinup.utils.files import self_hash
from spinup.utils.reading import read_json, sha256_file

GetAction = Callable[[Any], Any]


class Loaded(NamedTuple):
    """A policy that was read from a run directory.

    Attributes:
        meta: its description, with its spaces; None if it was saved without.
        policy: a torch network or a `NumpyActor`; None for a graph, which acts in its session.
        act_in: a function that takes the environment's action space (or None) and returns
            `get_action`.
    """

    meta: dict[str, Any] | None
    policy: Any
    act_in: Callable[[Any], GetAction]


# Bytes of a policy's tensors: a billion weights.
_LIMIT = 1 << 32


def load_policy(
    path: str | os.PathLike[str], itr: int | str | None = None
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Read a saved policy: its description, and its tensors, both checked against hashes.

    Nothing is executed or unpickled. Every failure raises `SpinupError`.

    Args:
        path: a run directory, or its `pyt_save` folder.
        itr: the number of the save. `'last'` and -1 select the save with the highest number or,
            if there is none, the save without a number. None prefers the save without a number.
    """
    folder = Path(path)
    try:
        number = chosen_save(folder, itr)
    except OSError as error:
        raise SpinupError(
            f"cannot read {folder} ({error.strerror}): pass a run directory that contains a saved "
            "policy"
        ) from error
    folder, name = folder_of_files(folder), f"policy{'' if number is None else number}"
    for _ in range(3):  # a run may replace the policy while it is read
        meta = _read_meta(folder, name)
        tensors = _tensors_of(folder, name, meta)
        if tensors is not None:
            return meta, tensors
    raise SpinupError(
        f"{folder / name}.safetensors is missing or damaged (it does not match the hash in "
        f"{name}.json): use another save"
    )


def _read_meta(folder: Path, name: str) -> dict[str, Any]:
    path = folder / f"{name}.json"
    try:
        return read_description(path, f"a policy of format {POLICY_FORMAT}", (POLICY_FORMAT,))
    except OSError as error:
        raise SpinupError(
            f"cannot read {path} ({error.strerror}): pass a run directory that contains a saved "
            "policy"
        ) from error


def read_description(path: Path, what: str, formats: Collection[str | None]) -> dict[str, Any]:
    """Read the JSON that describes a save, and check it against its own hash.

    Raises `OSError` if there is no such file, and `SpinupError` if it does not describe `what`
    in one of the `formats`.
    """
    try:
        content = read_json(path)
    except ValueError as error:
        raise SpinupError(f"{path} is not valid JSON ({error}): use another save") from error
    if not isinstance(content, dict) or content.get("format") not in formats:
        raise SpinupError(f"{path} does not describe {what}: use another save")
    try:  # saves of version 0.1.0 have no hash
        intact = content.get("sha256") in (None, self_hash(content))
    except (ValueError, RecursionError):
        intact = False  # nested deeper than any file that was saved
    if not intact:
        raise SpinupError(
            f"{path} is damaged (it does not match its own hash): use another save (or delete the "
            "line 'sha256' if you edited the file yourself)"
        )
    return content


def _tensors_of(folder: Path, name: str, meta: dict[str, Any]) -> dict[str, np.ndarray] | None:
    """Read the tensors that belong to a description; None if they are not there."""
    for file in (folder / f"{name}.safetensors", folder / f"{name}.safetensors.new"):
        try:
            if sha256_file(file, _LIMIT) == meta.get("tensors"):
                return read_safetensors(file)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise SpinupError(f"cannot read {file} ({error.strerror}): use another save") from error
    return None


def has_spaces(meta: Mapping[str, Any]) -> bool:
    """Return whether a description can rebuild its network: a user's algorithm saves no spaces."""
    return "observation_space" in meta and "action_space" in meta
