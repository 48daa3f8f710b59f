"""TD3: target smoothing, the smaller of two critics and the delay, each by hand; and the rest."""

import copy
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.optim import SGD

from spinup.algos.pytorch.common.qnets import action_limits
from spinup.algos.pytorch.td3 import core, td3
from spinup.algos.pytorch.td3.td3 import (
    compute_loss_pi,
    compute_loss_q,
    smoothed_action,
    td3_update,
)
from spinup.envs import make_env
from spinup.utils.errors import SpinupError
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
BOX = spaces.Box(np.array([-1, 0], np.float32), np.array([3, 0.5], np.float32))
LIMITS = (torch.tensor([-10.0]), torch.tensor([10.0]))
# Without noise the target policy's actions are [1, 0, 2]; their values are [2, 1, 3] to the first
# target critic and [3, 4, 2] to the second, so [2, 1, 2] count. The second row terminated.
BACKUP = np.array([1 + 0.5 * 2, 2.0, 3 + 0.5 * 2])
Q1, Q2 = np.array([2.5, 0.5, -0.5]), np.array([0.5, -1.0, 0.0])


@pytest.fixture
def nets():
    """Networks, targets that differ from them in everything, and a batch."""
    first, second = LinearQ(0.5, 1.0, 2.0), LinearQ(0.0, 0.0, 1.0)
    ac = NetworksOf(q1=first, q2=second, pi=LinearPi(1.0, 1.0))
    first, second = LinearQ(1.0, -1.0, 3.0), LinearQ(4.0, 0.0, -1.0)
    ac_targ = NetworksOf(q1=first, q2=second, pi=LinearPi(0.0, 0.5))
    return ac, ac_targ, transitions(OBS, ACT, REW, OBS2, DONE)


@pytest.fixture
def mlp_nets():
    return default_networks(core.MLPActorCritic, BOX)


def sgd(ac, pi_lr=0.1, q_lr=0.1):
    return SGD(ac.pi.parameters(), pi_lr), SGD([*ac.q1.parameters(), *ac.q2.parameters()], q_lr)


# ---- losses ----------------------------------------------------------------------------------


def test_both_critics_learn_the_smaller_target_unless_the_episode_terminated(nets):
    loss, info = compute_loss_q(*nets, GAMMA, 0.0, 0.5, LIMITS)
    errors = (0.5**2 + 1.5**2 + 4.5**2) / 3, (1.5**2 + 3**2 + 4**2) / 3
    assert float(loss.detach()) == pytest.approx(sum(errors), rel=1e-12)
    np.testing.assert_allclose(info["Q1Vals"], Q1, rtol=1e-12)
    np.testing.assert_allclose(info["Q2Vals"], Q2, rtol=1e-12)
    assert not any(x.requires_grad for x in info.values())


def test_the_loss_of_the_policy_is_minus_the_first_critics_value_of_its_own_actions(nets):
    ac, _, batch = nets
    assert float(compute_loss_pi(ac, batch).detach()) == pytest.approx(
        -(5.5 + 8.5 - 0.5) / 3, rel=1e-12
    )


def test_the_gradient_of_the_critics_does_not_reach_policies_or_targets(nets):
    ac, ac_targ, batch = nets
    loss, _ = compute_loss_q(ac, ac_targ, batch, GAMMA, 0.0, 0.5, LIMITS)
    others = [*ac.pi.parameters(), *ac_targ.parameters()]
    wanted = [ac.q1.w, ac.q2.w, *others]
    grad1, grad2, *rest = torch.autograd.grad(loss, wanted, allow_unused=True)
    features = np.stack([np.ones(3), OBS, ACT])
    np.testing.assert_allclose(grad1, 2 / 3 * features @ (Q1 - BACKUP), rtol=1e-12)
    np.testing.assert_allclose(grad2, 2 / 3 * features @ (Q2 - BACKUP), rtol=1e-12)
    assert rest == [None] * len(others)


def test_gradients_of_the_default_networks_equal_finite_differences(mlp_nets):
    ac, ac_targ, batch = mlp_nets
    limits = action_limits(BOX, "cpu")

    def loss_q():
        torch.manual_seed(0)  # the same smoothing noise every time
        return compute_loss_q(ac, ac_targ, batch, GAMMA, 0.2, 0.5, limits)[0]

    critics = nn.ModuleList([ac.q1, ac.q2])
    for loss, net in ((loss_q, critics), (lambda: compute_loss_pi(ac, batch), ac.pi)):
        assert_gradients(loss, net)


# ---- target smoothing ------------------------------------------------------------------------


class Constant(nn.Module):
    """The same action everywhere."""

    def __init__(self, *action):
        super().__init__()
        self.action = torch.tensor(action)

    def forward(self, obs):
        return self.action.expand(len(obs), -1)


def smoothed(action, n, target_noise, noise_clip):
    limits = action_limits(BOX, "cpu")
    ac_targ = NetworksOf(pi=Constant(*action))
    return smoothed_action(ac_targ, torch.zeros(n, 1), target_noise, noise_clip, *limits)


def test_smoothing_noise_is_scaled_and_clipped_by_dimension(monkeypatch):
    # half the range is 2 in the first dimension and 0.25 in the second
    z = torch.tensor([[1.0, -1.0], [10.0, 10.0], [-10.0, 2.0], [0.0, 0.5]])
    monkeypatch.setattr(torch, "randn_like", lambda x: z)
    a2 = smoothed((1.0, 0.2), 4, target_noise=0.2, noise_clip=0.5)
    want = [
        [1 + 2 * 0.2, 0.2 - 0.25 * 0.2],
        [1 + 2 * 0.5, 0.2 + 0.25 * 0.5],  # the noise is clipped
        [1 - 2 * 0.5, 0.2 + 0.25 * 0.4],
        [1.0, 0.2 + 0.25 * 0.1],
    ]
    np.testing.assert_allclose(a2, want, rtol=1e-6)
    # the action is clipped to the bounds of its own dimension
    a2 = smoothed((2.9, 0.01), 4, target_noise=0.2, noise_clip=0.5)
    np.testing.assert_allclose(a2, [[3, 0], [3, 0.135], [1.9, 0.11], [2.9, 0.035]], rtol=1e-5)
    assert a2[0].tolist() == [3.0, 0.0]


def test_every_sample_and_dimension_has_noise_of_its_own():
    n, sigma, clip = 100_000, 0.2, 0.3
    a2 = smoothed((1.0, 0.25), n, sigma, clip).double().numpy()
    noise = (a2 - [1.0, 0.25]) / [2.0, 0.25]
    assert np.abs(noise).max() == pytest.approx(clip, rel=1e-5)
    # a normal distribution of which all beyond 1.5 standard deviations sits at the clip
    c = clip / sigma
    inside = math.erf(c / math.sqrt(2))
    density = math.exp(-0.5 * c**2) / math.sqrt(2 * math.pi)
    var = sigma**2 * (inside - 2 * c * density) + clip**2 * (1 - inside)
    np.testing.assert_allclose(noise.mean(0), 0, atol=0.004)
    np.testing.assert_allclose(noise.var(0), var, rtol=0.02)
    np.testing.assert_allclose((np.abs(noise) < 0.999 * clip).mean(0), inside, atol=0.006)
    assert abs(np.corrcoef(noise.T)[0, 1]) < 0.015
    assert len(np.unique(noise[:, 0])) > n / 2


def test_without_noise_the_target_action_is_the_target_policys():
    a2 = smoothed((1.5, 0.3), 2, target_noise=0.0, noise_clip=0.5)
    np.testing.assert_array_equal(a2, np.float32([[1.5, 0.3]] * 2))


# ---- updates ---------------------------------------------------------------------------------


def test_an_update_is_a_step_of_the_critics_then_one_of_the_policy_then_targets_move(nets):
    ac, ac_targ, batch = nets
    before = copy.deepcopy(ac_targ)
    optimizers = sgd(ac, 0.1, 0.01)
    info = td3_update(ac, ac_targ, *optimizers, batch, LIMITS, True, GAMMA, 0.75, 0.0, 0.5)
    features = np.stack([np.ones(3), OBS, ACT])
    w1 = np.array([0.5, 1.0, 2.0]) - 0.01 * 2 / 3 * features @ (Q1 - BACKUP)
    w2 = np.array([0.0, 0.0, 1.0]) - 0.01 * 2 / 3 * features @ (Q2 - BACKUP)
    # the policy climbs the first critic as it is after its step: dQ1/da = w1[2] for all actions
    k = np.array([1.0, 1.0]) + 0.1 * w1[2] * np.array([1.0, OBS.mean()])
    np.testing.assert_allclose(ac.q1.w.detach(), w1, rtol=1e-12)
    np.testing.assert_allclose(ac.q2.w.detach(), w2, rtol=1e-12)
    np.testing.assert_allclose(ac.pi.k.detach(), k, rtol=1e-12)
    moved = zip(ac.parameters(), before.parameters(), ac_targ.parameters(), strict=True)
    for p, old, new in moved:
        torch.testing.assert_close(new, 0.75 * old + 0.25 * p, rtol=1e-12, atol=1e-14)
    assert float(info["LossQ"]) == pytest.approx(50 / 3, rel=1e-12)
    q = w1[0] + w1[1] * OBS + w1[2] * (1 + OBS)
    assert float(info["LossPi"]) == pytest.approx(-q.mean(), rel=1e-12)
    assert not any(x.requires_grad for x in info.values())


def test_an_update_without_the_policy_moves_the_critics_alone(mlp_nets):
    ac, ac_targ, batch = mlp_nets
    before, targets = copy.deepcopy(ac), copy.deepcopy(ac_targ)
    limits = action_limits(BOX, "cpu")
    info = td3_update(ac, ac_targ, *sgd(ac), batch, limits, update_policy=False)
    assert same(ac.pi, before.pi) and same(ac_targ, targets) and "LossPi" not in info
    assert not same(ac.q1, before.q1) and not same(ac.q2, before.q2)


def test_each_step_touches_only_its_own_parameters(mlp_nets):
    ac, ac_targ, batch = mlp_nets
    limits = action_limits(BOX, "cpu")
    before = copy.deepcopy(ac)
    td3_update(ac, ac_targ, *sgd(ac, pi_lr=0.0), batch, limits)
    assert same(ac.pi, before.pi) and not same(ac.q1, before.q1) and not same(ac.q2, before.q2)
    before, targets = copy.deepcopy(ac), copy.deepcopy(ac_targ)
    td3_update(ac, ac_targ, *sgd(ac, q_lr=0.0), batch, limits, polyak=1.0)
    assert same(ac.q1, before.q1) and same(ac.q2, before.q2) and same(ac_targ, targets)
    assert not same(ac.pi, before.pi)


def test_the_policy_step_leaves_no_gradient_in_the_critics(mlp_nets):
    ac, ac_targ, batch = mlp_nets
    limits, critics = action_limits(BOX, "cpu"), [*ac.q1.parameters(), *ac.q2.parameters()]
    loss, _ = compute_loss_q(ac, ac_targ, batch, GAMMA, 0.0, 0.5, limits)
    grads = torch.autograd.grad(loss, critics)
    td3_update(ac, ac_targ, *sgd(ac, q_lr=0.0), batch, limits, True, GAMMA, 0.9, 0.0, 0.5)
    for p, grad in zip(critics, grads, strict=True):
        torch.testing.assert_close(p.grad, grad, rtol=1e-12, atol=1e-14)
    assert all(p.grad is None and not p.requires_grad for p in ac_targ.parameters())


def test_the_first_critic_is_frozen_in_the_policy_step_and_only_there(nets):
    ac, ac_targ, batch = nets
    asked = []
    ac.q1.register_forward_hook(lambda q, args, out: asked.append(q.w.requires_grad))
    td3_update(ac, ac_targ, *sgd(ac), batch, LIMITS)
    assert asked == [True, False] and ac.q1.w.requires_grad


# ---- the delay -------------------------------------------------------------------------------

OFTEN = {"steps_per_epoch": 15, "start_steps": 5, "update_after": 5, "batch_size": 4}
OFTEN |= {"num_test_episodes": 0, "update_every": 1, "num_threads": 1}


@pytest.fixture
def changes(monkeypatch):
    """What every gradient step of a run changed: the first letters of critics, policy, targets."""
    seen = []

    def spy(ac, ac_targ, *args, **kwargs):
        nets = {"q": nn.ModuleList([ac.q1, ac.q2]), "p": ac.pi, "t": ac_targ}
        before = copy.deepcopy(nets)
        info = td3_update(ac, ac_targ, *args, **kwargs)
        seen.append("".join(name for name in nets if not same(nets[name], before[name])))
        return info

    monkeypatch.setattr(td3, "td3_update", spy)
    return seen


def test_the_policy_moves_every_second_gradient_step_of_the_whole_run(train, changes):
    # with one update a round and an odd number of them in an epoch
    train("td3", "Pendulum-v1", epochs=2, **OFTEN)
    assert changes == ["qpt", "q"] * 13  # 11 steps after the fifth, then 15


def test_the_delay_counts_on_across_epochs_and_rounds(train, changes):
    run = train("td3", "Pendulum-v1", epochs=3, policy_delay=4, **{**OFTEN, "update_every": 3})
    assert changes == (["qpt", "q", "q", "q"] * 11)[:42]  # rounds of three after steps 6, 9, ... 45
    assert all(np.isfinite(row["LossPi"]) for row in run.rows)


def test_a_resumed_run_goes_on_counting(tmp_path, changes):
    def train(**kwargs):
        td3.td3(
            lambda: make_env("Pendulum-v1"),
            ac_kwargs={"hidden_sizes": (8,)},
            logger_kwargs={"output_dir": str(tmp_path), "quiet": True},
            **OFTEN,
            **kwargs,
        )

    train(epochs=1)
    assert changes == ["qpt", "q"] * 5 + ["qpt"]
    train(epochs=2, resume=True)
    assert changes == ["qpt", "q"] * 13


def test_an_epoch_without_a_policy_step_logs_nan_for_its_loss(train):
    run = train("td3", "Pendulum-v1", epochs=3, policy_delay=1000, **OFTEN)
    assert np.isfinite(run.rows[0]["LossPi"])
    assert all(np.isnan(row["LossPi"]) and row["LossQ"] > 0 for row in run.rows[1:])


@pytest.mark.parametrize("delay", [0, -1, 1.5, "2", True, None])
def test_a_delay_that_is_no_count_is_refused_before_anything_is_created(train, tmp_path, delay):
    with pytest.raises(SpinupError, match=r"policy_delay=.* must be a whole number, at least 1"):
        train("td3", "Pendulum-v1", policy_delay=delay)
    assert list(tmp_path.iterdir()) == []
