"""What the off-policy algorithms share in torch: targets, gradient steps, freezing, noise."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from spinup.algos.pytorch.common.offpolicy import (
    NoisyPolicy,
    SampledPolicy,
    action_limits,
    frozen,
    minimize,
    polyak_update,
    target_copy,
)
from torch import nn
from torch.optim import SGD, Adam

from spinup.algos.pytorch.common.acting import make_policy
from spinup.algos.pytorch.ddpg import core as ddpg_core
from spinup.algos.pytorch.ddpg.ddpg import ddpg_update

OBS = spaces.Box(-1, 1, (3,), np.float32)
ACT = spaces.Box(np.array([-1, 0], np.float32), np.array([3, 0.5], np.float32))


def actor_critic():
    return ddpg_core.MLPActorCritic(OBS, ACT, hidden_sizes=(6,))


def values(module):
    return [p.detach().clone() for p in module.parameters()]


def equal(one, other):
    return all(torch.equal(p, q) for p, q in zip(one, other, strict=True))


# ---- target networks -------------------------------------------------------------------------


@pytest.mark.parametrize("polyak", [0.0, 0.25, 0.995, 1.0])
def test_polyak_update_is_the_weighted_mean(polyak):
    net, targ = nn.Linear(2, 1), nn.Linear(2, 1)
    with torch.no_grad():
        net.weight[:], net.bias[:] = torch.tensor([8.0, -4.0]), torch.tensor([2.0])
        targ.weight[:], targ.bias[:] = torch.tensor([4.0, 0.0]), torch.tensor([-2.0])
    polyak_update(net, targ, polyak)
    mine = 1 - polyak
    want = [polyak * 4 + mine * 8, mine * -4, polyak * -2 + mine * 2]
    got = [*targ.weight.flatten().tolist(), targ.bias.item()]
    assert got == pytest.approx(want, rel=1e-5, abs=1e-6)
    assert net.weight.tolist() == [[8, -4]] and net.bias.item() == 2  # the other one stays


def test_targets_converge_to_a_network_that_stands_still():
    ac = actor_critic()
    ac_targ = target_copy(ac)
    with torch.no_grad():
        for p in ac.parameters():
            p += 1
    for _ in range(100):
        polyak_update(ac, ac_targ, 0.9)
    for p, q in zip(ac.parameters(), ac_targ.parameters(), strict=True):
        torch.testing.assert_close(q, p - 0.9**100, rtol=1e-4, atol=1e-4)


def test_a_target_is_equal_at_first_independent_and_out_of_reach_of_gradients():
    ac = actor_critic()
    ac_targ = target_copy(ac)
    assert equal(values(ac), values(ac_targ)) and not any(
        p.requires_grad for p in ac_targ.parameters()
    )
    assert all(p.requires_grad for p in ac.parameters())
    before = values(ac_targ)
    with torch.no_grad():
        for p in ac.parameters():
            p += 1
    assert equal(values(ac_targ), before)
    obs = torch.randn(5, 3)
    assert not ac_targ.q(obs, ac_targ.pi(obs)).requires_grad
    shared = {p.data_ptr() for p in ac.parameters()} & {p.data_ptr() for p in ac_targ.parameters()}
    assert not shared


# ---- gradient steps --------------------------------------------------------------------------


def test_minimize_steps_down_the_gradient():
    net = nn.Linear(1, 1)
    with torch.no_grad():
        net.weight[:], net.bias[:] = 2.0, 1.0
    x = torch.tensor([[1.0], [3.0]])
    # mean of (2x + 1)^2: d/dw = mean 2 x (2x + 1) = 24, d/db = mean 2 (2x + 1) = 10
    minimize((net(x) ** 2).mean(), SGD(net.parameters(), lr=0.1))
    assert [net.weight.item(), net.bias.item()] == pytest.approx([-0.4, 0.0], abs=1e-6)


def test_minimize_touches_no_parameter_but_the_optimizers():
    ac = actor_critic()
    pi_optimizer = Adam(ac.pi.parameters(), lr=0.1)
    obs = torch.randn(5, 3)
    q_before, pi_before = values(ac.q), values(ac.pi)
    minimize(-ac.q(obs, ac.pi(obs)).mean(), pi_optimizer)
    assert equal(values(ac.q), q_before) and not equal(values(ac.pi), pi_before)
    assert all(p.grad is None for p in ac.q.parameters())


def test_one_gradient_does_not_leak_into_the_next_step():
    net = nn.Linear(2, 1)
    twin = copy.deepcopy(net)
    x, y = torch.randn(4, 2), torch.randn(4, 2)
    for module, inputs in ((net, (x, y)), (twin, (y,))):
        optimizer = SGD(module.parameters(), lr=0.0 if module is net else 0.1)
        for i, batch in enumerate(inputs):
            if module is net and i == 1:
                optimizer.param_groups[0]["lr"] = 0.1
            minimize(module(batch).pow(2).mean(), optimizer)
    assert equal(values(net), values(twin))


def test_a_long_gradient_is_shortened_and_a_short_one_is_not():
    for limit, want in ((5.0, 5.0), (50.0, 26.0)):
        net = nn.Linear(1, 1)
        with torch.no_grad():
            net.weight[:], net.bias[:] = 2.0, 1.0
        x = torch.tensor([[1.0], [3.0]])
        minimize((net(x) ** 2).mean(), SGD(net.parameters(), lr=1.0), max_grad_norm=limit)
        step = np.array([2 - net.weight.item(), 1 - net.bias.item()])
        assert np.linalg.norm(step) == pytest.approx(want, rel=1e-4)
        np.testing.assert_allclose(step / want, np.array([24, 10]) / 26, rtol=1e-4)


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
        minimize((odd.used * odd.fixed).sum(), optimizer)
    assert odd.unused.tolist() == [1, 1] and odd.fixed.tolist() == [1, 1]
    assert odd.used.tolist() == pytest.approx([0.7, 0.7], rel=1e-4)


def test_what_two_networks_share_gets_no_step_from_the_gradient_of_the_other():
    trunk, head = nn.Linear(2, 2), nn.Linear(2, 1)
    q_optimizer = SGD([*trunk.parameters(), *head.parameters()], lr=0.1)
    pi_optimizer = SGD([*trunk.parameters()], lr=0.1)
    x = torch.randn(4, 2)
    minimize(head(trunk(x)).pow(2).mean(), q_optimizer)
    before = values(trunk)
    other = nn.Parameter(torch.ones(1))
    pi_optimizer.add_param_group({"params": [other]})
    with frozen(trunk, head):
        minimize(head(trunk(x) * other).mean(), pi_optimizer)
    assert equal(values(trunk), before) and other.item() != 1


# ---- freezing --------------------------------------------------------------------------------


def test_a_frozen_critic_gets_no_gradient_and_passes_one_on():
    ac = actor_critic()
    obs = torch.randn(5, 3)
    want = torch.autograd.grad(-ac.q(obs, ac.pi(obs)).mean(), list(ac.pi.parameters()))
    with frozen(ac.q):
        assert not any(p.requires_grad for p in ac.q.parameters())
        (-ac.q(obs, ac.pi(obs)).mean()).backward()
    assert all(p.grad is None for p in ac.q.parameters())
    for p, grad in zip(ac.pi.parameters(), want, strict=True):
        torch.testing.assert_close(p.grad, grad)
    assert all(p.requires_grad for p in ac.parameters())


def test_freezing_works_the_second_time_too():
    ac = actor_critic()
    for _ in range(2):
        with frozen(ac.q, ac.pi):
            assert not any(p.requires_grad for p in ac.parameters())
        assert all(p.requires_grad for p in ac.parameters())


def test_an_exception_ends_the_freezing():
    ac = actor_critic()
    with pytest.raises(ZeroDivisionError), frozen(ac.q):
        raise ZeroDivisionError
    assert all(p.requires_grad for p in ac.q.parameters())


def test_what_was_frozen_before_stays_frozen():
    ac = actor_critic()
    first = next(ac.q.parameters())
    first.requires_grad_(False)
    with frozen(ac.q):
        pass
    assert [p.requires_grad for p in ac.q.parameters()] == [False] + [True] * 3


def test_an_update_never_computes_a_gradient_of_q_for_the_policy(monkeypatch):
    ac = actor_critic()
    asked = []
    grad = torch.autograd.grad
    monkeypatch.setattr(
        torch.autograd,
        "grad",
        lambda loss, params, **k: (
            asked.append(([p.requires_grad for p in ac.q.parameters()], len(params)))
            or grad(loss, params, **k)
        ),
    )
    batch = {
        "obs": torch.randn(4, 3),
        "act": torch.randn(4, 2),
        "rew": torch.randn(4),
        "obs2": torch.randn(4, 3),
        "done": torch.zeros(4),
    }
    optimizers = Adam(ac.pi.parameters(), lr=1e-3), Adam(ac.q.parameters(), lr=1e-3)
    ddpg_update(ac, target_copy(ac), *optimizers, batch)
    assert asked == [([True] * 4, 4), ([False] * 4, 4)]  # the critic's step, then the policy's


# ---- exploration -----------------------------------------------------------------------------


class Still:
    """A policy that always takes one action, as a network's rows."""

    def __init__(self, action):
        self.action, self.begun = np.asarray(action, np.float32), 0

    def begin(self, rng):
        self.begun += 1

    renew = begin

    def __call__(self, obs, rng):
        return np.tile(self.action.reshape(-1), (len(obs), 1)), None, None


def test_noise_is_in_units_of_half_the_range_of_each_dimension():
    space = spaces.Box(np.array([-100, 0, 9], np.float32), np.array([100, 1, 13], np.float32))
    policy = NoisyPolicy(Still([0, 0.5, 11]), space, act_noise=0.1)
    acts = policy(np.zeros((40_000, 3), np.float32), np.random.default_rng(0))
    noise = (acts - [0, 0.5, 11]) / [100, 0.5, 2]  # half the ranges
    np.testing.assert_allclose(noise.std(0), 0.1, rtol=0.02)  # too narrow to be clipped
    np.testing.assert_allclose(noise.mean(0), 0, atol=0.003)
    correlations = np.corrcoef(noise.T) - np.eye(3)  # each dimension has its own
    assert np.abs(correlations).max() < 0.03
    assert abs(np.corrcoef(noise[1:, 0], noise[:-1, 0])[0, 1]) < 0.03  # and each sample


def test_noisy_actions_are_clipped_to_the_bounds_of_their_dimension():
    policy = NoisyPolicy(Still([2.9, 0.25]), ACT, act_noise=0.5)
    acts = policy(np.zeros((10_000, 3), np.float32), np.random.default_rng(0))
    assert acts.shape == (10_000, 2) and acts.dtype == np.float32
    assert (acts >= ACT.low).all() and (acts <= ACT.high).all()
    assert (acts == ACT.high).any(0).all() and acts[:, 1].min() == 0
    # half the range of the first dimension is 2, so the noise is 1 wide and stops at 0.1
    below = acts[:, 0] < 2.9
    assert 0.48 < below.mean() < 0.52
    assert np.median(2.9 - acts[below, 0]) == pytest.approx(0.6745, rel=0.05)


def test_no_noise_is_the_policy_itself():
    ac = actor_critic()
    policy = NoisyPolicy(make_policy(ac, "cpu", on_policy=False), ACT, act_noise=0.0)
    obs = np.random.default_rng(0).standard_normal((5, 3)).astype(np.float32)
    with torch.no_grad():
        want = ac.pi(torch.as_tensor(obs)).numpy()
    np.testing.assert_allclose(policy(obs, np.random.default_rng(1)), want, rtol=1e-5, atol=1e-6)


def test_actions_keep_the_shape_of_their_space():
    space = spaces.Box(-2, 2, (2, 3), np.float32)
    policy = NoisyPolicy(Still(np.arange(6) / 10), space, act_noise=0.0)
    acts = policy(np.zeros((4, 3), np.float32), np.random.default_rng(0))
    assert acts.shape == (4, 2, 3)
    np.testing.assert_allclose(acts[0], np.arange(6).reshape(2, 3) / 10)


@pytest.mark.parametrize("make", [lambda p: NoisyPolicy(p, ACT, 0.1), SampledPolicy])
def test_exploring_policies_renew_the_one_they_wrap(make):
    inner = Still([1, 0.25])
    policy = make(inner)
    policy.begin(None)
    policy.renew(None)
    assert inner.begun == 2


def test_noise_comes_from_the_generator_that_is_given():
    policy = NoisyPolicy(Still([1, 0.25]), ACT, act_noise=0.1)
    obs = np.zeros((3, 3), np.float32)
    drawn = []
    for seed in (1, 2):
        np.random.seed(seed)
        torch.manual_seed(seed)
        drawn.append(policy(obs, np.random.default_rng(7)))
    np.testing.assert_array_equal(*drawn)
    assert not np.array_equal(drawn[0], policy(obs, np.random.default_rng(8)))


def test_limits_of_an_action_space_are_its_bounds_to_the_last_bit():
    low = np.array([[-0.1, 1e-7], [3, -1e6]], np.float32)
    high = np.array([[0.3, 1], [3.0000002, 1e6]], np.float32)
    got = action_limits(spaces.Box(low, high), "cpu")
    assert [x.tolist() for x in got] == [low.ravel().tolist(), high.ravel().tolist()]
    assert {x.dtype for x in got} == {torch.float32}
