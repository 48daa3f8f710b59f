"""Runs whose observations are stacks of frames: each frame is stored once, nothing else changes."""

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.wrappers import FrameStackObservation

from spinup.algos.common import replay
from spinup.algos.common.prioritized import Priorities
from spinup.envs.streams import Streams
from spinup.runs.run import Run
from spinup.utils import memory
from spinup.utils.errors import SpinupError

SHAPE = (5, 5)


class Dot(gymnasium.Env):
    """A dot that moves on a small screen; episodes of up to `longest` steps."""

    def __init__(self, continuous=False, longest=12):
        self.longest = longest
        self.observation_space = spaces.Box(0, 255, SHAPE, np.uint8)
        self.action_space = spaces.Box(-1, 1, (1,)) if continuous else spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = int(self.np_random.integers(25))
        self.left = int(self.np_random.integers(1, self.longest + 1))
        return self.screen(), {}

    def screen(self):
        noise = self.np_random.integers(100, size=SHAPE, dtype=np.uint8)  # no frame twice
        noise.flat[self.at] = 255
        return noise

    def step(self, action):
        self.at = (self.at + (1 if np.sum(action) > 0.5 else -1)) % 25
        self.left -= 1
        return self.screen(), float(self.at == 12), self.at == 0, self.left == 0, {}


def stacked(*args):
    return FrameStackObservation(Dot(*args), 3)


KINDS = {
    "dqn": {"n_step": 3},
    "dqn_prioritized": {"n_step": 2, "prioritized": True, "num_envs": 2},
    "ddpg": {},
    "td3": {"num_envs": 2},
    "sac": {"vector": "async"},
    "acer": {"n_steps": 5, "num_envs": 2},
}


def run_of(train, kind, longest=12, **more):
    algo = kind.partition("_")[0]
    return train(
        algo,
        lambda: stacked(algo in ("ddpg", "td3", "sac"), longest),
        **{"steps_per_epoch": 60, "epochs": 2, "replay_size": 200, **KINDS[kind], **more},
    )


@pytest.fixture
def rings(monkeypatch):
    """The rings of the runs that a test makes."""
    found, track = [], Run.track

    def watch(run, **objects):
        track(run, **objects)
        if "buffer" in objects:
            found.append(objects["buffer"].ring)

    monkeypatch.setattr(Run, "track", watch)
    return found


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_is_the_same_whether_its_frames_are_stored_once_or_not(
    train, monkeypatch, rings, kind
):
    made = []
    for whole in (False, True):
        if whole:
            monkeypatch.setattr(Streams, "frame_stack", 1)
        made.append(run_of(train, kind))
    once, whole = made
    assert repr(once.rows) == repr(whole.rows)
    for p, q in zip(once.ac.parameters(), whole.ac.parameters(), strict=True):
        assert torch.equal(p, q)
    assert hasattr(rings[0], "frames") and type(rings[1]) is replay.Ring
    rows = np.arange(rings[1].size)
    for name, x in rings[1].take(rows).items():
        np.testing.assert_array_equal(rings[0].take(rows)[name], x)


@pytest.mark.parametrize("kind", ["dqn_prioritized", "td3", "acer"])
def test_a_resumed_run_with_frames_is_the_uninterrupted_one(train, tmp_path, rings, kind):
    # full long before its end, and short of frames, because episodes are short
    settings = {"replay_size": 160, "save_freq": 1, "longest": 1}
    whole = run_of(train, kind, **settings, epochs=4)
    folder = {"output_dir": str(tmp_path / "parts"), "quiet": True}
    stop = {"on_epoch": lambda row, ac: row["Epoch"] == 1}
    run_of(train, kind, **settings, epochs=4, logger_kwargs=folder, **stop)
    rest = run_of(train, kind, **settings, epochs=4, logger_kwargs=folder, resume=True)
    assert len(rest.rows) == 4 and repr(rest.rows) == repr(whole.rows)
    assert rings[0].size == rings[2].size < rings[0].max_size
    for p, q in zip(rest.ac.parameters(), whole.ac.parameters(), strict=True):
        assert torch.equal(p, q)


def test_a_transition_whose_frames_are_gone_has_no_priority(train, rings, monkeypatch):
    sample, seen = Priorities.sample, []

    def check(self, *args):
        index, weight = sample(self, *args)
        (ring,) = rings
        usable = ring.nth(np.arange(ring.size))
        assert np.isin(index, usable).all() and np.isfinite(weight).all()
        seen.append(ring.size)
        return index, weight

    monkeypatch.setattr(Priorities, "sample", check)
    run_of(train, "dqn_prioritized", longest=2, replay_size=80, epochs=4)
    assert len(seen) > 40 and seen[-1] < 80


class Noise(Dot):
    """Says that it stacks frames, and does not."""

    frame_stack = 3

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Box(0, 255, (3, *SHAPE), np.uint8)

    def screen(self):
        return self.np_random.integers(250, size=(3, *SHAPE), dtype=np.uint8)


@pytest.mark.parametrize("algo", ["dqn", "acer"])
@pytest.mark.filterwarnings("ignore:the replay buffer has room for only")
def test_observations_that_only_claim_to_be_stacks_are_replayed_as_they_are(train, rings, algo):
    small = {"acer": {"n_steps": 5, "replay_size": 10}, "dqn": {"replay_size": 40}}[algo]
    assert len(train(algo, Noise, num_envs=2, epochs=3, **small).rows) == 3
    (ring,) = rings
    assert {"dqn": 1, "acer": 5}[algo] <= ring.size <= ring.max_size
    newest = ring.take(ring.nth(np.arange(ring.size)))
    assert len(np.unique(newest["obs"].reshape(-1, 75), axis=0)) == newest["rew"].size


def test_a_run_says_how_large_its_buffer_will_be(train, monkeypatch):
    lines = []
    monkeypatch.setattr(
        "spinup.runs.logger.Logger.log", lambda self, text, color="": lines.append(text)
    )
    monkeypatch.setattr(replay, "_LARGE_BYTES", 1)
    run_of(train, "dqn")
    (line,) = [text for text in lines if text.startswith("Memory")]
    assert line == "Memory: a replay buffer of 120 transitions needs up to 9.4 KiB."
    monkeypatch.setattr(replay, "_LARGE_BYTES", 1 << 28)
    lines.clear()
    run_of(train, "dqn")
    assert not [text for text in lines if text.startswith("Memory")]


def test_only_the_frames_have_to_fit_in_memory(train, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 11_000)  # whole stacks: 18,000
    assert len(run_of(train, "dqn").rows) == 2
    monkeypatch.setattr(memory, "available_memory", lambda: 5_000)
    with pytest.raises(SpinupError, match="a replay buffer of 120 transitions needs"):
        run_of(train, "dqn")
