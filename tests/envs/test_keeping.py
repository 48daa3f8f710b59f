"""What is saved of the state that environments keep between episodes, and how it is restored."""

import random
import warnings
from collections import deque

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium.wrappers import vector as vector_wrappers

from spinup.envs.keeping import Kept
from spinup.envs.make_streams import make_streams
from spinup.envs.vector import VectorStreams


def cartpole():
    return gym.make("CartPole-v1")


def seq(i):
    return np.random.SeedSequence(5, spawn_key=(i,))


def play(streams, rng, steps):
    """Act at random; return all that comes back."""
    streams.start()
    seen = []
    for _ in range(steps):
        o2, r, *_ = streams.step(rng.integers(2, size=streams.num_envs))
        seen.append((o2.copy(), r.copy(), streams.obs.copy()))
    return seen


def assert_goes_on(env_fn, num_envs=1, vector="sync", max_ep_len=30):
    """Streams restored in the middle of episodes go on like the ones that were saved."""
    rng = np.random.default_rng(1)
    streams = make_streams(env_fn, num_envs, seq, max_ep_len, vector)
    play(streams, rng, 144)
    state, saved_rng = streams.state_dict(), rng.bit_generator.state
    assert any(len(actions) > 2 for actions in state["actions"])
    want = play(streams, rng, 60)
    streams.close()
    rng.bit_generator.state = saved_rng
    other = make_streams(env_fn, num_envs, seq, max_ep_len, vector)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert other.load_state_dict(state) == []
    got = play(other, rng, 60)
    other.close()
    for a, b in zip(got, want, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)
    return state


class Bonus(gym.Wrapper):
    """The reward grows from episode to episode."""

    def __init__(self, env):
        super().__init__(env)
        self.episodes = 0

    def reset(self, **kwargs):
        self.episodes += 1
        return self.env.reset(**kwargs)

    def step(self, action):
        obs, rew, terminated, truncated, info = self.env.step(action)
        return obs, rew + 0.1 * self.episodes, terminated, truncated, info


class GetSet(Bonus):
    def get_state(self):
        return {"episodes": self.episodes}

    def set_state(self, state):
        self.episodes = state["episodes"]


class OnlyAfterAReset(GetSet):
    def set_state(self, state):
        if not self.episodes:
            raise RuntimeError("reset me first")
        super().set_state(state)


class LearnsItsReward(gym.Wrapper):
    """Has tensors that it changes in place, as a network that is trained has."""

    def __init__(self, env):
        super().__init__(env)
        self.net = torch.nn.Linear(4, 1)
        torch.nn.init.constant_(self.net.weight, 0.1)
        torch.nn.init.constant_(self.net.bias, 0.0)

    def state_dict(self):
        return self.net.state_dict()

    def load_state_dict(self, state):
        self.net.load_state_dict(state)

    def step(self, action):
        obs, _, terminated, truncated, info = self.env.step(action)
        with torch.no_grad():
            rew = float(self.net(torch.as_tensor(obs)))
            self.net.weight += 0.01 * torch.as_tensor(obs)
        return obs, rew, terminated, truncated, info


WRAPPERS = {
    "NormalizeObservation": gym.wrappers.NormalizeObservation,
    "NormalizeReward": gym.wrappers.NormalizeReward,
    "RecordEpisodeStatistics": gym.wrappers.RecordEpisodeStatistics,
    "FrameStackObservation": lambda env: gym.wrappers.FrameStackObservation(env, 3),
    "GetSet": GetSet,
    "OnlyAfterAReset": OnlyAfterAReset,
    "StateDict": LearnsItsReward,
    "twice": lambda env: gym.wrappers.NormalizeReward(gym.wrappers.NormalizeReward(GetSet(env))),
}


@pytest.mark.parametrize("num_envs, vector", [(1, "sync"), (2, "sync"), (2, "async")])
@pytest.mark.parametrize("name", WRAPPERS)
def test_restored_exactly(name, num_envs, vector):
    assert_goes_on(lambda: WRAPPERS[name](cartpole()), num_envs, vector)


def test_a_wrapper_below_an_adapter_is_found():
    def env_fn():
        return gym.wrappers.TimeAwareObservation(GetSet(cartpole()), flatten=False)

    state = assert_goes_on(env_fn)
    assert [name for name, _ in state["kept"][0]["layers"]] == ["GetSet"]


def test_what_record_episode_statistics_has_counted_is_there_again():
    def env_fn():
        return gym.wrappers.RecordEpisodeStatistics(cartpole(), buffer_length=4)

    streams = make_streams(env_fn, 1, seq, 30)
    play(streams, np.random.default_rng(1), 150)
    before = streams.envs[0]
    other = make_streams(env_fn, 1, seq, 30)
    assert other.load_state_dict(streams.state_dict()) == []
    after = other.envs[0]
    for name in ("return_queue", "length_queue", "time_queue", "episode_returns", "episode_count"):
        assert getattr(after, name) == getattr(before, name), name
    assert after.return_queue.maxlen == 4 and after.episode_count > 4


def test_an_environment_with_nothing_to_keep_saves_nothing():
    for vector in ("sync", "async"):
        streams = make_streams(cartpole, 1, seq, 30, vector)
        play(streams, np.random.default_rng(1), 100)
        assert streams.state_dict()["kept"] == [None]
        streams.close()


@pytest.mark.parametrize("num_envs, vector", [(1, "sync"), (1, "async"), (2, "async")])
def test_global_generators_that_an_environment_draws_from_are_restored(num_envs, vector):
    class Noisy(gym.Wrapper):
        def step(self, action):
            obs, rew, *rest = self.env.step(action)
            extra = float(torch.rand(1)) if vector == "async" else 0.0
            return obs, rew + random.random() + np.random.rand() + extra, *rest

    random.seed(0), np.random.seed(0)
    state = assert_goes_on(lambda: Noisy(cartpole()), num_envs, vector)
    assert all(kept["globals"] is not None for kept in state["kept"])


def test_copying_the_global_generators_stops_where_no_environment_draws_from_them(monkeypatch):
    calls = []
    from spinup.envs import keeping

    original = keeping.global_state
    monkeypatch.setattr(keeping, "global_state", lambda torch: calls.append(1) or original(torch))
    streams = make_streams(cartpole, 1, seq, 10)
    play(streams, np.random.default_rng(1), 200)
    assert len(calls) == 3


class SetsTwoThings(Bonus):
    """Has `set_state` with another meaning, as MuJoCo environments have."""

    def get_state(self):
        raise AssertionError("not ours to call")

    def set_state(self, qpos, qvel):
        raise AssertionError("not ours to call")


def test_methods_of_another_meaning_are_left_alone():
    kept = Kept(SetsTwoThings(cartpole()))
    kept.mark()
    assert kept.state() is None


@pytest.mark.parametrize("state", [object(), deque([1]), np.array([object()]), {"a": {1, 2}}])
def test_a_state_that_cannot_be_saved_is_said_once(state):
    class Odd(Bonus):
        def get_state(self):
            return state

        def set_state(self, state):
            raise AssertionError("nothing to set")

    kept = Kept(Odd(cartpole()))
    kept.mark()
    with pytest.warns(UserWarning, match="state that Odd keeps between episodes cannot be saved"):
        kept.mark()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kept.mark()
    assert kept.restore(kept.state()) == ""


class LevelsUp(gym.Wrapper):
    """Pays more in every episode; like many environments, it has no state before a reset."""

    def reset(self, **kwargs):
        self.level = getattr(self, "level", 0) + 1
        return self.env.reset(**kwargs)

    def step(self, action):
        o, r, terminated, truncated, info = self.env.step(action)
        return o, r * self.level, terminated, truncated, info

    def get_state(self):
        return {"level": self.level}

    def set_state(self, state):
        self.level = state["level"]


@pytest.mark.parametrize("steps", [3, 80])
def test_an_environment_without_state_before_its_first_reset_is_restored(steps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        streams = make_streams(lambda: LevelsUp(cartpole()), 1, seq, 30)
        play(streams, np.random.default_rng(1), steps)
        other = make_streams(lambda: LevelsUp(cartpole()), 1, seq, 30)
        assert other.load_state_dict(streams.state_dict()) == []
    assert other.envs[0].level == streams.envs[0].level


def test_a_state_that_is_refused_is_named_and_a_fresh_episode_starts():
    class Refuses(GetSet):
        def set_state(self, state):
            raise KeyError("level")

    streams = make_streams(lambda: Refuses(cartpole()), 1, seq, 30)
    play(streams, np.random.default_rng(1), 20)
    other = make_streams(lambda: Refuses(cartpole()), 1, seq, 30)
    said = r"environment 0 .* because its saved state was rejected \(KeyError: 'level'\)"
    with pytest.warns(UserWarning, match=said):
        assert other.load_state_dict(streams.state_dict()) == [0]


@pytest.mark.parametrize(
    "forged",
    [
        {"layers": [["NormalizeReward", 3]], "globals": None},
        {"layers": [["NormalizeReward", {"return_rms": {"mean": np.zeros(3)}}]], "globals": None},
        {"layers": [["NormalizeReward", {"discounted_reward": "x"}]], "globals": None},
        {"layers": [], "globals": {"python": 1}},
        {"layers": 3},
        [],
    ],
)
def test_a_forged_state_is_a_reason_and_no_traceback(forged):
    kept = Kept(gym.wrappers.NormalizeReward(cartpole()), watch_globals=True)
    assert "its saved state was rejected" in kept.restore(forged)


def test_a_saved_state_is_a_copy():
    env = LearnsItsReward(cartpole())
    kept = Kept(env)
    kept.mark()
    before = kept.state()["layers"][0][1]["weight"].clone()
    env.reset(seed=0)
    env.step(0)
    assert torch.equal(kept.state()["layers"][0][1]["weight"], before)
    assert not torch.equal(env.net.weight, before)
    assert kept.restore(kept.state()) == ""
    assert torch.equal(env.net.weight, before)
    env.step(0)
    assert torch.equal(kept.state()["layers"][0][1]["weight"], before)


def test_statistics_around_a_users_vector_environment_are_restored_though_its_episodes_are_not():
    def env_fn():
        env = gym.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync")
        env = vector_wrappers.RecordEpisodeStatistics(vector_wrappers.NormalizeObservation(env))
        return vector_wrappers.NormalizeReward(env)

    streams = make_streams(env_fn, 1, seq, 600)
    assert isinstance(streams, VectorStreams)
    play(streams, np.random.default_rng(0), 80)
    state = streams.state_dict()
    other = make_streams(env_fn, 1, seq, 600)
    with pytest.warns(UserWarning, match="cannot be restored: fresh episodes"):
        other.load_state_dict(state)
    for get in (
        lambda env: env.return_rms.var,
        lambda env: env.env.return_queue,
        lambda env: env.env.env.obs_rms.mean.tolist(),
        lambda env: env.env.env.obs_rms.count,
    ):
        assert get(other.env) == get(streams.env)
    assert other.env.env.episode_count > 2
