"""TRPO: divergence, Hessian products, conjugate gradients, the line search and the natural step."""

import copy
import json
import math
from functools import partial

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.distributions import Normal

from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.common.nets import mean_kl
from spinup.algos.pytorch.trpo import core
from spinup.algos.pytorch.trpo.trpo import (
    compute_kl,
    compute_loss_pi,
    compute_loss_v,
    line_search,
    trpo_update,
)
from spinup.parallel.mpi import Shards
from spinup.utils.errors import SpinupError
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
BY_NAME = pytest.mark.parametrize("space", SPACES, ids=lambda s: type(s).__name__)


def vf_optimizer(ac):
    return Adam(ac.v.parameters(), lr=1e-2)


def moved(ac, by=0.5):
    """The same network with other parameters."""
    other = copy.deepcopy(ac)
    with torch.no_grad():
        for p in other.parameters():
            p += by * torch.randn_like(p)
    return other


def kl_by_formula(space, old, new, obs):
    """Mean KL(old || new) from the parameters of both, written out for each distribution."""
    with torch.no_grad():
        if isinstance(space, spaces.Box):
            m0, m1 = old.mu_net(obs), new.mu_net(obs)
            s0, s1 = old.log_std.exp(), new.log_std.exp()
            each = (s1 / s0).log() + (s0**2 + (m0 - m1) ** 2) / (2 * s1**2) - 0.5
            return float(each.sum(-1).mean())
        x0, x1 = old.logits_net(obs), new.logits_net(obs)
        if isinstance(space, spaces.MultiBinary):
            p, q = x0.sigmoid(), x1.sigmoid()
            each = p * (p / q).log() + (1 - p) * ((1 - p) / (1 - q)).log()
            return float(each.sum(-1).mean())
        sizes = [3] if isinstance(space, spaces.Discrete) else [3, 2]
        total = 0.0
        for a, b in zip(x0.split(sizes, -1), x1.split(sizes, -1), strict=True):
            p, q = a.softmax(-1), b.softmax(-1)
            total += float((p * (p / q).log()).sum(-1).mean())
        return total


# ---- losses and divergences ------------------------------------------------------------------


def test_the_surrogate_of_four_samples_by_hand():
    ac = TableAC(PROBS)
    p_old = np.array([0.25, 0.5, 0.5, 0.75])
    (batch,) = core.with_old_policy(ac, [table_batch(OBS, ACT, ADV, p_old=p_old)])
    loss, info = compute_loss_pi(ac, batch)
    ratio = np.array([0.5, 0.5, 0.25, 0.75]) / p_old
    assert float(loss.detach()) == pytest.approx(-np.mean(ratio * ADV), rel=1e-12)
    assert float(info["KL"].detach()) == pytest.approx(0, abs=1e-12)
    p = np.array(PROBS)
    assert float(info["Entropy"].detach()) == pytest.approx(-(p * np.log(p)).sum(-1).mean())


def test_the_value_loss_of_three_samples_by_hand():
    ac = TableAC(PROBS, values=[1.0, -2.0])
    batch = table_batch([0, 1, 1], [0, 0, 0], [0, 0, 0], ret=[3.0, -2.0, 1.0])
    assert float(compute_loss_v(ac, batch).detach()) == pytest.approx((4 + 0 + 9) / 3)


def test_the_gradient_at_the_old_policy_is_the_policy_gradient():
    ac = TableAC(PROBS)
    p_old = [0.5, 0.5, 0.25, 0.75]
    (batch,) = core.with_old_policy(ac, [table_batch(OBS, ACT, ADV, p_old=p_old)])
    compute_loss_pi(ac, batch)[0].backward()
    weighted = np.array(ADV)[:, None, None] * score(PROBS, OBS, ACT)
    np.testing.assert_allclose(ac.pi.logits.grad, -weighted.mean(0), rtol=1e-12)


@BY_NAME
def test_gradients_of_networks_equal_finite_differences(mlp_batch, space):
    ac, batch = mlp_batch(space)
    (batch,) = core.with_old_policy(ac, [batch])
    ac = moved(ac, 0.1)

    def pi_loss():
        return compute_loss_pi(ac, batch)[0]

    def v_loss():
        return compute_loss_v(ac, batch)

    for loss, net in ((pi_loss, ac.pi), (v_loss, ac.v)):
        assert_gradients(loss, net)


@BY_NAME
def test_constraint_and_line_search_use_the_divergence_of_old_from_new(mlp_batch, space):
    old, batch = mlp_batch(space)
    (batch,) = core.with_old_policy(old, [batch])
    new = moved(old, 0.7)
    want = kl_by_formula(space, old.pi, new.pi, batch["obs"])
    reverse = kl_by_formula(space, new.pi, old.pi, batch["obs"])
    assert abs(want - reverse) > 0.02 * want  # the case can tell the directions apart
    assert float(compute_kl(new, batch).detach()) == pytest.approx(want, rel=1e-6)
    assert float(compute_loss_pi(new, batch)[1]["KL"].detach()) == pytest.approx(want, rel=1e-6)


# ---- Hessian products ------------------------------------------------------------------------


def explicit_hessian(f, net):
    """The Hessian of f() with respect to all parameters, from torch's own routine."""
    names, params = zip(*net.named_parameters(), strict=True)
    sizes = [p.numel() for p in params]

    def of_flat(flat):
        pieces = [x.view_as(p) for x, p in zip(flat.split(sizes), params, strict=True)]
        return f(dict(zip(names, pieces, strict=True)))

    flat = torch.cat([p.detach().reshape(-1) for p in params])
    return torch.autograd.functional.hessian(of_flat, flat)


@BY_NAME
def test_hessian_vector_products_equal_the_explicit_hessian(mlp_batch, space):
    ac, batch = mlp_batch(space, n=6, hidden_sizes=(3,))
    (batch,) = core.with_old_policy(ac, [batch])

    def kl(params):
        pi, logp = torch.func.functional_call(ac.pi, params, (batch["obs"], batch["act"]))
        return mean_kl(batch["pi_old"], pi, batch["logp"], logp)

    hessian = explicit_hessian(kl, ac.pi)
    product = core.hessian_vector_product(partial(compute_kl, ac), ac.pi, [batch], ONE, 0.3)
    for _ in range(3):
        v = torch.randn(len(hessian), dtype=torch.float64)
        torch.testing.assert_close(product(v), hessian @ v + 0.3 * v, rtol=1e-8, atol=1e-10)
    eigenvalues = torch.linalg.eigvalsh(hessian)
    assert eigenvalues.min() > -1e-9 and eigenvalues.max() > 1e-2


def test_the_hessian_of_a_table_is_its_fisher_matrix():
    ac = TableAC(PROBS)
    (batch,) = core.with_old_policy(ac, [table_batch([0, 1, 1, 1], [0, 0, 1, 1], [0.0] * 4)])
    product = core.hessian_vector_product(partial(compute_kl, ac), ac.pi, [batch], ONE, 0.0)
    got = torch.stack([product(e) for e in torch.eye(4, dtype=torch.float64)])
    want = np.zeros((4, 4))
    for s, share in ((0, 0.25), (1, 0.75)):
        p = np.array(PROBS[s])
        want[2 * s : 2 * s + 2, 2 * s : 2 * s + 2] = share * (np.diag(p) - np.outer(p, p))
    np.testing.assert_allclose(got, want, atol=1e-12)


def test_hessian_products_are_averaged_over_shards(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    halves = [{k: x[rows] for k, x in batch.items()} for rows in (slice(0, 6), slice(6, 12))]
    whole = core.with_old_policy(ac, [batch])
    parts = core.with_old_policy(ac, halves)
    kl = partial(compute_kl, ac)
    v = torch.randn(core.count_vars(ac.pi), dtype=torch.float64)
    one = core.hessian_vector_product(kl, ac.pi, whole, ONE, 0.1)(v)
    two = core.hessian_vector_product(kl, ac.pi, parts, Shards(2), 0.1)(v)
    torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)


# ---- conjugate gradients ---------------------------------------------------------------------


@given(st.integers(1, 8), st.integers(0, 10_000))
def test_conjugate_gradients_solve_any_positive_definite_system(n, seed):
    rng = np.random.default_rng(seed)
    m = rng.normal(size=(n, n))
    a = torch.as_tensor(m @ m.T + np.eye(n))
    b = torch.as_tensor(rng.normal(size=n))
    x = core.conjugate_gradient(lambda v: a @ v, b, iters=3 * n)
    np.testing.assert_allclose(x, np.linalg.solve(a.numpy(), b.numpy()), rtol=1e-6, atol=1e-8)


def test_conjugate_gradients_need_as_many_steps_as_there_are_eigenvalues():
    a = torch.diag(torch.tensor([1.0, 1.0, 4.0, 4.0, 9.0], dtype=torch.float64))
    b = torch.tensor([1.0, 2.0, 3.0, 4.0, 5.0], dtype=torch.float64)
    want = b / a.diagonal()
    error = [
        float((core.conjugate_gradient(lambda v: a @ v, b, k) - want).norm()) for k in range(5)
    ]
    assert error[0] == pytest.approx(float(want.norm())) and error[2] > 1e-3 and error[3] < 1e-10
    assert error[4] < 1e-10  # a solved system stays solved: no division by zero


def test_conjugate_gradients_of_nothing_are_zero_and_leave_the_input_alone():
    b = torch.zeros(3)
    assert core.conjugate_gradient(lambda v: v, b, 5).tolist() == [0, 0, 0]
    b = torch.ones(3)
    core.conjugate_gradient(lambda v: 2 * v, b, 5)
    assert b.tolist() == [1, 1, 1]


# ---- parameters as a vector ------------------------------------------------------------------


def test_flat_parameters_are_a_copy_that_can_be_put_back():
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    flat = core.flat_params(net)
    keep = [p.detach().clone() for p in net.parameters()]
    core.set_flat_params(net, flat + 1)
    assert all(torch.equal(p, q + 1) for p, q in zip(net.parameters(), keep, strict=True))
    core.set_flat_params(net, flat)
    assert all(torch.equal(p, q) for p, q in zip(net.parameters(), keep, strict=True))


# ---- the update ------------------------------------------------------------------------------


@BY_NAME
@pytest.mark.parametrize("delta", [0.001, 0.05])
def test_an_update_improves_the_surrogate_within_the_trust_region(mlp_batch, space, delta):
    ac, batch = mlp_batch(space)
    old = copy.deepcopy(ac)
    info = trpo_update(ac, vf_optimizer(ac), [batch], ONE, delta=delta, train_v_iters=2)
    kl = kl_by_formula(space, old.pi, ac.pi, batch["obs"])
    assert 0 < kl <= delta * (1 + 1e-6)
    assert float(info["KL"]) == pytest.approx(kl, rel=1e-6)
    ratio = (ac.pi(batch["obs"], batch["act"])[1] - batch["logp"]).exp()
    loss = -float((ratio * batch["adv"]).mean().detach())
    assert float(info["LossPi"]) == pytest.approx(-float(batch["adv"].mean()))
    assert float(info["LossPi"] + info["DeltaLossPi"]) == pytest.approx(loss)
    assert float(info["DeltaLossPi"]) < 0 and float(info["DeltaLossV"]) < 0
    assert 0 <= info["BacktrackIters"] < 10


def test_the_step_is_the_natural_gradient_of_the_right_length():
    # one state visited often enough that H is invertible only with damping; solved by hand
    probs = [[0.2, 0.3, 0.5]]
    obs, act, adv = [0] * 6, [0, 1, 2, 2, 1, 0], [1.0, 0.5, -1.0, -0.5, 0.3, 0.7]
    ac = TableAC(probs, values=[0.0])
    batch = table_batch(obs, act, adv, p_old=[probs[0][a] for a in act])
    before = ac.pi.logits.detach().numpy().copy()
    trpo_update(
        ac,
        vf_optimizer(ac),
        [batch],
        ONE,
        delta=1e-4,
        train_v_iters=0,
        damping_coeff=0.1,
        cg_iters=20,
        algo="npg",
    )
    p = np.array(probs[0])
    h = np.diag(p) - np.outer(p, p) + 0.1 * np.eye(3)
    weighted = np.array(adv)[:, None, None] * score(probs, obs, act)
    g = -weighted.mean(0)[0]
    x = np.linalg.solve(h, g)
    step = np.sqrt(2 * 1e-4 / (x @ h @ x + 1e-8)) * x
    np.testing.assert_allclose(ac.pi.logits.detach().numpy() - before, -step[None], rtol=1e-6)


def test_the_natural_policy_gradient_skips_the_line_search(mlp_batch):
    ac, batch = mlp_batch(SPACES[0])
    other = copy.deepcopy(ac)
    options = {"delta": 3.0, "train_v_iters": 0, "damping_coeff": 1e-3}
    npg = trpo_update(ac, vf_optimizer(ac), [batch], ONE, algo="npg", **options)
    assert npg["BacktrackIters"] == 0
    assert float(npg["KL"]) > 3.0  # the full step, though it leaves the trust region
    trpo = trpo_update(other, vf_optimizer(other), [batch], ONE, **options)
    assert trpo["BacktrackIters"] > 0 and float(trpo["KL"]) <= 3.0


def test_backtracking_tries_shorter_and_shorter_steps(mlp_batch):
    ac, batch = mlp_batch(SPACES[0])
    full = copy.deepcopy(ac)
    start = core.flat_params(ac.pi)
    options = {"delta": 3.0, "train_v_iters": 0, "damping_coeff": 1e-3}
    trpo_update(full, vf_optimizer(full), [batch], ONE, algo="npg", **options)
    info = trpo_update(
        ac, vf_optimizer(ac), [batch], ONE, backtrack_coeff=0.7, backtrack_iters=30, **options
    )
    step = core.flat_params(full.pi) - start
    want = start + 0.7 ** info["BacktrackIters"] * step
    torch.testing.assert_close(core.flat_params(ac.pi), want, rtol=1e-8, atol=1e-10)
    assert info["BacktrackIters"] > 1


def test_a_failed_line_search_leaves_the_parameters_bit_for_bit(mlp_batch):
    ac, batch = mlp_batch(SPACES[0])
    before = [p.detach().clone() for p in ac.pi.parameters()]
    v_before = [p.detach().clone() for p in ac.v.parameters()]
    options = {"delta": 3.0, "damping_coeff": 1e-3, "backtrack_iters": 1}
    info = trpo_update(ac, vf_optimizer(ac), [batch], ONE, train_v_iters=1, **options)
    assert info["BacktrackIters"] == 1
    assert all(torch.equal(p, q) for p, q in zip(ac.pi.parameters(), before, strict=True))
    assert float(info["KL"]) == 0 and float(info["DeltaLossPi"]) == 0
    # the value function is fitted all the same
    pairs = zip(ac.v.parameters(), v_before, strict=True)
    assert not any(torch.equal(p, q) for p, q in pairs)


def test_a_step_within_the_trust_region_that_does_not_improve_is_not_taken(mlp_batch):
    ac, batch = mlp_batch(SPACES[0])
    batches = core.with_old_policy(ac, [batch])
    pi_loss = partial(compute_loss_pi, ac)
    pi_loss(batches[0])[0].backward()
    before, downhill = core.flat_params(ac.pi), 1e-3 * core.flat_grad(ac.pi)
    options = {"delta": 1.0, "backtrack_iters": 4, "backtrack_coeff": 0.5}
    old_loss, info, backtracks = line_search(ac, pi_loss, batches, ONE, -downhill, **options)
    assert torch.equal(core.flat_params(ac.pi), before)  # uphill, though KL is nearly zero
    assert backtracks == 4 and float(info["KL"]) == 0
    loss, info, backtracks = line_search(ac, pi_loss, batches, ONE, downhill, **options)
    torch.testing.assert_close(core.flat_params(ac.pi), before - downhill, rtol=0, atol=1e-15)
    assert backtracks == 0 and 0 < float(info["KL"]) < 1e-3 and float(loss) < float(old_loss)


def test_a_step_that_is_not_finite_is_not_taken(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    before = [p.detach().clone() for p in ac.pi.parameters()]
    batch["adv"][3] = math.inf
    trpo_update(ac, vf_optimizer(ac), [batch], ONE, train_v_iters=0)
    assert all(torch.equal(p, q) for p, q in zip(ac.pi.parameters(), before, strict=True))


def test_no_advantage_is_no_step(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    before = [p.detach().clone() for p in ac.pi.parameters()]
    batch["adv"][:] = 0.0
    info = trpo_update(ac, vf_optimizer(ac), [batch], ONE, train_v_iters=0)
    assert all(torch.equal(p, q) for p, q in zip(ac.pi.parameters(), before, strict=True))
    assert float(info["KL"]) == 0


def test_the_policy_step_leaves_the_value_function_alone(mlp_batch):
    ac, batch = mlp_batch(SPACES[1])
    before = [p.detach().clone() for p in ac.v.parameters()]
    trpo_update(ac, vf_optimizer(ac), [batch], ONE, train_v_iters=0)
    assert all(torch.equal(p, q) for p, q in zip(ac.v.parameters(), before, strict=True))


# ---- policies that users write ---------------------------------------------------------------


class DirectStd(nn.Module):
    """A Gaussian whose standard deviation is the parameter itself: the distribution views it."""

    def __init__(self, trainable=True):
        super().__init__()
        self.mu = nn.Linear(3, 2)
        self.std = nn.Parameter(torch.full((2,), 0.7), requires_grad=trainable)

    def forward(self, obs, act=None):
        pi = Normal(self.mu(obs), self.std)
        return pi, None if act is None else pi.log_prob(act).sum(-1)


def with_actor(mlp_batch, actor):
    ac, batch = mlp_batch(SPACES[1])
    ac.pi = actor.double()
    with torch.no_grad():
        batch["logp"] = ac.pi(batch["obs"], batch["act"])[1]
    return ac, batch


def test_the_old_policy_stays_as_it_was_where_its_distribution_views_parameters(mlp_batch):
    ac, batch = with_actor(mlp_batch, DirectStd())
    (batch,) = core.with_old_policy(ac, [batch])
    core.set_flat_params(ac.pi, core.flat_params(ac.pi) * 1.5)
    assert batch["pi_old"].scale.unique().tolist() == pytest.approx([0.7])
    with torch.no_grad():
        old, new = 0.7, 1.05
        mu = ac.pi.mu(batch["obs"])
        m0 = mu / 1.5
        each = math.log(new / old) + (old**2 + (mu - m0) ** 2) / (2 * new**2) - 0.5
    want = float(each.sum(-1).mean())
    assert float(compute_kl(ac, batch).detach()) == pytest.approx(want, rel=1e-6)


def test_a_parameter_that_is_not_trained_stays_and_the_others_move(mlp_batch):
    ac, batch = with_actor(mlp_batch, DirectStd(trainable=False))
    before = ac.pi.mu.weight.detach().clone()
    info = trpo_update(ac, vf_optimizer(ac), [batch], ONE, train_v_iters=0)
    assert ac.pi.std.tolist() == pytest.approx([0.7, 0.7])
    assert not torch.equal(ac.pi.mu.weight, before) and 0 < float(info["KL"]) <= 0.01


def test_a_parameter_that_nothing_depends_on_does_not_crash(mlp_batch):
    actor = DirectStd()
    actor.unused = nn.Parameter(torch.ones(3))
    ac, batch = with_actor(mlp_batch, actor)
    info = trpo_update(ac, vf_optimizer(ac), [batch], ONE, train_v_iters=0)
    assert ac.pi.unused.tolist() == [1, 1, 1] and 0 < float(info["KL"]) <= 0.01


# ---- the training function -------------------------------------------------------------------


def test_every_logged_divergence_is_within_the_trust_region(train):
    rows = train("trpo", "Pendulum-v1", epochs=3, delta=0.02, num_envs=2).rows
    assert all(0 <= row["KL"] <= 0.02 for row in rows) and rows[0]["KL"] > 0
    assert all(0 <= row["BacktrackIters"] <= 10 for row in rows)


def test_the_natural_policy_gradient_trains_and_another_name_is_refused(train):
    run = train("trpo", "CartPole-v1", algo="npg")
    assert run.rows[0]["BacktrackIters"] == 0 and run.rows[0]["KL"] > 0
    config = json.loads((run.dir / "config.json").read_text())
    assert (config["algo"], config["algo_argument"]) == ("trpo", "npg")
    with pytest.raises(SpinupError, match="'trpo' or 'npg'"):
        train("trpo", "CartPole-v1", algo="ppo")
