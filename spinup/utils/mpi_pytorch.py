"""Gradients and parameters of torch modules over processes and shards, moved as flat buffers."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

from spinup.utils.mpi_tools import Shards, allreduce, broadcast, num_procs

Batch = Mapping[str, torch.Tensor]
Loss = Callable[[Batch], tuple[torch.Tensor, dict[str, torch.Tensor]]]


def setup_pytorch_for_mpi() -> None:
    """One torch thread a process when several processes share the machine."""
    if num_procs() > 1:
        torch.set_num_threads(1)


def mpi_avg_grads(module: nn.Module) -> None:
    """Average the gradients of `module` over processes, in one message.

    A parameter with no gradient on some process counts as zero there, so that every process sends
    the same number of bytes; with none on any it keeps none.
    """
    if num_procs() == 1:
        return
    params = [p for p in module.parameters() if p.requires_grad]
    if not params:
        return
    # In float64 when one of them is: torch refuses a gradient of another type than its parameter.
    dtype = torch.float64 if any(p.dtype == torch.float64 for p in params) else torch.float32
    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in params]
    present = torch.tensor([p.grad is not None for p in params], dtype=dtype)
    flat = flatten([*(g.detach().cpu().to(dtype) for g in grads), present]).numpy()
    total = np.empty_like(flat)
    allreduce(flat, total)
    average = torch.from_numpy(total / num_procs()).to(dtype)
    n = len(average) - len(params)
    for p, grad, some in zip(params, unflatten(average[:n], params), average[n:], strict=True):
        # nowhere a gradient: an optimizer must skip it, as it does in a single process
        p.grad = grad.to(p) if some > 0 else None


def sync_params(module: nn.Module) -> None:
    """Give every process the parameters and buffers of process 0."""
    if num_procs() == 1:
        return
    tensors = [t.detach() for t in (*module.parameters(), *module.buffers()) if t.numel()]
    if not tensors:
        return
    # As bytes: counters and half-width floats too arrive as they left.
    flat = flatten([t.cpu().contiguous().reshape(-1).view(torch.uint8) for t in tensors]).numpy()
    broadcast(flat)
    sizes = [t.numel() * t.element_size() for t in tensors]
    for t, piece in zip(tensors, torch.from_numpy(flat).split(sizes), strict=True):
        t.copy_(piece.clone().view(t.dtype).reshape(t.shape))


def flatten(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One vector of all entries."""
    return torch.cat([t.reshape(-1) for t in tensors])


def unflatten(flat: torch.Tensor, like: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Cut a vector into pieces shaped as the tensors `like`."""
    pieces = flat.split([t.numel() for t in like])
    return [piece.view_as(t) for piece, t in zip(pieces, like, strict=True)]


def laid_out_as(p: torch.Tensor, grad: torch.Tensor) -> torch.Tensor:
    """`grad` with the strides of its parameter.

    torch's fused optimizers go through the memory of both side by side. A gradient that is a
    transposed view (that of an einsum, for example) would be applied to the wrong entries.
    """
    return grad if grad.stride() == p.stride() else torch.empty_like(p).copy_(grad)


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
        if shards.count == 1:  # nothing to add up, so nothing to pack
            for p, grad in zip(params, grads, strict=True):
                p.grad = laid_out_as(p, grad)
            return value.detach(), {name: info[name].detach() for name in names}
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
