"""Tensors as flat vectors, means over shards, and what one process does without a message."""

import pytest
import torch
from torch import nn

from spinup.algos.pytorch.common.gradients import shard_mean
from spinup.parallel import pytorch as mpi_pytorch
from spinup.parallel.mpi import Shards
from spinup.parallel.pytorch import flatten, unflatten


def test_flatten_and_unflatten_are_inverse():
    tensors = [torch.randn(2, 3), torch.randn(()), torch.randn(4)]
    flat = flatten(tensors)
    assert flat.shape == (11,)
    for x, y in zip(unflatten(flat, tensors), tensors, strict=True):
        assert torch.equal(x, y)


def test_shard_mean_keeps_the_type_and_the_order():
    parts = [torch.tensor([1e8, 1.0]), torch.tensor([1.0, 2.0]), torch.tensor([-1e8, 6.0])]
    mean = shard_mean(parts, Shards(3))
    assert mean.dtype == torch.float32 and mean.tolist() == [0.0, 3.0]
    doubles = shard_mean([p.double() for p in parts], Shards(3))
    assert doubles.dtype == torch.float64 and doubles[0] == pytest.approx(1 / 3)


def test_one_process_changes_nothing():
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    net(torch.randn(8, 3)).square().mean().backward()
    before = [p.grad.clone() for p in net.parameters()], [p.clone() for p in net.parameters()]
    mpi_pytorch.mpi_avg_grads(net)
    mpi_pytorch.sync_params(net)
    for p, grad, value in zip(net.parameters(), *before, strict=True):
        assert torch.equal(p.grad, grad) and torch.equal(p, value)


def test_averaged_gradients_keep_the_strides_of_their_parameters(monkeypatch):
    # a fused optimizer takes entries in the order of memory
    net = nn.Module()
    net.weight = nn.Parameter(torch.arange(6.0).reshape(2, 3).t())
    net.weight.grad = torch.arange(6.0).reshape(2, 3).t()
    want = net.weight.grad.clone()
    monkeypatch.setattr(mpi_pytorch, "num_procs", lambda: 2)
    monkeypatch.setattr(mpi_pytorch, "allreduce", lambda x, out: out.__setitem__(..., 2 * x))
    mpi_pytorch.mpi_avg_grads(net)
    assert torch.equal(net.weight.grad, want)
    assert net.weight.grad.stride() == net.weight.stride()
