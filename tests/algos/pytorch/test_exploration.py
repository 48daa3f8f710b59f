"""Exploration: noise, samples and random choice, always within the bounds of the actions."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup.algos.common.exploration import NoisyPolicy, SampledPolicy
from spinup.algos.pytorch.common.acting import make_policy
from spinup.algos.pytorch.ddpg import core as ddpg_core
from spinup.algos.pytorch.dqn.core import EpsilonGreedy
from spinup.algos.pytorch.sac import core as sac_core

OBS = spaces.Box(-1, 1, (3,), np.float32)
ACT = spaces.Box(np.array([-1, 0], np.float32), np.array([3, 0.5], np.float32))


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
    ac = ddpg_core.MLPActorCritic(OBS, ACT, hidden_sizes=(6,))
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


@pytest.mark.parametrize(
    "make",
    [
        lambda policy: NoisyPolicy(policy, ACT, 0.1),
        lambda policy: SampledPolicy(policy, ACT),
        lambda policy: EpsilonGreedy(policy, 3),
    ],
)
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


def test_sampled_actions_stay_within_the_bounds():
    # a user's own policy may sample outside of them, and an environment sees clipped actions
    policy = SampledPolicy(Still([9, -9]), ACT)
    acts = policy(np.zeros((4, 3), np.float32), np.random.default_rng(0))
    assert acts.tolist() == [[3.0, 0.0]] * 4 and acts.dtype == np.float32
    ac = sac_core.MLPActorCritic(OBS, ACT, hidden_sizes=(6,))
    with torch.no_grad():
        ac.pi.log_std_layer.bias.fill_(2.0)  # so wide that tanh rounds to 1
    policy = SampledPolicy(make_policy(ac, on_policy=False), ACT)
    acts = policy(np.zeros((10_000, 3), np.float32), np.random.default_rng(0))
    assert (acts >= ACT.low).all() and (acts <= ACT.high).all()
    assert acts.std(0).min() > 0.1


def test_sampled_actions_keep_the_shape_of_their_space():
    space = spaces.Box(-2, 2, (2, 3), np.float32)
    policy = SampledPolicy(Still(np.arange(6) / 10), space)
    acts = policy(np.zeros((4, 3), np.float32), np.random.default_rng(0))
    np.testing.assert_allclose(acts, np.tile(np.arange(6).reshape(2, 3) / 10, (4, 1, 1)))


def test_sampled_actions_of_a_discrete_space_are_the_policys():
    policy = SampledPolicy(Always(), spaces.Discrete(3, start=5))
    assert policy(np.zeros((4, 3)), np.random.default_rng(0)).tolist() == [0] * 4


class Always:
    """A policy that always takes action 0."""

    def begin(self, rng):
        """Nothing is drawn."""

    renew = begin

    def __call__(self, obs, rng):
        return np.zeros(len(obs), np.int64), None, None


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_a_share_epsilon_of_the_actions_is_uniformly_random(epsilon):
    policy, rng = EpsilonGreedy(Always(), 4), np.random.default_rng(0)
    policy.epsilon = epsilon
    acts = np.stack([policy(np.zeros((3, 2)), rng) for _ in range(10_000)])
    assert policy.epsilon == epsilon  # acting changes nothing
    expected = np.array([1 - epsilon + epsilon / 4, *[epsilon / 4] * 3])
    for env in range(3):  # each environment for itself
        share = np.bincount(acts[:, env], minlength=4) / len(acts)
        np.testing.assert_allclose(share, expected, atol=0.02)
    together = np.mean((acts[:, 0] > 0) & (acts[:, 1] > 0))
    assert together == pytest.approx((0.75 * epsilon) ** 2, abs=0.02)
    assert acts.dtype.kind == "i"
