"""From rollouts to batches: advantages, normalisation, entropy, divergences, buffers."""

import math

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from torch.distributions import Bernoulli, Categorical, Independent, Normal

from spinup.algos.common.collect import Rollout, collect
from spinup.algos.pytorch.common import nets, onpolicy
from spinup.algos.pytorch.common.acting import NetPolicy
from spinup.algos.pytorch.common.buffers import PathBuffer
from spinup.algos.pytorch.reinforce.core import rewards_to_go
from spinup.envs.probes import EpisodeEnd, ObservationReward
from spinup.envs.streams import make_streams
from spinup.runs.run import Scalar
from spinup.utils.mpi_tools import Shards

ONE = Shards(1)


def normalised(x):
    return (x - x.mean()) / (x.std() + 1e-8)


def gathered(env_fn, steps, n=1, max_ep_len=100, **ac_kwargs):
    """An actor-critic, a rollout of it, and the streams to go on with."""
    streams = make_streams(env_fn, n, np.random.SeedSequence, max_ep_len)
    kwargs = {"hidden_sizes": (8,), **ac_kwargs}
    ac = nets.MLPActorCritic(streams.observation_space, streams.action_space, **kwargs)
    rollout = Rollout(streams, steps)
    collect(rollout, streams, NetPolicy(ac.pi), np.random.default_rng(0))
    return ac, rollout


# ---- advantages ------------------------------------------------------------------------------


def by_hand(rollout, value, gamma, lam, scale=1.0):
    """Advantages and returns by the definition, one row at a time, without any helper."""
    adv, ret = np.full(rollout.rew.shape, np.nan), np.full(rollout.rew.shape, np.nan)
    for p in rollout.paths:
        after = 0.0 if p.terminated else value(p.final_obs)
        next_adv, next_ret, next_val = 0.0, after, after
        for t in reversed(range(p.start, p.stop)):
            val = value(rollout.obs[t, p.i])
            r = rollout.rew[t, p.i] * scale
            next_adv = r + gamma * next_val - val + gamma * lam * next_adv
            next_ret = r + gamma * next_ret
            next_val = val
            adv[t, p.i], ret[t, p.i] = next_adv, next_ret
    return adv, ret


@pytest.mark.parametrize("end", ["terminated", "truncated"])
@pytest.mark.parametrize("n", [1, 3])
def test_advantages_follow_the_definition_row_by_row(end, n):
    ac, rollout = gathered(lambda: EpisodeEnd(end=end, length=5), 12, n)

    def value(o):
        return float(ac.v(torch.as_tensor(o)).detach())

    (batch,) = onpolicy.advantages([rollout], ac, 0.9, 0.8, ONE)
    adv, ret = by_hand(rollout, value, 0.9, 0.8)
    np.testing.assert_allclose(batch["ret"], ret.reshape(-1), rtol=1e-5)
    np.testing.assert_allclose(batch["adv"], normalised(adv).reshape(-1), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        batch["val"], [value(o) for o in rollout.obs.reshape(-1, 1)], rtol=1e-5
    )
    logp = ac.pi(batch["obs"], batch["act"])[1].detach()
    np.testing.assert_allclose(batch["logp"], logp, rtol=1e-6)
    assert {len(x) for x in batch.values()} == {12 * n}


def test_termination_bootstraps_with_zero_and_truncation_with_the_final_value():
    for end, cut in (("terminated", 0.0), ("truncated", 7.0)):
        ac, rollout = gathered(lambda end=end: EpisodeEnd(end=end, length=3), 3)
        with torch.no_grad():
            for p in ac.v.parameters():
                p.zero_()
            ac.v.v_net[-2].bias.fill_(7.0)  # V = 7 everywhere
        (batch,) = onpolicy.advantages([rollout], ac, 0.5, 1.0, ONE)
        want = [1.75 + cut / 8, 1.5 + cut / 4, 1 + cut / 2]
        np.testing.assert_allclose(batch["ret"], want, rtol=1e-6)


def test_the_value_at_a_truncation_is_taken_before_the_reset():
    class Clock(gym.Env):
        """The observation is the step; cut after two."""

        observation_space = spaces.Box(0, 9, (1,), np.float32)
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.zeros(1, np.float32), {}

        def step(self, action):
            self.t += 1
            return np.full(1, self.t, np.float32), 0.0, False, self.t == 2, {}

    streams = make_streams(Clock, 1, np.random.SeedSequence, 100)
    ac = nets.MLPActorCritic(streams.observation_space, streams.action_space, hidden_sizes=())
    with torch.no_grad():  # V(o) = 100 o
        ac.v.v_net[0].weight.fill_(100.0)
        ac.v.v_net[0].bias.zero_()
    rollout = Rollout(streams, 4)
    collect(rollout, streams, NetPolicy(ac.pi), np.random.default_rng(0))
    (batch,) = onpolicy.advantages([rollout], ac, 1.0, 1.0, ONE)
    assert batch["ret"].tolist() == [200, 200, 200, 200]


def test_estimates_made_while_acting_are_used_as_they_are():
    ac, rollout = gathered(lambda: EpisodeEnd(end="terminated", length=3), 5)
    rollout._keep_estimates()
    rollout.val[:] = np.arange(5)[:, None]
    rollout.logp[:] = -np.arange(5)[:, None]
    (batch,) = onpolicy.advantages([rollout], ac, 0.9, 0.8, ONE)
    assert batch["val"].tolist() == [0, 1, 2, 3, 4]
    assert batch["logp"].tolist() == [0, -1, -2, -3, -4]


def test_actions_stay_integers_and_observations_become_floats():
    class Image(EpisodeEnd):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Box(0, 255, (2, 2), np.uint8)

        def _array(self):
            return np.full((2, 2), 200, np.uint8)

    ac, rollout = gathered(Image, 6)
    (batch,) = onpolicy.advantages([rollout], ac, 0.9, 0.8, ONE)
    assert batch["act"].dtype == torch.int64 and batch["obs"].dtype == torch.float32
    assert batch["obs"].shape == (6, 2, 2) and (batch["obs"] == 200).all()


def test_batches_do_not_share_memory_with_the_rollout():
    ac, rollout = gathered(EpisodeEnd, 6)
    (batch,) = onpolicy.advantages([rollout], ac, 0.9, 0.8, ONE)
    before = batch["obs"].clone()
    rollout.obs += 1
    assert torch.equal(batch["obs"], before)


# ---- normalised advantages -------------------------------------------------------------------


@given(st.floats(-1e6, 1e6, width=32), st.integers(1, 50))
def test_a_constant_advantage_gives_zeros(value, n):
    (got,) = onpolicy.normalized([torch.full((n,), value)], ONE)
    assert got.abs().max() < 1e-3 and got.isfinite().all()


def test_a_batch_of_one_gives_zero():
    assert onpolicy.normalized([torch.tensor([3.0])], ONE)[0].tolist() == [0.0]


@given(hnp.arrays(np.float32, st.integers(2, 30), elements=st.floats(-100, 100, width=32)))
def test_normalised_advantages_are_numpys_over_all_shards(x):
    assume(x.std() > 1e-2)
    halves = np.array_split(x, 2)
    parts = onpolicy.normalized([torch.as_tensor(h) for h in halves], Shards(2))
    got = torch.cat(parts).numpy()
    x = x.astype(np.float64)
    np.testing.assert_allclose(got, (x - x.mean()) / x.std(), rtol=2e-2, atol=1e-4)
    assert got.dtype == np.float32


def test_normalised_advantages_have_mean_zero_and_deviation_one():
    x = torch.randn(1000) * 7 + 100
    (got,) = onpolicy.normalized([x], ONE)
    assert abs(float(got.mean())) < 1e-5 and float(got.std(correction=0)) == pytest.approx(
        1, abs=1e-4
    )


# ---- normalisers -----------------------------------------------------------------------------


def test_observation_statistics_after_epochs_are_numpys_on_everything_seen():
    ac, rollout = gathered(lambda: gym.make("CartPole-v1"), 30, 2, normalize_obs=True)
    (batch,) = onpolicy.advantages([rollout], ac, 0.9, 0.8, ONE)
    onpolicy.update_normalizer(ac, [batch], ONE)
    shifted = {"obs": batch["obs"] * 2 + 1}
    onpolicy.update_normalizer(ac, [shifted], ONE)
    x = rollout.obs.reshape(-1, 4).astype(np.float64)
    joined = np.concatenate([x, 2 * x + 1])
    np.testing.assert_allclose(ac.pi.obs_filter.mean, joined.mean(0), rtol=1e-5)
    np.testing.assert_allclose(ac.pi.obs_filter.std, joined.std(0), rtol=1e-4)


def test_observation_statistics_over_shards_are_those_of_the_joined_data():
    x = torch.randn(12, 3) * 4 + 2
    filters = []
    for count in (1, 2, 4):
        ac = nets.MLPActorCritic(
            spaces.Box(-1, 1, (3,)), spaces.Discrete(2), hidden_sizes=(4,), normalize_obs=True
        )
        data = [{"obs": part} for part in x.chunk(count)]
        onpolicy.update_normalizer(ac, data, Shards(count))
        filters.append(ac.pi.obs_filter)
    for f in filters:
        assert float(f.sums[0]) == 12
        np.testing.assert_allclose(f.mean, x.double().mean(0), rtol=1e-5)
        np.testing.assert_allclose(f.std, x.double().std(0, correction=0), rtol=1e-5)


def test_a_network_without_a_normaliser_is_left_alone():
    ac, rollout = gathered(EpisodeEnd, 6)
    (batch,) = onpolicy.advantages([rollout], ac, 0.9, 0.8, ONE)
    onpolicy.update_normalizer(ac, [batch], ONE)
    onpolicy.update_normalizer(object(), [batch], ONE)


def test_returns_are_scaled_by_the_deviation_of_discounted_rewards_so_far():
    ac, rollout = gathered(lambda: gym.make("Pendulum-v1"), 10, max_ep_len=4, normalize_ret=True)
    sums, running = [], 0.0
    for t in range(10):  # the reward that has come in so far, discounted, restarting with a path
        running = rollout.rew[t, 0] + (0.0 if t % 4 == 0 else 0.9 * running)
        sums.append(running)
    scale = 1 / np.std(sums)

    def value(o):
        return float(ac.v(torch.as_tensor(o)).detach())

    _, want = by_hand(rollout, value, 0.9, 0.8, scale)
    (batch,) = onpolicy.advantages([rollout], ac, 0.9, 0.8, ONE)
    assert float(ac.ret_filter.std) == pytest.approx(np.std(sums), rel=1e-9)
    np.testing.assert_allclose(batch["ret"], want.reshape(-1), rtol=1e-4)
    assert rollout.rew.min() < -1  # what was collected, and is logged, is not scaled


# ---- entropy and divergence ------------------------------------------------------------------


def test_entropy_sums_over_the_dimensions_of_an_action_and_averages_over_the_batch():
    std = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    each = 0.5 * math.log(2 * math.pi * math.e) + std.log()
    want = float(each.sum(-1).mean())
    assert float(onpolicy.entropy(Normal(torch.zeros(2, 3), std))) == pytest.approx(want, rel=1e-6)
    together = Independent(Normal(torch.zeros(2, 3), std), 1)
    assert float(onpolicy.entropy(together)) == pytest.approx(want, rel=1e-6)
    assert float(onpolicy.entropy(Categorical(logits=torch.zeros(5, 8)))) == pytest.approx(
        math.log(8), rel=1e-6
    )
    coins = Independent(Bernoulli(logits=torch.zeros(5, 3)), 1)
    assert float(onpolicy.entropy(coins)) == pytest.approx(3 * math.log(2), rel=1e-6)
    both = nets.MultiCategorical(torch.zeros(5, 6), [2, 4])
    assert float(onpolicy.entropy(both)) == pytest.approx(math.log(8), rel=1e-6)


@given(
    hnp.arrays(np.float64, 6, elements=st.floats(-5, 5)),
    hnp.arrays(np.float64, 6, elements=st.floats(-5, 5)),
)
def test_the_logged_divergence_is_never_negative(old, new):
    old, new = torch.as_tensor(old), torch.as_tensor(new)
    kl = float(onpolicy.approx_kl(old, new))
    want = np.mean([math.exp(b - a) - 1 - (b - a) for a, b in zip(old, new, strict=True)])
    assert kl == pytest.approx(want, abs=1e-12) and kl >= -1e-12


def test_sampled_divergence_estimates_the_closed_form():
    p, q = Categorical(probs=torch.tensor([0.6, 0.3, 0.1])), Categorical(probs=torch.ones(3) / 3)
    # in expectation over p, exactly
    actions = torch.arange(3)
    log_ratio = q.log_prob(actions) - p.log_prob(actions)
    expected = (p.probs * (log_ratio.exp() - 1 - log_ratio)).sum()
    closed = (p.probs * (p.probs / q.probs).log()).sum()
    torch.testing.assert_close(expected, closed)


CASES = {
    # old, new, KL(old || new) by its formula, one row each
    "gaussian": (
        lambda: Normal(torch.tensor([[0.0, 1.0]]), torch.tensor([[1.0, 0.5]])),
        lambda: Normal(torch.tensor([[1.0, 1.0]]), torch.tensor([[2.0, 1.5]])),
        lambda: sum(
            math.log(s1 / s0) + (s0**2 + (m0 - m1) ** 2) / (2 * s1**2) - 0.5
            for m0, s0, m1, s1 in ((0, 1, 1, 2), (1, 0.5, 1, 1.5))
        ),
    ),
    "categorical": (
        lambda: Categorical(probs=torch.tensor([[0.7, 0.2, 0.1]])),
        lambda: Categorical(probs=torch.tensor([[0.1, 0.1, 0.8]])),
        lambda: 0.7 * math.log(7) + 0.2 * math.log(2) + 0.1 * math.log(1 / 8),
    ),
    "multi-discrete": (
        lambda: nets.MultiCategorical(torch.tensor([[0.7, 0.2, 0.1, 0.9, 0.1]]).log(), [3, 2]),
        lambda: nets.MultiCategorical(torch.tensor([[0.1, 0.1, 0.8, 0.5, 0.5]]).log(), [3, 2]),
        lambda: (
            0.7 * math.log(7)
            + 0.2 * math.log(2)
            + 0.1 * math.log(1 / 8)
            + 0.9 * math.log(1.8)
            + 0.1 * math.log(0.2)
        ),
    ),
    "multi-binary": (
        lambda: Independent(Bernoulli(probs=torch.tensor([[0.9, 0.2]])), 1),
        lambda: Independent(Bernoulli(probs=torch.tensor([[0.5, 0.6]])), 1),
        lambda: (
            0.9 * math.log(0.9 / 0.5)
            + 0.1 * math.log(0.1 / 0.5)
            + 0.2 * math.log(0.2 / 0.6)
            + 0.8 * math.log(0.8 / 0.4)
        ),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_divergence_is_of_the_old_policy_from_the_new_for_every_distribution(case):
    old, new, formula = CASES[case]
    forward = float(onpolicy.mean_kl(old(), new(), None, None))
    backward = float(onpolicy.mean_kl(new(), old(), None, None))
    assert forward == pytest.approx(formula(), rel=1e-5)
    assert abs(forward - backward) > 0.05  # the case can tell the directions apart
    assert float(onpolicy.mean_kl(old(), old(), None, None)) == pytest.approx(0, abs=1e-6)


def test_a_distribution_without_a_closed_form_gets_its_divergence_from_samples():
    class Own:
        def entropy(self):
            return torch.zeros(3)

    old, new = torch.tensor([-1.0, -2.0, -0.5]), torch.tensor([-0.5, -2.5, -0.4])
    got = onpolicy.mean_kl(Own(), Own(), old, new)
    torch.testing.assert_close(got, onpolicy.approx_kl(old, new))


# ---- rewards-to-go ---------------------------------------------------------------------------


def test_rewards_to_go_of_a_cut_path_go_on_with_the_average_and_of_a_dead_one_with_nothing():
    for end, cut in (("terminated", 0.0), ("truncated", 10.0)):
        ac, rollout = gathered(lambda end=end: EpisodeEnd(end=end, length=3), 3)
        baseline = Scalar(10.0)
        (batch,) = rewards_to_go([rollout], ac, 0.5, baseline, ONE)
        want = np.array([1.75 + cut / 8, 1.5 + cut / 4, 1 + cut / 2])
        np.testing.assert_allclose(batch["ret"], want, rtol=1e-6)
        assert baseline.value == pytest.approx(want.mean(), rel=1e-6)
        np.testing.assert_allclose(batch["adv"], normalised(want), rtol=1e-4)


def test_the_baseline_is_the_mean_over_all_shards():
    data = [gathered(lambda: ObservationReward(), steps) for steps in (4, 4)]
    ac = data[0][0]
    rollouts = [rollout for _, rollout in data]
    baseline = Scalar(0.0)
    batches = rewards_to_go(rollouts, ac, 0.9, baseline, Shards(2))
    rets = np.concatenate([b["ret"] for b in batches])
    assert baseline.value == pytest.approx(rets.mean(), rel=1e-6)


# ---- the buffer of user code -----------------------------------------------------------------


def test_the_buffer_squeezes_size_one_arrays():
    buffer = PathBuffer(2, (), 3, gamma=0.5, lam=0.5)
    for t, (r, v) in enumerate(((1.0, 2.0), (2.0, 4.0), (3.0, 6.0))):
        buffer.store(
            np.array([t, -t]), np.array([1]), np.array([r]), np.array([[v]]), np.array([-0.5])
        )
    buffer.finish_path(np.array([8.0]))
    data = buffer.get()
    np.testing.assert_allclose(data["ret"], [3.75, 5.5, 7.0])
    np.testing.assert_allclose(data["adv"], normalised(np.array([1.3125, 1.25, 1.0])), rtol=1e-4)
    assert set(data) == {"obs", "act", "ret", "adv", "logp"}
    assert all(x.dtype == torch.float32 for x in data.values())
    assert (
        data["obs"].tolist() == [[0, 0], [1, -1], [2, -2]] and data["logp"].tolist() == [-0.5] * 3
    )


def test_the_buffer_keeps_paths_apart_and_starts_again_after_get():
    buffer = PathBuffer(1, 2, 4, gamma=1.0, lam=1.0)
    for _ in range(2):
        for r in (1.0, 2.0):
            buffer.store([0.0], [0.0, 1.0], r, 0.0, 0.0)
        buffer.finish_path(0)
        for r in (4.0, 8.0):
            buffer.store([0.0], [0.0, 1.0], r, 0.0, 0.0)
        buffer.finish_path(16)
        data = buffer.get()
        assert data["ret"].tolist() == [3, 2, 28, 24]
        assert float(data["adv"].mean()) == pytest.approx(0, abs=1e-6)
        assert data["act"].shape == (4, 2)


def test_the_buffer_gives_zeros_for_a_constant_advantage():
    buffer = PathBuffer(1, 1, 3, gamma=0.9, lam=0.9)
    for _ in range(3):
        buffer.store(0.0, 0.0, 0.1, 0.0, 0.0)
        buffer.finish_path(0)
    assert buffer.get()["adv"].tolist() == [0, 0, 0]


def test_a_buffer_that_is_not_full_or_too_full_says_so():
    buffer = PathBuffer(1, 1, 1)
    with pytest.raises(ValueError, match="holds 0 of 1"):
        buffer.get()
    buffer.store(0.0, 0.0, 0.0, 0.0, 0.0)
    with pytest.raises(IndexError, match="full"):
        buffer.store(0.0, 0.0, 0.0, 0.0, 0.0)
