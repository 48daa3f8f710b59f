"""Gradients and parameters of torch modules over processes and shards, moved as flat buffers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from spinup.utils.mpi_tools import Shards, broadcast, mpi_avg, num_procs

Batch = Mapping[str, torch.Tensor]
Loss = Callable[[Batch], tuple[torch.Tensor, dict[str, torch.Tensor]]]


def setup_pytorch_for_mpi() -> None:
    """One torch thread a process when several processes share the machine."""
    if num_procs() > 1:
        torch.set_num_threads(1)


def mpi_avg_grads(module: nn.Module) -> None:
    """Average the gradients of `module` over processes, in one message.

    Parameters with no gradient count as zero, so that every process sends the same number of bytes.
    """
    if num_procs() == 1:
        return
    params = [p for p in module.parameters() if p.requires_grad]
    flat = flatten([torch.zeros_like(p) if p.grad is None else p.grad for p in params])
    average = torch.as_tensor(mpi_avg(flat.cpu().numpy())).to(flat.device)
    for p, grad in zip(params, unflatten(average, params), strict=True):
        p.grad = grad


def sync_params(module: nn.Module) -> None:
    """Give every process the parameters and buffers of process 0."""
    if num_procs() == 1:
        return
    tensors = [t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()]
    flat = flatten([t.detach() for t in tensors]).cpu().numpy()
    broadcast(flat)
    with torch.no_grad():
        for t, value in zip(tensors, unflatten(torch.from_numpy(flat), tensors), strict=True):
            t.copy_(value)


def flatten(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One vector of all entries."""
    return torch.cat([t.reshape(-1) for t in tensors])


def unflatten(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Cut a vector into pieces shaped as the tensors `like`."""
    pieces = flat.split([t.numel() for t in like])
    return [piece.view_as(t) for piece, t in zip(pieces, like, strict=True)]


def shard_mean(parts: Sequence[torch.Tensor], shards: Shards) -> torch.Tensor:
    """Mean over all shards, in shard order, of one vector for each local shard."""
    if shards.count == 1:
        return parts[0]
    arrays: list[np.ndarray[Any, Any]] = [p.detach().cpu().numpy() for p in parts]
    return torch.as_tensor(shards.mean(arrays)).to(parts[0].device)


def backward(
    loss: Loss, module: nn.Module, data: Sequence[Batch], shards: Shards
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """Set `p.grad` to the gradient of the mean loss over all shards; return that loss and its info.

    `data` holds one batch for each local shard and `loss(batch)` returns `(loss, info)` with info a
    dict of 0-d tensors. Gradient, loss and info of a shard travel together in one flat buffer.
    """
    params = [p for p in module.parameters() if p.requires_grad]
    parts: list[torch.Tensor] = []
    names: list[str] = []
    for batch in data:
        value, info = loss(batch)
        names = list(info)
        grads: Any = torch.autograd.grad(value, params, allow_unused=True)
        grads = [
            torch.zeros_like(p) if g is None else g for g, p in zip(grads, params, strict=True)
        ]
        scalars = torch.stack([value.detach(), *(info[name].detach() for name in names)])
        parts.append(flatten([*grads, scalars]))
    mean = shard_mean(parts, shards)
    n = mean.numel() - len(names) - 1
    for p, grad in zip(params, unflatten(mean[:n], params), strict=True):
        p.grad = grad
    return mean[n], dict(zip(names, mean[n + 1 :], strict=True))


def evaluate(
    loss: Loss, data: Sequence[Batch], shards: Shards
) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
    """The mean loss and info over all shards, without gradients."""
    parts: list[torch.Tensor] = []
    names: list[str] = []
    with torch.no_grad():
        for batch in data:
            value, info = loss(batch)
            names = list(info)
            parts.append(torch.stack([value, *(info[name] for name in names)]))
    mean = shard_mean(parts, shards)
    return mean[0], dict(zip(names, mean[1:], strict=True))
