"""Test episodes: they change nothing in training, and the log says what they were."""

from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from torch import nn

from spinup.algos.common.evaluation import play_test
from spinup.utils.errors import SpinupError
from tests.helpers.loops import CONTINUOUS, OFF_POLICY, Tape, Whole, read, vectorized


class Drawing(gym.Wrapper):
    """Draws from NumPy's global generator: when it is made, and in every step."""

    def __init__(self, env):
        super().__init__(env)
        np.random.random(3)

    def step(self, action):
        o, r, terminated, truncated, info = self.env.step(action)
        return o, r + np.random.random(), terminated, truncated, info


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, obs, act):
        return self.net(torch.cat([obs, act], -1)).squeeze(-1)


class Dropout(nn.Module):
    """An actor-critic of a user's own that draws whenever it acts."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.pi, self.q = nn.Linear(3, 1), Q()

    def act(self, obs):
        with torch.no_grad():
            return (self.pi(obs) + 0.1 * torch.randn(1)).numpy()


def pair(train, tracked, algo, make_env_fn, **kwargs):
    """The same run without test episodes and with three of them; fails unless training agrees."""
    runs = []
    for n in (0, 3):
        tracked.clear()
        run = train(algo, make_env_fn(), num_test_episodes=n, epochs=2, **kwargs)
        runs.append(SimpleNamespace(run=run, tracked=dict(tracked[0])))
    without, with_tests = runs
    for p, q in zip(without.run.ac.parameters(), with_tests.run.ac.parameters(), strict=True):
        assert torch.equal(p, q)
    buffers = [r.tracked["buffer"] for r in runs]
    assert buffers[0].ring.total == buffers[1].ring.total > 70
    for name, x in buffers[0].ring.data.items():
        assert np.array_equal(x, buffers[1].ring.data[name]), name
    assert buffers[0].rng.bit_generator.state == buffers[1].rng.bit_generator.state
    for one, other in zip(without.run.rows, with_tests.run.rows, strict=True):
        assert repr(one) == repr({k: v for k, v in other.items() if "Test" not in k})
        assert other["TestEpLen"] > 0 and other.keys() - one.keys() >= {"AverageTestEpRet"}
    return with_tests.run


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_test_episodes_change_nothing_in_training(train, tracked, algo):
    pair(train, tracked, algo, lambda: None)


@pytest.mark.parametrize("num_envs", [1, 2])
def test_test_episodes_of_an_environment_with_global_randomness_change_nothing(
    train, tracked, num_envs
):
    pair(train, tracked, "td3", lambda: lambda: Drawing(gym.make("Pendulum-v1")), num_envs=num_envs)


@pytest.mark.parametrize("algo", ["ddpg", "sac"])
def test_test_episodes_in_the_training_environment_itself_change_nothing(train, tracked, algo):
    def make_env_fn():
        env = gym.make("Pendulum-v1")
        return lambda: env

    # the epoch ends in the middle of an episode
    pair(train, tracked, algo, make_env_fn, steps_per_epoch=50, max_ep_len=17)


def test_test_episodes_of_a_network_that_draws_change_nothing(train, tracked):
    pair(train, tracked, "ddpg", lambda: "Pendulum-v1", actor_critic=Dropout, start_steps=3)


@pytest.mark.parametrize("cls", [SyncVectorEnv, AsyncVectorEnv])
def test_vector_environments_are_tested_in_one_of_their_own(train, cls):
    run = train("ddpg", lambda: cls([lambda: gym.make("Pendulum-v1")] * 2))
    assert run.rows[0]["TestEpLen"] == 20 and run.rows[0]["TotalEnvInteracts"] == 40


def test_a_vector_environment_that_cannot_be_tested_is_refused_at_once(train, tmp_path):
    env_fn = vectorized(cls=Whole)
    with pytest.raises(SpinupError, match="use num_test_episodes=0") as error:
        train("ddpg", env_fn, steps_per_epoch=60)
    assert "\n" not in str(error.value) and list(tmp_path.iterdir()) == []
    assert train("ddpg", env_fn, steps_per_epoch=60, num_test_episodes=0).rows


def test_test_episodes_have_seeds_of_their_own_that_depend_on_the_epoch_alone(play):
    def seeds_of(num_envs=1, **kwargs):
        made = []

        class Watched(Tape):
            def __init__(self):
                super().__init__()
                made.append(self)

        settings = {"epochs": 3, "num_test_episodes": 2, "num_envs": num_envs, **kwargs}
        play(Watched, get_action=lambda o: np.zeros(2, np.float32), **settings)
        assert len(made) == num_envs + 1  # one test environment for the whole run
        return [s for env in made[:-1] for s in env.seeds], made[-1].seeds

    training, tests = seeds_of()
    assert len(tests) == 6 and None not in tests
    assert len({*tests, *training}) == len(tests) + len(training)
    for other in ({"num_envs": 2}, {"steps_per_epoch": 20}, {"start_steps": 7}, {"max_ep_len": 3}):
        assert seeds_of(**other)[1] == tests
    assert not set(seeds_of(seed=1)[1]) & set(tests)


def test_an_environment_that_draws_from_its_spaces_repeats_in_tests_too(train):
    class Sampling(gym.Env):
        def __init__(self):
            self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
            self.action_space = spaces.Box(-1, 1, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            return self.observation_space.sample(), float(action[0]), False, False, {}

    one, other = (train("ddpg", Sampling, epochs=2, max_ep_len=5) for _ in range(2))
    assert one.rows == other.rows
    assert one.rows[0]["AverageTestEpRet"] != one.rows[1]["AverageTestEpRet"]


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_test_episodes_are_played_without_noise(train, algo):
    made = []

    class Still(Tape):
        def __init__(self):
            super().__init__(length=30)
            made.append(self)

        def obs(self):
            return np.ones(3, np.float32)

    train(algo, Still, epochs=1)
    training, test = (np.unique(env.actions, axis=0) for env in made)
    assert len(training) > 10 and len(test) == 1


def test_the_log_says_what_the_test_episodes_were(play):
    acts = []
    run = play(
        get_action=lambda o: acts.append(o.copy()) or np.zeros(2, np.float32),
        num_test_episodes=3,
        max_ep_len=4,
    )
    rows = read(run)
    assert [row["TestEpLen"] for row in rows] == [4, 4]
    assert [row["AverageTestEpRet"] for row in rows] == [60, 60]
    assert [int(o[2]) for o in acts] == [0, 1, 2, 3] * 6  # the first observation included


# ---- threads ---------------------------------------------------------------------------------


def test_test_episodes_accept_rewards_that_are_arrays_of_one_element():
    class ArrayRewards(Tape):
        def step(self, action):
            o, r, *rest = super().step(action)
            return o, np.array([r]), *rest

    found = play_test(ArrayRewards(length=3), lambda o: np.zeros(2), 5, 100)
    assert found == {"TestEpRet": 30.0, "TestEpLen": 3.0}
