"""DDPG: backup, losses and gradients by hand, and an update that touches only what it should."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.optim import SGD

from spinup.algos.pytorch.ddpg import core
from spinup.algos.pytorch.ddpg.ddpg import compute_loss_pi, compute_loss_q, ddpg_update
from tests.helpers.by_hand import (
    LinearPi,
    LinearQ,
    NetworksOf,
    assert_gradients,
    default_networks,
    same,
    transitions,
)

OBS, ACT = np.array([1.0, 2.0, -1.0]), np.array([0.5, -1.0, 0.0])
REW, OBS2, DONE = [1.0, 2.0, 3.0], [2.0, 0.0, 4.0], [0.0, 1.0, 0.0]
GAMMA = 0.5
# The target policy's actions are [1, 0, 2], their values [2, 1, 3]. The second row terminated.
BACKUP = np.array([1 + 0.5 * 2, 2.0, 3 + 0.5 * 3])
# Q of the rows is [2.5, 0.5, -0.5].
ERROR = np.array([2.5, 0.5, -0.5]) - BACKUP


@pytest.fixture
def nets():
    """Networks, targets that differ from them in everything, and a batch."""
    ac = NetworksOf(q=LinearQ(0.5, 1.0, 2.0), pi=LinearPi(1.0, 1.0))
    ac_targ = NetworksOf(q=LinearQ(1.0, -1.0, 3.0), pi=LinearPi(0.0, 0.5))
    return ac, ac_targ, transitions(OBS, ACT, REW, OBS2, DONE)


@pytest.fixture
def mlp_nets():
    action_space = spaces.Box(np.array([-1, 0], np.float32), np.array([3, 0.5], np.float32))
    return default_networks(core.MLPActorCritic, action_space)


def sgd(ac, pi_lr=0.1, q_lr=0.1):
    return SGD(ac.pi.parameters(), pi_lr), SGD(ac.q.parameters(), q_lr)


def test_the_loss_of_q_bootstraps_unless_the_episode_terminated(nets):
    loss, info = compute_loss_q(*nets, GAMMA)
    assert float(loss.detach()) == pytest.approx((0.5**2 + 1.5**2 + 5**2) / 3, rel=1e-12)
    np.testing.assert_allclose(info["QVals"], [2.5, 0.5, -0.5], rtol=1e-12)
    assert not info["QVals"].requires_grad


def test_the_loss_of_the_policy_is_minus_the_value_of_its_own_actions(nets):
    ac, _, batch = nets
    assert float(compute_loss_pi(ac, batch).detach()) == pytest.approx(
        -(5.5 + 8.5 - 0.5) / 3, rel=1e-12
    )


def test_the_gradient_of_q_does_not_reach_policies_or_targets(nets):
    ac, ac_targ, batch = nets
    loss, _ = compute_loss_q(ac, ac_targ, batch, GAMMA)
    others = [*ac.pi.parameters(), *ac_targ.parameters()]
    grad, *rest = torch.autograd.grad(loss, [ac.q.w, *others], allow_unused=True)
    features = np.stack([np.ones(3), OBS, ACT])
    np.testing.assert_allclose(grad, 2 / 3 * features @ ERROR, rtol=1e-12)
    assert rest == [None] * len(others)


def test_gradients_of_the_default_networks_equal_finite_differences(mlp_nets):
    ac, ac_targ, batch = mlp_nets
    for loss, net in (
        (lambda: compute_loss_q(ac, ac_targ, batch, GAMMA)[0], ac.q),
        (lambda: compute_loss_pi(ac, batch), ac.pi),
    ):
        assert_gradients(loss, net)


def test_an_update_is_a_step_of_q_then_one_of_the_policy_then_targets_move(nets):
    ac, ac_targ, batch = nets
    info = ddpg_update(ac, ac_targ, *sgd(ac, 0.1, 0.01), batch, GAMMA, polyak=0.75)
    w = np.array([0.5, 1.0, 2.0]) - 0.01 * 2 / 3 * np.stack([np.ones(3), OBS, ACT]) @ ERROR
    # the policy climbs the critic as it is after its step: dQ/da = w2 for all actions
    k = np.array([1.0, 1.0]) + 0.1 * w[2] * np.array([1.0, OBS.mean()])
    np.testing.assert_allclose(ac.q.w.detach(), w, rtol=1e-12)
    np.testing.assert_allclose(ac.pi.k.detach(), k, rtol=1e-12)
    np.testing.assert_allclose(
        ac_targ.q.w.detach(), 0.75 * np.array([1.0, -1.0, 3.0]) + 0.25 * w, rtol=1e-12
    )
    np.testing.assert_allclose(
        ac_targ.pi.k.detach(), 0.75 * np.array([0.0, 0.5]) + 0.25 * k, rtol=1e-12
    )
    assert float(info["LossQ"]) == pytest.approx(27.5 / 3, rel=1e-12)
    q = w[0] + w[1] * OBS + w[2] * (1 + OBS)
    assert float(info["LossPi"]) == pytest.approx(-q.mean(), rel=1e-12)
    assert not any(x.requires_grad for x in info.values())


def test_each_step_touches_only_its_own_parameters(mlp_nets):
    ac, ac_targ, batch = mlp_nets
    before = copy.deepcopy(ac)
    ddpg_update(ac, ac_targ, *sgd(ac, pi_lr=0.0), batch)
    assert same(ac.pi, before.pi) and not same(ac.q, before.q)
    before, targets = copy.deepcopy(ac), copy.deepcopy(ac_targ)
    ddpg_update(ac, ac_targ, *sgd(ac, q_lr=0.0), batch, polyak=1.0)
    assert same(ac.q, before.q) and not same(ac.pi, before.pi) and same(ac_targ, targets)


def test_the_policy_step_leaves_no_gradient_in_q(mlp_nets):
    ac, ac_targ, batch = mlp_nets
    loss, _ = compute_loss_q(ac, ac_targ, batch, GAMMA)
    grads = torch.autograd.grad(loss, list(ac.q.parameters()))
    ddpg_update(ac, ac_targ, *sgd(ac, q_lr=0.0), batch, GAMMA)
    for p, grad in zip(ac.q.parameters(), grads, strict=True):
        torch.testing.assert_close(p.grad, grad, rtol=1e-12, atol=1e-14)
    assert all(p.grad is None and not p.requires_grad for p in ac_targ.parameters())


def test_q_is_frozen_in_the_policy_step_and_only_there(nets):
    ac, ac_targ, batch = nets
    asked = []
    ac.q.register_forward_hook(lambda q, args, out: asked.append(q.w.requires_grad))
    ddpg_update(ac, ac_targ, *sgd(ac), batch)
    assert asked == [True, False] and ac.q.w.requires_grad
