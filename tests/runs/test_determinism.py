"""The same seed gives the same run, bit for bit; another seed gives another."""

import itertools
import json
import time

import numpy as np
import pytest

from spinup import registry
from tests.helpers.comparing import (
    assert_same_run,
    assert_whole_table,
    differences,
    final_state,
    policy_files,
    table,
)
from tests.helpers.runs import small

ALGOS = tuple(row.name for row in registry.ROWS if row.on_policy)
OFF_POLICY = tuple(row.name for row in registry.ROWS if not row.on_policy)
ENVS = ("CartPole-v1", "InvertedPendulum-v5")


@pytest.fixture(scope="module")
def in_another_process(runs):
    """The directories of all on-policy runs, made by one process."""
    names = list(itertools.product(ALGOS, ENVS))
    # A new interpreter: other addresses, another hash seed; and global generators out of tune.
    outs = runs.fresh_all([small(*name) for name in names], disturb=1000)
    return dict(zip(names, outs, strict=True))


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("algo", ALGOS)
def test_the_same_seed_gives_the_same_run_in_another_process(runs, in_another_process, algo, env):
    out = in_another_process[algo, env]
    runs.assert_same(small(algo, env), out)
    assert_whole_table(out, 7, 60)


def test_off_policy_the_same_seed_gives_the_same_run_twice_in_another_process(runs):
    specs = [small(algo) for algo in OFF_POLICY]
    for spec, (a, b) in zip(specs, runs.fresh_twice(specs, disturb=1000), strict=True):
        runs.assert_same(spec, a)
        runs.assert_same(spec, b)
        assert_whole_table(a, 7, 60)


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_off_policy_another_seed_gives_another_run(runs, algo):
    """Other losses, other weights, other transitions in the buffer and other draws from it."""
    spec = small(algo, epochs=2)
    a, b = runs.new_dir(), runs.new_dir()
    runs.train(spec, a)
    runs.train(spec, b, seed=4)
    assert table(a)[1]["LossQ"] != table(b)[1]["LossQ"]
    assert policy_files(a) != policy_files(b)
    buffers = [final_state(out)["tracked"]["buffer"] for out in (a, b)]
    found = differences(*buffers)
    assert any(".obs:" in difference for difference in found)
    assert any(".rng" in difference for difference in found)


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("algo", ALGOS)
def test_another_seed_gives_another_run_from_the_first_episode_on(runs, algo, env):
    spec = small(algo, env)
    out = runs.new(spec, seed=4)
    mine, other = table(out), table(runs.reference(spec))
    assert mine[0]["AverageEpRet"] != other[0]["AverageEpRet"]
    assert policy_files(out) != policy_files(runs.reference(spec))


@pytest.mark.parametrize("algo", ALGOS)
def test_seed_zero_is_a_seed_and_global_generators_decide_nothing(runs, algo):
    spec = small(algo, "CartPole-v1", seed=0, epochs=3)
    a, b = runs.new_dir(), runs.new_dir()
    runs.train(spec, a, disturb=11)
    runs.train(spec, b, disturb=12)
    assert_same_run(a, b)
    # seed 0 is not the same as some other one either
    c = runs.new(spec, seed=1)
    assert table(a) != table(c)


@pytest.mark.parametrize("algo", ["reinforce", "ppo", "td3", "sac", "dqn"])
def test_a_users_network_draws_the_same_samples_every_time(runs, algo):
    if algo in ALGOS:
        spec = small(algo, "CartPole-v1", actor_critic="own")
    else:
        spec = small(algo, actor_critic=f"own_{algo}", epochs=3)
    a, b = runs.new_dir(), runs.new_dir()
    runs.train(spec, a, disturb=21)
    runs.train(spec, b, disturb=22)
    assert_same_run(a, b)


def test_environments_that_draw_from_a_global_generator_repeat_too(runs):
    spec = small("vpg", "from_global")
    a, b = runs.new_dir(), runs.new_dir()
    runs.train(spec, a, disturb=31)
    runs.train(spec, b, disturb=32)
    assert_same_run(a, b)


@pytest.mark.parametrize("algo", ALGOS)
def test_two_calls_in_one_process_are_two_equal_runs(runs, algo):
    spec = small(algo, "InvertedPendulum-v5")
    a, b = runs.new_dir(), runs.new_dir()
    runs.train(spec, a, again=str(b))
    runs.assert_same(spec, a)
    runs.assert_same(spec, b)


@pytest.mark.parametrize("vector", ["sync", "async"])
def test_several_environments_repeat_and_worker_processes_change_nothing(runs, vector):
    spec = small("ppo", "CartPole-v1", num_envs=4)
    out = runs.new(spec, vector=vector, disturb=5)
    runs.assert_same(spec, out)
    assert_whole_table(out, 7, 60)


def test_one_environment_and_four_are_different_runs(runs):
    one, four = (small("ppo", "CartPole-v1", num_envs=n) for n in (1, 4))
    assert table(runs.reference(one)) != table(runs.reference(four))


def test_environments_of_one_run_are_seeded_differently(runs):
    """With one seed for all of them the streams would be copies of each other."""
    out = runs.new(small("ppo", "CartPole-v1", num_envs=4, epochs=1))
    seeds = final_state(out)["shards"][0]["streams"]["seeds"]
    assert len(set(seeds)) == 4


def test_shards_decide_the_arithmetic_and_repeat(runs):
    spec = small("ppo", "CartPole-v1", shards=2)
    a = runs.new(spec)
    runs.assert_same(spec, a)
    assert table(a) != table(runs.reference(small("ppo", "CartPole-v1")))


def test_the_saved_policy_is_the_one_after_the_last_update(runs):
    from spinup.policies.saved import load_policy

    for algo in (*ALGOS, "sac"):
        # 8 epochs with save_freq 5: the last one is saved because it is the last
        spec = small(algo, "CartPole-v1", epochs=8, save_freq=5)
        out, shorter = runs.new_dir(), runs.new_dir()
        runs.train(spec, out, dump=str(out) + ".npz")
        runs.train(spec, shorter, epochs=7)
        returned = dict(np.load(str(out) + ".npz"))
        saved, before = load_policy(out)[1], load_policy(shorter)[1]
        assert returned.keys() == saved.keys()
        assert all(np.array_equal(returned[k], saved[k]) for k in saved)
        moved = [k for k in saved if not np.array_equal(saved[k], before[k])]
        assert any(k.startswith("pi.") for k in moved)
        assert algo == "reinforce" or any(k.startswith(("v.", "q1.")) for k in moved)


@pytest.mark.parametrize("num_envs, vector", [(1, "sync"), (3, "sync")])
def test_total_env_interacts_is_the_number_of_steps_taken(runs, num_envs, vector):
    spec = small("vpg", "CartPole-v1", num_envs=num_envs, vector=vector)
    out = runs.new_dir()
    printed = runs.train(spec, out)
    counted = json.loads(printed.splitlines()[-1])["env_steps"]
    assert int(table(out)[-1]["TotalEnvInteracts"]) == counted == 7 * 60


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_test_episodes_are_no_interaction_of_training(runs, algo):
    spec = small(algo, num_envs=3, epochs=2)
    a, b = runs.new_dir(), runs.new_dir()
    counted = []
    for out, tests in ((a, 3), (b, 0)):
        printed = runs.train(spec, out, num_test_episodes=tests)
        counted.append(json.loads(printed.splitlines()[-1])["env_steps"])
        assert [row["TotalEnvInteracts"] for row in table(out)] == ["60", "120"]
    rows = table(a)
    tested = sum(3 * float(row["TestEpLen"]) for row in rows)
    assert counted == [120 + round(tested), 120]
    # and nothing else of the run depends on them
    with_tests = [{k: v for k, v in row.items() if "Test" not in k} for row in rows]
    assert with_tests == table(b)


def test_training_imports_neither_mujoco_nor_tensorflow_nor_mpi(runs):
    out = runs.new_dir()
    code, printed, err = runs.fresh(small("ppo", "CartPole-v1", epochs=1), out)
    assert code == 0, err
    assert json.loads(printed.splitlines()[-1])["modules"] == []


def test_epochs_without_a_gradient_step_are_logged_and_resumed(runs):
    spec = small("ppo", "CartPole-v1", train_pi_iters=0, train_v_iters=0)
    out = runs.new(spec, expect=-9, at_step={"n": 300, "do": "SIGKILL"})
    runs.assert_resumes(spec, out)
    assert {float(row["StopIter"]) for row in table(out)} == {0.0}


def test_an_epoch_in_which_no_episode_ends_is_logged_as_nan(runs):
    spec = small("ppo", "CartPole-v1", steps_per_epoch=4, epochs=3)
    rows = table(runs.reference(spec))
    assert rows[0]["AverageEpRet"] == "nan"
    assert rows[0]["EpLen"] == "nan"
    assert [row["TotalEnvInteracts"] for row in rows] == ["4", "8", "12"]


def test_a_jump_of_the_wall_clock_does_not_reach_the_table(tiny_runs, tmp_path, monkeypatch):
    jumps = itertools.count(start=2e9, step=-3600.0)
    monkeypatch.setattr(time, "time", lambda: next(jumps))
    tiny_runs.train("vpg", tmp_path)
    tiny_runs.train("vpg", tmp_path, epochs=4, resume=True)
    lines = [line.split("\t") for line in (tmp_path / "progress.txt").read_text().splitlines()]
    seconds = [float(line[lines[0].index("Time")]) for line in lines[1:]]
    assert len(seconds) == 4 and seconds == sorted(seconds)
    assert seconds[0] > 0.0 and seconds[-1] < 600.0
