"""Gradient steps: Adam, the mean over shards, clipping, freezing; in a compiled graph too."""

import copy

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import SGD

from spinup.algos.pytorch.common import graphs
from spinup.algos.pytorch.common.gradients import (
    Adam,
    clip_grad_norm,
    evaluate,
    frozen,
    over_shards,
)
from spinup.algos.pytorch.common.targets import target_copy
from spinup.algos.pytorch.ddpg.ddpg import ddpg_update
from spinup.parallel.mpi import Shards
from spinup.parallel.pytorch import flatten
from tests.helpers.networks import equal, small_ddpg, values


@pytest.fixture
def in_a_graph(monkeypatch):
    """What runs now believes that it is being compiled."""
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)


def descend(loss, optimizer, max_grad_norm=None):
    """One gradient step, as every algorithm takes it."""
    optimizer.zero_grad()
    loss.backward()
    clip_grad_norm(optimizer, max_grad_norm)
    optimizer.step()


# ---- Adam ------------------------------------------------------------------------------------


@pytest.mark.parametrize("fused", [True, False])
def test_a_step_of_adam_is_torchs_own_bit_for_bit(fused):
    mine = nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 3))
    torchs = copy.deepcopy(mine)
    ours = Adam(mine.parameters(), lr=0.01, fused=fused)
    own = torch.optim.Adam(torchs.parameters(), lr=0.01, fused=fused)
    for i in range(8):
        x = torch.randn(6, 5)
        if i == 3:  # a schedule, then a resumed run
            for optimizer in (ours, own):
                optimizer.param_groups[0]["lr"] = 0.003
        if i == 5:
            ours.load_state_dict(copy.deepcopy(own.state_dict()))
        for net, optimizer in ((mine, ours), (torchs, own)):
            descend(net(x).square().mean(), optimizer)
        assert equal(mine.parameters(), torchs.parameters())
    for p, q in zip(mine.parameters(), torchs.parameters(), strict=True):
        for key, value in own.state[q].items():
            assert torch.equal(ours.state[p][key], value)


def test_two_groups_have_their_own_learning_rates():
    mine = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 1)])
    torchs = copy.deepcopy(mine)
    steps = []
    for net, kind in ((mine, Adam), (torchs, torch.optim.Adam)):
        groups = [{"params": net[0].parameters()}, {"params": net[1].parameters(), "lr": 0.1}]
        steps.append((net, kind(groups, lr=0.01, fused=True)))
    for _ in range(4):
        x = torch.randn(6, 3)
        for net, optimizer in steps:
            descend(net[1](net[0](x)).square().mean(), optimizer)
    assert equal(mine.parameters(), torchs.parameters())


def test_adam_leaves_a_parameter_alone_in_the_steps_that_do_not_use_it():
    mine = nn.ModuleList([nn.Linear(3, 1), nn.Linear(3, 1)])
    torchs = copy.deepcopy(mine)
    ours = Adam(mine.parameters(), lr=0.01)
    own = torch.optim.Adam(torchs.parameters(), lr=0.01, fused=True)
    for used in ([0, 1], [0], [0, 1], [1], [0, 1]):
        x = torch.randn(6, 3)
        unused = [values(mine[i]) for i in (0, 1) if i not in used]
        for net, optimizer in ((mine, ours), (torchs, own)):
            descend(sum(net[i](x).square().mean() for i in used), optimizer)
        assert equal(mine.parameters(), torchs.parameters())
        assert all(equal(values(mine[1 - used[0]]), before) for before in unused)


def test_unused_and_frozen_parameters_stay_as_they_are():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused, self.fixed = (nn.Parameter(torch.ones(2)) for _ in range(3))
            self.fixed.requires_grad_(False)

    odd = Odd()
    optimizer = Adam(odd.parameters(), lr=0.1)
    for _ in range(3):
        odd.unused.grad = torch.ones(2)  # left there by somebody else
        descend((odd.used * odd.fixed).sum(), optimizer)
    assert odd.unused.tolist() == [1, 1] and odd.fixed.tolist() == [1, 1]
    assert odd.used.tolist() == pytest.approx([0.7, 0.7], rel=1e-4)


class Einsum(nn.Module):
    """A layer whose gradient torch computes as a transposed view."""

    def __init__(self, transposed=False):
        super().__init__()
        weight = torch.arange(15.0) / 10
        weight = weight.reshape(5, 3).t() if transposed else weight.reshape(3, 5)
        self.weight = nn.Parameter(weight)

    def forward(self, x):
        return torch.einsum("bi,oi->bo", x, self.weight)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("count", [None, 1, 2])
def test_a_fused_optimizer_gets_gradients_with_the_strides_of_their_parameters(count, transposed):
    x = torch.randn(4, 5)
    ours, reference = Einsum(transposed), Einsum(transposed)
    (grad,) = torch.autograd.grad(ours(x).square().mean(), [ours.weight])
    assert (grad.stride() != ours.weight.stride()) is not transposed  # else this tests nothing
    optimizer = Adam(ours.parameters(), lr=0.1)
    plain = torch.optim.Adam(reference.parameters(), lr=0.1, fused=False)
    for _ in range(3):
        if count is None:
            descend(ours(x).square().mean(), optimizer)
        else:
            losses = (ours(part).square().mean() for part in x.chunk(count))
            for loss in over_shards(losses, ours, Shards(count)):
                loss.backward()
            optimizer.step()
        descend(reference(x).square().mean(), plain)
        torch.testing.assert_close(ours.weight, reference.weight)


# ---- Adam in a compiled graph ----------------------------------------------------------------


def test_adam_in_a_graph_is_torchs(in_a_graph):
    mine = nn.Linear(3, 2)
    torchs = copy.deepcopy(mine)
    ours = Adam(mine.parameters(), lr=0.01)
    own = torch.optim.Adam(torchs.parameters(), lr=0.01, fused=True)
    graphs.prepare(ours)
    for _ in range(5):
        x = torch.randn(7, 3)
        descend(mine(x).square().mean(), ours, max_grad_norm=0.3)
        own.zero_grad()
        torchs(x).square().mean().backward()
        norm = nn.utils.clip_grad_norm_(torchs.parameters(), 0.3)
        own.step()
        assert norm > 0.3
        for p, q in zip(mine.parameters(), torchs.parameters(), strict=True):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-7)
    for p, q in zip(ours.state.values(), own.state.values(), strict=True):
        assert p["step"] == q["step"] == 5
        torch.testing.assert_close(p["exp_avg"], q["exp_avg"])
        torch.testing.assert_close(p["exp_avg_sq"], q["exp_avg_sq"])


def test_a_gradient_of_zero_in_a_graph_leaves_finite_numbers(in_a_graph):
    p = nn.Parameter(torch.ones(2))
    optimizer = Adam([p], lr=0.1, fused=False)
    graphs.prepare(optimizer)
    descend((p * 0).sum(), optimizer)
    assert p.tolist() == [1.0, 1.0]
    assert all(x.isfinite().all() for x in optimizer.state[p].values())


# ---- zero_grad and clipping ------------------------------------------------------------------


def test_one_gradient_does_not_leak_into_the_next_step():
    net = nn.Linear(2, 1)
    twin = copy.deepcopy(net)
    x, y = torch.randn(4, 2), torch.randn(4, 2)
    optimizer = Adam(net.parameters(), lr=0.1)
    net(x).pow(2).mean().backward()
    descend(net(y).pow(2).mean(), optimizer)
    descend(twin(y).pow(2).mean(), Adam(twin.parameters(), lr=0.1))
    assert equal(values(net), values(twin))


@pytest.mark.parametrize("compiling", [False, True])
@pytest.mark.parametrize(("limit", "want"), [(5.0, 5.0), (50.0, 26.0), (None, 26.0)])
def test_a_long_gradient_is_clipped_and_a_short_one_is_not(monkeypatch, compiling, limit, want):
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: compiling)
    net = nn.Linear(1, 1)
    with torch.no_grad():
        net.weight[:], net.bias[:] = 2.0, 1.0
    x = torch.tensor([[1.0], [3.0]])
    # mean of (2x + 1)^2: d/dw = mean 2 x (2x + 1) = 24, d/db = mean 2 (2x + 1) = 10
    (net(x) ** 2).mean().backward()
    clip_grad_norm(SGD(net.parameters(), lr=1.0), limit)
    grad = np.array([net.weight.grad.item(), net.bias.grad.item()])
    assert np.linalg.norm(grad) == pytest.approx(want, rel=1e-4)
    np.testing.assert_allclose(grad / want, np.array([24, 10]) / 26, rtol=1e-4)


# ---- shards ----------------------------------------------------------------------------------


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


def differentiate(net, count):
    """Leave in `.grad` what an update would; returns the losses that were handed out."""
    losses = []
    shard_losses = (loss_of(net)(batch)[0] for batch in batches(count))
    for loss in over_shards(shard_losses, net, Shards(count)):
        loss.backward()
        losses.append(loss.item())
    return losses


def grads(net):
    return flatten([p.grad for p in net.parameters()])


@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_mean_gradient_of_shards_is_that_of_the_joined_batch(count):
    net, plain = network(), network()
    (joined,) = batches(1)
    want, _ = loss_of(plain)(joined)
    want.backward()
    losses = differentiate(net, count)
    torch.testing.assert_close(grads(net), grads(plain), rtol=1e-5, atol=1e-7)
    assert len(losses) == count and np.mean(losses) == pytest.approx(want.item(), rel=1e-6)


def test_one_shard_is_a_plain_backward_pass():
    net, plain = network(), network()
    loss_of(plain)(*batches(1))[0].backward()
    kept = []
    for loss in over_shards([loss_of(net)(*batches(1))[0]], net, Shards(1)):
        loss.backward()
        kept = [p.grad for p in net.parameters()]
    assert torch.equal(grads(net), grads(plain))
    assert all(p.grad is grad for p, grad in zip(net.parameters(), kept, strict=True))


@pytest.mark.parametrize("count", [1, 2])
def test_nothing_is_left_of_an_earlier_gradient(count):
    net, other = network(), network()
    net.unused, other.unused = (nn.Parameter(torch.ones(2)) for _ in range(2))
    for p in net.parameters():
        p.grad = torch.full_like(p, 100.0)
    for _ in range(2):
        differentiate(net, count)
    differentiate(other, count)
    assert torch.equal(grads(net), grads(other))


@pytest.mark.parametrize("count", [1, 2])
def test_a_parameter_that_no_loss_depends_on_has_a_gradient_of_zero(count):
    net = network()
    net.unused = nn.Parameter(torch.ones(2))
    differentiate(net, count)
    assert net.unused.grad.tolist() == [0, 0]
    assert float(net[0].weight.grad.abs().sum()) > 0


@pytest.mark.parametrize("count", [1, 2])
def test_a_parameter_that_needs_no_gradient_gets_none(count):
    net = network()
    net[0].weight.requires_grad_(False)
    differentiate(net, count)
    assert net[0].weight.grad is None and net[0].bias.grad is not None


@pytest.mark.parametrize("count", [1, 2, 4])
def test_evaluate_is_the_loss_of_the_joined_batch_without_gradients(count):
    net = network()
    (joined,) = batches(1)
    want, want_info = loss_of(net)(joined)
    differentiate(net, 1)
    before = grads(net).clone()
    loss, info = evaluate(loss_of(net), batches(count), Shards(count))
    torch.testing.assert_close(loss, want.detach())
    assert list(info) == ["Error", "Largest"]
    for key, value in want_info.items():
        torch.testing.assert_close(info[key], value.detach())
    assert not loss.requires_grad and not info["Error"].requires_grad
    assert torch.equal(grads(net), before)
    alone = evaluate(lambda batch: loss_of(net)(batch)[0], batches(count), Shards(count))
    assert torch.equal(alone[0], loss) and alone[1] == {}


# ---- freezing --------------------------------------------------------------------------------


def test_a_frozen_critic_gets_no_gradient_and_passes_one_on():
    ac = small_ddpg()
    obs = torch.randn(5, 3)
    want = torch.autograd.grad(-ac.q(obs, ac.pi(obs)).mean(), list(ac.pi.parameters()))
    with frozen(ac.q):
        assert not any(p.requires_grad for p in ac.q.parameters())
        (-ac.q(obs, ac.pi(obs)).mean()).backward()
    assert all(p.grad is None for p in ac.q.parameters())
    for p, grad in zip(ac.pi.parameters(), want, strict=True):
        torch.testing.assert_close(p.grad, grad)
    assert all(p.requires_grad for p in ac.parameters())


def test_gradients_of_frozen_parameters_are_left_untouched():
    ac = small_ddpg()
    first, *others = ac.q.parameters()
    first.grad = torch.full_like(first, 7.0)
    grad, before = first.grad, values(ac.q)
    obs = torch.randn(5, 3)
    for parameters in (ac.pi.parameters(), ac.parameters()):  # the second has the critic's as well
        with frozen(ac.q):
            descend(-ac.q(obs, ac.pi(obs)).mean(), Adam(parameters, lr=0.1))
        assert first.grad is grad and (grad == 7).all()
        assert all(p.grad is None for p in others)
        assert equal(values(ac.q), before)


def test_a_graph_leaves_no_gradient_in_frozen_parameters(in_a_graph):
    ac = small_ddpg()
    obs = torch.randn(5, 3)
    optimizer = Adam(ac.pi.parameters(), lr=0.1)
    graphs.prepare(optimizer)
    before = values(ac)
    with frozen(ac.q):
        descend(-ac.q(obs, ac.pi(obs)).mean(), optimizer)
    assert all(p.grad is None for p in ac.parameters())
    n = len(list(ac.pi.parameters()))
    assert not equal(values(ac)[:n], before[:n]) and equal(values(ac)[n:], before[n:])


def test_freezing_works_the_second_time_too():
    ac = small_ddpg()
    for _ in range(2):
        with frozen(ac.q, ac.pi):
            assert not any(p.requires_grad for p in ac.parameters())
        assert all(p.requires_grad for p in ac.parameters())


def test_an_exception_ends_the_freezing():
    ac = small_ddpg()
    with pytest.raises(ZeroDivisionError), frozen(ac.q):
        raise ZeroDivisionError
    assert all(p.requires_grad for p in ac.q.parameters())


def test_what_was_frozen_before_stays_frozen():
    ac = small_ddpg()
    first = next(ac.q.parameters())
    first.requires_grad_(False)
    with frozen(ac.q):
        pass
    assert [p.requires_grad for p in ac.q.parameters()] == [False] + [True] * 3


def test_what_two_networks_share_gets_no_step_from_the_gradient_of_the_other():
    trunk, head = nn.Linear(2, 2), nn.Linear(2, 1)
    other = nn.Parameter(torch.ones(1))
    q_optimizer = Adam([*trunk.parameters(), *head.parameters()], lr=0.1)
    pi_optimizer = Adam([*trunk.parameters(), other], lr=0.1)
    x = torch.randn(4, 2)
    descend(head(trunk(x)).pow(2).mean(), q_optimizer)
    before = values(trunk)
    with frozen(trunk, head):
        descend(head(trunk(x) * other).mean(), pi_optimizer)
    assert equal(values(trunk), before) and other.item() != 1


def test_an_update_never_computes_a_gradient_of_q_for_the_policy(monkeypatch):
    ac = small_ddpg()
    seen = []
    backward = torch.Tensor.backward

    def watched(loss, *args, **kwargs):
        seen.append([p.requires_grad for p in ac.q.parameters()])
        return backward(loss, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "backward", watched)
    batch = {
        "obs": torch.randn(4, 3),
        "act": torch.randn(4, 2),
        "rew": torch.randn(4),
        "obs2": torch.randn(4, 3),
        "done": torch.zeros(4),
    }
    optimizers = Adam(ac.pi.parameters(), lr=1e-3), Adam(ac.q.parameters(), lr=1e-3)
    ddpg_update(ac, target_copy(ac), *optimizers, batch)
    assert seen == [[True] * 4, [False] * 4]  # the critic's step, then the policy's
