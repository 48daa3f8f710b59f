"""`spinup.compat.gym`: programs written for the old gym run unchanged."""

import csv
import re
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest

import spinup.compat.gym as gym
from spinup.compat import install
from spinup.envs import adapt_env, env_record
from spinup.policies.loading import load_policy_and_env
from spinup.utils.errors import SpinupError
from tests.helpers.processes import run_python

HERE = Path(__file__).parent


def test_reset_and_step_have_the_old_shapes():
    env = gym.make("CartPole-v1")
    o = env.reset()
    assert isinstance(o, np.ndarray) and env.observation_space.contains(o)
    o, r, done, info = env.step(env.action_space.sample())
    assert r == 1.0 and done is False and info == {}
    o, info = env.reset(return_info=True)
    assert info == {} and o.shape == (4,)
    assert isinstance(env.observation_space, gym.spaces.Box) and isinstance(env, gym.Env)
    env.close()


def test_a_time_limit_is_told_from_an_end():
    env = gym.make("Pendulum-v1")
    env.reset()
    for _ in range(199):
        _, _, done, info = env.step([0.0])
        assert not done and "TimeLimit.truncated" not in info
    _, _, done, info = env.step([0.0])
    assert done and info["TimeLimit.truncated"] is True
    assert env._max_episode_steps == env.spec.max_episode_steps == 200
    env = gym.make("CartPole-v1")
    env.reset()
    done = False
    while not done:
        _, _, done, info = env.step(0)  # it falls over
    assert "TimeLimit.truncated" not in info


def test_seeding_repeats_episodes_and_actions():
    def play(seed):
        env = gym.make("CartPole-v1")
        assert env.seed(seed) == [seed]
        first, actions = env.reset(), [env.action_space.sample() for _ in range(20)]
        return first.tolist(), actions, env.reset().tolist()

    assert play(3) == play(3)
    assert play(3)[0] != play(4)[0] and play(3)[0] != play(3)[2]


def test_retired_ids_run_their_successor():
    with pytest.warns(UserWarning, match="Pendulum-v0 .*Pendulum-v1"):
        assert gym.make("Pendulum-v0").spec.id == "Pendulum-v1"


def test_an_environment_is_drawn_when_it_is_asked_for():
    env = gym.make("CartPole-v1")
    env.reset()
    assert env.render(mode="rgb_array").ndim == 3
    env.step(0)
    assert env.render("rgb_array").dtype == np.uint8
    env.close()


class Corridor(gym.Env):
    """A user's environment of that time."""

    observation_space = gym.spaces.Box(low=0, high=9, shape=(1,), dtype=np.float32)
    action_space = gym.spaces.Discrete(2)

    def seed(self, seed=None):
        self.np_random, seed = gym.utils.seeding.np_random(seed)
        return [seed]

    def reset(self):
        self.at = self.np_random.randint(3)
        return np.array([self.at], np.float32)

    def step(self, action):
        self.at += action
        return np.array([self.at], np.float32), -1.0, self.at == 9, {}


class Halved(gym.ObservationWrapper):
    def observation(self, observation):
        return observation / 2


class Backward(gym.ActionWrapper):
    def action(self, action):
        return 1 - action


def test_users_classes_keep_the_old_interface_also_by_their_id():
    gym.register(id="Corridor-v0", entry_point=Corridor, max_episode_steps=20)
    try:
        env = gym.make("Corridor-v0")
        env.seed(2)
        first = env.reset()
        assert first == np.random.RandomState(2).randint(3)
        for _ in range(19):
            assert env.step(0)[1:3] == (-1.0, False)
        assert env.step(0)[2:] == (True, {"TimeLimit.truncated": True})
        env = Backward(Halved(env))
        o = env.reset()
        assert env.step(0)[0] == o + 0.5 and env.step(1)[0] == o + 0.5
        assert env.unwrapped.at == 2 * o + 1 and isinstance(env, gym.Wrapper)
        assert env.spec.id == "Corridor-v0"
    finally:
        del gymnasium.registry["Corridor-v0"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_our_algorithms_take_old_environments():
    env = adapt_env(Halved(gym.make("CartPole-v1")))
    o, _ = env.reset(seed=3)
    again, _ = gymnasium.make("CartPole-v1").reset(seed=3)
    np.testing.assert_allclose(o, again / 2)
    assert len(env.step(0)) == 5
    record = env_record(env)
    assert record["id"] == "CartPole-v1" and record["max_episode_steps"] == 500
    assert record["wrappers"][0] == "Halved"


def test_gymnasiums_wrappers_apply():
    env = gym.wrappers.TimeLimit(gym.wrappers.RescaleAction(gym.make("Pendulum-v1"), -1.0, 1.0), 3)
    env.reset()
    assert [env.step([0.5])[2] for _ in range(3)] == [False, False, True]
    assert env.action_space.high[0] == 1.0
    limited = gym.wrappers.TimeLimit(Halved(Corridor()), 2)  # around a class of the user
    limited.seed(0)
    limited.reset()
    assert [limited.step(0)[2] for _ in range(2)] == [False, True]
    with pytest.raises(AttributeError, match=r"Monitor.*RecordVideo replaces it"):
        _ = gym.wrappers.Monitor


def test_small_names():
    before = gymnasium.logger.min_level
    gym.logger.set_level(gym.logger.ERROR)
    assert gymnasium.logger.min_level == 40
    gym.logger.set_level(before)
    assert gym.spec("CartPole-v1").id == "CartPole-v1"
    assert "CartPole-v1" in [spec.id for spec in gym.envs.registry.all()]
    assert "CartPole-v1" in gym.envs.registration.registry.env_specs
    assert gym.__version__ < "0.26"
    with pytest.raises(NotImplementedError, match="Env must define reset"):
        gym.Env().reset()


@pytest.fixture
def no_gym():
    """No `gym` is imported before or after the test."""

    def forget():
        for name in [n for n in sys.modules if n.partition(".")[0] == "gym"]:
            del sys.modules[name]

    forget()
    yield
    forget()


def test_install_makes_gym_importable_everywhere(no_gym, monkeypatch):
    assert install() is gym and install() is gym
    scope = {}
    exec(
        "import gym\nimport gym.spaces\nfrom gym.spaces import Box\nfrom gym import wrappers\n"
        "from gym.utils import seeding\nfrom gym.envs.registration import register\n"
        "from gym.wrappers import TimeLimit\nfrom gym.spaces.box import Box as B\n",
        scope,
    )
    assert scope["gym"] is gym and scope["Box"] is scope["B"] is gymnasium.spaces.Box
    monkeypatch.setitem(sys.modules, "gym", sys)
    with pytest.raises(SpinupError, match="gym is already imported"):
        install()


@pytest.mark.filterwarnings("ignore:.*is not available with gymnasium")
def test_the_program_in_the_documentation_runs(no_gym, repo_root):
    page = (repo_root / "docs" / "original.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", page, re.M | re.S)
    scope = {}
    exec(compile(program, "docs/original.md", "exec"), scope)
    assert scope["done"] is True and scope["frame"].ndim == 3
    scope["env"].close()


def start(folder, *words, expect=0):
    done = run_python("-m", "spinup.compat", *words, expect=expect, cwd=folder)
    return done


def table(folder):
    with open(folder / "progress.txt", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def test_an_old_on_policy_program_runs_unchanged_and_learns(tmp_path):
    start(tmp_path, HERE / "old_on_policy.py", "--exp_name", "mine", "--epochs", "8")
    run = tmp_path / "data" / "mine" / "mine_s0"
    rows = table(run)
    assert len(rows) == 8 and rows[0]["TotalEnvInteracts"] == "1000"
    returns = [float(row["AverageEpRet"]) for row in rows]
    assert returns[-1] > 2 * returns[0]
    assert len({row["Time"] for row in rows}) == 8
    # what it saved opens here, and in a program that trusts it
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        env, get_action = load_policy_and_env(run, trust_pickle=True)
        o, _ = env.reset(seed=0)
        assert get_action(o) in (0, 1) and len(env.step(get_action(o))) == 5


def test_an_old_off_policy_program_runs_unchanged(tmp_path):
    start(tmp_path, HERE / "old_off_policy.py")
    run = tmp_path / "data" / "old_ddpg"
    rows = table(run)
    assert [row["Epoch"] for row in rows] == ["1", "2"]
    assert -1 > float(rows[0]["AverageEpRet"]) > -200  # scaled by the wrapper
    assert float(rows[0]["TestEpRet"]) < -200  # not scaled
    assert {p.name for p in run.glob("vars*.pkl")} == {"vars1.pkl", "vars2.pkl"}


def test_a_program_that_is_not_there_is_one_sentence(tmp_path):
    for words in ([], ["nowhere.py"]):
        done = start(tmp_path, *words, expect=2)
        assert done.stderr.startswith("spinup: ") and done.stderr.count("\n") == 1
