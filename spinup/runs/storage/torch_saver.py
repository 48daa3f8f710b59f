"""Saving a torch policy as safetensors and JSON; ``spinup.policies.saved`` reads it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.runs.storage.policy_files import write_policy
from spinup.utils.errors import SpinupError
from spinup.utils.own_files import own_folder

if TYPE_CHECKING:
    from spinup.runs.logger import Logger


def save_model(logger: Logger, what: Any, number: str, meta: Mapping[str, Any] | None) -> None:
    """Write ``pyt_save/model[itr].pt`` and, for a module, a policy that is safe to load."""
    import torch

    folder = logger.path("pyt_save")
    own_folder(folder)
    logger.write_pickle(f"pyt_save/model{number}.pt", what, torch.save)
    if isinstance(what, torch.nn.Module):
        save_policy(folder, number, what, meta)


def save_policy(folder: str, number: str, module: Any, meta: Mapping[str, Any] | None) -> None:
    """Write ``policy[itr].safetensors`` and ``.json``; a crash leaves the old pair or the new one.

    The JSON names the module's class.
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
    cls = {"module": type(module).__module__, "qualname": type(module).__qualname__}
    write_policy(folder, number, tensors, meta, **{"class": cls})
