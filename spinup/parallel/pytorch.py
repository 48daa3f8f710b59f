"""Averaging and broadcasting torch gradients and parameters over processes, as flat buffers."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from spinup.parallel.mpi import allreduce, broadcast, num_procs


def setup_pytorch_for_mpi() -> None:
    """Use one torch thread per process when several processes share the machine."""
    if num_procs() > 1:
        torch.set_num_threads(1)


def mpi_avg_grads(module: nn.Module) -> None:
    """Average the gradients of `module` over processes, in one message.

    A missing gradient counts as zero, so that every process sends the same number of bytes. A
    parameter that has no gradient on any process keeps none.
    """
    if num_procs() == 1:
        return
    params = [p for p in module.parameters() if p.requires_grad]
    if not params:
        return
    # Use float64 if any parameter does: torch requires a gradient to have its parameter's dtype.
    dtype = torch.float64 if any(p.dtype == torch.float64 for p in params) else torch.float32
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
    present = torch.tensor([p.grad is not None for p in params], dtype=dtype)
    flat = flatten([*(g.detach().cpu().to(dtype) for g in grads), present]).numpy()
    total = np.empty_like(flat)
    allreduce(flat, total)
    average = torch.from_numpy(total / num_procs()).to(dtype)
    n = len(average) - len(params)
    for p, grad, some in zip(params, unflatten(average[:n], params), average[n:], strict=True):
        # no process has a gradient: the optimizer must skip it, as it does in a single process
        p.grad = torch.empty_like(p).copy_(grad) if some > 0 else None


def sync_params(module: nn.Module) -> None:
    """Copy process 0's parameters and buffers to every process."""
    if num_procs() == 1:
        return
    tensors = [t.detach() for t in (*module.parameters(), *module.buffers()) if t.numel()]
    if not tensors:
        return
    # Send bytes, so that counters and half-width floats also arrive unchanged.
    flat = flatten([t.cpu().contiguous().reshape(-1).view(torch.uint8) for t in tensors]).numpy()
    broadcast(flat)
    sizes = [t.numel() * t.element_size() for t in tensors]
    for t, piece in zip(tensors, torch.from_numpy(flat).split(sizes), strict=True):
        t.copy_(piece.clone().view(t.dtype).reshape(t.shape))


def flatten(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Concatenate all elements into one vector."""
    return torch.cat([t.reshape(-1) for t in tensors])


def unflatten(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Split a vector into tensors shaped like those in `like`."""
    pieces = flat.split([t.numel() for t in like])
    return [piece.view_as(t) for piece, t in zip(pieces, like, strict=True)]
