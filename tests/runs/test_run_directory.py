"""A run directory loses nothing: kept aside, overwritten on demand, resumed; one writer only."""

import json
import os
import signal
import time

import numpy as np
import pytest

from spinup import registry
from tests.helpers.comparing import assert_whole_table, final_state, policy_files, table
from tests.helpers.runs import small

ALGOS = tuple(row.name for row in registry.ROWS if row.on_policy)
OFF_POLICY = tuple(row.name for row in registry.ROWS if not row.on_policy)


def one_sentence(printed):
    """The error that ended a run; it is one line."""
    last = printed.strip().splitlines()[-1]
    kind, _, message = last.partition(": ")
    assert kind.endswith("SpinupError"), printed
    return message


def contents(folder):
    """Every file of a run by name, without the lock."""
    return {
        str(p.relative_to(folder)): p.read_bytes()
        for p in sorted(folder.rglob("*"))
        if p.is_file() and p.name != ".lock" and ".old" not in p.relative_to(folder).parts
    }


# ---------------------------------- using one directory again -------------------------------------


def test_by_default_the_old_run_is_kept_aside(runs):
    spec = small("ppo", "CartPole-v1", epochs=3)
    out = runs.new(spec)
    before = contents(out)
    printed = runs.train(spec, out, seed=8)
    aside = out / ".old" / "001"
    assert contents(aside) == before
    assert str(aside) in printed
    assert "resume" not in printed.replace(str(out), ""), "the old run was finished"
    assert_whole_table(out, 3, 60)
    assert table(out) != table(aside)
    # and a third one beside it
    runs.train(spec, out, seed=9)
    assert contents(aside) == before
    assert (out / ".old" / "002" / "progress.txt").exists()


def test_an_unfinished_run_is_announced_and_can_be_resumed_from_aside(runs):
    spec = small("ppo", "CartPole-v1")
    out = runs.new(spec, expect=-9, at_step={"n": 250, "do": "SIGKILL"})
    printed = runs.train(spec, out, seed=8, epochs=1)
    aside = out / ".old" / "001"
    said = [line for line in printed.splitlines() if str(aside) in line]
    assert len(said) == 1
    assert "resume=True" in said[0] and "--resume" in said[0]
    runs.assert_resumes(spec, aside)


def test_a_replay_buffer_moves_aside_with_its_run(runs):
    spec = small("ddpg")
    out = runs.new(spec, expect=-9, at_step={"n": 250, "do": "SIGKILL"})
    before = contents(out)
    runs.train(spec, out, seed=8, epochs=1)
    aside = out / ".old" / "001"
    assert contents(aside) == before
    assert any("pieces" in name for name in before)
    runs.assert_resumes(spec, aside)


def test_overwrite_leaves_nothing_of_the_old_run(runs):
    for spec in (small("ppo", "CartPole-v1", epochs=3), small("td3", epochs=2)):
        overwrite(runs, spec)


def overwrite(runs, spec):
    """Overwrite a longer run by `spec`."""
    out = runs.new(spec, seed=8, epochs=5)
    (out / "notes.txt").write_text("mine")
    runs.train(spec, out, overwrite=True)
    runs.assert_same(spec, out)
    assert not (out / ".old").exists()
    assert (out / "notes.txt").read_text() == "mine"


def test_resume_and_overwrite_contradict_each_other(runs):
    out = runs.new_dir()
    printed = runs.train(small("ppo", "CartPole-v1"), out, expect=1, resume=True, overwrite=True)
    assert "contradict" in one_sentence(printed)
    assert not out.exists()


# ---------------------------------------- resuming ------------------------------------------------


def test_resuming_a_finished_run_changes_nothing(runs):
    spec = small("ppo", "CartPole-v1")
    out = runs.new(spec)
    before = contents(out)
    printed = runs.resume(spec, out, dump=f"{out}.npz")
    after = contents(out)
    # the configuration says how it was called, which was with resume=True this time
    assert {**after, "config.json": b""} == {**before, "config.json": b""}
    assert json.loads(printed.splitlines()[-1])["env_steps"] < 45, "more than a replay"


@pytest.mark.parametrize("algo", [*ALGOS, *OFF_POLICY])
def test_more_epochs_continue_exactly_as_a_longer_run(runs, algo):
    spec = small(algo, "InvertedPendulum-v5" if algo in ALGOS else None)
    out = runs.new(spec, epochs=3)
    assert (out / ".finished").exists()
    runs.assert_resumes(spec, out)
    assert_whole_table(out, 7, 60)


def test_a_resumed_run_writes_only_what_is_new_in_its_replay_buffer(runs):
    spec = small("ddpg", replay_size=1000)
    out = runs.new(spec, epochs=3)
    pieces = out / "checkpoints" / "pieces"
    before = {path.name: path.stat().st_ino for path in pieces.iterdir()}
    runs.resume(spec, out, epochs=4)
    after = {path.name: path.stat().st_ino for path in pieces.iterdir()}
    kept = before.items() & after.items()
    rows = final_state(out)["tracked"]["buffer"]["ring"]["chunk_rows"]
    assert len(kept) >= 180 // rows > 2, "pieces that are full and unchanged were written again"


def test_a_finished_run_that_is_given_more_epochs_is_unfinished_until_they_are_done(runs):
    spec = small("vpg", "CartPole-v1")
    out = runs.new(spec, epochs=3)
    runs.train(spec, out, expect=-9, resume=True, at_step={"n": 150, "do": "SIGKILL"})
    assert not (out / ".finished").exists()
    runs.assert_resumes(spec, out)


def test_resuming_where_nothing_is_starts_at_the_beginning(runs):
    spec = small("vpg", "CartPole-v1")
    out = runs.new_dir()
    runs.assert_resumes(spec, out)


def test_results_whose_checkpoints_are_gone_are_not_thrown_away(runs):
    spec = small("vpg", "CartPole-v1")
    out = runs.new(spec)
    for checkpoint in (out / "checkpoints").iterdir():
        for file in checkpoint.iterdir():
            file.unlink()
        checkpoint.rmdir()
    before = contents(out)
    printed = runs.train(spec, out, expect=1, resume=True)
    assert "no checkpoint" in one_sentence(printed)
    assert contents(out) == before


@pytest.mark.parametrize(
    "changes, names",
    [
        ({"gamma": 0.5}, ["gamma: 0.99 -> 0.5"]),
        ({"pi_lr": 1e-2, "seed": 4}, ["pi_lr", "seed: 3 -> 4"]),
        ({"ac_kwargs": {"hidden_sizes": [9]}}, ["ac_kwargs"]),
        ({"num_envs": 2}, ["num_envs"]),
        ({"steps_per_epoch": 30}, ["steps_per_epoch"]),
        ({"anneal_lr": True}, ["anneal_lr"]),
    ],
)
def test_resuming_with_changed_hyperparameters_is_refused(runs, changes, names):
    spec = small("ppo", "CartPole-v1", epochs=2)
    out = runs.new(spec)
    before = contents(out)
    message = one_sentence(runs.train(spec, out, expect=1, resume=True, **changes))
    assert all(name in message for name in names), message
    assert "gamma" not in message or "gamma" in changes
    assert contents(out) == before


@pytest.mark.parametrize(
    "algo, changes, names",
    [
        ("ddpg", {"replay_size": 200}, ["replay_size: 100 -> 200"]),
        ("td3", {"policy_delay": 3, "num_test_episodes": 2}, ["policy_delay", "num_test_episodes"]),
        ("sac", {"alpha": 0.2}, ["alpha: 'auto' -> 0.2"]),
        ("dqn", {"n_step": 1, "prioritized": False}, ["n_step: 3 -> 1", "prioritized"]),
        ("acer", {"replay_ratio": 2.0}, ["replay_ratio: 1.0 -> 2.0"]),
        ("her", {"k": 2, "strategy": "final"}, ["k: 4 -> 2", "strategy: 'future' -> 'final'"]),
    ],
)
def test_off_policy_resuming_with_changed_hyperparameters_is_refused(runs, algo, changes, names):
    spec = small(algo, epochs=1)
    out = runs.new(spec)
    before = contents(out)
    message = one_sentence(runs.train(spec, out, expect=1, resume=True, **changes))
    assert all(name in message for name in names), message
    assert "gamma" not in message
    assert contents(out) == before


def test_off_policy_the_same_number_written_differently_is_no_change(runs):
    spec = small("ddpg", epochs=1)
    out = runs.new(spec)
    runs.resume(spec, out, replay_size=1e2, start_steps=50.0)


@pytest.mark.parametrize("algo, env", [("ppo", "CartPole-v1"), ("dqn", None), ("acer", None)])
def test_an_annealed_run_cannot_be_made_longer(runs, algo, env):
    """Its learning rates ended with its last epoch; a longer run would have had other ones."""
    spec = small(algo, env, anneal_lr=True, epochs=2)
    out = runs.new(spec)
    message = one_sentence(runs.train(spec, out, expect=1, resume=True, epochs=4))
    assert "epochs: 2 -> 4; with anneal_lr, learning rates depend on the number" in message


def test_resuming_with_another_algorithm_is_refused(runs):
    out = runs.new(small("vpg", "CartPole-v1", epochs=1))
    spec = small("trpo", "CartPole-v1", epochs=1)
    message = one_sentence(runs.train(spec, out, expect=1, resume=True))
    assert "vpg" in message and "trpo" in message


@pytest.mark.parametrize("env", ["Acrobot-v1", "dict", "InvertedPendulum-v5"])
def test_resuming_in_another_environment_is_refused(runs, env):
    spec = small("vpg", "CartPole-v1", epochs=2)
    out = runs.new(spec)
    before = contents(out)
    message = one_sentence(runs.train(spec, out, expect=1, resume=True, env=env))
    assert "environment differs" in message
    assert contents(out) == before


@pytest.mark.parametrize("given, recorded", [({"num_threads": 2}, 1), ({"device": "cpu:0"}, "cpu")])
def test_what_decides_rounding_is_applied_again(runs, given, recorded):
    spec = small("ppo", "CartPole-v1")
    out = runs.new(spec, expect=-9, at_step={"n": 250, "do": "SIGKILL"})
    (name,) = given
    printed = runs.resume(spec, out, **given)
    assert f"{name}={recorded}, which is used again" in printed
    assert json.loads((out / "config.json").read_text())[name] == recorded
    runs.assert_same(spec, out)


def test_the_recorded_device_is_the_one_that_is_used(runs):
    """The one asked for does not even exist here; the run never was on it."""
    spec = small("ppo", "CartPole-v1")
    out = runs.new(spec, expect=-9, at_step={"n": 250, "do": "SIGKILL"})
    assert "device=cpu, which is used again" in runs.resume(spec, out, device="cuda:7")
    runs.assert_same(spec, out)


def test_shards_are_applied_again_and_other_ones_refused(runs):
    spec = small("ppo", "CartPole-v1", shards=2)
    out = runs.new(spec, expect=-9, at_step={"n": 250, "do": "SIGKILL"})
    message = one_sentence(runs.train(spec, out, expect=1, resume=True, shards=3))
    assert "shards=2" in message
    runs.assert_resumes(spec, out, shards=None)


def test_vector_may_change_when_resuming(runs):
    spec = small("ppo", "CartPole-v1", num_envs=3)
    out = runs.new(spec, expect=-9, at_step={"n": 200, "do": "SIGKILL"})
    runs.resume(spec, out, vector="async")
    assert table(out) == table(runs.reference(spec))
    assert policy_files(out) == policy_files(runs.reference(spec))


def test_an_environment_that_cannot_be_restored_is_named_and_training_goes_on(runs):
    spec = small("vpg", "unrepeatable", save_freq=1)
    out = runs.new(spec, expect=-9, at_step={"n": 200, "do": "SIGKILL"})
    printed = runs.resume(spec, out)
    assert "environment 0 starts a fresh episode, because the reward at step 1 " in printed
    assert_whole_table(out, 7, 60)


def test_an_episode_that_cannot_be_restored_has_ended_in_the_replay_buffer(runs):
    """A stretch of steps must not run on from it into the fresh episode."""
    spec = small("acer", "unrepeatable", save_freq=1, replay_size=1000)
    out = runs.new(spec, expect=-9, at_step={"n": 200, "do": "SIGKILL"})
    assert "environment 0 starts a fresh episode" in runs.resume(spec, out)
    assert_whole_table(out, 7, 60)
    pieces = final_state(out)["tracked"]["buffer"]["ring"]["pieces"]
    obs, obs2, ended = (np.concatenate([p[k] for p in pieces]) for k in ("obs", "obs2", "ended"))
    assert len(obs) == 420
    goes_on = (obs2[:-1] == obs[1:]).all(-1)
    assert np.array_equal(goes_on, ~ended[:-1])


# -------------------------------------- one writer ------------------------------------------------


@pytest.mark.parametrize("how", [{}, {"resume": True}, {"overwrite": True}, {"seed": 9}])
def test_two_processes_cannot_train_in_one_directory(runs, how):
    spec = small("ppo", "CartPole-v1")
    out = runs.new_dir()
    first = runs.start(spec, out, at_step={"n": 200, "do": "SIGSTOP"})
    wait_until_stopped(first.pid)
    try:
        message = one_sentence(runs.train(spec, out, expect=1, **how))
        assert f"pid {first.pid}" in message and str(out) in message
    finally:
        first.kill(signal.SIGCONT)
    assert first.wait() == 0, first.output()
    runs.assert_same(spec, out)
    assert not (out / ".old").exists()


def wait_until_stopped(pid):
    """Return once a process has been stopped by SIGSTOP."""
    end = time.monotonic() + 300
    while True:
        with open(f"/proc/{pid}/stat") as f:
            if f.read().rpartition(")")[2].split()[0] == "T":
                return
        assert time.monotonic() < end
        time.sleep(0.005)


def test_a_killed_holder_blocks_nobody(runs):
    spec = small("vpg", "CartPole-v1", num_envs=3, vector="async")
    out = runs.new(spec, expect=-9, at_step={"n": 30, "do": "SIGKILL"})
    runs.assert_resumes(spec, out)


def test_a_directory_that_cannot_be_written_is_one_sentence(runs):
    blocked = runs.new_dir()
    blocked.write_text("a file, not a folder")
    message = one_sentence(runs.train(small("ppo", "CartPole-v1"), blocked, expect=1))
    assert str(blocked) in message


def test_what_is_wrong_with_the_arguments_shows_before_the_directory_is_touched(runs):
    out = runs.new(small("ppo", "CartPole-v1", epochs=1))
    before = contents(out)
    for wrong in ({"steps_per_epoch": 61, "num_envs": 2}, {"vector": "fast"}, {"epochs": -1}):
        one_sentence(runs.train(small("ppo", "CartPole-v1"), out, expect=1, **wrong))
    assert contents(out) == before
    assert not os.path.exists(out / ".old")
