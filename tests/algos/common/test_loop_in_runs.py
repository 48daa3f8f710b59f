"""The loop in whole runs: it continues where it was stopped, and stops at what cannot be right."""

import json
import math
import signal
from collections import Counter
from contextlib import nullcontext
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch

from spinup.algos.common import loop as loop_module
from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common import run as torch_run
from spinup.parallel import mpi as mpi_tools
from spinup.runs.run import TrainingDiverged
from spinup.runs.storage.checkpoints import load_checkpoint
from spinup.utils.errors import SpinupError
from tests.helpers.loops import OFF_POLICY, Fixed, Numbers, updates_by_the_rule
from tests.helpers.training import read_rows

# ---- resuming --------------------------------------------------------------------------------


def pendulum():
    return gym.make("Pendulum-v1", max_episode_steps=5)


class Drawn(Fixed):
    """Draws whenever it acts, and when it begins; counts what it was told."""

    def __init__(self):
        super().__init__()
        self.renewed, self.shift = 0, 0.0

    def begin(self, rng):
        super().begin(rng)
        self.shift = rng.random() / 10

    def renew(self):
        self.renewed += 1

    def __call__(self, obs, rng):
        return rng.random((len(obs), 1), np.float32) + np.float32(self.shift)

    def state_dict(self):
        return {"shift": self.shift}

    def load_state_dict(self, state):
        self.shift = state["shift"]


@pytest.fixture
def learn(in_run, tmp_path):
    """A function that runs a loop which learns and tests; returns what it did and its log.

    `stop` is ("step", n) or ("test", n): the run is asked to stop in its n-th step of all
    environments, or in the n-th step of its test episodes.
    """

    def call(folder, stop=None, resume=False):
        found = SimpleNamespace(policy=Drawn(), taken=[], updates=0, rows=[])
        seen = Counter()

        def body(run):
            def passed(what):
                seen[what] += 1
                if (what, seen[what]) == stop:
                    run.signals.received = signal.SIGINT

            def get_action(o):
                passed("test")
                return np.zeros(1, np.float32)

            run.track(policy=found.policy)
            loop = Loop(run, ("QVals",), ("LossQ",))
            for _ in run.epochs():
                for t in loop.steps():
                    transitions = loop.step(loop.act(found.policy, start_steps=5))
                    found.taken.append((t, [x.tolist() for x in transitions]))
                    for _ in loop.sample(Numbers(), loop.updates_due(4, 3, 0.5), 8):
                        k = float(loop.updates)
                        loop.record({"QVals": np.array([k, -k], np.float32), "LossQ": k})
                        found.updates += 1
                    passed("step")
                loop.evaluate(get_action, run.config["num_test_episodes"])
                loop.log()

        logger = {"output_dir": str(tmp_path / folder), "quiet": True}
        settings = {"num_envs": 2, "epochs": 3, "num_test_episodes": 2, "save_freq": 2}
        with pytest.raises(KeyboardInterrupt) if stop else nullcontext():
            in_run("ddpg", body, pendulum, logger_kwargs=logger, resume=resume, **settings)
        if not stop:
            found.rows = read_rows(tmp_path / folder)
        return found

    return call


# in the random steps, in the second epoch, in its last step, and in its test episodes
@pytest.mark.parametrize("stop", [("step", 1), ("step", 17), ("step", 24), ("test", 11)])
def test_a_loop_that_was_stopped_continues_with_the_next_step(learn, stop, monkeypatch):
    whole = learn("whole")
    monkeypatch.setattr(loop_module, "_JOIN_EVERY", 5)  # joining changes nothing
    assert len(whole.taken) == 36 and len(whole.rows) == 3
    assert whole.updates == updates_by_the_rule(72, 2, 4, 3, 0.5)
    first = learn("stopped", stop)
    second = learn("stopped", resume=True)
    assert first.taken + second.taken == whole.taken
    assert len(first.taken) == (24 if stop[0] == "test" else stop[1])
    assert first.updates + second.updates == whole.updates
    assert second.rows == whole.rows


def state_of_0_1_0(**changes):
    """What version 0.1.0 saved of its loop, between two steps of the second epoch."""
    rng = np.random.default_rng(5)
    state = {"t": 30, "before": 28, "rows": 15, "updates": 7, "acted_after": 7}
    measured = {"QVals": np.array([1.0, 3.0], np.float32), "LossQ": np.array([2.0])}
    return {**state, "update_rng": rng.bit_generator.state, "measured": measured, **changes}


@pytest.mark.parametrize(
    ("changes", "told"),
    [({}, "renew"), ({"acted_after": 6}, "begin"), ({"acted_after": -1, "updates": 0}, "begin")],
)
def test_the_state_of_an_older_version_is_taken(in_run, changes, told):
    state, policy = state_of_0_1_0(**changes), Drawn()

    def body(run):
        run.epoch = 1  # 24 steps each, of two environments
        loop = Loop(run, ("QVals",), ("LossQ",))
        assert loop.state_dict().keys() == {*state, "deaths"}  # newer than 0.1.0
        loop.load_state_dict(state)
        again = loop.state_dict()
        for name in ("t", "before", "rows", "updates", "update_rng"):
            assert again[name] == state[name]
        for name, x in state["measured"].items():
            assert np.array_equal(again["measured"][name], x)
        assert (again["acted_after"] == again["updates"]) == (told == "renew")
        assert loop.updates_due(0, 3, 2.0) == 6  # the thirtieth step completed a block
        taken = []
        for t in loop.steps():
            loop.step(loop.act(policy))
            taken.append(t)
        return taken

    assert in_run("ddpg", body, pendulum, num_envs=2) == list(range(30, 48, 2))
    assert (policy.renewed, policy.begun) == ((1, 0) if told == "renew" else (0, 1))


# ---- runs that must stop ---------------------------------------------------------------------


class Poison(gym.Wrapper):
    """Goes wrong after `good` steps."""

    def __init__(self, env, what, good):
        super().__init__(env)
        self.what, self.good = what, good

    def reset(self, **kwargs):
        o, info = self.env.reset(**kwargs)
        return (o * np.inf if self.what == "reset" and self.good <= 0 else o), info

    def step(self, action):
        self.good -= 1
        o, r, terminated, truncated, info = self.env.step(action)
        if self.good < 0 and self.what == "reward":
            r = math.nan
        if self.good < 0 and self.what == "observation":
            o = np.where(np.arange(3) == 1, -np.inf, o)
        return o, r, terminated, truncated, info


@pytest.mark.parametrize(
    ("what", "said"),
    [("reward", "reward"), ("observation", "observation"), ("reset", "observation")],
)
def test_what_is_not_finite_stops_the_run_by_name_and_keeps_the_checkpoint(
    train, tmp_path, what, said
):
    def env_fn():
        return Poison(gym.make("Pendulum-v1"), what, good=110)  # no longer among the first steps

    with pytest.raises(TrainingDiverged, match=f"a non-finite {said} in epoch 2") as error:
        train("ddpg", env_fn, epochs=4, save_freq=1, num_test_episodes=0)
    assert "so ddpg stopped" in str(error.value) and "\n" not in str(error.value)
    state, path = load_checkpoint(tmp_path / "run0" / "checkpoints")
    assert path.name == "step-000000000080" and state["epoch"] == 2
    assert len((tmp_path / "run0" / "progress.txt").read_text().splitlines()) == 3
    for piece in state["tracked"]["buffer"]["ring"]["pieces"]:
        assert all(np.isfinite(x).all() for x in piece.load().values())


def test_an_environment_that_starts_with_nonsense_is_stopped_as_well(train):
    with pytest.raises(SpinupError, match=r"PendulumEnv.reset returned an observation with inf"):
        train("ddpg", lambda: Poison(gym.make("Pendulum-v1"), "reset", good=0))


def test_a_loss_that_is_not_finite_stops_the_run_by_name(play):
    with pytest.raises(TrainingDiverged, match="LossQ became nan in epoch 0, so ddpg stopped"):
        play(update=lambda loop: {"LossQ": math.nan}, updates_per_step=1.0)


# ---- wrong values ----------------------------------------------------------------------------

WRONG = [
    {"batch_size": 0},
    {"batch_size": 2.5},
    {"batch_size": True},
    {"update_every": 0},
    {"update_every": "often"},
    {"updates_per_step": -1},
    {"updates_per_step": math.nan},
    {"updates_per_step": math.inf},
    {"updates_per_step": True},
    {"updates_per_step": "1"},
    {"start_steps": -1},
    {"start_steps": math.inf},
    {"update_after": -1},
    {"update_after": None},
    {"num_test_episodes": -1},
    {"num_test_episodes": 1.5},
    {"shards": 2},
    {"num_envs": 3},
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: "{}={}".format(*next(iter(w.items()))))
def test_a_wrong_value_is_one_sentence_before_anything_is_written(train, tmp_path, wrong):
    (name,) = wrong
    with pytest.raises(SpinupError, match=name) as error:
        train("ddpg", "Pendulum-v1", **wrong)
    assert "\n" not in str(error.value) and list(tmp_path.iterdir()) == []


def test_whole_numbers_may_be_written_as_floats(train):
    names = ("batch_size", "start_steps", "update_after", "update_every", "num_test_episodes")
    one = train("ddpg", "Pendulum-v1", num_envs=4, max_ep_len=10)
    floats = dict(zip(names, (8.0, 10.0, 10.0, 5.0, 1.0), strict=True))
    other = train("ddpg", "Pendulum-v1", num_envs=4, max_ep_len=10, replay_size=1e3, **floats)
    assert other.rows == one.rows and math.isfinite(one.rows[0]["LossQ"])


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_one_buffer_is_not_split_among_shards_or_processes(train, tmp_path, monkeypatch, algo):
    with pytest.raises(SpinupError, match=f"{algo} learns from one replay buffer") as error:
        train(algo, None, shards=2)
    assert "\n" not in str(error.value)
    # as in a job of two processes; nothing is communicated before this is refused
    monkeypatch.setattr(mpi_tools, "num_procs", lambda: 2)
    with pytest.raises(SpinupError, match=f"{algo} learns from one replay buffer"):
        train(algo, None)
    assert list(tmp_path.iterdir()) == []


# ---- threads ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("width", "batch_size", "cores", "threads"),
    [(8, 8, 4, 1), (256, 100, 4, 2), (256, 100, 64, 2), (256, 100, 3, 1), (256, 8, 4, 1)],
)
def test_threads_follow_from_the_sizes_and_are_recorded(
    train, monkeypatch, capsys, width, batch_size, cores, threads
):
    monkeypatch.setattr(torch_run, "_cores", lambda: cores)
    seen = []

    class Watched(gym.Wrapper):
        def step(self, action):
            seen.append(torch.get_num_threads())
            return self.env.step(action)

    def env_fn():
        return Watched(gym.make("Pendulum-v1"))

    before = torch.get_num_threads()
    settings = {
        "ac_kwargs": {"hidden_sizes": (width, 8)},
        "batch_size": batch_size,
        "update_after": 1000,  # threads are not what is slow here
        "num_test_episodes": 0,
    }
    run = train("ddpg", env_fn, save_freq=1, **settings)
    assert set(seen) == {threads} and torch.get_num_threads() == before
    assert json.loads((run.dir / "config.json").read_text())["num_threads"] == threads
    # another machine continues with what is recorded
    monkeypatch.setattr(torch_run, "_cores", lambda: 1 if threads > 1 else 8)
    seen.clear()
    same = {"logger_kwargs": {"output_dir": str(run.dir), "quiet": True}, "resume": True}
    train("ddpg", env_fn, save_freq=1, epochs=2, **settings, **same)
    assert set(seen) == {threads}
    assert "asked" not in capsys.readouterr().out  # nobody asked for another number
    assert json.loads((run.dir / "config.json").read_text())["num_threads"] == threads


def test_threads_that_were_asked_for_are_taken(train):
    run = train("ddpg", "Pendulum-v1", num_threads=1, ac_kwargs={"hidden_sizes": (256, 8)})
    assert json.loads((run.dir / "config.json").read_text())["num_threads"] == 1
