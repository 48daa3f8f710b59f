"""Run as `python program_collectives.py N`: every collective against NumPy on the joined data.

Process 0 writes what each check found to `results.json`: '' or what was wrong.
"""

import sys

from spinup.parallel.mpi import mpi_fork

if __name__ == "__main__":
    mpi_fork(int(sys.argv[1]))

import numpy as np
import torch
from torch import nn

from spinup.algos.pytorch.common import gradients
from spinup.parallel import mpi as mpi_tools
from spinup.parallel import pytorch as mpi_pytorch
from spinup.parallel import world as mpi_world
from spinup.parallel.mpi import Shards, num_procs, proc_id
from tests.helpers.mpi_checks import run_checks


def joined(make):
    """What `make(rank)` gives on every rank, computed here without any message."""
    return [make(rank) for rank in range(num_procs())]


def data(rank, shape=(5, 3), dtype=np.float64, tag=0):
    return np.random.default_rng([rank, tag]).normal(size=shape).astype(dtype)


def sequential(rows):
    total = rows[0].copy()
    for row in rows[1:]:
        total = total + row
    return total


def check_sums_and_means():
    every = joined(lambda rank: data(rank, dtype=np.float32))
    np.testing.assert_allclose(mpi_tools.mpi_sum(every[proc_id()]), sum(every), rtol=1e-5)
    np.testing.assert_allclose(
        mpi_tools.mpi_avg(every[proc_id()]), np.mean(every, axis=0), rtol=1e-5, atol=1e-6
    )
    scalar = mpi_tools.mpi_avg(float(proc_id()))
    assert isinstance(scalar, np.floating) and np.ndim(scalar) == 0
    assert scalar == (num_procs() - 1) / 2
    assert mpi_tools.mpi_sum([1, 2]).tolist() == [num_procs(), 2 * num_procs()]
    assert mpi_tools.most(proc_id()) == num_procs() - 1
    assert mpi_tools.any_process(proc_id() == num_procs() - 1) is True
    assert mpi_tools.any_process(False) is False


def check_allreduce_keeps_the_type():
    from mpi4py import MPI

    for dtype in (np.float32, np.float64, np.int64):
        x = np.arange(6, dtype=dtype).reshape(2, 3) + proc_id()
        out = np.empty_like(x)
        mpi_tools.allreduce(x, out)
        assert (out == sum(np.arange(6).reshape(2, 3) + r for r in range(num_procs()))).all()
        mpi_tools.allreduce(x, out, MPI.MAX)
        assert (out == np.arange(6).reshape(2, 3) + num_procs() - 1).all()
    assert mpi_tools.mpi_op(float(proc_id()), MPI.MAX) == num_procs() - 1


def check_broadcast():
    for root in (0, num_procs() - 1):
        for dtype in (np.float32, np.float64):
            x = data(proc_id(), dtype=dtype)
            mpi_tools.broadcast(x, root)
            assert (x == data(root, dtype=dtype)).all() and x.dtype == dtype
    assert mpi_tools.broadcast_object({"rank": proc_id()}) == {"rank": 0}
    lists = mpi_tools.gather_lists([proc_id(), -proc_id()])
    expected = [y for r in range(num_procs()) for y in (r, -r)]
    assert lists == (expected if proc_id() == 0 else [])


def check_statistics():
    every = np.concatenate(joined(lambda rank: data(rank, (rank * 7 + 1,), np.float32)))
    mine = data(proc_id(), (proc_id() * 7 + 1,), np.float32)
    mean, std = mpi_tools.mpi_statistics_scalar(mine)
    np.testing.assert_allclose([mean, std], [every.mean(), every.std()], rtol=1e-5, atol=1e-6)
    assert isinstance(mean, np.float32)
    got = mpi_tools.mpi_statistics_scalar(mine, with_min_and_max=True)
    np.testing.assert_allclose(
        got, [every.mean(), every.std(), every.min(), every.max()], rtol=1e-5, atol=1e-6
    )


def check_statistics_with_nothing_on_some_ranks():
    last = num_procs() - 1
    mine = data(last, (9,)) if proc_id() == last else []
    got = mpi_tools.mpi_statistics_scalar(mine, with_min_and_max=True)
    whole = data(last, (9,))
    np.testing.assert_allclose(
        got, [whole.mean(), whole.std(), whole.min(), whole.max()], rtol=1e-6
    )
    assert np.isnan(mpi_tools.mpi_statistics_scalar([], with_min_and_max=True)).all()
    assert np.isnan(mpi_tools.chunk_statistics([])).all()


def check_chunk_statistics_do_not_depend_on_the_split():
    chunks = [data(i, (i * 5,), tag=1) for i in range(8)]  # the first one is empty
    each = 8 // num_procs()
    got = mpi_tools.chunk_statistics(chunks[proc_id() * each : (proc_id() + 1) * each])
    whole = np.concatenate(chunks)
    np.testing.assert_allclose(
        got, [whole.mean(), whole.std(), whole.min(), whole.max()], rtol=1e-12, atol=1e-12
    )
    # the same bits as one process that has all of them
    full = [c for c in chunks if c.size]
    mean = sum([float(c.sum()) for c in full]) / sum(c.size for c in full)
    squares = sum([float(np.square(c - mean).sum()) for c in full])
    assert got[0] == mean and got[1] == float(np.sqrt(squares / whole.size))
    # numbers on one process, arrays on another
    mine = [float(proc_id())] if proc_id() % 2 else [np.array([float(proc_id())])]
    assert mpi_tools.chunk_statistics(mine)[0] == (num_procs() - 1) / 2


def check_ordered_sums_are_the_sequential_ones():
    for dtype in (np.float32, np.float64):
        for size in (1, 7, 4000, mpi_world.SMALL // 2 + 3, 100_003):
            shards = Shards(2 * num_procs())
            # of very different sizes, so that another order gives other bits
            rows = [
                data(i, (size,), tag=size).astype(dtype) * dtype(10.0 ** (i % 5))
                for i in range(shards.count)
            ]
            got = shards.sum([rows[i] for i in shards.local])
            assert got.dtype == dtype
            assert got.tobytes() == sequential(rows).tobytes(), (dtype, size)
            if size > 1000:
                assert got.tobytes() != sequential(rows[::-1]).tobytes(), "the order cannot matter"
    shards = Shards()
    assert shards.count == num_procs() and list(shards.local) == [proc_id()]
    assert shards.sum([np.array(2.0)]).shape == ()
    assert shards.sum([np.zeros((2, 0))]).shape == (2, 0)
    assert shards.sum([np.ones((2, 3), np.float32)]).tolist() == [[num_procs()] * 3] * 2
    assert shards.mean([np.full(3, proc_id(), np.float32)]).tolist() == [(num_procs() - 1) / 2] * 3


def net(dtype=torch.float32):
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)).to(dtype)


def check_averaged_gradient_is_that_of_the_joined_batch():
    for dtype, tolerance in ((torch.float32, 1e-6), (torch.float64, 1e-12)):
        every = [torch.from_numpy(x).to(dtype) for x in joined(lambda rank: data(rank, (6, 4)))]
        ours, whole = net(dtype), net(dtype)
        ours(every[proc_id()]).square().mean().backward()
        whole(torch.cat(every)).square().mean().backward()
        mpi_pytorch.mpi_avg_grads(ours)
        for p, q in zip(ours.parameters(), whole.parameters(), strict=True):
            assert p.grad.dtype == dtype
            torch.testing.assert_close(p.grad, q.grad, rtol=tolerance, atol=tolerance)


def check_sharded_backward_is_that_of_the_joined_batch():
    shards = Shards(2 * num_procs())
    batches = [{"x": torch.from_numpy(data(i, (6, 4)))} for i in range(shards.count)]
    ours, whole = net(torch.float64), net(torch.float64)

    def loss_of(module):
        def loss(batch):
            y = module(batch["x"])
            return y.square().mean(), {"mean": y.mean()}

        return loss

    local = [batches[i] for i in shards.local]
    for loss in gradients.over_shards((loss_of(ours)(b)[0] for b in local), ours, shards):
        loss.backward()
    expected, info_expected = loss_of(whole)({"x": torch.cat([b["x"] for b in batches])})
    expected.backward()
    for p, q in zip(ours.parameters(), whole.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, rtol=1e-12, atol=1e-12)
    value, info = gradients.evaluate(loss_of(ours), local, shards)
    torch.testing.assert_close(value, expected.detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(info["mean"], info_expected["mean"].detach())


def check_parameters_without_gradient():
    module = nn.ModuleDict({"all": nn.Linear(2, 2), "some": nn.Linear(2, 2), "none": net()})
    module["frozen"] = nn.Linear(2, 2).requires_grad_(False)
    x = torch.ones(3, 2)
    y = module["all"](x).sum()
    if proc_id() == 0:
        y = y + module["some"](x).sum()
    y.backward()
    mpi_pytorch.mpi_avg_grads(module)
    assert torch.equal(module["all"].weight.grad, torch.full((2, 2), 3.0))
    assert torch.equal(module["some"].weight.grad, torch.full((2, 2), 3.0 / num_procs()))
    assert all(p.grad is None for p in module["none"].parameters())
    assert module["frozen"].weight.grad is None
    mpi_pytorch.mpi_avg_grads(nn.Tanh())


def check_gradients_travel_in_one_message():
    import contextlib

    sent = []
    real = mpi_world.World.collective

    @contextlib.contextmanager
    def counted(world):
        sent.append(1)
        with real(world):
            yield

    module = net()
    module(torch.ones(1, 4)).sum().backward()
    mpi_world.World.collective = counted
    try:
        mpi_pytorch.mpi_avg_grads(module)
        mpi_pytorch.sync_params(module)
    finally:
        mpi_world.World.collective = real
    assert len(sent) == 2, sent


def check_sync_params():
    torch.manual_seed(proc_id())
    module = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.BatchNorm1d(2)})
    module["c"] = nn.Linear(2, 2).double()
    module["d"] = nn.Linear(2, 2).to(torch.bfloat16)
    module.register_buffer("flag", torch.tensor(proc_id() == 0))
    module["b"].num_batches_tracked.fill_(2**60 + proc_id())
    mpi_pytorch.sync_params(module)
    torch.manual_seed(0)
    first = nn.ModuleDict({"a": nn.Linear(3, 2), "b": nn.BatchNorm1d(2)})
    first["c"] = nn.Linear(2, 2).double()
    first["d"] = nn.Linear(2, 2).to(torch.bfloat16)
    first.register_buffer("flag", torch.tensor(True))
    first["b"].num_batches_tracked.fill_(2**60)
    for name, value in first.state_dict().items():
        got = module.state_dict()[name]
        assert got.dtype == value.dtype and torch.equal(got, value), name
    mpi_pytorch.sync_params(nn.Tanh())


def check_one_thread_a_process():
    torch.set_num_threads(2)
    mpi_pytorch.setup_pytorch_for_mpi()
    assert torch.get_num_threads() == 1


if __name__ == "__main__":
    run_checks(globals())
