"""Saving a policy as safetensors and JSON, and its network and environment as pickles.

`spinup.policies.saved` reads the safetensors and JSON back; all backends share this format. The
pickles are for notebooks written for the original Spinning Up: this library does not need them, and
reads them only if the user trusts pickles.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np

from spinup.envs.layers import Adapter
from spinup.envs.record import is_plain
from spinup.envs.space_json import space_to_json
from spinup.runs.storage.arrays import safetensors_chunks
from spinup.utils.errors import SpinupError
from spinup.utils.files import (
    atomic_write,
    fsync_folder,
    json_bytes,
    own_folder,
    removed_on_error,
    self_hash,
)
from spinup.utils.reading import sha256_file
from spinup.utils.serialization_utils import convert_json

if TYPE_CHECKING:
    from spinup.runs.logger import Logger
    from spinup.runs.run import Run

POLICY_FORMAT = "spinup-policy-1"
# Of a TensorFlow graph, which `spinup.algos.tf1.common.saver` writes and `policies` reads.
GRAPH_FORMAT = "spinup-graph-1"
OLD = ".old"  # ends the name of the previous graph for the instant in which it is replaced
MOST_BYTES = 1 << 26  # a larger environment (one that holds a dataset) is not worth the time


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
    """Write `policy[itr].safetensors` and `.json`; a crash leaves the old pair or the new one.

    Two files cannot be renamed at once. Therefore, the new tensors are first written next to the
    old ones. The JSON records the hash of the tensors that belong to it, so `load_policy` can
    tell which of the two tensor files to read. Finally, the new tensor file replaces the old one.
    The JSON also contains a hash of itself.

    Args:
        folder: the folder to write to.
        number: the number in the files' names; may be empty.
        tensors: the arrays.
        meta: the metadata (see `policy_meta`); None if there is none.
        description: further entries of the JSON, which say how to use the arrays.
    """
    final = os.path.join(folder, f"policy{number}.safetensors")
    fresh = f"{final}.new"
    content = {**(convert_json(dict(meta)) if meta else {}), "format": POLICY_FORMAT, **description}
    with removed_on_error(fresh):
        atomic_write(fresh, b"".join(safetensors_chunks(tensors)))
        content["tensors"] = sha256_file(fresh)
        content["sha256"] = self_hash(content)
        atomic_write(os.path.join(folder, f"policy{number}.json"), json_bytes(content))
    os.replace(fresh, final)
    fsync_folder(folder)


def save_model(logger: Logger, what: Any, number: str, meta: Mapping[str, Any] | None) -> None:
    """Write `pyt_save/model[itr].pt` and, for a module, a policy that is safe to load."""
    import torch

    folder = logger.path("pyt_save")
    own_folder(folder)
    logger.write_pickle(f"pyt_save/model{number}.pt", what, torch.save)
    if isinstance(what, torch.nn.Module):
        save_policy(folder, number, what, meta)


def save_policy(folder: str, number: str, module: Any, meta: Mapping[str, Any] | None) -> None:
    """Write `policy[itr].safetensors` and `.json`; a crash leaves the old pair or the new one.

    The JSON names the module's class.
    """
    import torch

    tensors: dict[str, np.ndarray] = {}
    for key, value in module.state_dict().items():
        if not isinstance(value, torch.Tensor):
            raise SpinupError(
                f"cannot save {key!r} of the policy, a {type(value).__name__}: keep everything but "
                "tensors out of its state_dict"
            )
        value = value.detach().cpu()
        # NumPy lacks some half-width floats. float32 holds them exactly, and loading converts back.
        wide = value.float() if value.is_floating_point() and value.element_size() < 4 else value
        tensors[key] = wide.contiguous().numpy()
    cls = {"module": type(module).__module__, "qualname": type(module).__qualname__}
    write_policy(folder, number, tensors, meta, **{"class": cls})


class _Limited(io.BytesIO):
    """A file in memory that refuses to grow beyond `MOST_BYTES`."""

    def write(self, data: Any, /) -> int:
        if self.tell() + memoryview(data).nbytes > MOST_BYTES:
            raise ValueError(f"it needs more than {MOST_BYTES >> 20} MiB")
        return super().write(data)


def save_env(logger: Logger, env: Any) -> None:
    """Write the environment as `env_fn` made it; one that cannot be pickled leaves a notice."""
    while isinstance(env, Adapter):
        env = env.env  # type: ignore[attr-defined]
    logger.write_pickle("vars.pkl", {"env": env}, _dump)


def _dump(what: Any, file: io.BytesIO) -> None:
    limited = _Limited()
    cloudpickle.dump(what, limited)
    file.write(limited.getbuffer())
