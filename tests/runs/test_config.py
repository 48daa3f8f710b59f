"""What is recorded of a run: its arguments and nothing else, compared when it is resumed."""

import csv
import inspect
import itertools
import json
import os
import shutil
import signal
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest

from spinup import SpinupError, registry
from spinup.envs import make_env
from spinup.runs.arguments.config import fingerprint
from spinup.runs.resuming import apply_recorded, check_same_run
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint

BESIDES = {"algo", "backend", "env"}
VERSIONS = {"spinup_version", "numpy_version", "python_version", "torch_version"}

# -------------------------------------------------------------------------- the same run or another


def compare(now, saved, defaults=(), algo="dqn", backend="pytorch", saved_in=None):
    state = {"algo": "dqn", "fingerprint": saved}
    if saved_in is not None:
        state["backend"] = saved_in
    check_same_run(algo, backend, now, dict(defaults), state, Path("run/checkpoints/step-1"))


def test_the_same_arguments_are_the_same_run():
    compare({"gamma": 0.9, "seed": 1}, {"seed": 1, "gamma": 0.9})


def test_local_variables_that_version_0_1_0_recorded_are_ignored():
    compare({"seed": 1}, {"seed": 1, "shares": [0.5], "counts": {"a": 1}})


def test_an_argument_that_did_not_exist_then_had_its_default():
    defaults = {"gamma": 0.99, "new": 4}
    compare({"seed": 1, "new": 4}, {"seed": 1}, defaults)
    with pytest.raises(SpinupError, match=r"differ from the saved run \(new: 4 -> 5\): use the"):
        compare({"seed": 1, "new": 5}, {"seed": 1}, defaults)


def test_a_default_that_changed_since_does_not_hide_what_was_recorded():
    with pytest.raises(SpinupError, match=r"\(gamma: 0.9 -> 0.99\)"):
        compare({"gamma": 0.99}, {"gamma": 0.9}, {"gamma": 0.99})


def test_an_argument_that_was_removed_or_changed_is_named():
    with pytest.raises(SpinupError, match=r"\(old: 3 -> None\)"):
        compare({"seed": 1}, {"seed": 1, "old": 3})
    with pytest.raises(SpinupError, match=r"\(gamma: 0.9 -> 0.8, seed: 1 -> 2\)") as error:
        compare({"seed": 2, "gamma": 0.8}, {"seed": 1, "gamma": 0.9})
    assert "\n" not in str(error.value)


def test_an_argument_that_was_removed_is_refused_whatever_its_value():
    with pytest.raises(SpinupError, match=r"\(old: None -> None\)"):
        compare({"seed": 1}, {"seed": 1, "old": None})


def test_another_algorithm_is_another_run():
    with pytest.raises(SpinupError, match="belongs to a run of dqn_pytorch, not of sac_pytorch"):
        compare({"seed": 1}, {"seed": 1}, algo="sac")


def test_another_backend_is_another_run():
    for backend in ("pytorch", "tf1"):
        compare({}, {}, backend=backend, saved_in=backend)
    with pytest.raises(SpinupError, match="of dqn_tf1, not of dqn_pytorch: use another"):
        compare({}, {}, saved_in="tf1")
    with pytest.raises(SpinupError, match="of dqn_pytorch, not of dqn_tf1"):
        compare({}, {}, backend="tf1", saved_in="pytorch")


def test_a_checkpoint_that_names_no_backend_is_older_than_tf1():
    compare({}, {})
    compare({}, {}, backend="numpy")  # of an algorithm outside this package
    with pytest.raises(SpinupError, match="of dqn_pytorch, not of dqn_tf1"):
        compare({}, {}, backend="tf1")


def test_how_long_a_run_is_makes_no_difference_unless_a_schedule_ends_with_it():
    record = {"seed": 1, "epochs": 5, "num_threads": 2, "anneal_lr": False}
    assert fingerprint(record) == {"seed": 1, "anneal_lr": False}
    assert fingerprint({**record, "anneal_lr": True})["epochs"] == 5


@pytest.mark.parametrize("given", [None, False, True])
def test_a_run_saved_before_it_could_be_compiled_is_not_compiled(given, capsys):
    config = {"num_threads": None, "device": "cpu", "shards": None, "compile": given}
    apply_recorded(config, {"num_threads": 2, "device": "cpu", "shards": 1})
    assert config == {"num_threads": 2, "device": "cpu", "shards": 1, "compile": False}
    said = "The saved run had compile=False, which is used again (given: True).\n"
    assert capsys.readouterr().out == (said if given else "")


# -------------------------------------------------------------------------------------- config.json


@pytest.mark.parametrize("algo", registry.algorithms())
def test_the_config_of_a_run_has_its_arguments_and_no_local_variables(tiny_runs, algo):
    folder, _ = tiny_runs(algo)
    config = json.loads((folder / "config.json").read_text())
    parameters = set(inspect.signature(registry.load(algo)).parameters)
    # TRPO has an argument of the name under which every run records its algorithm.
    clash = {"algo_argument"} if "algo" in parameters else set()
    assert set(config) == parameters | BESIDES | VERSIONS | clash


def test_the_config_has_the_name_of_the_experiment(tiny_runs, tmp_path):
    logger = {"output_dir": str(tmp_path / "run"), "exp_name": "mine", "quiet": True}
    registry.load("dqn")(lambda: make_env("CartPole-v1"), epochs=0, logger_kwargs=logger)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    parameters = set(inspect.signature(registry.load("dqn")).parameters)
    assert set(config) == parameters | BESIDES | VERSIONS | {"exp_name"}
    assert config["exp_name"] == "mine" and (config["algo"], config["backend"]) == (
        "dqn",
        "pytorch",
    )


# ---------------------------------------------------------------------------- runs of version 0.1.0


class Stopping(gym.Wrapper):
    """Asks the run to stop in a step of all its environments, as Ctrl-C does."""

    def __init__(self, env, steps, stop_after):
        super().__init__(env)
        self.steps, self.stop_after = steps, stop_after

    def step(self, action):
        if next(self.steps) == self.stop_after:
            os.kill(os.getpid(), signal.SIGINT)
        return self.env.step(action)


@pytest.fixture
def resumed(tiny_runs, tmp_path):
    """A function that stops a run, edits its checkpoint, resumes it and returns both folders.

    The other folder is that of the same run without a stop. `edit(state)` changes what was saved.
    """

    def call(algo, edit, stop_after, changes=None, env="CartPole-v1", **settings):
        whole, _ = tiny_runs(algo, env, **settings)
        folder = tmp_path / "run"
        steps = itertools.count(1)

        def env_fn():
            return Stopping(make_env(env), steps, stop_after)

        with pytest.raises(KeyboardInterrupt):
            tiny_runs.train(algo, folder, env_fn, **settings)
        state, newest = load_checkpoint(folder / "checkpoints")
        edit(state)
        for old in (folder / "checkpoints").glob("step-*"):
            shutil.rmtree(old)
        save_checkpoint(folder / "checkpoints", state, int(newest.name.removeprefix("step-")))
        settings.update(changes or {})
        tiny_runs.train(algo, folder, env_fn, resume=True, **settings)
        return folder, whole

    return call


def results(folder):
    """The table without its clock, and the policy."""
    with open(folder / "progress.txt", newline="") as file:
        rows = [{**row, "Time": ""} for row in csv.DictReader(file, delimiter="\t")]
    return rows, (folder / "pyt_save" / "policy.safetensors").read_bytes()


def as_0_1_0(state):
    """DQN's local variables among the arguments; what came later is not there."""
    del state["fingerprint"]["max_grad_norm"], state["recorded"]["compile"]
    del state["env"]["wrappers"], state["tests"]
    state["fingerprint"].update(shares=None, counts={"a": [1, 2]})


def test_a_run_of_dqn_of_version_0_1_0_is_resumed(resumed):
    folder, whole = resumed("dqn", as_0_1_0, stop_after=50)
    assert results(folder) == results(whole)


def test_it_is_not_resumed_with_another_value_of_an_argument_that_came_later(resumed):
    with pytest.raises(SpinupError, match=r"\(max_grad_norm: None -> 1.0\)"):
        resumed("dqn", as_0_1_0, stop_after=50, changes={"max_grad_norm": 1.0})


def test_it_is_not_resumed_without_an_argument_that_it_had(resumed):
    def edit(state):
        state["fingerprint"]["no_longer_there"] = 0.5

    with pytest.raises(SpinupError, match=r"\(no_longer_there: 0.5 -> None\)"):
        resumed("dqn", edit, stop_after=50)


@pytest.mark.parametrize("stop_after", [5, 25])
def test_a_half_filled_rollout_of_version_0_1_0_is_resumed(resumed, stop_after):
    # Each shard takes 20 steps. The finished episodes of a full rollout were saved with it; in
    # Pendulum, no two have the same return, so that none can be missing from the table.
    full = []

    def edit(state):
        for shard in state["shards"]:
            rollout, streams = shard["rollout"], shard["streams"]
            pairs = streams["finished"] if rollout["t"] == 20 else []
            rollout["ep_rets"] = np.array([ret for ret, _ in pairs])
            rollout["ep_lens"] = np.array([length for _, length in pairs], np.int64)
            if pairs:
                streams["finished"] = []
                full.append(len(pairs))

    folder, whole = resumed("ppo", edit, stop_after, env="Pendulum-v1", shards=2, max_ep_len=9)
    assert results(folder) == results(whole)
    assert bool(full) == (stop_after == 25)
