"""Gradients and parameters over shards and processes: the joined batch, in one message."""

import pytest
import torch
from torch import nn

from spinup.algos.pytorch.common.offpolicy import minimize
from spinup.utils import mpi_pytorch
from spinup.utils.mpi_pytorch import backward, evaluate, flatten, shard_mean, unflatten
from spinup.utils.mpi_tools import Shards


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))


def batches(count, rows=8):
    torch.manual_seed(1)
    x, y = torch.randn(rows, 3), torch.randn(rows)
    pairs = zip(x.chunk(count), y.chunk(count), strict=True)
    return [{"x": a, "y": b} for a, b in pairs]


def loss_of(net):
    def loss(batch):
        error = net(batch["x"]).squeeze(-1) - batch["y"]
        return error.square().mean(), {"Error": error.mean(), "Largest": error.abs().mean()}

    return loss


def grads(net):
    return flatten([p.grad for p in net.parameters()])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_gradient_of_shards_is_that_of_the_joined_batch(count):
    net, plain = network(), network()
    (joined,) = batches(1)
    want, info = loss_of(plain)(joined)
    want.backward()
    value, got = backward(loss_of(net), net, batches(count), Shards(count))
    torch.testing.assert_close(grads(net), grads(plain), rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(value, want.detach())
    assert list(got) == ["Error", "Largest"]
    for key, x in info.items():
        torch.testing.assert_close(got[key], x.detach())
    value, got = evaluate(loss_of(net), batches(count), Shards(count))
    torch.testing.assert_close(value, want.detach())
    assert not value.requires_grad and not got["Error"].requires_grad


def test_evaluate_leaves_gradients_alone():
    net = network()
    backward(loss_of(net), net, batches(1), Shards(1))
    before = grads(net).clone()
    evaluate(loss_of(net), batches(2), Shards(2))
    assert torch.equal(grads(net), before)


def test_gradients_replace_those_of_the_step_before():
    net = network()
    for _ in range(2):
        backward(loss_of(net), net, batches(1), Shards(1))
    other = network()
    backward(loss_of(other), other, batches(1), Shards(1))
    assert torch.equal(grads(net), grads(other))


def test_a_parameter_that_nothing_depends_on_has_a_gradient_of_zero():
    net = network()
    net.unused = nn.Parameter(torch.ones(2))
    backward(loss_of(net), net, batches(2), Shards(2))
    assert net.unused.grad.tolist() == [0, 0]
    assert float(net[0].weight.grad.abs().sum()) > 0


def test_a_frozen_parameter_gets_no_gradient():
    net = network()
    net[0].weight.requires_grad_(False)
    backward(loss_of(net), net, batches(1), Shards(1))
    assert net[0].weight.grad is None and net[0].bias.grad is not None


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
    net = network()
    backward(loss_of(net), net, batches(1), Shards(1))
    before = [p.grad.clone() for p in net.parameters()], [p.clone() for p in net.parameters()]
    mpi_pytorch.mpi_avg_grads(net)
    mpi_pytorch.sync_params(net)
    for p, grad, value in zip(net.parameters(), *before, strict=True):
        assert torch.equal(p.grad, grad) and torch.equal(p, value)


class Einsum(nn.Module):
    """A layer whose gradient torch computes as a transposed view."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(15.0).reshape(3, 5) / 10)

    def forward(self, x):
        return torch.einsum("bi,oi->bo", x, self.weight)


@pytest.mark.parametrize("step", ["backward", "minimize"])
def test_a_fused_optimizer_gets_gradients_in_the_order_of_their_parameters(step):
    x = torch.randn(4, 5, generator=torch.Generator().manual_seed(0))
    ours, reference = Einsum(), Einsum()
    loss = ours(x).square().sum()
    (grad,) = torch.autograd.grad(loss, [ours.weight], retain_graph=True)
    assert grad.stride() != ours.weight.stride()  # else this tests nothing
    optimizer = torch.optim.Adam(ours.parameters(), lr=0.1, fused=True)
    if step == "minimize":
        minimize(loss, optimizer)
    else:
        backward(lambda batch: (ours(batch).square().sum(), {}), ours, [x], Shards(1))
        optimizer.step()
    reference(x).square().sum().backward()
    torch.optim.Adam(reference.parameters(), lr=0.1, fused=False).step()
    torch.testing.assert_close(ours.weight, reference.weight)
