"""Saving a torch policy as safetensors and JSON; ``spinup.policies.saved`` reads it back."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.envs.record import is_plain
from spinup.envs.space_json import space_to_json
from spinup.runs.files import atomic_write, json_bytes, self_hash
from spinup.runs.tensors import safetensors_chunks
from spinup.utils.errors import SpinupError
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


def save_policy(folder: str, number: str, module: Any, meta: Mapping[str, Any] | None) -> None:
    """Write ``policy[itr].safetensors`` and ``.json``; a crash leaves the old pair or the new one.

    Two files cannot be renamed at once. Therefore, the new tensors are first written next to the
    old ones. The JSON records the hash of the tensors that belong to it, so ``load_policy`` can
    tell which of the two tensor files to read. Finally, the new tensor file replaces the old one.
    The JSON also contains a hash of itself.
    """
    import torch

    tensors: dict[str, np.ndarray] = {}
    for key, value in module.state_dict().items():
        if not isinstance(value, torch.Tensor):
            raise SpinupError(
                f"cannot save {key!r} of the policy, a {type(value).__name__}; keep everything but "
                "tensors out of its state_dict"
            )
        value = value.detach().cpu()
        # NumPy lacks some half-width floats. float32 holds them exactly, and loading converts back.
        wide = value.float() if value.is_floating_point() and value.element_size() < 4 else value
        tensors[key] = wide.contiguous().numpy()
    final = os.path.join(folder, f"policy{number}.safetensors")
    fresh = f"{final}.new"
    description = {
        **(convert_json(dict(meta)) if meta else {}),
        "format": POLICY_FORMAT,
        "class": {"module": type(module).__module__, "qualname": type(module).__qualname__},
    }
    try:
        atomic_write(fresh, b"".join(safetensors_chunks(tensors)))
        description["tensors"] = sha256_file(fresh)
        description["sha256"] = self_hash(description)
        atomic_write(os.path.join(folder, f"policy{number}.json"), json_bytes(description))
    except BaseException:
        with contextlib.suppress(OSError):  # report the first error, not this one
            os.unlink(fresh)
        raise
    os.replace(fresh, final)
    fsync_folder(folder)
