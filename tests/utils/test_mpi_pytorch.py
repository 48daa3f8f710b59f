"""Gradients and parameters over shards and processes: the joined batch, in one message."""

import threading

import numpy as np
import pytest
import torch
from torch import nn

from spinup.utils import mpi_pytorch, mpi_tools
from spinup.utils.mpi_pytorch import backward, evaluate, flatten, shard_mean, unflatten
from spinup.utils.mpi_tools import Shards


class World:
    """Processes played by threads, which count their messages."""

    def __init__(self, size):
        self.size, self.messages = size, 0
        self._barrier = threading.Barrier(size, timeout=20)
        self._slots = [None] * size
        self._rank = threading.local()

    def Get_rank(self):
        return self._rank.value

    def Get_size(self):
        return self.size

    def allgather(self, x):
        self._slots[self._rank.value] = x
        self._barrier.wait()
        out = list(self._slots)
        if self._barrier.wait() == 0:
            self.messages += 1
        return out

    def run(self, function):
        results, errors = [None] * self.size, []

        def work(rank):
            self._rank.value = rank
            try:
                results[rank] = function(rank)
            except BaseException as error:
                errors.append(error)
                self._barrier.abort()

        threads = [threading.Thread(target=work, args=(rank,)) for rank in range(self.size)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(timeout=30)
        if errors:
            raise errors[0]
        return results


@pytest.fixture
def world(monkeypatch):
    """A function that makes this a job of so many processes."""

    def make(size):
        world = World(size)
        monkeypatch.setattr(mpi_tools, "_comm", lambda: world if size > 1 else None)

        def allreduce(x, out, op=None):
            out[...] = np.sum(world.allgather(x.copy()), axis=0)

        def broadcast(x, root=0):
            x[...] = world.allgather(x.copy())[root]

        monkeypatch.setattr(mpi_tools, "allreduce", allreduce)
        monkeypatch.setattr(mpi_pytorch, "broadcast", broadcast)
        return world

    return make


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


def test_pitfall_25_a_parameter_that_nothing_depends_on_has_a_gradient_of_zero():
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


# ---- several processes, played by threads ----------------------------------------------------


@pytest.mark.parametrize("procs", [2, 4])
def test_gradients_are_the_same_bits_on_any_number_of_processes(world, procs):
    net = network()
    value, info = backward(loss_of(net), net, batches(4), Shards(4))
    want = grads(net)

    # networks and batches are made first: torch's generator is not one for threads
    nets, data = [network() for _ in range(procs)], batches(4)

    def work(rank):
        shards = Shards(4)
        local = [data[i] for i in shards.local]
        got, got_info = backward(loss_of(nets[rank]), nets[rank], local, shards)
        return grads(nets[rank]), got, got_info

    for got, loss, got_info in world(procs).run(work):
        assert torch.equal(got, want) and torch.equal(loss, value)
        assert all(torch.equal(got_info[k], x) for k, x in info.items())


def test_pitfall_25_gradients_loss_and_info_travel_in_one_message(world):
    job, nets, data = world(2), [network() for _ in range(2)], batches(2)
    job.run(
        lambda rank: backward(loss_of(nets[rank]), nets[rank], [data[rank]], Shards(2)) and None
    )
    assert job.messages == 1


def test_pitfall_25_gradients_are_averaged_in_one_message_with_zeros_for_none(world):
    job, nets = world(2), [network() for _ in range(2)]

    def work(rank):
        net = nets[rank]
        for p in net.parameters():
            p.grad = torch.full_like(p, float(rank))
        if rank == 1:
            net[0].bias.grad = None  # this process has none for it
        mpi_pytorch.mpi_avg_grads(net)
        return [p.grad.unique().tolist() for p in net.parameters()]

    results = job.run(work)
    assert job.messages == 1
    assert results == [[[0.5], [0.0], [0.5], [0.5]]] * 2


def test_parameters_and_buffers_are_those_of_the_first_process(world):
    nets = [nn.Sequential(network(seed), nn.BatchNorm1d(1)) for seed in (3, 4)]
    with torch.no_grad():
        nets[0][1].running_mean.fill_(7.0)
    want = {k: x.clone() for k, x in nets[0].state_dict().items()}
    world(2).run(lambda rank: mpi_pytorch.sync_params(nets[rank]))
    for net in nets:
        assert all(torch.equal(x, want[k]) for k, x in net.state_dict().items())


def test_one_process_changes_nothing():
    net = network()
    backward(loss_of(net), net, batches(1), Shards(1))
    before = [p.grad.clone() for p in net.parameters()], [p.clone() for p in net.parameters()]
    mpi_pytorch.mpi_avg_grads(net)
    mpi_pytorch.sync_params(net)
    for p, grad, value in zip(net.parameters(), *before, strict=True):
        assert torch.equal(p.grad, grad) and torch.equal(p, value)


def test_pitfall_26_several_processes_use_one_thread_each(world, monkeypatch):
    calls = []
    monkeypatch.setattr(torch, "set_num_threads", calls.append)
    mpi_pytorch.setup_pytorch_for_mpi()
    assert calls == []
    world(2).run(lambda rank: mpi_pytorch.setup_pytorch_for_mpi())
    assert calls == [1, 1]
