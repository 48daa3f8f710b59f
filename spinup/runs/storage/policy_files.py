"""Writing a policy as safetensors and JSON; ``spinup.policies.saved`` reads it back.

All backends share this format, and none of them is imported here.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.envs.record import is_plain
from spinup.envs.space_json import space_to_json
from spinup.runs.storage.files import atomic_write, json_bytes, self_hash
from spinup.runs.storage.tensors import safetensors_chunks
from spinup.utils.own_files import fsync_folder
from spinup.utils.reading import sha256_file
from spinup.utils.serialization_utils import convert_json

if TYPE_CHECKING:
    from spinup.runs.run import Run

POLICY_FORMAT = "spinup-policy-1"


def policy_meta(run: Run) -> dict[str, Any]:
    """Return the metadata from which a policy's network and environment are rebuilt."""
    ac_kwargs = dict(run.config["ac_kwargs"])
    return {
        "algo": run.algo,
        "backend": run.backend,
        "observation_space": space_to_json(run.observation_space),
        "action_space": space_to_json(run.action_space),
        "ac_kwargs": convert_json(ac_kwargs),
        "inexact_ac_kwargs": [
            name for name in ac_kwargs if name != "activation" and not is_plain(ac_kwargs[name])
        ],
        "env": run.env_record,
        "max_ep_len": run.config["max_ep_len"],
    }


def write_policy(
    folder: str,
    number: str,
    tensors: dict[str, np.ndarray],
    meta: Mapping[str, Any] | None,
    **description: Any,
) -> None:
    """Write ``policy[itr].safetensors`` and ``.json``; a crash leaves the old pair or the new one.

    Two files cannot be renamed at once. Therefore, the new tensors are first written next to the
    old ones. The JSON records the hash of the tensors that belong to it, so ``load_policy`` can
    tell which of the two tensor files to read. Finally, the new tensor file replaces the old one.
    The JSON also contains a hash of itself.

    Args:
        folder: the folder to write to.
        number: the number in the files' names; may be empty.
        tensors: the arrays.
        meta: the metadata (see ``policy_meta``); None if there is none.
        description: further entries of the JSON, which say how to use the arrays.
    """
    final = os.path.join(folder, f"policy{number}.safetensors")
    fresh = f"{final}.new"
    content = {**(convert_json(dict(meta)) if meta else {}), "format": POLICY_FORMAT, **description}
    try:
        atomic_write(fresh, b"".join(safetensors_chunks(tensors)))
        content["tensors"] = sha256_file(fresh)
        content["sha256"] = self_hash(content)
        atomic_write(os.path.join(folder, f"policy{number}.json"), json_bytes(content))
    except BaseException:
        with contextlib.suppress(OSError):  # report the first error, not this one
            os.unlink(fresh)
        raise
    os.replace(fresh, final)
    fsync_folder(folder)
