"""SAC: soft values, losses and gradients by hand, for continuous and discrete actions; temperature.

The density of the squashed Gaussian is held by test_qnets.py.
"""

import copy
import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.optim import SGD

from spinup.algos.pytorch.common.buffers import make_replay_buffer
from spinup.algos.pytorch.common.gradients import Adam
from spinup.algos.pytorch.common.targets import target_copy
from spinup.algos.pytorch.sac import core
from spinup.algos.pytorch.sac import sac as module
from spinup.algos.pytorch.sac.sac import (
    compute_loss_alpha,
    compute_loss_pi,
    compute_loss_q,
    sac,
    sac_update,
    soft_value,
)
from spinup.envs import make_env
from spinup.utils.errors import SpinupError
from tests.helpers.by_hand import (
    LinearQ,
    NetworksOf,
    TablePi,
    TableQ,
    assert_gradients,
    default_networks,
    same,
    transitions,
)

OBS, ACT = np.array([1.0, 2.0, -1.0]), np.array([0.5, -1.0, 0.0])
REW, OBS2, DONE = [1.0, 2.0, 3.0], [2.0, 0.0, 4.0], [0.0, 1.0, 0.0]
GAMMA, ALPHA = 0.5, 0.2
# The policy's actions in OBS2 are [1, 0, 2] with log-probs [-1, 1, -3]; the target critics give
# them [2, 1, 3] and [3, 4, 2], so their soft values are [2.2, 0.8, 2.6]. The second row terminated.
BACKUP = np.array([1 + 0.5 * 2.2, 2.0, 3 + 0.5 * 2.6])
Q1, Q2 = np.array([2.5, 0.5, -0.5]), np.array([0.5, -1.0, 0.0])
FEATURES = np.stack([np.ones(3), OBS, ACT])


class LinearSoftPi(nn.Module):
    """The action k0 + k1 o, with the log-probability c0 + c1 o."""

    def __init__(self, k, c):
        super().__init__()
        self.k = nn.Parameter(torch.tensor(k, dtype=torch.float64))
        self.c = nn.Parameter(torch.tensor(c, dtype=torch.float64))

    def forward(self, obs):
        return self.k[0] + self.k[1] * obs, self.c[0] + self.c[1] * obs[:, 0]


@pytest.fixture
def nets():
    """Networks, targets that differ from them in everything, and a batch."""
    first, second = LinearQ(0.5, 1.0, 2.0), LinearQ(0.0, 0.0, 1.0)
    ac = NetworksOf(q1=first, q2=second, pi=LinearSoftPi([0.0, 0.5], [1.0, -1.0]))
    first, second = LinearQ(1.0, -1.0, 3.0), LinearQ(4.0, 0.0, -1.0)
    ac_targ = NetworksOf(q1=first, q2=second, pi=LinearSoftPi([9.0, 9.0], [5.0, 5.0]))
    return ac, ac_targ, transitions(OBS, ACT, REW, OBS2, DONE)


ACTIONS = {
    "Box": spaces.Box(np.array([-1, 0], np.float32), np.array([3, 0.5], np.float32)),
    "Discrete": spaces.Discrete(3),
}


@pytest.fixture(params=list(ACTIONS))
def mlp_nets(request):
    return default_networks(core.MLPActorCritic, ACTIONS[request.param])


def sgd(ac, pi_lr=0.1, q_lr=0.1):
    return SGD(ac.pi.parameters(), pi_lr), SGD([*ac.q1.parameters(), *ac.q2.parameters()], q_lr)


def log_of(alpha):
    return torch.tensor(math.log(alpha), dtype=torch.float64, requires_grad=True)


def update(nets, pi_lr=0.1, q_lr=0.1, alpha_optimizer=None, log_alpha=None, **kwargs):
    """One update with plain gradient descent."""
    ac, ac_targ, batch = nets
    log_alpha = log_of(ALPHA) if log_alpha is None else log_alpha
    args = (*sgd(ac, pi_lr, q_lr), alpha_optimizer, batch, log_alpha, -1.0)
    return sac_update(ac, ac_targ, *args, **{"gamma": GAMMA, **kwargs})


# ---- losses, continuous actions --------------------------------------------------------------


def test_both_critics_learn_the_smaller_soft_target_unless_terminated(nets):
    loss, info = compute_loss_q(*nets, GAMMA, ALPHA)
    errors = (0.4**2 + 1.5**2 + 4.8**2) / 3, (1.6**2 + 3**2 + 4.3**2) / 3
    assert float(loss.detach()) == pytest.approx(sum(errors), rel=1e-12)
    np.testing.assert_allclose(info["Q1Vals"], Q1, rtol=1e-12)
    np.testing.assert_allclose(info["Q2Vals"], Q2, rtol=1e-12)
    assert not any(x.requires_grad for x in info.values())


def test_the_loss_of_the_policy_is_minus_the_soft_value_of_its_own_actions(nets):
    ac, _, batch = nets
    loss, logp = compute_loss_pi(ac, batch, ALPHA)
    # smaller values [0.5, 1, -1.5] of the actions [0.5, 1, -0.5] with log-probs [0, -1, 2]
    assert float(loss.detach()) == pytest.approx(-(0.5 + 1.2 - 1.9) / 3, rel=1e-12)
    np.testing.assert_allclose(logp, [0, -1, 2], atol=1e-12)
    assert not logp.requires_grad
    grad_k, grad_c = torch.autograd.grad(loss, [ac.pi.k, ac.pi.c])
    slope = np.array([1.0, 1.0, 2.0])  # of the critic that is the smaller one in each row
    np.testing.assert_allclose(grad_k, [-slope.mean(), -(slope * OBS).mean()], rtol=1e-12)
    np.testing.assert_allclose(grad_c, [ALPHA, ALPHA * OBS.mean()], rtol=1e-12)


def test_the_gradient_of_the_critics_does_not_reach_policies_or_targets(nets):
    ac, ac_targ, batch = nets
    loss, _ = compute_loss_q(ac, ac_targ, batch, GAMMA, ALPHA)
    others = [*ac.pi.parameters(), *ac_targ.parameters()]
    wanted = [ac.q1.w, ac.q2.w, *others]
    grad1, grad2, *rest = torch.autograd.grad(loss, wanted, allow_unused=True)
    np.testing.assert_allclose(grad1, 2 / 3 * FEATURES @ (Q1 - BACKUP), rtol=1e-12)
    np.testing.assert_allclose(grad2, 2 / 3 * FEATURES @ (Q2 - BACKUP), rtol=1e-12)
    assert rest == [None] * len(others)


def test_gradients_of_the_default_networks_equal_finite_differences(mlp_nets):
    ac, ac_targ, batch = mlp_nets

    def loss_q():
        torch.manual_seed(0)  # the same noise every time
        return compute_loss_q(ac, ac_targ, batch, GAMMA, ALPHA)[0]

    def loss_pi():
        torch.manual_seed(0)
        return compute_loss_pi(ac, batch, ALPHA)[0]

    for loss, net in ((loss_q, nn.ModuleList([ac.q1, ac.q2])), (loss_pi, ac.pi)):
        assert_gradients(loss, net)


# ---- losses, discrete actions ----------------------------------------------------------------


PROBS = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
FIRST, SECOND = np.array([[1.0, 2, 3], [4, 5, 6]]), np.array([[3.0, 1, 4], [1, 9, 2]])


@pytest.fixture
def tables():
    """Two states, three actions; the targets differ from the networks in everything."""
    ac = NetworksOf(pi=TablePi(np.log(PROBS)), q1=TableQ(FIRST), q2=TableQ(SECOND))
    targets = {"pi": TablePi(np.log(PROBS[::-1])), "q1": TableQ(-FIRST), "q2": TableQ(-SECOND)}
    ac_targ = NetworksOf(**targets)
    ac.discrete = ac_targ.discrete = True
    batch = {"obs": torch.tensor([0, 1, 0]), "act": torch.tensor([2, 0, 1])}
    floats = {"rew": [1.0, 2.0, 3.0], "done": [0.0, 0.0, 1.0]}
    batch |= {k: torch.tensor(v, dtype=torch.float64) for k, v in floats.items()}
    return ac, ac_targ, {**batch, "obs2": torch.tensor([1, 0, 1])}


def expected(state, first, second):
    """The soft value of a state, action by action."""
    total, entropy = 0.0, 0.0
    for a in range(3):
        p = PROBS[state, a]
        total += p * (min(first[state, a], second[state, a]) - ALPHA * math.log(p))
        entropy -= p * math.log(p)
    return total, entropy


def test_the_soft_value_of_discrete_actions_is_the_exact_expectation(tables):
    ac, ac_targ, batch = tables
    v, logp = soft_value(ac, ac_targ, batch["obs2"], ALPHA)
    want = [expected(s, -FIRST, -SECOND) for s in (1, 0, 1)]
    np.testing.assert_allclose(v.detach(), [value for value, _ in want], rtol=1e-12)
    np.testing.assert_allclose(logp.detach(), [-entropy for _, entropy in want], rtol=1e-12)


def test_discrete_critics_learn_the_values_of_the_chosen_actions(tables):
    ac, ac_targ, batch = tables
    loss, info = compute_loss_q(ac, ac_targ, batch, GAMMA, ALPHA)
    values = [expected(s, -FIRST, -SECOND)[0] for s in (1, 0)]
    backup = np.array([1 + GAMMA * values[0], 2 + GAMMA * values[1], 3.0])
    q1, q2 = np.array([3.0, 4.0, 2.0]), np.array([4.0, 1.0, 1.0])  # actions 2, 0 and 1
    want = ((q1 - backup) ** 2).mean() + ((q2 - backup) ** 2).mean()
    assert float(loss.detach()) == pytest.approx(want, rel=1e-12)
    np.testing.assert_allclose(info["Q1Vals"], q1)
    np.testing.assert_allclose(info["Q2Vals"], q2)
    grad, none = torch.autograd.grad(loss, [ac.q1.values, ac.pi.logits], allow_unused=True)
    rows = np.zeros((2, 3))
    rows[0, 2], rows[1, 0], rows[0, 1] = 2 / 3 * (q1 - backup)
    np.testing.assert_allclose(grad, rows, rtol=1e-12)
    assert none is None


def test_the_best_soft_policy_is_the_softmax_of_the_values(tables):
    ac, _, batch = tables
    loss, logp = compute_loss_pi(ac, batch, ALPHA)
    want = [expected(s, FIRST, SECOND) for s in (0, 1, 0)]
    assert float(loss.detach()) == pytest.approx(-np.mean([value for value, _ in want]), rel=1e-12)
    np.testing.assert_allclose(logp, [-entropy for _, entropy in want], rtol=1e-12)
    (grad,) = torch.autograd.grad(loss, [ac.pi.logits])
    assert grad.abs().max() > 0.1
    with torch.no_grad():
        ac.pi.logits.copy_(torch.tensor(np.minimum(FIRST, SECOND)) / ALPHA)
    (grad,) = torch.autograd.grad(compute_loss_pi(ac, batch, ALPHA)[0], [ac.pi.logits])
    np.testing.assert_allclose(grad, 0, atol=1e-12)


# ---- updates ---------------------------------------------------------------------------------


def test_an_update_is_a_step_of_critics_policy_and_temperature_then_targets_move(nets):
    ac, ac_targ, _ = nets
    before = copy.deepcopy(ac_targ)
    log_alpha = log_of(ALPHA)
    optimizer = SGD([log_alpha], 0.1)
    info = update(nets, 0.1, 0.01, optimizer, log_alpha, polyak=0.75)
    w1 = np.array([0.5, 1.0, 2.0]) - 0.01 * 2 / 3 * FEATURES @ (Q1 - BACKUP)
    w2 = np.array([0.0, 0.0, 1.0]) - 0.01 * 2 / 3 * FEATURES @ (Q2 - BACKUP)
    np.testing.assert_allclose(ac.q1.w.detach(), w1, rtol=1e-12)
    np.testing.assert_allclose(ac.q2.w.detach(), w2, rtol=1e-12)
    # the policy climbs the smaller of the critics as they are after their step
    values = np.stack([w[0] + w[1] * OBS + w[2] * 0.5 * OBS for w in (w1, w2)])
    slope = np.where(values[0] < values[1], w1[2], w2[2])
    k = np.array([0.0, 0.5]) + 0.1 * np.array([slope.mean(), (slope * OBS).mean()])
    c = np.array([1.0, -1.0]) - 0.1 * ALPHA * np.array([1.0, OBS.mean()])
    np.testing.assert_allclose(ac.pi.k.detach(), k, rtol=1e-12)
    np.testing.assert_allclose(ac.pi.c.detach(), c, rtol=1e-12)
    # log-probs [0, -1, 2] before the step and the target -1: d loss / d log alpha = 2/3 alpha
    assert float(log_alpha.detach()) == pytest.approx(math.log(0.2) - 0.1 * 2 / 3 * 0.2, rel=1e-12)
    moved = zip(ac.parameters(), before.parameters(), ac_targ.parameters(), strict=True)
    for p, old, new in moved:
        torch.testing.assert_close(new, 0.75 * old + 0.25 * p, rtol=1e-12, atol=1e-14)
    loss_pi = -(values.min(0) - ALPHA * (1 - OBS)).mean()
    assert float(info["LossPi"]) == pytest.approx(loss_pi, rel=1e-12)
    np.testing.assert_allclose(info["LogPi"], [0, -1, 2], atol=1e-12)
    assert not any(x.requires_grad for x in info.values())


def test_each_step_touches_only_its_own_parameters(mlp_nets):
    ac, ac_targ, _ = mlp_nets
    log_alpha = log_of(ALPHA)
    before = copy.deepcopy(ac)
    update(mlp_nets, pi_lr=0.0, log_alpha=log_alpha)
    assert same(ac.pi, before.pi) and not same(ac.q1, before.q1) and not same(ac.q2, before.q2)
    before, targets = copy.deepcopy(ac), copy.deepcopy(ac_targ)
    update(mlp_nets, q_lr=0.0, log_alpha=log_alpha, polyak=1.0)
    assert same(ac.q1, before.q1) and same(ac.q2, before.q2) and same(ac_targ, targets)
    assert not same(ac.pi, before.pi)
    before = copy.deepcopy(ac)
    assert float(log_alpha.detach()) == math.log(ALPHA)  # without an optimizer it is fixed
    update(mlp_nets, 0.0, 0.0, SGD([log_alpha], 0.1), log_alpha)
    assert same(ac, before) and float(log_alpha.detach()) != math.log(ALPHA)


def test_the_policy_step_leaves_no_gradient_in_the_critics(mlp_nets):
    ac, ac_targ, batch = mlp_nets
    critics = [*ac.q1.parameters(), *ac.q2.parameters()]
    torch.manual_seed(4)
    loss, _ = compute_loss_q(ac, ac_targ, batch, GAMMA, ALPHA)
    grads = torch.autograd.grad(loss, critics)
    torch.manual_seed(4)
    update(mlp_nets, q_lr=0.0)
    for p, grad in zip(critics, grads, strict=True):
        torch.testing.assert_close(p.grad, grad, rtol=1e-12, atol=1e-14)
    assert all(p.grad is None and not p.requires_grad for p in ac_targ.parameters())


def test_both_critics_are_frozen_in_the_policy_step_and_only_there(nets):
    ac = nets[0]
    asked = []
    for q in (ac.q1, ac.q2):
        q.register_forward_hook(lambda q, args, out: asked.append(q.w.requires_grad))
    update(nets)
    assert asked == [True, True, False, False]
    assert ac.q1.w.requires_grad and ac.q2.w.requires_grad


# ---- temperature -----------------------------------------------------------------------------


@pytest.mark.parametrize("target", [-1.0, 2.5])
def test_the_gradient_of_the_temperature_by_hand(target):
    log_alpha, logp = log_of(0.3), torch.tensor([-1.0, -3.0], dtype=torch.float64)  # entropy 2
    (grad,) = torch.autograd.grad(compute_loss_alpha(log_alpha, logp, target), [log_alpha])
    assert float(grad) == pytest.approx(0.3 * (2 - target), rel=1e-12)
    # downhill is up where the entropy is below its target
    assert (float(grad) < 0) == (target > 2)


TINY = {"start_steps": 10, "update_after": 10, "update_every": 5, "batch_size": 8}
TINY |= {"num_test_episodes": 0, "num_threads": 1}


@pytest.mark.parametrize("env", ["Pendulum-v1", "CartPole-v1"])
def test_the_temperature_rises_below_the_target_entropy_and_falls_above_it(train, env):
    for target, sign in ((50.0, 1), (-50.0, -1)):
        run = train("sac", env, alpha="auto", target_entropy=target, epochs=2, lr=0.01, **TINY)
        alphas = [1.0, *(row["Alpha"] for row in run.rows)]
        assert np.all(sign * np.diff(alphas) > 0) and min(alphas) > 0
    fixed = train("sac", env, alpha=0.3, epochs=2, **TINY)
    assert [row["Alpha"] for row in fixed.rows] == pytest.approx([0.3, 0.3], rel=1e-6)


def test_a_learned_temperature_never_becomes_negative():
    temperature = core.Temperature("auto")
    assert temperature.learned and float(temperature.log_alpha.exp().detach()) == 1.0
    optimizer = Adam([temperature.log_alpha], lr=1.0, fused=False)
    for _ in range(60):
        optimizer.zero_grad()
        compute_loss_alpha(temperature.log_alpha, torch.tensor([-9.0]), 1.0).backward()
        optimizer.step()
    assert 0 < float(temperature.log_alpha.exp().detach()) < 1e-3


def test_the_default_target_entropy_follows_from_the_action_space(train):
    assert core.default_target_entropy(spaces.Box(-1, 1, (2, 3))) == -6.0
    low, high = np.array([-0.1, 0.0], np.float32), np.array([0.1, 8.0], np.float32)
    uneven = math.log(0.1) + math.log(4) - 2
    assert core.default_target_entropy(spaces.Box(low, high)) == pytest.approx(uneven, abs=1e-6)
    half = 0.5 * math.log(4)
    assert core.default_target_entropy(spaces.Discrete(4, start=2)) == pytest.approx(half)
    runs = [
        train("sac", "CartPole-v1", alpha="auto", lr=0.1, target_entropy=target, **TINY)
        for target in (None, 0.5 * math.log(2), 0)
    ]
    assert runs[0].rows == runs[1].rows != runs[2].rows  # zero is a target too


class Dial(gym.Env):
    """Turn a dial to half of its upper limit; `limit` is the unit of the action, nothing else."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)

    def __init__(self, limit):
        self.limit = limit
        self.action_space = spaces.Box(-limit, limit, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        reward = 4 - 16 * (float(action[0]) / self.limit - 0.5) ** 2
        return np.zeros(1, np.float32), reward, True, False, {}


class UnitQ(core.MLPQFunction):
    """A critic that sees the action in units of its limit."""

    limit = 1.0

    def forward(self, obs, act):
        return super().forward(obs, act / self.limit)


class UnitCritics(core.MLPActorCritic):
    def __init__(self, observation_space, action_space, **kwargs):
        super().__init__(observation_space, action_space, **kwargs)
        for critic in (self.q1, self.q2):
            critic.__class__, critic.limit = UnitQ, float(action_space.high[0])


def test_a_learned_temperature_does_not_depend_on_the_unit_of_the_actions(train):
    options = {"alpha": "auto", "gamma": 0, "lr": 0.01, "epochs": 3, **TINY}
    options |= {"actor_critic": UnitCritics, "ac_kwargs": {"hidden_sizes": (8,)}}
    unit, *others = (
        [row["Alpha"] for row in train("sac", lambda c=c: Dial(c), **options).rows]
        for c in (1.0, 0.1, 30.0)
    )
    assert len(unit) == 3 and abs(unit[-1] - 1) > 0.1  # it moved
    for alphas in others:
        assert alphas == pytest.approx(unit, rel=1e-3)


def test_a_narrow_range_of_actions_is_learned_with_a_learned_temperature(train):
    options = {"steps_per_epoch": 400, "epochs": 2, "lr": 0.01, "batch_size": 32}
    options |= {"start_steps": 50, "update_after": 50, "num_test_episodes": 0, "num_threads": 1}
    options["ac_kwargs"] = {"hidden_sizes": (32,)}
    run = train("sac", lambda: Dial(0.1), alpha="auto", **options)
    alphas = [row["Alpha"] for row in run.rows]
    assert max(alphas) < 1 and alphas[1] < alphas[0]
    assert run.rows[-1]["AverageEpRet"] > 0  # uniformly random actions give -5.3


def test_a_temperature_of_zero_is_plain_learning(train, tmp_path):
    kwargs = {"steps_per_epoch": 30, "ac_kwargs": {"hidden_sizes": (8,)}, "alpha": 0}
    logger_kwargs = {"output_dir": str(tmp_path / "resumed"), "quiet": True}
    for env in ("Pendulum-v1", "CartPole-v1"):
        run = train("sac", env, epochs=2, **kwargs, **TINY)
        for row in run.rows:
            assert row["Alpha"] == 0 and np.isfinite([row["LossQ"], row["LossPi"]]).all()
    for epochs in (1, 2):  # minus infinity, its logarithm, is saved and loaded
        ac = sac(
            lambda: make_env("CartPole-v1"),
            epochs=epochs,
            max_ep_len=20,
            logger_kwargs=logger_kwargs,
            resume=epochs == 2,
            **kwargs,
            **TINY,
        )
    assert same(ac, run.ac)


@pytest.mark.parametrize("alpha", [-0.1, math.nan, math.inf, "Auto", "0.2", True, None, [0.2]])
def test_a_wrong_temperature_is_refused_before_anything_is_created(train, tmp_path, alpha):
    with pytest.raises(SpinupError, match=r"alpha=.* must be a number, zero or more, or 'auto'"):
        train("sac", "Pendulum-v1", alpha=alpha)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["auto", math.nan, math.inf, True])
def test_a_wrong_target_entropy_is_refused_before_anything_is_created(train, tmp_path, target):
    with pytest.raises(SpinupError, match=r"target_entropy=.* must be a number or None"):
        train("sac", "Pendulum-v1", alpha="auto", target_entropy=target)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("alpha", [1, 0.25, np.float32(0.25), np.float64(0.25), np.int64(1)])
def test_any_kind_of_number_is_a_temperature(alpha):
    temperature = core.Temperature(alpha)
    assert float(temperature.log_alpha.exp()) == pytest.approx(float(alpha))
    assert not temperature.learned and not temperature.log_alpha.requires_grad


class Wild(core.MLPActorCritic):
    """A user's network that samples far outside of the bounds."""

    def act(self, obs, deterministic=False):
        return 100 * np.sign(super().act(obs, deterministic))


def test_the_actions_that_are_kept_are_within_the_bounds(train, monkeypatch):
    # what the environment was sent is what the critics must learn the value of
    kept = []

    def keep(*args, **kwargs):
        kept.append(make_replay_buffer(*args, **kwargs))
        return kept[-1]

    monkeypatch.setattr(module, "make_replay_buffer", keep)
    train("sac", "Pendulum-v1", actor_critic=Wild, ac_kwargs={"hidden_sizes": (8,)}, **TINY)
    (buffer,) = kept
    acts = buffer.ring.data["act"][: len(buffer)]
    assert len(acts) == 40 and np.abs(acts).max() == 2.0 and (np.abs(acts) == 2.0).sum() > 20


def test_a_checkpoint_from_when_the_target_had_a_policy_still_resumes(train, tmp_path, monkeypatch):
    settings = {"steps_per_epoch": 60, "update_after": 10, "start_steps": 10, "save_freq": 1}
    whole = train("sac", None, epochs=2, **settings)
    logger = {"output_dir": str(tmp_path / "old"), "quiet": True}
    with monkeypatch.context() as before:
        before.setattr(module, "target_copy", lambda ac, *parts: target_copy(ac))
        train("sac", None, epochs=1, logger_kwargs=logger, **settings)
    resumed = train("sac", None, epochs=2, resume=True, logger_kwargs=logger, **settings)
    assert resumed.rows == whole.rows
    assert same(resumed.ac, whole.ac)
