"""`diagnostics.txt`: its columns, that it changes nothing, and that it belongs to the run."""

import errno
import os
import re
import shutil
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import Env, spaces
from gymnasium.wrappers import FrameStackObservation
from torch import nn

from spinup import EpochLogger, SpinupError, registry
from spinup.algos.pytorch.common.nets import MLPActorCritic
from spinup.algos.pytorch.dqn.core import MLPQNetwork
from spinup.runs.storage.arrays import Piece
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint

ALGOS = tuple(row.name for row in registry.ROWS)
# Every column is written by one of these: algorithm, environment, changes.
KINDS = [
    *((algo, None, {}) for algo in ALGOS),
    ("ppo", "Pendulum-v1", {"num_envs": 2, "shards": 2}),
    ("sac", "CartPole-v1", {"num_envs": 2}),
    ("acer", "Pendulum-v1", {"num_envs": 2}),
    ("dqn", None, {"prioritized": True, "n_step": 3}),
    ("her", None, {"base": "sac"}),
]
NORMALIZED = {"hidden_sizes": (8,), "normalize_obs": True, "normalize_ret": True}


def read(folder, name="diagnostics.txt"):
    """The columns of a table, as text."""
    lines = (Path(folder) / name).read_text().splitlines()
    rows = [line.split("\t") for line in lines]
    assert all(len(row) == len(rows[0]) for row in rows)
    return {name: [row[i] for row in rows[1:]] for i, name in enumerate(rows[0])}


def numbers(folder):
    return {name: np.array(x, float) for name, x in read(folder).items()}


def progress(folder):
    columns = read(folder, "progress.txt")
    del columns["Time"]
    return columns


class Pixels(Env):
    """A screen of noise: an image, which networks read through an encoder."""

    observation_space = spaces.Box(0, 255, (6, 6, 2), np.uint8)
    action_space = spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self.screen(), {}

    def screen(self):
        return self.np_random.integers(256, size=self.observation_space.shape, dtype=np.uint8)

    def step(self, action):
        return self.screen(), 1.0, bool(self.np_random.random() < 0.1), False, {}


class Frame(Pixels):
    """One frame of a stack."""

    observation_space = spaces.Box(0, 255, (6, 6), np.uint8)


def stacks():
    return FrameStackObservation(Frame(), 3)


# ---- the columns ---------------------------------------------------------------------------------


def test_the_page_explains_exactly_the_columns_that_are_written(tiny_runs, repo_root):
    page = (repo_root / "docs" / "run-directory.md").read_text()
    section = page.partition("## diagnostics.txt")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`\w+`(?:, `\w+`)*) \|", section, re.MULTILINE)
    explained = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert len(explained) == len(set(explained))
    written = {c for algo, env, more in KINDS for c in read(tiny_runs(algo, env, **more)[0])}
    assert set(explained) == written


@pytest.mark.parametrize("algo, env, more", KINDS)
def test_every_epoch_has_a_row_of_finite_numbers(tiny_runs, algo, env, more):
    folder, _ = tiny_runs(algo, env, **more)
    columns = numbers(folder)
    names = list(columns)
    assert names[0] == "Epoch" and names[-1] == "StepsPerSec"
    assert columns["Epoch"].tolist() == [0, 1]
    late = {"UpdNormPi", "UpdNormQ"}  # compare with the row before
    unknown = {n for n, x in columns.items() if not np.isfinite(x).all()}
    # a DQN batch may hold no path end; CartPole's returns may all be alike
    assert unknown - {"TermShare", "CutShare", "QBias"} == late & set(names)
    assert all(np.isnan(columns[n][0]) and columns[n][1] > 0 for n in late & set(names))
    shares = ("TermShare", "CutShare", "DoneShare", "ActClipped", "RatioESS", "DeadUnits")
    for name in set(shares) & set(names):
        assert ((columns[name] >= 0) & (columns[name] <= 1)).all() | np.isnan(columns[name]).any()


def test_columns_of_data_are_those_of_the_environment(tmp_path, tiny_runs):
    class Known(Env):
        """Rewards 1 and 3 in turns; terminates after four steps, and the observation is -7."""

        observation_space = spaces.Box(-9, 9, (2,))
        action_space = spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.t = 0
            return np.array([0.0, 1.0], np.float32), {}

        def step(self, action):
            self.t += 1
            return np.array([-7.0, 1.0], np.float32), 1.0 + 2 * (self.t % 2), self.t == 4, False, {}

    for algo, more in (("ppo", {}), ("dqn", {"n_step": 1, "replay_size": 400})):
        tiny_runs.train(algo, tmp_path / algo, Known, **more)
        columns = numbers(tmp_path / algo)
        assert columns["TermShare"].tolist() == [1, 1]
        assert columns["CutShare"].tolist() == [0, 0]
        assert columns["ObsAbsMax"].tolist() == [7, 7]
        assert columns["RewMin"].tolist() == [1, 1] and columns["RewMax"].tolist() == [3, 3]
        if algo == "ppo":
            assert columns["RewMean"].tolist() == [2, 2] and columns["RewStd"].tolist() == [1, 1]
            assert (columns["AdvMean"] > 1).all()  # not normalized yet
        else:
            assert (abs(columns["DoneShare"] - 0.25) < 0.1).all()
            assert (columns["ReplayAge"] < 80).all()


@pytest.mark.parametrize("algo, env", [("ppo", Pixels), ("dqn", stacks), ("acer", stacks)])
def test_images_and_stacks_of_frames_are_measured(tmp_path, tiny_runs, algo, env):
    tiny_runs.train(algo, tmp_path, env, ac_kwargs={"hidden_sizes": (8,)})
    columns = numbers(tmp_path)
    assert 200 < columns["ObsAbsMax"][0] <= 255
    assert 0 <= columns["DeadUnits"][1] <= 1
    assert len(columns["Epoch"]) == 2


# ---- it changes nothing --------------------------------------------------------------------------


def same_learning(one, other):
    assert progress(one) == progress(other)
    files = [folder / "pyt_save" / "policy.safetensors" for folder in (one, other)]
    assert files[0].read_bytes() == files[1].read_bytes()
    # nor does anything else differ, such as the global RNGs, which only user code draws from
    states = [load_checkpoint(folder / "checkpoints")[0] for folder in (one, other)]
    for state in states:
        for name in ("seconds", "logger", "diagnostics"):
            state.pop(name, None)
    np.testing.assert_equal(*map(plain, states))


def plain(state):
    """A state with arrays in place of tensors and pieces."""
    if isinstance(state, Piece):
        return state.load()
    if isinstance(state, dict):
        return {name: plain(x) for name, x in state.items()}
    if isinstance(state, list | tuple):
        return [plain(x) for x in state]
    return state.numpy() if isinstance(state, torch.Tensor) else state


@pytest.mark.parametrize("algo, env, more", KINDS)
def test_a_run_learns_the_same_without_it(tiny_runs, tmp_path, monkeypatch, algo, env, more):
    folder, _ = tiny_runs(algo, env, **more)
    assert (folder / "diagnostics.txt").exists()
    monkeypatch.setenv("SPINUP_DIAGNOSTICS", "0")
    tiny_runs.train(algo, tmp_path, env, **more)
    assert not (tmp_path / "diagnostics.txt").exists()
    same_learning(folder, tmp_path)


def test_normalized_observations_and_returns_stay_as_they_are(tiny_runs, tmp_path, monkeypatch):
    tiny_runs.train("ppo", tmp_path / "on", ac_kwargs=NORMALIZED)
    monkeypatch.setenv("SPINUP_DIAGNOSTICS", "0")
    tiny_runs.train("ppo", tmp_path / "off", ac_kwargs=NORMALIZED)
    same_learning(tmp_path / "on", tmp_path / "off")


class Counting(MLPActorCritic):
    """A user's networks, which count their calls and behave accordingly."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, hidden_sizes=(8,), **kwargs)
        self.calls, inner = 0, self.v.forward

        def forward(obs):
            self.calls += 1
            return inner(obs) + 0.01 * self.calls

        self.v.forward = forward


class CountingQ(MLPQNetwork):
    """A user's Q-function, which also draws random numbers."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, hidden_sizes=(8,), **kwargs)
        self.q = Noisy(self.q)


class Noisy(nn.Module):
    """Another value at every call."""

    def __init__(self, inner):
        super().__init__()
        self.inner, self.calls = inner, 0

    def forward(self, obs):
        self.calls += 1
        return self.inner(obs) + 0.01 * (self.calls % 7) + 1e-3 * torch.randn(())


@pytest.mark.parametrize("algo, cls", [("ppo", Counting), ("dqn", CountingQ)])
def test_a_users_networks_are_not_called(tiny_runs, tmp_path, monkeypatch, algo, cls):
    tiny_runs.train(algo, tmp_path / "on", actor_critic=cls)
    columns = numbers(tmp_path / "on")
    monkeypatch.setenv("SPINUP_DIAGNOSTICS", "0")
    tiny_runs.train(algo, tmp_path / "off", actor_critic=cls)
    same_learning(tmp_path / "on", tmp_path / "off")
    # what needs no forward pass is measured all the same
    there = {"ppo": {"ExplVarOld", "GradNormPi", "GradNormV", "UpdNormPi", "RetMean"}}
    there["dqn"] = {"GradNormQ", "UpdNormQ", "TargDrift", "DoneShare"}
    assert there[algo] <= set(columns)
    assert not {"ExplVarNew", "RatioMin", "DeadUnits", "QPi", "TDErrAbs", "QBias"} & set(columns)


def test_an_encoder_of_ones_own_is_not_called(tiny_runs, tmp_path):
    class Own(nn.Module):
        features = 3

        def __init__(self, space):
            super().__init__()
            self.linear = nn.Linear(int(np.prod(space.shape)), 3)

        def forward(self, x):
            return self.linear(x.flatten(1))

    tiny_runs.train("dqn", tmp_path, Pixels, ac_kwargs={"encoder": Own})
    assert "GradNormQ" in read(tmp_path) and "QPi" not in read(tmp_path)


# ---- it belongs to the run -----------------------------------------------------------------------


def test_a_new_run_in_the_same_directory_moves_it_with_the_rest(tiny_runs, tmp_path, capsys):
    tiny_runs.train("vpg", tmp_path)
    first = (tmp_path / "diagnostics.txt").read_bytes()
    tiny_runs.train("vpg", tmp_path, seed=4)
    assert (tmp_path / ".old/001/diagnostics.txt").read_bytes() == first
    assert (tmp_path / ".old/001/progress.txt").exists() and not (tmp_path / ".old/002").exists()
    assert len(read(tmp_path)["Epoch"]) == 2
    assert capsys.readouterr().out.count("contained an earlier run") == 1
    tiny_runs.train("vpg", tmp_path, seed=5, overwrite=True)
    assert len(read(tmp_path)["Epoch"]) == 2 and not (tmp_path / ".old/002").exists()


def test_a_logger_of_ones_own_writes_none(tmp_path):
    logger = EpochLogger(output_dir=str(tmp_path), quiet=True)
    logger.log_tabular("Epoch", 0)
    logger.dump_tabular()
    logger.close()
    assert not (tmp_path / "diagnostics.txt").exists()


def test_a_table_of_that_name_is_the_users_own(tiny_runs, tmp_path):
    from spinup import vpg_pytorch
    from spinup.envs import make_env

    logger = {"output_dir": str(tmp_path), "output_fname": "diagnostics.txt", "quiet": True}
    vpg_pytorch(lambda: make_env("CartPole-v1"), steps_per_epoch=20, epochs=1, logger_kwargs=logger)
    assert "AverageEpRet" in read(tmp_path)


def test_a_longer_run_continues_the_table(tiny_runs, tmp_path, monkeypatch):
    tiny_runs.train("td3", tmp_path / "long", epochs=4)
    tiny_runs.train("td3", tmp_path / "short", epochs=2)
    # what the environment variable says now makes no difference
    monkeypatch.setenv("SPINUP_DIAGNOSTICS", "0")
    tiny_runs.train("td3", tmp_path / "short", epochs=4, resume=True)
    long, short = read(tmp_path / "long"), read(tmp_path / "short")
    del long["StepsPerSec"], short["StepsPerSec"]
    assert long == short


def test_a_run_that_began_without_it_continues_without_it(tiny_runs, tmp_path, monkeypatch):
    """As do runs of earlier versions, whose checkpoints do not mention it."""
    monkeypatch.setenv("SPINUP_DIAGNOSTICS", "0")
    tiny_runs.train("ppo", tmp_path, epochs=2)
    monkeypatch.delenv("SPINUP_DIAGNOSTICS")
    tiny_runs.train("ppo", tmp_path, epochs=3, resume=True)
    assert len(progress(tmp_path)["Epoch"]) == 3
    assert not (tmp_path / "diagnostics.txt").exists()


def test_a_full_disk_is_one_sentence_and_the_run_continues(tiny_runs, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(tiny_runs("vpg")[0], folder)

    def full(fd, data):
        if not os.path.samestat(os.fstat(fd), os.stat(folder / "diagnostics.txt")):
            return os.write(fd, data)
        os.write(fd, data[:5])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        disk = types.SimpleNamespace(**{**vars(os), "write": full})
        broken.setattr("spinup.runs.storage.tables.os", disk)
        with pytest.raises(SpinupError, match="No space left on device") as error:
            tiny_runs.train("vpg", folder, epochs=3, resume=True)
    assert f"cannot write {folder / 'diagnostics.txt'}" in str(error.value)
    assert len(read(folder)["Epoch"]) == 2  # nothing is half-written
    tiny_runs.train("vpg", folder, epochs=3, resume=True)
    assert read(folder)["Epoch"] == ["0", "1", "2"]


def test_a_changed_table_is_not_continued(tiny_runs, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(tiny_runs("vpg")[0], folder)
    path = folder / "diagnostics.txt"
    path.write_text(path.read_text().replace("\t1.0\t", "\t2.0\t", 1))
    with pytest.raises(SpinupError, match=r"diagnostics\.txt were changed"):
        tiny_runs.train("vpg", folder, epochs=3, resume=True)
    state, _ = load_checkpoint(folder / "checkpoints")
    state["diagnostics"] = 3
    save_checkpoint(folder / "checkpoints", state, 10**6)
    with pytest.raises(SpinupError, match="'diagnostics' is missing or has the wrong type"):
        tiny_runs.train("vpg", folder, epochs=3, resume=True)
