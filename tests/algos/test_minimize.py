"""Gradient steps that take a shorter way than the optimizer's own give its numbers, bit by bit."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import clip_grad_norm_
from torch.optim import SGD, Adam

from spinup.algos.pytorch.common import offpolicy
from spinup.algos.pytorch.common.offpolicy import minimize


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))


def losses(net, n, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield net(torch.randn(5, 3, generator=generator)).square().mean()


def usual(loss, optimizer, max_grad_norm=None):
    """A step as everybody writes it."""
    optimizer.zero_grad()
    loss.backward()
    if max_grad_norm is not None:
        params = [p for group in optimizer.param_groups for p in group["params"]]
        clip_grad_norm_(params, max_grad_norm)
    optimizer.step()


def run(step, n=6, max_grad_norm=None, **kwargs):
    net = network()
    optimizer = Adam(net.parameters(), lr=0.01, fused=True, **kwargs)
    for i, loss in enumerate(losses(net, n)):
        optimizer.param_groups[0]["lr"] = 0.01 / (1 + i)
        step(loss, optimizer, max_grad_norm)
    return net, optimizer


def same_bits(one, other):
    (net, optimizer), (net2, optimizer2) = one, other
    pairs = zip(net.parameters(), net2.parameters(), strict=True)
    states = zip(optimizer.state.values(), optimizer2.state.values(), strict=True)
    return all(torch.equal(p, q) for p, q in pairs) and all(
        torch.equal(a[name], b[name]) for a, b in states for name in a
    )


@pytest.fixture
def short_steps(monkeypatch):
    """A list that grows by one with each step that took the shorter way."""
    taken, original = [], offpolicy._adam_step

    def counted(*args):
        taken.append(args)
        original(*args)

    monkeypatch.setattr(offpolicy, "_adam_step", counted)
    return taken


@pytest.mark.parametrize("kwargs", [{}, {"betas": (0.5, 0.9), "eps": 1e-3}])
def test_steps_of_fused_adam_are_torchs_own(short_steps, kwargs):
    assert same_bits(run(minimize, **kwargs), run(usual, **kwargs))
    assert len(short_steps) == 5  # all but the first, which makes the state


@pytest.mark.parametrize("kwargs", [{"weight_decay": 0.1}, {"amsgrad": True}, {"maximize": True}])
def test_an_adam_with_something_special_goes_the_usual_way(short_steps, kwargs):
    assert same_bits(run(minimize, **kwargs), run(usual, **kwargs))
    assert not short_steps


@pytest.mark.parametrize("limit", [1e-3, 0.3, 1e3])
def test_shortened_gradients_are_torchs_own(limit):
    one, other = run(minimize, max_grad_norm=limit), run(usual, max_grad_norm=limit)
    for p, q in zip(one[0].parameters(), other[0].parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-7)


def test_a_saved_optimizer_goes_on_with_the_same_bits():
    whole = run(minimize, n=6)
    net = network()
    optimizer = Adam(net.parameters(), lr=0.01, fused=True)
    for i, loss in enumerate(losses(net, 6)):
        if i == 3:
            saved = copy.deepcopy(optimizer.state_dict())
            optimizer = Adam(net.parameters(), lr=1.0, fused=True)
            optimizer.load_state_dict(saved)
        optimizer.param_groups[0]["lr"] = 0.01 / (1 + i)
        minimize(loss, optimizer)
    assert same_bits((net, optimizer), whole)


def test_parameters_without_a_gradient_go_the_usual_way(short_steps):
    net, extra = network(), nn.Parameter(torch.ones(2))
    optimizer = Adam([*net.parameters(), extra], lr=0.01, fused=True)
    minimize(extra.sum() + next(losses(net, 1)), optimizer)
    before = extra.detach().clone()
    for loss in losses(net, 3):
        minimize(loss, optimizer)
    assert torch.equal(extra, before) and not short_steps


def test_two_groups_and_other_optimizers_go_the_usual_way(short_steps):
    net = network()
    groups = [{"params": net[0].parameters()}, {"params": net[2].parameters(), "lr": 0.5}]
    for optimizer in (Adam(groups, lr=0.01, fused=True), SGD(net.parameters(), lr=0.1)):
        for loss in losses(net, 3):
            minimize(loss, optimizer)
    assert not short_steps


def test_hooks_of_an_optimizer_are_called():
    net, seen = network(), []
    optimizer = Adam(net.parameters(), lr=0.01, fused=True)
    optimizer.register_step_post_hook(lambda *args: seen.append(len(seen)))
    for loss in losses(net, 3):
        minimize(loss, optimizer)
    assert seen == [0, 1, 2]
