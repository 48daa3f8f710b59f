"""What wrappers, environments and global generators keep between episodes survives a stop."""

import pytest

from tests.helpers.comparing import (
    assert_same_run,
    assert_whole_table,
    differences,
    final_state,
    table,
)
from tests.helpers.runs import small

ALGOS = {"ppo": "CartPole-v1", "ddpg": "Pendulum-v1"}


def stop(runs, spec, out, n=203, **changes):
    """Send SIGTERM in the n-th step of some environment for training."""
    among = "training" if {**spec["kwargs"], **changes}.get("vector") != "async" else None
    trouble = {"n": n, "do": "SIGTERM", "once": f"{runs.new_dir()}.once", "among": among}
    return runs.train(spec, out, expect=143, at_step=trouble, **changes)


@pytest.mark.parametrize("vector", ["sync", "async"])
@pytest.mark.parametrize("num_envs", [1, 2])
@pytest.mark.parametrize("algo", ALGOS)
def test_gymnasiums_stateful_wrappers_go_on_exactly(runs, algo, num_envs, vector):
    """Test episodes, too: off-policy, their environment has statistics of its own."""
    spec = small(algo, f"Stacked:{ALGOS[algo]}", num_envs=num_envs)
    out = runs.new_dir()
    stop(runs, spec, out, n=203 // (num_envs if vector == "async" else 1), vector=vector)
    kept = final_state(out)["shards"][0]["streams"]["kept"]
    names = [[name for name, _ in state["layers"]] for state in kept]
    wrappers = ["NormalizeReward", "NormalizeObservation", "RecordEpisodeStatistics"]
    assert names == [[*wrappers, "SavedCurriculum"]] * num_envs
    printed = runs.resume(spec, out, vector=vector, disturb=77)
    assert "fresh" not in printed
    runs.assert_same(spec, out)


def test_a_stop_among_test_episodes_repeats_them_with_the_statistics_of_before(runs):
    spec = small("ddpg", "Stacked:Pendulum-v1", num_test_episodes=2)
    out = runs.new_dir()
    trouble = {"n": 100, "do": "SIGTERM", "among": "test"}  # of 45 steps each
    runs.train(spec, out, expect=143, at_step=trouble)
    assert final_state(out)["epoch"] == 1
    runs.assert_resumes(spec, out)


@pytest.mark.parametrize("vector", ["sync", "async"])
@pytest.mark.parametrize("algo", ["ppo", "dqn"])
def test_environments_that_draw_from_global_generators_go_on_exactly(runs, algo, vector):
    spec = small(algo, "Draws:CartPole-v1", vector=vector)
    out = runs.new_dir()
    stop(runs, spec, out)
    assert final_state(out)["shards"][0]["streams"]["kept"][0]["globals"] is not None
    printed = runs.resume(spec, out, disturb=77)
    assert "fresh" not in printed
    runs.assert_same(spec, out)


def test_each_worker_has_its_own_seed_which_follows_from_the_runs_seed(runs):
    spec = small("ppo", "Draws:CartPole-v1", num_envs=2, vector="async")
    a, b, c = (runs.new_dir() for _ in range(3))
    runs.train(spec, a, disturb=21)
    runs.train(spec, b, disturb=22)
    assert_same_run(a, b)
    first, second = (kept["globals"] for kept in final_state(a)["shards"][0]["streams"]["kept"])
    assert differences(first["python"], second["python"])
    assert differences(first["numpy"], second["numpy"])
    runs.train(spec, c, seed=4)
    assert table(c) != table(a)
    out = runs.new_dir()
    stop(runs, spec, out, n=100)
    assert "fresh" not in runs.resume(spec, out, disturb=23)
    assert_same_run(a, out)


def test_environments_that_share_a_global_generator_are_named_and_start_afresh(runs):
    spec = small("ppo", "Draws:CartPole-v1", num_envs=2)
    out = runs.new_dir()
    stop(runs, spec, out)
    printed = runs.resume(spec, out)
    assert "environment 0 starts a fresh episode, because" in printed
    assert_whole_table(out, 7, 60)


@pytest.mark.parametrize("vector", ["sync", "async"])
def test_a_curriculum_that_cannot_be_saved_is_noticed_by_its_rewards(runs, vector):
    """CartPole's observations come back exactly; only the rewards tell."""
    spec = small("ppo", "Curriculum:CartPole-v1", vector=vector)
    out = runs.new_dir()
    stop(runs, spec, out)
    printed = runs.resume(spec, out)
    assert "environment 0 starts a fresh episode, because the reward at step 1 of" in printed
    assert_whole_table(out, 7, 60)


def test_rewards_that_changed_between_the_runs_are_noticed(runs):
    """The same wrappers by name, but another reward."""
    spec = small("ppo", "Unsaid:CartPole-v1")
    out = runs.new_dir()
    stop(runs, {**spec, "env": "Unsaid:CartPole-v1"}, out)
    printed = runs.resume({**spec, "env": "UnsaidTwice:CartPole-v1"}, out)
    assert "environment 0 starts a fresh episode, because the reward at step 1 of" in printed
    assert "is 2.0, not 1.0" in printed


@pytest.mark.parametrize("wrapper", ["NormalizeReward", "NormalizeObservation", "ClipReward"])
def test_a_wrapper_added_between_the_runs_is_refused_in_one_sentence(runs, wrapper):
    spec = small("ppo", "Plain:CartPole-v1")
    out = runs.new_dir()
    stop(runs, spec, out)
    before = final_state(out)
    printed = runs.train({**spec, "env": f"{wrapper}:CartPole-v1"}, out, expect=1, resume=True)
    last = printed.strip().splitlines()[-1]
    assert "the environment differs" in last and wrapper in last
    assert differences(final_state(out), before) == []
    runs.assert_resumes(spec, out)
