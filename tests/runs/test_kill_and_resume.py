"""A run killed with SIGKILL and resumed ends with the bits of one that was never touched.

Three kinds of instants: a step of the environment, a file operation, and a moment of the clock. The
first two are exact; the third is drawn at random, and what was drawn is printed with a failure.
"""

import json
import os
import random
import time
import warnings

import pytest

from spinup import registry
from spinup.policies.saved import load_policy
from spinup.runs.storage.checkpoints import load_checkpoint
from tests.helpers.comparing import assert_whole_table, final_state
from tests.helpers.runs import small

ALGOS = tuple(row.name for row in registry.ROWS if row.on_policy)
OFF_POLICY = tuple(row.name for row in registry.ROWS if not row.on_policy)
ENVS = ("CartPole-v1", "InvertedPendulum-v5")
STEPS = 420  # of a small run: 7 epochs of 60
PPO_WITH_EVERYTHING = {
    "minibatch_size": 16,
    "anneal_lr": True,
    "clip_vf": 0.5,
    "max_grad_norm": 0.5,
    "ent_coef": 0.01,
    "ac_kwargs": {"hidden_sizes": [8], "normalize_obs": True, "normalize_ret": True},
}


def instants(request, count, last):
    """Random numbers from 1 to `last`, different ones for each test and run of the suite.

    SPINUP_KILL_SEED repeats a run of the suite.
    """
    seed = os.environ.get("SPINUP_KILL_SEED") or str(time.time_ns())
    print(f"SPINUP_KILL_SEED={seed}")
    rng = random.Random(seed + request.node.name)
    drawn = [rng.randint(1, last) for _ in range(count)]
    print(f"instants: {drawn}")
    return drawn


def kill_at_steps(runs, spec, out, steps):
    """Start the run, kill it in the given step, resume, kill again, ...; then let it finish."""
    for i, n in enumerate(steps):
        trouble = {"n": n, "do": "SIGKILL"}
        runs.train(spec, out, expect=-9, at_step=trouble, resume=i > 0)
    runs.assert_resumes(spec, out)
    assert_whole_table(out, spec["kwargs"]["epochs"], spec["kwargs"]["steps_per_epoch"])


@pytest.mark.parametrize("env", ENVS)
@pytest.mark.parametrize("algo", ALGOS)
def test_killed_in_any_step_and_resumed_is_as_never_interrupted(runs, request, algo, env):
    spec = small(algo, env)
    for n in instants(request, 2, STEPS):
        kill_at_steps(runs, spec, runs.new_dir(), [n])


@pytest.mark.parametrize("env", ENVS)
def test_killed_many_times_in_a_row(runs, request, env):
    """The instants count from each start, replayed steps included, so the run gets on."""
    spec = small("ppo", env, save_freq=2, epochs=12)
    kill_at_steps(runs, spec, runs.new_dir(), [*instants(request, 4, 150), 61, 1])


def test_checkpoints_lie_in_the_middle_of_episodes(runs):
    """What the tests here rest on: without it they would not say anything about environments."""
    for env in ENVS:
        for saved in final_state(runs.reference(small("ppo", env)))["shards"]:
            assert all(len(actions) > 0 for actions in saved["streams"]["actions"])


@pytest.mark.parametrize("env", [*ENVS, "Hopper-v5"])
def test_ppo_with_every_option_on(runs, request, env):
    spec = small("ppo", env, **PPO_WITH_EVERYTHING)
    kill_at_steps(runs, spec, runs.new_dir(), instants(request, 2, 240))


@pytest.mark.parametrize("algo", ["reinforce", "vpg", "trpo"])
def test_normalised_observations_and_returns(runs, request, algo):
    ac_kwargs = {"hidden_sizes": [8], "normalize_obs": True, "orthogonal_init": True}
    if algo != "reinforce":
        ac_kwargs["normalize_ret"] = True
    spec = small(algo, "InvertedPendulum-v5", ac_kwargs=ac_kwargs)
    kill_at_steps(runs, spec, runs.new_dir(), instants(request, 2, 240))


def test_natural_policy_gradient(runs, request):
    spec = small("trpo", "CartPole-v1")
    spec["kwargs"]["algo"] = "npg"
    kill_at_steps(runs, spec, runs.new_dir(), instants(request, 2, 240))


@pytest.mark.parametrize("vector", ["sync", "async"])
@pytest.mark.parametrize("env", ENVS)
def test_three_environments(runs, request, env, vector):
    spec = small("ppo", env, num_envs=3)
    # in worker processes each environment counts its own steps
    last = 240 if vector == "sync" else 80
    out = runs.new_dir()
    for i, n in enumerate(instants(request, 2, last)):
        trouble = {"n": n, "do": "SIGKILL"}
        runs.train(spec, out, expect=-9, at_step=trouble, vector=vector, resume=i > 0)
    runs.assert_resumes(spec, out, vector=vector)


def test_worker_processes_end_with_a_killed_trainer(runs):
    spec = small("ppo", "CartPole-v1", num_envs=3, vector="async")
    process = runs.start(spec, runs.new_dir(), at_step={"n": 20, "do": "SIGKILL"})
    assert process.wait() == -9
    end = time.monotonic() + 60
    while group_members(process.pid):
        assert time.monotonic() < end, group_members(process.pid)
        time.sleep(0.01)


def group_members(pid):
    """The living processes of a process group."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            with open(f"/proc/{entry}/stat") as f:
                state, _, group = f.read().rpartition(")")[2].split()[:3]
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended while we looked
        if int(group) == pid and state != "Z":
            found.append(int(entry))
    return found


def test_two_shards(runs, request):
    spec = small("ppo", "CartPole-v1", shards=2, minibatch_size=20)
    kill_at_steps(runs, spec, runs.new_dir(), instants(request, 2, 240))


@pytest.mark.parametrize("algo", ["reinforce", "ppo"])
@pytest.mark.parametrize("actor_critic", ["own", "partial"])
def test_a_users_own_actor_critic(runs, request, algo, actor_critic):
    for env in ENVS:
        spec = small(algo, env, actor_critic=actor_critic)
        kill_at_steps(runs, spec, runs.new_dir(), instants(request, 1, STEPS))


def test_a_network_that_is_given_an_environment(runs):
    """An argument whose own state changes while the run goes on is still the same argument."""
    spec = small("ppo", "CartPole-v1", actor_critic="with_env")
    kill_at_steps(runs, spec, runs.new_dir(), [250])


@pytest.mark.parametrize("env", ["dict", "discrete"])
def test_observations_that_are_no_vectors(runs, request, env):
    spec = small("ppo", env)
    kill_at_steps(runs, spec, runs.new_dir(), instants(request, 2, 240))


def test_killed_before_the_first_checkpoint(runs):
    kill_at_steps(runs, small("vpg", "CartPole-v1"), runs.new_dir(), [10, 59])


def test_save_freq_may_change_between_attempts(runs):
    spec = small("vpg", "CartPole-v1")
    out = runs.new(spec, expect=-9, at_step={"n": 200, "do": "SIGKILL"}, save_freq=1)
    runs.assert_resumes(spec, out, save_freq=100)


# ------------------------------------- replayed transitions ---------------------------------------


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("algo", OFF_POLICY)
def test_off_policy_killed_in_any_step_and_resumed(runs, request, algo, num_envs):
    """In test episodes, too; before and after the buffer is full, which it is after 100 steps."""
    spec = small(algo, num_envs=num_envs)
    steps = instants(request, 1, 240)
    if num_envs == 1:
        steps += instants(request, 1, 120)
    kill_at_steps(runs, spec, runs.new_dir(), steps)


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_what_the_off_policy_tests_rest_on(runs, algo):
    """Without it they would say little about replay: full buffers of several pieces, updates."""
    state = final_state(runs.reference(small(algo)))
    ring, loop = state["tracked"]["buffer"]["ring"], state["tracked"]["loop"]
    assert ring["total"] > 3 * ring["max_size"]
    assert len(ring["pieces"]) > 1
    assert ring["total"] % ring["chunk_rows"], "no piece is half new"
    assert loop["updates"] > 60 and loop["t"] == STEPS
    for optimizer in (x for name, x in state["tracked"].items() if name.endswith("optimizer")):
        assert all(moments["step"] > 30 for moments in optimizer["state"].values())


@pytest.mark.parametrize(
    "algo, env, changes",
    [
        ("ddpg", "Hopper-v5", {"replay_size": 1e6}),
        ("td3", "HalfCheetah-v5", {"policy_delay": 3, "update_every": 1}),
        ("sac", "CartPole-v1", {}),
        ("sac", "HalfCheetah-v5", {"alpha": 0.2, "num_test_episodes": 0}),
        ("dqn", None, {"n_step": 1, "prioritized": False, "anneal_lr": True}),
        ("acer", None, {"anneal_lr": True, "num_envs": 2}),
        ("acer", "Hopper-v5", {"num_envs": 2}),
        ("her", None, {"base": "sac", "strategy": "random"}),
    ],
)
def test_off_policy_variants(runs, request, algo, env, changes):
    spec = small(algo, env, **changes)
    kill_at_steps(runs, spec, runs.new_dir(), instants(request, 1, STEPS))


@pytest.mark.parametrize("algo", ["sac", "her"])
def test_off_policy_in_worker_processes(runs, request, algo):
    spec = small(algo, num_envs=3)
    out = runs.new_dir()
    (n,) = instants(request, 1, 80)
    trouble = {"n": n, "do": "SIGKILL"}
    runs.train(spec, out, expect=-9, at_step=trouble, vector="async")
    runs.assert_resumes(spec, out, vector="async")


@pytest.mark.parametrize("env", ["shared", "draws_when_made"])
def test_test_episodes_leave_no_trace_in_training(runs, request, env):
    """One environment for training and testing; one that draws from global generators if made."""
    spec = small("ddpg", env)
    kill_at_steps(runs, spec, runs.new_dir(), instants(request, 2, 180))


# ------------------------------------- in file operations -----------------------------------------


def calls_of(runs, spec, name):
    """How often an undisturbed run calls `os.<name>`."""
    printed = runs.train(spec, runs.new_dir(), at_call={"name": name, "n": -1})
    return json.loads(printed.splitlines()[-1])["calls"]


@pytest.mark.parametrize(
    "algo, env, name, torn",
    [
        ("vpg", "CartPole-v1", "fsync", False),
        ("vpg", "CartPole-v1", "fsync", True),
        ("vpg", "CartPole-v1", "rename", False),
        ("vpg", "CartPole-v1", "replace", False),
        ("vpg", "CartPole-v1", "unlink", False),
        ("ddpg", "HalfCheetah-v5", "rename", False),
        ("ddpg", "HalfCheetah-v5", "unlink", False),
    ],
)
def test_killed_while_files_are_written(runs, request, algo, env, name, torn):
    """Among them every file of a checkpoint, of the policy and the table, half-written too."""
    spec = small(algo, env, save_freq=2, epochs=4, steps_per_epoch=20)
    total = calls_of(runs, spec, name)
    assert total >= 2, "the run does not use this call any more: choose another"
    for n in sorted(set(instants(request, 5, total))):
        out = runs.new(spec, expect=-9, at_call={"name": name, "n": n, "torn": torn})
        runs.assert_resumes(spec, out)


@pytest.mark.parametrize("algo, env", [("reinforce", "CartPole-v1"), ("ddpg", "HalfCheetah-v5")])
def test_killed_at_every_file_operation_of_one_checkpoint(runs, algo, env):
    """The second save of a run, from its first fsync to its last: no instant costs the first."""
    spec = small(algo, env, save_freq=1, epochs=2, steps_per_epoch=20)
    total = calls_of(runs, spec, "fsync")
    one_epoch = {**spec, "kwargs": {**spec["kwargs"], "epochs": 1}}
    one_save = total - calls_of(runs, one_epoch, "fsync")
    assert one_save > 8
    for n in range(total - one_save, total + 1):
        out = runs.new(spec, expect=-9, at_call={"name": "fsync", "n": n, "torn": True})
        # whole at every instant, without any mending: a policy, a checkpoint, the configuration
        assert load_policy(out)[1]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert load_checkpoint(out / "checkpoints")
        assert json.loads((out / "config.json").read_text())["algo"] == algo
        runs.assert_resumes(spec, out)


def test_killed_while_the_last_save_of_a_run_tidies_up(runs):
    """No save follows in which what is outdated could be deleted; resuming does it."""
    spec = small("ddpg", save_freq=1, epochs=3, steps_per_epoch=20)
    total = calls_of(runs, spec, "unlink")
    for n in range(total - 3, total + 1):
        out = runs.new(spec, expect=-9, at_call={"name": "unlink", "n": n})
        runs.assert_resumes(spec, out)


# ------------------------------------- by the clock -----------------------------------------------


@pytest.mark.parametrize("algo", [*ALGOS, *OFF_POLICY])
def test_killed_by_the_clock_several_times(runs, request, algo):
    """Instants that no step and no call announces: in updates, in imports, in restoring."""
    if algo in ALGOS:
        spec, attempts = small(algo, "InvertedPendulum-v5", epochs=12), 3
    else:
        spec, attempts = small(algo, epochs=8), 2
    begin = time.monotonic()
    runs.reference(spec)
    length = time.monotonic() - begin
    out = runs.new_dir()
    killed = 0
    for i, milliseconds in enumerate(instants(request, attempts, int(1000 * length))):
        process = runs.start(spec, out, resume=i > 0)
        time.sleep(milliseconds / 1000)
        process.kill()
        killed += process.wait() == -9
    print(f"{killed} of {attempts} attempts were killed before they ended")
    runs.assert_resumes(spec, out)
    assert_whole_table(out, spec["kwargs"]["epochs"], 60)
