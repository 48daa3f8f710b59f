"""The columns of `diagnostics.txt` that describe networks, against numbers computed otherwise."""

import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from spinup.algos.common.diagnostics import (
    explained_variance,
    ratio_columns,
    spread,
    surrogate_gain,
)
from spinup.algos.common.evaluation import Watched
from spinup.algos.pytorch.common.diagnostics import TorchGauges, drift, grad_norm, pairs
from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.common.targets import polyak_update, target_copy
from spinup.algos.pytorch.ddpg import core as ddpg_core
from spinup.algos.pytorch.ddpg import ddpg
from spinup.algos.pytorch.dqn import core as dqn_core
from spinup.algos.pytorch.dqn import dqn
from spinup.algos.pytorch.sac import core as sac_core
from spinup.algos.pytorch.sac import sac
from spinup.algos.pytorch.td3 import core as td3_core
from spinup.algos.pytorch.td3 import td3

OBS, TWO, BOX = Box(-1, 1, (3,)), Discrete(2), Box(-2.0, 2.0, (2,))
GAMMA, ALPHA = 0.9, 0.3


def gauges(ac, targ, space, target=None):
    temperature = sac_core.Temperature(ALPHA)
    tracked = {"ac_targ": targ, "temperature": temperature}
    if not hasattr(ac, "q1") or not hasattr(targ, "q1") or hasattr(targ, "pi"):
        del tracked["temperature"]  # only SAC has one
    run = SimpleNamespace(
        ac=ac,
        tracked=tracked,
        row=SimpleNamespace(on_policy=False),
        config={"gamma": GAMMA},
        loop=SimpleNamespace(target=target),
        device=torch.device("cpu"),
        action_space=space,
    )
    return TorchGauges(run)


def some_batch(space, n=16):
    rng = np.random.default_rng(0)
    batch = {name: torch.randn(n, 3) for name in ("obs", "obs2")}
    batch["rew"] = torch.randn(n)
    batch["done"] = torch.tensor(rng.integers(2, size=n), dtype=torch.float32)
    discrete = isinstance(space, Discrete)
    batch["act"] = torch.tensor(rng.integers(2, size=n)) if discrete else torch.rand(n, 2)
    return batch


def other(ac, *parts):
    """A target network that has moved away."""
    targ = target_copy(ac, *parts)
    with torch.no_grad():
        for p in targ.parameters():
            p.add_(0.1 * torch.randn_like(p))
    return targ


LIMITS = tuple(torch.tensor(x) for x in (BOX.low, BOX.high))
NOISE = {"target_noise": 0.2, "noise_clip": 0.5, "limits": LIMITS}


@pytest.mark.parametrize(
    "module, core, space, parts, options",
    [
        (dqn, dqn_core, TWO, (), {"double_q": True}),
        (dqn, dqn_core, TWO, (), {"double_q": False}),
        (ddpg, ddpg_core, BOX, (), {}),
        (td3, td3_core, BOX, (), NOISE),
        (sac, sac_core, BOX, ("q1", "q2"), {"alpha": ALPHA}),
        (sac, sac_core, TWO, ("q1", "q2"), {"alpha": ALPHA}),
    ],
)
def test_targets_are_those_of_the_algorithm(module, core, space, parts, options):
    torch.manual_seed(0)
    cls = getattr(core, "MLPActorCritic", None) or core.MLPQNetwork
    ac = cls(OBS, space, hidden_sizes=(8,))
    targ, batch = other(ac, *parts), some_batch(space)
    gauge = gauges(
        ac, targ, space, partial(module.compute_target, ac, targ, gamma=GAMMA, **options)
    )
    loss = {"loss": "squared"} if module is dqn else {}
    with torch.no_grad():
        torch.manual_seed(1)  # the noise of TD3 and SAC
        q, backup = gauge.values_and_targets(batch, batch["obs"])
        torch.manual_seed(1)
        expected = module.compute_loss_q(ac, targ, batch, GAMMA, **options, **loss)[0]
        torch.manual_seed(1)
        found = gauge._of_batch(batch)
    assert torch.allclose((q - backup).square().mean(-1).sum(), expected, rtol=1e-5)
    assert math.isclose(found["TargMean"], backup.mean(), rel_tol=1e-5)
    assert math.isclose(found["TargStd"], backup.numpy().std(), rel_tol=1e-4)
    assert found["TargMax"] == backup.max()
    assert math.isclose(found["TDErrAbs"], (q - backup).abs().mean(), rel_tol=1e-5)
    assert found["TDErrAbsMax"] == (q - backup).abs().max()


def test_without_a_target_its_columns_are_nan():
    """An algorithm of a user's own may not say what its critics learn."""
    ac = td3_core.MLPActorCritic(OBS, BOX, hidden_sizes=(8,))
    with torch.no_grad():
        found = gauges(ac, other(ac), BOX)._of_batch(some_batch(BOX))
    assert found["TargMean"].isnan() and found["TDErrAbs"].isnan()
    assert not found["QPi"].isnan()


def test_q_of_the_policys_action():
    torch.manual_seed(0)
    ac = td3_core.MLPActorCritic(OBS, BOX, hidden_sizes=(8,))
    batch = some_batch(BOX)
    with torch.no_grad():
        found = gauges(ac, other(ac), BOX)._of_batch(batch)
    a = ac.pi(batch["obs"])
    both = torch.min(ac.q1(batch["obs"], a), ac.q2(batch["obs"], a)).detach()
    assert math.isclose(found["QPi"], both.mean(), rel_tol=1e-5)


def test_bias_of_q_is_measured_against_the_discounted_return():
    """Three rewards of 1; then one episode terminates, and a time limit ends the other."""

    class Three:
        t = 0

        def reset(self, **options):
            return np.zeros(3, np.float32), {}

        def step(self, action):
            self.t += 1
            return np.ones(3, np.float32), 1.0, self.terminates and self.t == 3, False, {}

    tests = []
    for terminates in (True, False):
        env = Three()
        env.terminates = terminates
        watched = Watched(env, GAMMA)
        watched.reset()
        for _ in range(3):
            watched.step(0)
        tests.append(watched)
    ac = dqn_core.MLPQNetwork(OBS, TWO, hidden_sizes=(8,))
    with torch.no_grad():
        first, last = (float(ac.q(x).max()) for x in (torch.zeros(3), torch.ones(3)))
        bias = float(gauges(ac, target_copy(ac), TWO)._bias(tests))
    ret = 1 + GAMMA + GAMMA**2
    expected = first - ret - 0.5 * GAMMA**3 * last
    assert math.isclose(bias, expected, rel_tol=1e-5)


def test_gradient_norm_is_that_of_the_gradients():
    p = nn.Parameter(torch.zeros(5))
    q = nn.Parameter(torch.zeros(2, 2))
    optimizer = Adam([p, q], lr=0.1)
    assert math.isnan(grad_norm(optimizer))
    for steps in (1, 30):
        for _ in range(steps):
            p.grad, q.grad = torch.full_like(p, -0.2), torch.full_like(q, 0.1)
            optimizer.step()
        norm = math.sqrt(5 * 0.2**2 + 4 * 0.1**2)
        assert math.isclose(grad_norm(optimizer), norm, rel_tol=1e-4)


@torch.no_grad()
def test_drift_is_relative_and_shrinks_with_every_target_update():
    ac = sac_core.MLPActorCritic(OBS, BOX, hidden_sizes=(4,))
    targ = target_copy(ac, "q1", "q2")
    assert drift(pairs(ac, targ)) == 0
    with torch.no_grad():
        for p in (*ac.q1.parameters(), *ac.q2.parameters()):
            p.mul_(2)
    assert math.isclose(drift(pairs(ac, targ)), 0.5, rel_tol=1e-6)
    polyak_update(ac, targ, 0.5)
    assert math.isclose(drift(pairs(ac, targ)), 0.25, rel_tol=1e-6)


@torch.no_grad()
def test_dead_units_are_those_that_no_row_uses():
    ac = dqn_core.MLPQNetwork(OBS, TWO, hidden_sizes=(8,))
    with torch.no_grad():
        ac.q.q[0].weight.normal_()
        ac.q.q[0].bias[:2] = -100.0  # never active
        ac.q.q[0].bias[2:] = 100.0
    gauge = gauges(ac, target_copy(ac), TWO)
    assert gauge._of_batch(some_batch(TWO))["DeadUnits"] == 0.25
    assert all(not module._forward_hooks for module in ac.modules())
    tanh = dqn_core.MLPQNetwork(OBS, TWO, hidden_sizes=(8,), activation=nn.Tanh)
    with torch.no_grad():
        tanh.q.q[0].weight.mul_(0.01)
        tanh.q.q[0].bias[:] = 0.0
        tanh.q.q[0].bias[:4] = -5.0  # saturated
    gauge = gauges(tanh, target_copy(tanh), TWO)
    assert gauge._of_batch(some_batch(TWO))["DeadUnits"] == 0.5


def test_statistics_against_numpy():
    rng = np.random.default_rng(0)
    ret, val = rng.normal(size=(2, 50)) * 3, rng.normal(size=(2, 50))
    expected = 1 - np.var(ret - val) / np.var(ret)
    assert math.isclose(explained_variance(list(ret), list(val)), expected)
    assert explained_variance([ret[0]], [ret[0]]) == 1.0
    assert math.isnan(explained_variance([np.ones(5)], [ret[0, :5]]))
    found = spread("Ret", list(ret))
    assert list(found) == ["RetMean", "RetStd", "RetMin", "RetMax"]
    numbers = [ret.mean(), ret.std(), ret.min(), ret.max()]
    assert np.allclose(list(found.values()), numbers)


def test_surrogate_gain_is_positive_if_good_actions_became_more_likely():
    adv = np.array([1.0, -1.0, 3.0, 5.0])
    normal = (adv - adv.mean()) / adv.std()
    w = np.array([0.9, 0.8, 1.1, 1.3])
    wanted = float(((w - 1) * normal).mean())
    parts = [np.log(w[:2]), np.log(w[2:])], [adv[:2], adv[2:]]  # two shards
    assert wanted > 0 and math.isclose(surrogate_gain(*parts), wanted)
    assert surrogate_gain([-np.log(w)], [adv]) < 0
    assert math.isnan(surrogate_gain([np.log(w)], [np.ones(4)]))
    many = np.arange(2000.0)  # every third row
    assert surrogate_gain([np.linspace(-0.1, 0.1, len(many[::3]))], [many]) > 0


def test_effective_sample_size():
    equal = ratio_columns([np.zeros(10)])
    assert equal == {"RatioMin": 1.0, "RatioMax": 1.0, "RatioESS": 1.0}
    one_of_ten = ratio_columns([np.log([1e-12] * 9 + [1.0])])
    assert math.isclose(one_of_ten["RatioESS"], 0.1, rel_tol=1e-6)
    w = np.array([0.5, 1.0, 2.0])
    found = ratio_columns([np.log(w[:1]), np.log(w[1:])])  # two shards
    assert math.isclose(found["RatioESS"], w.sum() ** 2 / (3 * (w**2).sum()))
    assert math.isnan(ratio_columns([np.array([800.0])])["RatioESS"])  # the ratio is infinite


@pytest.mark.parametrize("size", [-1e4, 400.0, 1e4])
def test_an_enormous_step_does_not_stop_the_run(size):
    found = ratio_columns([np.full(4, size)])
    assert math.isnan(found["RatioESS"]) or found["RatioESS"] == pytest.approx(1.0)
    assert explained_variance([np.array([0.0, 1.0])], [np.array([0.0, 1e200])]) == -math.inf
