"""Callbacks after each epoch, the best policy, and test episodes of on-policy algorithms."""

import errno
import json
import math
import os
import shutil

import gymnasium as gym
import numpy as np
import pytest
import torch

from spinup import SpinupError, registry
from spinup.cli.test_policy import main as play_command
from spinup.policies.loading import load_policy_and_env, load_pytorch_policy
from spinup.policies.saved import load_policy
from tests.helpers.training import read_rows

ALGOS = registry.algorithms()
ON_POLICY = [row.name for row in registry.ROWS if row.on_policy]


@pytest.fixture
def train(tmp_path, tiny_runs):
    def train(algo, folder="run", env=None, **changes):
        """Train for a few tiny epochs; return the network and the rows without the clock."""
        ac = tiny_runs.train(algo, tmp_path / folder, env, **{"epochs": 3, "seed": 1, **changes})
        return ac, read_rows(tmp_path / folder)

    return train


def same(one, other):
    """Equal rows; NaN equals NaN."""
    return np.array_equal([list(r.values()) for r in one], [list(r.values()) for r in other], True)


def weights(ac):
    return {name: p.detach().clone() for name, p in ac.named_parameters()}


# ---- on_epoch --------------------------------------------------------------------------------


@pytest.mark.parametrize("algo", ALGOS)
def test_on_epoch_sees_every_row_and_the_networks(train, algo):
    seen = []

    def on_epoch(row, ac):
        assert row.pop("Time") >= 0
        seen.append((row, ac))

    ac, rows = train(algo, epochs=2, on_epoch=on_epoch)
    assert same([row for row, _ in seen], rows)
    assert [list(row) for row, _ in seen] == [list(row) for row in rows]
    assert all(net is ac for _, net in seen)


@pytest.mark.parametrize("algo", ["ppo", "ddpg"])
def test_true_ends_the_run_early_with_everything_saved(train, algo, tmp_path):
    ac, rows = train(algo, epochs=5, save_freq=100, on_epoch=lambda row, ac: row["Epoch"] == 1)
    assert len(rows) == 2
    assert (tmp_path / "run" / ".finished").is_file()
    saved = load_policy(tmp_path / "run")[1]
    assert all(np.array_equal(p.numpy(), saved[name]) for name, p in weights(ac).items())
    # it can be continued: what follows is what a run without the callback would have done
    more, rows = train(algo, epochs=5, save_freq=100, resume=True)
    whole, expected = train(algo, "whole", epochs=5, save_freq=100)
    assert same(rows, expected)
    assert all(torch.equal(p, weights(whole)[name]) for name, p in weights(more).items())


def test_a_callback_changes_nothing_and_may_change_on_resume(train):
    plain = train("ppo", "plain")
    train("ppo", "called", epochs=1, on_epoch=lambda row, ac: None)
    called = train("ppo", "called", on_epoch=lambda row, ac: 0, resume=True)
    assert same(plain[1], called[1])


def test_the_callback_is_named_in_the_config_and_is_no_flag(train, tmp_path, capsys):
    from spinup.run import main

    def my_callback(row, ac):
        return False

    train("vpg", epochs=1, on_epoch=my_callback)
    assert json.loads((tmp_path / "run" / "config.json").read_text())["on_epoch"] == "my_callback"
    assert main(["vpg", "--env", "CartPole-v1", "--on_epoch", "x"]) == 2
    assert "pass a function from Python" in capsys.readouterr().err
    with pytest.raises(SpinupError, match="on_epoch=3 must be a function of a row"):
        train("vpg", "other", on_epoch=3)


# ---- save_best -------------------------------------------------------------------------------


class Scripted(gym.Env):
    """Episodes of 20 steps whose reward follows a script, one entry per 40 steps."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    script = (1.0, 3.0, 2.0, 3.0, 0.0)

    def __init__(self):
        self.t = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        reward = self.script[min(self.t // 40, len(self.script) - 1)]
        self.t += 1
        truncated = self.t % 20 == 0
        return np.zeros(2, np.float32), reward, False, truncated, {}


def test_the_best_policy_is_that_of_the_first_epoch_with_the_highest_return(train, tmp_path):
    kept = []
    train(
        "vpg",
        env=Scripted,
        epochs=5,
        save_best=True,
        save_freq=100,
        on_epoch=lambda row, ac: kept.append(weights(ac)),
    )
    meta, tensors = load_policy(tmp_path / "run" / "best")
    assert (meta["epoch"], meta["return"]) == (1, 60.0)
    assert all(np.array_equal(p.numpy(), tensors[name]) for name, p in kept[1].items())
    assert not all(np.array_equal(p.numpy(), tensors[name]) for name, p in kept[3].items())


def test_test_episodes_decide_where_there_are_any(train, tmp_path):
    _, rows = train("ddpg", epochs=4, save_best=True, num_test_episodes=2)
    returns = [row["AverageTestEpRet"] for row in rows]
    meta, _ = load_policy(tmp_path / "run" / "best")
    assert (meta["epoch"], meta["return"]) == (int(np.argmax(returns)), max(returns))
    assert returns.index(max(returns)) != len(returns) - 1 or len(set(returns)) > 1


@pytest.mark.parametrize("algo", ["ppo", "sac"])
def test_the_best_policy_is_exact_under_resume(train, algo, tmp_path):
    train(algo, "whole", epochs=4, save_best=True)
    # the run is killed in its third epoch; the checkpoint of its first is the one to resume
    first = {"save_freq": 100, "save_best": True}

    class Killed(Exception):
        pass

    def kill(row, ac):
        if row["Epoch"] == 2:
            raise Killed

    with pytest.raises(Killed):
        train(algo, "parts", epochs=4, on_epoch=kill, **first)
    train(algo, "parts", epochs=4, resume=True, **first)
    assert same(read_rows(tmp_path / "whole"), read_rows(tmp_path / "parts"))
    one, other = (load_policy(tmp_path / run / "best") for run in ("whole", "parts"))
    assert one[0]["epoch"] == other[0]["epoch"] and one[0]["return"] == other[0]["return"]
    assert all(np.array_equal(one[1][name], other[1][name]) for name in one[1])


def test_a_resumed_run_remembers_how_good_the_best_was(train, tmp_path):
    class Falling(Scripted):
        clock, script = [0], (3.0, 1.0, 2.0)  # the clock runs on in the resumed run

        def step(self, action):
            self.t = self.clock[0]
            self.clock[0] += 1
            return super().step(action)

    train("vpg", env=Falling, epochs=1, save_best=True)
    _, rows = train("vpg", env=Falling, epochs=3, save_best=True, resume=True)
    assert [row["AverageEpRet"] for row in rows] == [60.0, 20.0, 40.0]
    assert load_policy(tmp_path / "run" / "best")[0]["epoch"] == 0


def test_an_epoch_without_a_finished_episode_is_never_the_best(train, tmp_path):
    _, rows = train("ppo", env="Pendulum-v1", epochs=2, max_ep_len=1000, save_best=True)
    assert math.isnan(rows[0]["AverageEpRet"])
    assert not (tmp_path / "run" / "best").exists()


def test_best_is_opened_by_name(train, tmp_path, capsys):
    run = tmp_path / "run"
    train("ppo", epochs=2, save_best=True)
    env, get_action = load_policy_and_env(run, itr="best")
    assert env.action_space.contains(get_action(env.reset(seed=0)[0]))
    assert callable(load_pytorch_policy(run, "best", True))
    assert play_command([str(run), "--itr", "best", "-nr", "-n", "1"]) == 0
    assert play_command([str(run), "--itr", "-1", "-nr", "-n", "1"]) == 0
    assert "AverageEpRet" in capsys.readouterr().out
    train("ppo", "plain", epochs=1)
    assert play_command([str(tmp_path / "plain"), "-i", "best", "-nr"]) == 2
    assert "has no best policy: train with save_best=True" in capsys.readouterr().err
    assert play_command([str(run), "-i", "worst"]) == 2
    # a new run in the same directory moves the old one's best policy away, too
    train("ppo", epochs=1)
    assert not (run / "best").exists() and (run / ".old" / "001" / "best").is_dir()


def test_save_best_must_stay_the_same_on_resume(train):
    train("ppo", epochs=1)
    with pytest.raises(SpinupError, match="save_best: False -> True"):
        train("ppo", resume=True, save_best=True)


# ---- test episodes of on-policy algorithms ---------------------------------------------------


@pytest.mark.parametrize("algo", ON_POLICY)
def test_test_episodes_add_columns_and_change_nothing_else(train, algo):
    ac, rows = train(algo, "plain", ac_kwargs={"hidden_sizes": (8,), "normalize_obs": True})
    other, tested = train(
        algo, "tested", num_test_episodes=2, ac_kwargs={"hidden_sizes": (8,), "normalize_obs": True}
    )
    names = [name for name in tested[0] if "Test" in name]
    assert names == [f"{s}TestEpRet" for s in ("Average", "Std", "Max", "Min")] + ["TestEpLen"]
    assert not [name for name in rows[0] if "Test" in name]
    assert same([{k: v for k, v in row.items() if k not in names} for row in tested], rows)
    assert all(torch.equal(p, weights(other)[name]) for name, p in weights(ac).items())
    assert all(1 <= row["TestEpLen"] <= 20 for row in tested)


def test_they_use_an_environment_of_their_own_and_resume_exactly(train, tmp_path):
    made = []

    class Watched(gym.Wrapper):
        def __init__(self):
            super().__init__(gym.make("CartPole-v1"))
            made.append(self)

    _, whole = train("ppo", "whole", env=Watched, num_test_episodes=3)
    assert len(made) == 2
    train("ppo", "parts", env=Watched, num_test_episodes=3, epochs=1)
    _, parts = train("ppo", "parts", env=Watched, num_test_episodes=3, resume=True)
    assert same(whole, parts)


def test_a_vector_environment_without_single_ones_cannot_be_tested(train):
    class Own(gym.vector.VectorEnv):
        num_envs = 2
        single_observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        single_action_space = gym.spaces.Discrete(2)
        observation_space = gym.vector.utils.batch_space(single_observation_space, 2)
        action_space = gym.vector.utils.batch_space(single_action_space, 2)

        def reset(self, *, seed=None, options=None):
            return np.zeros((2, 2), np.float32), {}

        def step(self, action):
            no = np.zeros(2, bool)
            return np.zeros((2, 2), np.float32), np.zeros(2), no, no, {}

    with pytest.raises(SpinupError, match="use num_test_episodes=0"):
        train("ppo", env=Own, num_test_episodes=1, max_ep_len=1000)


def test_a_full_disk_at_the_best_policy_is_one_sentence(train, tmp_path, monkeypatch):
    mkdir = os.mkdir

    def full(path, *args, **kwargs):
        if os.path.basename(path) == "best":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        mkdir(path, *args, **kwargs)

    monkeypatch.setattr(os, "mkdir", full)
    said = rf"cannot write {tmp_path / 'run' / 'best'} \(No space left on device\); the run has"
    with pytest.raises(SpinupError, match=said):
        train("vpg", save_best=True)


class Unregistered(gym.wrappers.TimeLimit):
    """An environment that only its pickle can make again."""

    spec = None

    def __init__(self):
        super().__init__(gym.make("CartPole-v1").unwrapped, 10)


@pytest.mark.parametrize("killed", [False, True])
def test_the_best_policy_finds_its_environment_in_a_trusted_pickle(train, tmp_path, killed):
    train("vpg", env=Unregistered, save_best=True)
    if killed:  # before the first save, but after the first epoch's row
        shutil.rmtree(tmp_path / "run" / "pyt_save")
    env, get_action = load_policy_and_env(tmp_path / "run", "best", trust_pickle=True)
    assert env.unwrapped.__class__.__name__ == "CartPoleEnv"
    assert get_action(env.reset(seed=0)[0]) in (0, 1)
