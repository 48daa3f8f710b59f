"""VPG: loss and gradient by hand, one policy step, and measurements made after it."""

import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch.optim import SGD

from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.vpg.vpg import compute_loss_pi, compute_loss_v, vpg_update
from spinup.parallel.mpi import Shards
from tests.helpers.by_hand import TableAC, assert_gradients, score, table_batch

ONE = Shards(1)
PROBS = [[0.5, 0.5], [0.25, 0.75]]
OBS, ACT, ADV = [0, 0, 1, 1], [0, 1, 0, 1], [1.0, -3.0, 2.0, 0.5]
SPACES = [
    spaces.Discrete(3),
    spaces.Box(-1, 1, (2,)),
    spaces.MultiDiscrete([3, 2]),
    spaces.MultiBinary(2),
]


def optimizers(ac, cls=Adam, lr=1e-2):
    return cls(ac.pi.parameters(), lr=lr), cls(ac.v.parameters(), lr=lr)


def test_the_policy_loss_of_four_samples_by_hand():
    p_old = [0.25, 0.5, 0.25, 0.75]
    batch = table_batch(OBS, ACT, ADV, p_old=p_old)
    loss, info = compute_loss_pi(TableAC(PROBS), batch)
    p = [0.5, 0.5, 0.25, 0.75]
    want = -np.mean([np.log(q) * a for q, a in zip(p, ADV, strict=True)])
    assert float(loss.detach()) == pytest.approx(want, rel=1e-12)
    ratio = np.array(p) / p_old
    assert float(info["KL"].detach()) == pytest.approx(np.mean(ratio - 1 - np.log(ratio)))
    probs = np.array(PROBS)
    entropy = -(probs * np.log(probs)).sum(-1).mean()
    assert float(info["Entropy"].detach()) == pytest.approx(entropy)


def test_the_value_loss_of_three_samples_by_hand():
    ac = TableAC(PROBS, values=[1.0, -2.0])
    batch = table_batch([0, 1, 1], [0, 0, 0], [0, 0, 0], ret=[3.0, -2.0, 1.0])
    assert float(compute_loss_v(ac, batch).detach()) == pytest.approx((4 + 0 + 9) / 3)


def test_the_gradient_is_the_policy_gradient():
    ac = TableAC(PROBS)
    compute_loss_pi(ac, table_batch(OBS, ACT, ADV))[0].backward()
    weighted = np.array(ADV)[:, None, None] * score(PROBS, OBS, ACT)
    np.testing.assert_allclose(ac.pi.logits.grad, -weighted.mean(0), rtol=1e-12)


@pytest.mark.parametrize("space", SPACES, ids=lambda s: type(s).__name__)
def test_gradients_of_networks_equal_finite_differences(mlp_batch, space):
    ac, batch = mlp_batch(space, shift=0.05)

    def pi_loss():
        return compute_loss_pi(ac, batch)[0]

    def v_loss():
        return compute_loss_v(ac, batch)

    for loss, net in ((pi_loss, ac.pi), (v_loss, ac.v)):
        assert_gradients(loss, net)


def test_the_update_takes_one_policy_step_and_many_value_steps(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    other = copy.deepcopy(ac)
    info = vpg_update(ac, *optimizers(ac, SGD), [batch], ONE, train_v_iters=4)
    pi_opt, v_opt = optimizers(other, SGD)
    loss_pi = -(other.pi(batch["obs"], batch["act"])[1] * batch["adv"]).mean()
    loss_pi.backward()
    pi_opt.step()
    losses_v = []
    for _ in range(4):
        v_opt.zero_grad()
        losses_v.append((other.v(batch["obs"]) - batch["ret"]).square().mean())
        losses_v[-1].backward()
        v_opt.step()
    for p, q in zip(ac.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-10, atol=1e-12)
    assert float(info["LossPi"]) == pytest.approx(float(loss_pi.detach()))
    assert float(info["LossV"]) == pytest.approx(float(losses_v[0].detach()))
    assert float(info["DeltaLossV"]) < 0


def test_divergence_and_entropy_are_measured_after_the_step(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    before = float(compute_loss_pi(ac, batch)[1]["Entropy"].detach())
    info = vpg_update(ac, *optimizers(ac, SGD, 0.1), [batch], ONE, train_v_iters=1)
    log_ratio = (ac.pi(batch["obs"], batch["act"])[1] - batch["logp"]).detach()
    assert float(info["KL"]) == pytest.approx(float((log_ratio.exp() - 1 - log_ratio).mean()))
    assert float(info["KL"]) > 1e-6
    pi = ac.pi(batch["obs"])[0]
    assert float(info["Entropy"]) == pytest.approx(float(pi.entropy().sum(-1).mean().detach()))
    assert abs(float(info["Entropy"]) - before) > 1e-3
    loss = float(compute_loss_pi(ac, batch)[0].detach())
    assert float(info["LossPi"] + info["DeltaLossPi"]) == pytest.approx(loss)


def test_the_log_shows_a_divergence_above_zero(train):
    for row in train("vpg", "CartPole-v1", epochs=2).rows:
        assert row["KL"] > 0


def test_each_step_touches_only_its_own_parameters(mlp_batch):
    ac, batch = mlp_batch(SPACES[0])
    before = copy.deepcopy(ac)
    vpg_update(ac, *optimizers(ac), [batch], ONE, train_v_iters=0)
    pairs = zip(ac.v.parameters(), before.v.parameters(), strict=True)
    assert all(torch.equal(p, q) for p, q in pairs)
    pairs = zip(ac.pi.parameters(), before.pi.parameters(), strict=True)
    assert not any(torch.equal(p, q) for p, q in pairs)
    frozen = SGD(ac.pi.parameters(), lr=0.0)
    before = copy.deepcopy(ac)
    vpg_update(ac, frozen, optimizers(ac)[1], [batch], ONE, train_v_iters=2)
    pairs = zip(ac.pi.parameters(), before.pi.parameters(), strict=True)
    assert all(torch.equal(p, q) for p, q in pairs)
