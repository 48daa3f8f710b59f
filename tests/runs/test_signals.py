"""SIGINT, SIGTERM and SIGHUP finish the step, save, say how to go on and stop; nothing is lost."""

import os
import re
import signal
import textwrap
import time
from pathlib import Path

import pytest

from spinup import registry
from spinup.runs.signals import Signals
from tests.helpers.comparing import differences, final_state, table
from tests.helpers.processes import run_python
from tests.helpers.runs import small

ALGOS = tuple(row.name for row in registry.ROWS if row.on_policy)
OFF_POLICY = tuple(row.name for row in registry.ROWS if not row.on_policy)
CODES = {
    "SIGINT": -signal.SIGINT,
    "SIGTERM": 128 + signal.SIGTERM,
    "SIGHUP": 128 + signal.SIGHUP,
}


def stop(runs, spec, out, n, do="SIGINT", among=None, **changes):
    """Let the run be signalled in the n-th step of this attempt; returns what it printed."""
    expect = CODES[do.removeprefix("GROUP")]
    trouble = {"n": n, "do": do, "once": f"{runs.new_dir()}.once", "among": among}
    return runs.train(spec, out, expect=expect, at_step=trouble, **changes)


def assert_says_how_to_continue(printed, steps, out):
    """One line says what happened; the next one is the call that continues the run."""
    lines = printed.splitlines()
    said = [i for i, line in enumerate(lines) if line.startswith("Stopped and saved")]
    assert len(said) == 1 and f"after {steps} steps" in lines[said[0]]
    call = lines[said[0] + 1]
    assert "resume=True" in call and str(out) in call


@pytest.mark.parametrize("env", ["CartPole-v1", "InvertedPendulum-v5"])
@pytest.mark.parametrize("algo", ALGOS)
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM"])
def test_stopped_in_the_middle_of_an_epoch_and_resumed(runs, algo, env, name):
    spec = small(algo, env)
    out = runs.new_dir()
    printed = stop(runs, spec, out, 200, name)
    state = final_state(out)
    # really in the middle: epoch 3 has 20 of its 60 steps, after weights that have been learned
    assert (state["epoch"], state["total_steps"]) == (3, 180)
    assert [shard["rollout"]["t"] for shard in state["shards"]] == [20]
    assert len(table(out)) == 3
    assert not (out / ".finished").exists()
    assert_says_how_to_continue(printed, 200, out)
    runs.assert_resumes(spec, out)


def test_stopped_in_the_middle_of_the_first_epoch(runs):
    spec = small("ppo", "CartPole-v1")
    out = runs.new_dir()
    stop(runs, spec, out, 7)
    assert (out / "progress.txt").read_text() == ""
    runs.assert_resumes(spec, out)


def test_stopped_over_and_over(runs):
    """Each attempt replays the episode it is in, then gets a few steps further."""
    spec = small("ppo", "CartPole-v1")
    out = runs.new_dir()
    stop(runs, spec, out, 20)
    positions = []
    for _ in range(4):
        stop(runs, spec, out, 50, "SIGTERM", resume=True)
        positions.append(
            final_state(out)["total_steps"] + final_state(out)["shards"][0]["rollout"]["t"]
        )
    assert positions == sorted(set(positions)), "no progress"
    runs.assert_resumes(spec, out)


@pytest.mark.parametrize("at", [59, 60, 61, 120, 180, 181])
def test_stopped_at_the_edges_of_an_epoch(runs, at):
    """In the last step of an epoch the update still follows; then everything is saved."""
    spec = small("vpg", "CartPole-v1")
    out = runs.new_dir()
    stop(runs, spec, out, at)
    rollout = final_state(out)["shards"][0]["rollout"]
    assert final_state(out)["total_steps"] + rollout["t"] == at
    assert rollout["t"] == at % 60
    runs.assert_resumes(spec, out)


def test_stopped_in_the_last_step_of_all_finishes_the_run(runs):
    spec = small("vpg", "CartPole-v1")
    out = runs.new_dir()
    printed = stop(runs, spec, out, 420, "SIGTERM")
    assert "resume" not in printed.replace(str(out), "")
    runs.assert_same(spec, out)


@pytest.mark.parametrize("name", CODES)
def test_everything_on_and_several_environments(runs, name):
    spec = small(
        "ppo",
        "InvertedPendulum-v5",
        num_envs=3,
        minibatch_size=16,
        anneal_lr=True,
        ac_kwargs={"hidden_sizes": [8], "normalize_obs": True, "normalize_ret": True},
    )
    out = runs.new_dir()
    stop(runs, spec, out, 200, name)
    assert 0 < final_state(out)["shards"][0]["rollout"]["t"] < 20
    runs.assert_resumes(spec, out)


def test_shards_stop_between_each_other(runs):
    """One shard may have its steps of the epoch already and the other none."""
    spec = small("ppo", "CartPole-v1", shards=2)
    for at, filled in [(190, [10, 0]), (215, [30, 5]), (210, [30, 0])]:
        out = runs.new_dir()
        stop(runs, spec, out, at)
        assert [shard["rollout"]["t"] for shard in final_state(out)["shards"]] == filled
        runs.assert_resumes(spec, out)


@pytest.mark.parametrize("algo", ["reinforce", "ppo"])
def test_a_users_own_network_goes_on_with_the_same_samples(runs, algo):
    spec = small(algo, "CartPole-v1", actor_critic="own")
    out = runs.new_dir()
    stop(runs, spec, out, 200)
    runs.assert_resumes(spec, out, disturb=77)


@pytest.mark.parametrize("actor_critic", ["counting", "counting_one_by_one"])
def test_a_users_network_that_counts_its_calls_goes_on_with_the_same_count(runs, actor_critic):
    """Whether it takes batches is tried out in every process, which must not count."""
    spec = small("ppo", "CartPole-v1", num_envs=3, actor_critic=actor_critic)
    out = runs.new_dir()
    stop(runs, spec, out, 200)
    rows = 200 // 3 + 1
    calls = rows if actor_critic == "counting" else 3 * rows
    assert final_state(out)["tracked"]["ac"]["calls"].item() == calls
    runs.assert_resumes(spec, out, disturb=77)


def test_off_policy_calls_in_test_episodes_do_not_count(runs):
    spec = small("ddpg", actor_critic="counting_ddpg", num_test_episodes=2)
    out = runs.new_dir()
    stop(runs, spec, out, 100, "SIGTERM", among="test")  # of 45 steps each, in the second epoch
    assert final_state(out)["epoch"] == 1
    assert final_state(out)["tracked"]["ac"]["calls"].item() == 120 - 50  # 50 steps are random
    runs.assert_resumes(spec, out)


@pytest.mark.parametrize("env", ["dict", "discrete"])
def test_observations_that_are_no_vectors(runs, env):
    spec = small("ppo", env)
    out = runs.new_dir()
    stop(runs, spec, out, 200)
    runs.assert_resumes(spec, out)


# ------------------------------------- replayed transitions ---------------------------------------


@pytest.mark.parametrize(
    "algo, at, name",
    [
        ("ddpg", 77, "SIGINT"),
        ("dqn", 77, "SIGHUP"),
        *((algo, 203, "SIGTERM") for algo in OFF_POLICY),
    ],
)
def test_off_policy_stopped_in_the_middle_of_an_epoch_and_resumed(runs, algo, at, name):
    """What the epoch's updates measured before the stop is in its row all the same."""
    spec = small(algo)
    out = runs.new_dir()
    printed = stop(runs, spec, out, at, name, among="training")
    state = final_state(out)
    loop = state["tracked"]["loop"]
    assert (state["epoch"], state["total_steps"], loop["t"]) == (at // 60, at, at)
    assert len(loop["measured"]["LossQ"]) > 1, "no update in this epoch so far"
    assert len(table(out)) == at // 60
    assert_says_how_to_continue(printed, at, out)
    runs.assert_resumes(spec, out, disturb=77)


def test_off_policy_stopped_over_and_over(runs):
    """Each attempt replays the episode it is in, then gets a few steps further."""
    spec = small("td3", "HalfCheetah-v5")
    out = runs.new_dir()
    stop(runs, spec, out, 20)
    positions, updates = [], []
    for _ in range(5):
        stop(runs, spec, out, 60, "SIGTERM", among="training", resume=True)
        loop = final_state(out)["tracked"]["loop"]
        positions.append(loop["t"])
        updates.append(loop["updates"])
    assert positions == sorted(set(positions)), "no progress"
    # the policy is delayed by two: both kinds of steps were the next one
    assert {n % 2 for n in updates} == {0, 1}
    runs.assert_resumes(spec, out)


@pytest.mark.parametrize("at", [50, 59, 60, 61])
def test_off_policy_stopped_at_edges(runs, at):
    """With the last random step; around the end of an epoch, in whose last step updates follow."""
    spec = small("ddpg")
    out = runs.new_dir()
    stop(runs, spec, out, at, among="training")
    state = final_state(out)
    assert state["total_steps"] == at
    # stopped before the test episodes of an epoch, it plays them when it is resumed
    assert state["epoch"] == (at > 60)
    assert ((out / "progress.txt").read_text() == "") == (at <= 60)
    runs.assert_resumes(spec, out)


@pytest.mark.parametrize("actor_critic", [None, "own_ddpg"])
@pytest.mark.parametrize("at, epoch", [(100, 1), (140, 2)])
def test_off_policy_stopped_in_a_test_episode(runs, at, epoch, actor_critic):
    """In the first of two the stop comes before the second; in the last one the row is written."""
    spec = small("ddpg", actor_critic=actor_critic, num_test_episodes=2)
    out = runs.new_dir()
    stop(runs, spec, out, at, "SIGTERM", among="test")  # of 45 steps each
    state = final_state(out)
    assert (state["epoch"], state["total_steps"]) == (epoch, 120)
    assert len(table(out)) == epoch
    assert bool(len(state["tracked"]["loop"]["measured"]["LossQ"])) == (epoch == 1)
    runs.assert_resumes(spec, out)


def test_off_policy_stopped_in_the_last_step_of_all_still_plays_the_test_episodes(runs):
    spec = small("sac")
    out = runs.new_dir()
    stop(runs, spec, out, 420, "SIGTERM", among="training")
    assert len(table(out)) == 6
    assert not (out / ".finished").exists()
    runs.assert_resumes(spec, out)


@pytest.mark.parametrize("algo, at", [("sac", 45), ("sac", 203), ("td3", 203), ("dqn", 203)])
def test_off_policy_a_users_own_network_goes_on_with_the_same_samples(runs, algo, at):
    """It samples in updates, in acting and in test episodes, from torch's global generator."""
    spec = small(algo, actor_critic=f"own_{algo}")
    out = runs.new_dir()
    stop(runs, spec, out, at, among="training")  # among the random steps, and long after them
    runs.assert_resumes(spec, out, disturb=77)


def test_off_policy_three_environments_in_worker_processes(runs):
    spec = small("sac", num_envs=3)
    out = runs.new_dir()
    stop(runs, spec, out, 75, "GROUPSIGTERM", vector="async")
    assert final_state(out)["tracked"]["loop"]["t"] % 60 != 0
    runs.assert_resumes(spec, out, vector="async")


# ------------------------------------- processes and threads --------------------------------------


@pytest.mark.parametrize("do", ["SIGINT", "SIGTERM", "GROUPSIGINT", "GROUPSIGTERM", "GROUPSIGHUP"])
def test_worker_processes_outlive_the_signal(runs, do):
    """A terminal sends Ctrl-C to the whole process group; `timeout` and batch systems SIGTERM."""
    spec = small("ppo", "CartPole-v1", num_envs=3)
    out = runs.new_dir()
    stop(runs, spec, out, 70, do, vector="async")
    assert 0 < final_state(out)["shards"][0]["rollout"]["t"] < 20
    runs.assert_resumes(spec, out, vector="async")


def test_a_second_ctrl_c_stops_at_once(runs):
    spec = small("ppo", "CartPole-v1")
    out = runs.new_dir()
    process = runs.start(spec, out, at_step={"n": 200, "do": "SIGINT+SIGINT"})
    assert process.wait() == -signal.SIGINT
    assert "Stopped and saved" not in process.output()
    assert final_state(out)["shards"][0]["rollout"]["t"] == 0, "it took the time to save"
    runs.assert_resumes(spec, out)


def test_a_second_sigterm_stops_at_once(runs):
    spec = small("ppo", "CartPole-v1")
    out = runs.new_dir()
    process = runs.start(spec, out, at_step={"n": 200, "do": "SIGTERM+SIGTERM"})
    assert process.wait() == -signal.SIGTERM
    runs.assert_resumes(spec, out)


def test_a_second_sighup_does_not_keep_it_from_saving(runs):
    """When a terminal closes, the kernel sends one and the shell another."""
    spec = small("ppo", "CartPole-v1")
    out = runs.new_dir()
    process = runs.start(spec, out, at_step={"n": 200, "do": "SIGHUP+SIGHUP+SIGHUP"})
    assert process.wait() == CODES["SIGHUP"]
    assert "Stopped and saved after 200 steps" in process.output()
    runs.assert_resumes(spec, out)


def test_a_sighup_that_nohup_ignores_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signals = Signals()
    try:
        signals.catch()
        os.kill(os.getpid(), signal.SIGHUP)
        assert signals.received is None
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    finally:
        signals.release()
        signal.signal(signal.SIGHUP, before)


IN_A_TERMINAL = """
    import os, pty, select, sys, time
    folder = sys.argv[1]
    pid, terminal = pty.fork()
    if pid == 0:
        import gymnasium, spinup

        class Signs(gymnasium.Wrapper):
            steps = 0
            def step(self, action):
                self.steps += 1
                if self.steps == 60:  # the last step of an epoch: its table is printed next
                    open(folder + "/ready", "x").close()
                    while not os.path.exists(folder + "/closed"):
                        time.sleep(0.01)
                return self.env.step(action)

        spinup.vpg_pytorch(
            lambda: Signs(gymnasium.make("CartPole-v1")), steps_per_epoch=20, epochs=50,
            save_freq=50, logger_kwargs={"output_dir": folder + "/run"},
        )
        os._exit(0)
    while not os.path.exists(folder + "/ready"):  # read only what is there: it sleeps silently
        if select.select([terminal], [], [], 0.01)[0]:
            os.read(terminal, 1 << 16)
    os.close(terminal)
    open(folder + "/closed", "x").close()
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""


def test_a_run_is_saved_when_its_terminal_closes(runs, tmp_path):
    """Nothing can be printed any more, and there is a table to print."""
    code = textwrap.dedent(IN_A_TERMINAL)
    done = run_python("-c", code, tmp_path, expect=None)
    assert done.stdout.split() == [str(CODES["SIGHUP"])], done.stderr
    assert final_state(tmp_path / "run")["epoch"] == 3


# --------------------------------- environments in worker processes -------------------------------


def test_a_worker_that_hangs_does_not_block_a_stop(runs):
    spec = small("ppo", "CartPole-v1", num_envs=3)
    out = runs.new_dir()
    once = Path(f"{runs.new_dir()}.once")
    trouble = {"n": 70, "do": "wait", "once": str(once)}
    process = runs.start(spec, out, at_step=trouble, vector="async", patience=1.0)
    while not once.exists():
        time.sleep(0.05)
    before = final_state(out)
    process.kill(signal.SIGTERM)
    assert process.wait() == 1  # which would be too late if it waited for the environment
    last = process.output().strip().splitlines()[-1]
    assert "did not answer within 1 seconds after the signal to stop" in last and "resume" in last
    assert differences(final_state(out), before) == []
    runs.assert_resumes(spec, out, vector="async")


def test_a_worker_that_is_slow_to_answer_does_not_keep_a_stop_from_saving(runs):
    """It answers within the patience that a stop has, so the step is finished and saved."""
    spec = small("ppo", "CartPole-v1", num_envs=3)
    out = runs.new_dir()
    trouble = {"n": 70, "do": "SIGTERM+SLOW", "once": f"{runs.new_dir()}.once"}
    printed = runs.train(
        spec, out, expect=CODES["SIGTERM"], at_step=trouble, vector="async", patience=60.0
    )
    assert "Stopped and saved" in printed
    runs.assert_resumes(spec, out, vector="async")


def test_a_worker_that_is_killed_ends_the_run_in_one_sentence(runs):
    spec = small("ppo", "CartPole-v1", num_envs=3)
    out = runs.new_dir()
    trouble = {"n": 70, "do": "die", "once": f"{runs.new_dir()}.once"}
    printed = runs.train(spec, out, expect=1, at_step=trouble, vector="async")
    last = printed.strip().splitlines()[-1]
    assert re.search(r"the worker process of environment [012] was killed by SIGKILL", last)
    assert final_state(out)["epoch"] >= 1
    runs.assert_resumes(spec, out, vector="async")


def test_in_another_thread_training_works_and_leaves_signals_alone(runs):
    spec = small("ppo", "CartPole-v1")
    out = runs.new(spec, thread=True)
    runs.assert_same(spec, out)


@pytest.mark.parametrize("name, codes", [("SIGINT", (130, -2)), ("SIGTERM", (143,))])
def test_a_new_interpreter_ends_with_the_code_that_shells_expect(runs, name, codes):
    spec = small("ppo", "CartPole-v1")
    out = runs.new_dir()
    code, _, err = runs.fresh(spec, out, at_step={"n": 200, "do": name})
    assert code in codes
    assert "resume=True" in err
    runs.assert_resumes(spec, out)


def test_handlers_of_the_caller_are_back_after_a_run(tmp_path):
    import functools

    import spinup
    from spinup.envs import make_env

    def mine(number, frame):
        raise AssertionError("not called here")

    stops = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {n: signal.signal(n, mine) for n in stops}
    try:
        spinup.vpg_pytorch(
            functools.partial(make_env, "CartPole-v1"),
            steps_per_epoch=10,
            epochs=1,
            logger_kwargs={"output_dir": str(tmp_path), "quiet": True},
        )
        assert [signal.getsignal(n) for n in before] == [mine, mine, mine]
    finally:
        for n, handler in before.items():
            signal.signal(n, handler)
