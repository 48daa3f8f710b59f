"""`vars.pkl`: the environment for old notebooks, which costs a run nothing and changes nothing."""

import pickle
import threading

import gymnasium as gym
import numpy as np
import pytest

import spinup
from spinup.envs import make_env
from spinup.runs.storage import policies


def train(folder, env_fn, **changes):
    return spinup.vpg_pytorch(
        env_fn,
        ac_kwargs={"hidden_sizes": (4,)},
        steps_per_epoch=40,
        epochs=2,
        logger_kwargs={"output_dir": str(folder), "quiet": True},
        **changes,
    )


def rows(folder):
    """The table of a run without its last column, the time."""
    lines = (folder / "progress.txt").read_text().splitlines()
    return [line.rpartition("\t")[0] for line in lines]


def saved_env(folder):
    return pickle.loads((folder / "vars.pkl").read_bytes())["env"]


def test_a_run_saves_its_environment_as_it_was_made(tmp_path):
    train(tmp_path, lambda: gym.wrappers.TimeAwareObservation(gym.make("CartPole-v1")))
    env = saved_env(tmp_path)
    assert type(env).__name__ == "TimeAwareObservation" and env.spec.id == "CartPole-v1"
    o, _ = env.reset(seed=0)
    assert o.shape == (5,) and len(env.step(1)) == 5
    assert not {"reset", "step"} & set(vars(env))  # without the checks of a run's first steps


def test_adapters_are_not_saved(tmp_path):
    train(tmp_path, lambda: make_env("FrozenLake-v1"))
    assert isinstance(saved_env(tmp_path).observation_space, gym.spaces.Discrete)


class Odd(gym.Env):
    """An environment that pickling changes; what it holds is a class attribute."""

    observation_space = gym.spaces.Box(-9, 9, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    held = None

    def __init__(self):
        self.contents = self.held

    def __getstate__(self):
        np.random.random(7)
        np.random.seed(5)
        return self.__dict__

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.full(2, np.random.random(), np.float32), {}

    def step(self, action):
        self.t += 1
        o = self.np_random.normal(size=2) + np.random.random()
        return o.astype(np.float32), float(action), False, self.t == 7, {}


@pytest.mark.parametrize(
    ("held", "reason"),
    [
        (threading.Lock(), "cannot pickle"),
        (np.zeros(1 << 16), "it needs more than 0 MiB"),
    ],
)
def test_pickling_changes_no_run_and_what_cannot_be_pickled_is_skipped(
    tmp_path, monkeypatch, capsys, held, reason
):
    train(tmp_path / "saved", Odd)
    assert isinstance(saved_env(tmp_path / "saved"), Odd) and not capsys.readouterr().out
    monkeypatch.setattr(Odd, "held", held)
    monkeypatch.setattr(policies, "MOST_BYTES", 1 << 18)
    train(tmp_path / "skipped", Odd)
    (line,) = capsys.readouterr().out.splitlines()
    assert "vars.pkl is not written because it cannot be pickled" in line and reason in line
    assert not (tmp_path / "skipped" / "vars.pkl").exists()
    monkeypatch.setattr(policies, "save_env", lambda logger, env: None)
    train(tmp_path / "never", Odd)
    assert rows(tmp_path / "saved") == rows(tmp_path / "skipped") == rows(tmp_path / "never")


def test_it_is_written_once_and_moves_aside_with_its_run(tmp_path):
    train(tmp_path, lambda: make_env("CartPole-v1"))
    path = tmp_path / "vars.pkl"
    path.write_bytes(b"not opened, not replaced")
    train(tmp_path, lambda: make_env("CartPole-v1"), resume=True)
    assert path.read_bytes() == b"not opened, not replaced"
    train(tmp_path, lambda: make_env("CartPole-v1"))
    assert (tmp_path / ".old" / "001" / "vars.pkl").read_bytes() == b"not opened, not replaced"
    assert saved_env(tmp_path).spec.id == "CartPole-v1"


def test_environments_in_other_processes_are_not_fetched(tmp_path):
    train(tmp_path, lambda: make_env("CartPole-v1"), vector="async", num_envs=2)
    assert not (tmp_path / "vars.pkl").exists()
