"""Choosing the faster device for `device='auto'`; only such runs import this.

The rule follows from the table in docs/gpu.md. It looks at the sizes alone, not at the machine's
load, so that the same run on the same machine always has the same device.
"""

import torch
from torch import nn

from spinup.parallel.mpi import num_procs

# A GPU is faster if batch_size x widest layer is at least this.
WORTH_A_GPU = 1 << 14


def choose_device(run, ac):
    """Set the device of `run` from its networks, record it, and say which and why."""
    kind, why = faster_device(run, ac)
    run.device = torch.device(kind)
    run.config["device"] = kind
    run.save_config()
    run.logger.log(f"device='auto' chose '{kind}', because {why}.")


def faster_device(run, ac):
    """Return 'cpu' or 'cuda', and the reason."""
    if not torch.cuda.is_available():
        return "cpu", "torch sees no GPU"
    if num_procs() > 1:
        return "cpu", "several processes would share the GPU"
    if any(isinstance(module, nn.Conv2d) for module in ac.modules()):
        return "cuda", "the networks see images"
    if "compile" not in run.config:
        return "cpu", f"small updates of {run.algo} are faster there"
    if not type(ac).__module__.startswith("spinup."):
        return "cpu", "a user's own networks cannot be a CUDA graph"
    widest = max((m.out_features for m in ac.modules() if isinstance(m, nn.Linear)), default=0)
    batch = run.config["batch_size"]
    large = widest * batch >= WORTH_A_GPU
    why = f"its batches of {batch} and layers of up to {widest} units are"
    return ("cuda", f"{why} large enough") if large else ("cpu", f"{why} small")
