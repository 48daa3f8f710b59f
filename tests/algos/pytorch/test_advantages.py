"""From an epoch to batches: advantages, their normalization, running statistics."""

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from spinup.algos.pytorch.common import nets
from spinup.algos.pytorch.common.acting import NetPolicy
from spinup.algos.pytorch.common.advantages import normalize_advantages, update_normalizer
from spinup.envs.make_streams import make_streams
from spinup.parallel.mpi import Shards
from spinup_lab.probe.environments import EpisodeEnd

ONE = Shards(1)


@pytest.fixture
def gathered(gather):
    """A function that makes an actor-critic and lets it gather one epoch."""

    def make(env_fn, steps, n=1, max_ep_len=100, **ac_kwargs):
        streams = make_streams(env_fn, n, np.random.SeedSequence, max_ep_len)
        kwargs = {"hidden_sizes": (8,), **ac_kwargs}
        ac = nets.MLPActorCritic(streams.observation_space, streams.action_space, **kwargs)
        return ac, gather([streams], NetPolicy(ac.pi), steps)

    return make


def standardized(x):
    return (x - x.mean()) / (x.std() + 1e-8)


# ---- advantages ------------------------------------------------------------------------------


def by_hand(rollout, value, gamma, lam, scale=1.0):
    """Advantages and returns by the definition, one row at a time, without any helper."""
    adv, ret = np.full(rollout.rew.shape, np.nan), np.full(rollout.rew.shape, np.nan)
    for p in rollout.paths:
        after = 0.0 if p.last_obs is None else value(p.last_obs)
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
def test_advantages_follow_the_definition_row_by_row(gathered, end, n):
    ac, buffer = gathered(lambda: EpisodeEnd(end=end, length=5), 12, n)
    (rollout,) = buffer.rollouts

    def value(o):
        return float(ac.v(torch.as_tensor(o)).detach())

    (batch,) = buffer.get(ac, 0.9, 0.8)
    adv, ret = by_hand(rollout, value, 0.9, 0.8)
    np.testing.assert_allclose(batch["ret"], ret.reshape(-1), rtol=1e-5)
    np.testing.assert_allclose(batch["adv"], standardized(adv).reshape(-1), rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(
        batch["val"], [value(o) for o in rollout.obs.reshape(-1, 1)], rtol=1e-5
    )
    logp = ac.pi(batch["obs"], batch["act"])[1].detach()
    np.testing.assert_allclose(batch["logp"], logp, rtol=1e-6)
    assert {len(x) for x in batch.values()} == {12 * n}


def test_termination_bootstraps_with_zero_and_truncation_with_the_final_value(gathered):
    for end, cut in (("terminated", 0.0), ("truncated", 7.0)):
        ac, buffer = gathered(lambda end=end: EpisodeEnd(end=end, length=3), 3)
        with torch.no_grad():
            for p in ac.v.parameters():
                p.zero_()
            ac.v.v_net[-2].bias.fill_(7.0)  # V = 7 everywhere
        (batch,) = buffer.get(ac, 0.5, 1.0)
        want = [1.75 + cut / 8, 1.5 + cut / 4, 1 + cut / 2]
        np.testing.assert_allclose(batch["ret"], want, rtol=1e-6)


def test_the_value_at_a_truncation_is_taken_before_the_reset(gather):
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
    (batch,) = gather([streams], NetPolicy(ac.pi), 4).get(ac, 1.0, 1.0)
    assert batch["ret"].tolist() == [200, 200, 200, 200]


def test_estimates_made_while_acting_are_used_as_they_are(gathered):
    ac, buffer = gathered(lambda: EpisodeEnd(end="terminated", length=3), 5)
    (rollout,) = buffer.rollouts
    rollout._keep_estimates()
    rollout.val[:] = np.arange(5)[:, None]
    rollout.logp[:] = -np.arange(5)[:, None]
    (batch,) = buffer.get(ac, 0.9, 0.8)
    assert batch["val"].tolist() == [0, 1, 2, 3, 4]
    assert batch["logp"].tolist() == [0, -1, -2, -3, -4]


def test_actions_stay_integers_and_observations_become_floats(gathered):
    class Image(EpisodeEnd):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Box(0, 255, (2, 2), np.uint8)

        def _array(self):
            return np.full((2, 2), 200, np.uint8)

    ac, buffer = gathered(Image, 6)
    (batch,) = buffer.get(ac, 0.9, 0.8)
    assert batch["act"].dtype == torch.int64 and batch["obs"].dtype == torch.float32
    assert batch["obs"].shape == (6, 2, 2) and (batch["obs"] == 200).all()


def test_batches_do_not_share_memory_with_the_rollout(gathered):
    ac, buffer = gathered(EpisodeEnd, 6)
    (rollout,) = buffer.rollouts
    (batch,) = buffer.get(ac, 0.9, 0.8)
    before = batch["obs"].clone()
    rollout.obs += 1
    assert torch.equal(batch["obs"], before)


# ---- normalized advantages -------------------------------------------------------------------


def normalized(parts, shards=ONE):
    batches = [{} for _ in parts]
    normalize_advantages(batches, parts, shards)
    return [batch["adv"] for batch in batches]


@given(st.floats(-1e6, 1e6, width=32), st.integers(1, 50))
def test_a_constant_advantage_gives_zeros(value, n):
    (got,) = normalized([torch.full((n,), value)])
    assert got.abs().max() < 1e-3 and got.isfinite().all()


def test_a_batch_of_one_gives_zero():
    assert normalized([torch.tensor([3.0])])[0].tolist() == [0.0]


@given(hnp.arrays(np.float32, st.integers(2, 30), elements=st.floats(-100, 100, width=32)))
def test_normalized_advantages_are_numpys_over_all_shards(x):
    assume(x.std() > 1e-2)
    halves = np.array_split(x, 2)
    parts = normalized([torch.as_tensor(h) for h in halves], Shards(2))
    got = torch.cat(parts).numpy()
    x = x.astype(np.float64)
    np.testing.assert_allclose(got, (x - x.mean()) / x.std(), rtol=2e-2, atol=1e-4)
    assert got.dtype == np.float32


def test_normalized_advantages_have_mean_zero_and_deviation_one():
    x = torch.randn(1000) * 7 + 100
    (got,) = normalized([x])
    assert abs(float(got.mean())) < 1e-5 and float(got.std(correction=0)) == pytest.approx(
        1, abs=1e-4
    )


def test_advantages_are_normalized_over_all_shards():
    x = torch.randn(12) * 5 + 3
    parts = normalized(list(x.chunk(4)), Shards(4))
    got = torch.cat(parts).numpy()
    want = (x.double() - x.double().mean()) / x.double().std(correction=0)
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
    assert abs(float(parts[0].mean())) > 1e-3  # a shard alone is not centered


# ---- normalizers -----------------------------------------------------------------------------


def test_observation_statistics_after_epochs_are_numpys_on_everything_seen(gathered):
    ac, buffer = gathered(lambda: gym.make("CartPole-v1"), 30, 2, normalize_obs=True)
    (rollout,) = buffer.rollouts
    (batch,) = buffer.get(ac, 0.9, 0.8)
    update_normalizer(ac, [batch], ONE)
    shifted = {"obs": batch["obs"] * 2 + 1}
    update_normalizer(ac, [shifted], ONE)
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
        update_normalizer(ac, data, Shards(count))
        filters.append(ac.pi.obs_filter)
    for f in filters:
        assert float(f.sums[0]) == 12
        np.testing.assert_allclose(f.mean, x.double().mean(0), rtol=1e-5)
        np.testing.assert_allclose(f.std, x.double().std(0, correction=0), rtol=1e-5)


@pytest.mark.parametrize("algo", ["ppo", "vpg", "trpo", "reinforce"])
def test_an_update_sees_the_filter_that_the_data_was_collected_with(train, algo):
    still = {"delta": 0.0} if algo == "trpo" else {"pi_lr": 0.0}
    ac_kwargs = {"hidden_sizes": (8,), "normalize_obs": True}
    run = train(algo, "Pendulum-v1", ac_kwargs=ac_kwargs, epochs=3, **still)
    for row in run.rows:  # the policy stands still, so the ratios are 1 and the advantages' mean 0
        assert row["KL"] == pytest.approx(0, abs=1e-9)
        if algo in ("ppo", "trpo"):
            assert row["LossPi"] == pytest.approx(0, abs=1e-6)
    assert float(run.ac.pi.obs_filter.sums[0]) == 120  # and it has seen all three epochs


def test_a_network_without_a_normalizer_is_left_alone(gathered):
    ac, buffer = gathered(EpisodeEnd, 6)
    (batch,) = buffer.get(ac, 0.9, 0.8)
    update_normalizer(ac, [batch], ONE)
    update_normalizer(object(), [batch], ONE)


def test_returns_are_scaled_by_the_deviation_of_discounted_rewards_so_far(gathered):
    ac, buffer = gathered(lambda: gym.make("Pendulum-v1"), 10, max_ep_len=4, normalize_ret=True)
    (rollout,) = buffer.rollouts
    sums, running = [], 0.0
    for t in range(10):  # the reward that has come in so far, discounted, restarting with a path
        running = rollout.rew[t, 0] + (0.0 if t % 4 == 0 else 0.9 * running)
        sums.append(running)
    scale = 1 / np.std(sums)

    def value(o):
        return float(ac.v(torch.as_tensor(o)).detach())

    _, want = by_hand(rollout, value, 0.9, 0.8, scale)
    (batch,) = buffer.get(ac, 0.9, 0.8)
    assert float(ac.ret_filter.std) == pytest.approx(np.std(sums), rel=1e-9)
    np.testing.assert_allclose(batch["ret"], want.reshape(-1), rtol=1e-4)
    assert rollout.rew.min() < -1  # what was collected, and is logged, is not scaled


class Gamble(gym.Env):
    """Rewards are standard normal; `diary` receives them, one list per episode."""

    observation_space = spaces.Box(-1, 1, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, diary):
        self.diary = diary

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.diary.append([])
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.diary[-1].append(float(self.np_random.standard_normal()))
        return np.zeros(1, np.float32), self.diary[-1][-1], False, False, {}


GAMBLE = {"steps_per_epoch": 64, "epochs": 20, "gamma": 0.9, "train_pi_iters": 0}
GAMBLE |= {"ac_kwargs": {"hidden_sizes": (2,), "normalize_ret": True}, "num_threads": 1}


@pytest.mark.parametrize("options", [{}, {"num_envs": 16}, {"num_envs": 8, "shards": 2}])
def test_the_scale_of_returns_does_not_depend_on_where_epochs_cut_episodes(train, options):
    for max_ep_len in (10**6, 7):
        diaries = []

        def env_fn(diaries=diaries):
            diaries.append([])
            return Gamble(diaries[-1])

        run = train("ppo", env_fn, **{**GAMBLE, "max_ep_len": max_ep_len, **options})
        sums = []
        for rewards in (episode for diary in diaries for episode in diary):
            running = 0.0
            for r in rewards:
                running = r + 0.9 * running
                sums.append(running)
        assert len(sums) == 64 * 20
        assert float(run.ac.ret_filter.std) == pytest.approx(np.std(sums), rel=1e-9)
        if max_ep_len > 7:  # what a long episode has: the sum of 0.81^k
            assert float(run.ac.ret_filter.std) == pytest.approx((1 / 0.19) ** 0.5, rel=0.1)


def test_the_scale_of_returns_is_resumed_exactly(train, tmp_path):
    def trained(epochs, **more):
        options = {**GAMBLE, "num_envs": 16, "max_ep_len": 30, "epochs": epochs, **more}
        return train("ppo", lambda: Gamble([]), **options)

    whole = trained(6)
    folder = {"logger_kwargs": {"output_dir": str(tmp_path / "half"), "quiet": True}}
    trained(3, **folder)
    resumed = trained(6, resume=True, **folder)
    assert torch.equal(resumed.ac.ret_filter.sums, whole.ac.ret_filter.sums)
    assert [r["LossV"] for r in resumed.rows] == [r["LossV"] for r in whole.rows]
