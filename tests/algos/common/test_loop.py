"""The loop: what a step returns, when updates are due, which paths end, and the log."""

import itertools
import json
import math
from inspect import signature
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from spinup import registry
from spinup.algos.common import loop as loop_module
from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.ddpg import ddpg as ddpg_module
from spinup.envs import make_env
from spinup.runs.run import TrainingDiverged
from spinup.utils.errors import SpinupError
from spinup.utils.seeding import global_state
from tests.helpers.loops import (
    CONTINUOUS,
    KINDS,
    NAMES,
    OFF_POLICY,
    POLICY,
    Fixed,
    Numbers,
    Tape,
    Whole,
    read,
    updates_by_the_rule,
    vectorized,
)
from tests.helpers.training import env_of

PATIENT = [n for n in OFF_POLICY if "update_after" in signature(registry.load(n)).parameters]


MODES = list(AutoresetMode)


# ---- random actions --------------------------------------------------------------------------


def is_random(row):
    return not np.array_equal(row.a, [POLICY, POLICY])


@pytest.mark.parametrize("start_steps", [0, 1, 5, 12, 31, 100, 7.0])
@pytest.mark.parametrize("num_envs", [1, 3, 4])
def test_exactly_start_steps_actions_are_random(play, num_envs, start_steps):
    run = play(num_envs=num_envs, start_steps=start_steps)
    random = [is_random(row) for row in run.rows]
    assert len(run.rows) == 48
    assert sum(random) == min(start_steps, 48)
    assert random == sorted(random, reverse=True)  # and they are the first ones


@pytest.mark.parametrize("start_steps", range(20, 28))
def test_random_actions_are_counted_without_the_resets_of_a_vector(play, start_steps):
    lengths = iter([4, 5, 7])

    def env_fn():
        return Whole([lambda: Tape(length=next(lengths))] * 3)

    run = play(env_fn, start_steps=start_steps)
    assert len(run.rows) < 48 and sum(is_random(row) for row in run.rows) == start_steps


def test_discrete_random_actions_are_kept_from_zero_on(play):
    class Discrete(Tape):
        def __init__(self):
            super().__init__()
            self.action_space = spaces.Discrete(3, start=5)

    run = play(Discrete, algo="sac", start_steps=48)
    (env,) = run.loop.streams.envs
    assert {int(row.a) for row in run.rows} == {0, 1, 2}
    assert [int(a) for a in env.unwrapped.actions] == [int(row.a) + 5 for row in run.rows]


def test_the_policy_is_renewed_when_its_parameters_changed_and_only_then(play):
    run = play(update_every=4, update_after=10, updates_per_step=0.5, start_steps=3)
    # after 3 random steps with the first parameters, then after 12, 16, ... 44 steps
    assert run.policy.begun == 1 + len(range(12, 48, 4))
    assert run.loop.updates == 2 * len(range(12, 49, 4))


# ---- steps and updates are counted -----------------------------------------------------------


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_total_env_interacts_is_the_number_of_steps_really_taken(train, algo):
    taken = []

    class Counting(gym.Wrapper):
        def step(self, action):
            taken[self.number] += 1
            return self.env.step(action)

    def env_fn():
        env = Counting(make_env(env_of(algo)))
        env.number = len(taken)
        taken.append(0)
        return env

    rows = train(algo, env_fn, num_envs=2, epochs=2, num_test_episodes=1).rows
    assert [row["TotalEnvInteracts"] for row in rows] == [40, 80]
    assert taken[:2] == [40, 40] and sum(taken[2:]) == sum(row["TestEpLen"] for row in rows)


@pytest.mark.parametrize("num_envs", [1, 3, 4])
@pytest.mark.parametrize("ratio", [0, 0.1, 0.25, 1 / 3, 1, 2.5, 4])
def test_the_number_of_updates_follows_from_the_steps_alone(play, num_envs, ratio):
    loop = play(num_envs=num_envs, epochs=0).loop
    for after, every in itertools.product((0, 1, 10, 11, 50), (1, 2, 4, 5, 7, 50, 3.0)):
        done = 0
        for t in range(num_envs, 121, num_envs):
            loop._before, loop.t = t - num_envs, t
            due = loop.updates_due(after, every, ratio)
            assert isinstance(due, int) and due >= 0 and (t >= after or due == 0)
            done += due
            want = updates_by_the_rule(t, num_envs, after, int(every), ratio)
            assert done == want, (t, after, every)


def test_fractions_of_updates_are_not_lost_in_a_long_run(play):
    loop = play(epochs=0).loop
    loop._before, loop.t = 999_999, 1_000_000
    for ratio in (0.1, 0.3, 0.7, 1 / 3):
        t, total = 0, 0
        while t < 1_000_000:
            loop._before, loop.t = t, t + 1000
            total += loop.updates_due(0, 1000, ratio)
            t += 1000
        assert total == math.floor(1_000_000 * ratio + 1e-6)


@pytest.fixture
def torch_loop(in_run):
    """A loop in the middle of an off-policy run of torch."""
    return in_run("ddpg", lambda run: Loop(run), Tape, make_run=TorchRun)


def test_asking_how_many_updates_are_due_draws_nothing(torch_loop):
    loop, torch_before = torch_loop, torch.get_rng_state()
    before = loop._update_rng.bit_generator.state, json.dumps(global_state(), default=repr)
    loop._before, loop.t = 9, 10
    assert [loop.updates_due(0, 5, 2.0) for _ in range(3)] == [10, 10, 10]
    assert torch.equal(torch.get_rng_state(), torch_before)
    after = loop._update_rng.bit_generator.state, json.dumps(global_state(), default=repr)
    assert after == before


def test_a_round_of_updates_starts_from_a_seed_of_its_own(torch_loop):
    def rounds(*draws):
        """What gradient steps draw in two rounds, with other draws before each."""
        loop._update_rng.bit_generator.state = start
        drawn = []
        for n in draws:
            torch.rand(n)
            drawn += [torch.rand(1).item() for _ in loop.sample(Numbers(), 3, 8)]
        return drawn

    loop, start = torch_loop, torch_loop._update_rng.bit_generator.state
    drawn = rounds(0, 0)
    assert rounds(1, 5) == drawn and len(set(drawn)) == 6


def test_no_update_draws_nothing(torch_loop):
    loop, buffer = torch_loop, Numbers()
    before = loop._update_rng.bit_generator.state, torch.get_rng_state()
    assert list(loop.sample(buffer, 0, 8)) == [] and buffer.asked == []
    assert loop._update_rng.bit_generator.state == before[0]
    assert torch.equal(torch.get_rng_state(), before[1])


def test_batches_are_those_of_the_buffer_and_none_while_it_is_empty(torch_loop):
    buffer, empty = Numbers(), Numbers(size=0)
    assert list(torch_loop.sample(buffer, 3, 8, beta=0.5)) == [0, 1, 2]
    assert buffer.asked == [(3, 8, {"beta": 0.5})]
    assert list(torch_loop.sample(empty, 3, 8)) == [] and empty.asked == []


@pytest.mark.parametrize("num_envs", [1, 3])
def test_a_run_does_the_updates_that_the_rule_says(train, monkeypatch, num_envs):
    count = []
    update = ddpg_module.ddpg_update
    monkeypatch.setattr(
        ddpg_module, "ddpg_update", lambda *a, **k: count.append(1) or update(*a, **k)
    )
    settings = {"update_after": 13, "update_every": 4, "updates_per_step": 0.375}
    train("ddpg", "Pendulum-v1", steps_per_epoch=42, num_envs=num_envs, epochs=2, **settings)
    assert len(count) == updates_by_the_rule(84, num_envs, 13, 4, 0.375) > 20


# ---- ends of episodes ------------------------------------------------------------------------


def check_rows(rows, length, done):
    """No transition crosses an episode, none is missing, and `done` is what it should be."""
    episodes = {}
    for row in rows:
        assert (row.o2 - row.o).tolist() == [0, 0, 1]  # one environment, one episode, one step
        assert row.r == 10 * row.o[2]
        assert row.d == (done and row.o2[2] == length)
        episodes.setdefault((row.o[0], row.o[1]), []).append(int(row.o[2]))
    for (env, number), steps in episodes.items():
        assert steps == list(range(len(steps)))
        last = (env, number + 1) not in episodes
        assert len(steps) == length or (last and len(steps) < length)
    return episodes


# how an episode of 5 steps ends -> whether that is an end for the values
ENDS = {
    "terminated": (lambda: Tape(5, "terminated"), {}, True),
    "truncated": (lambda: Tape(5, "truncated"), {}, False),
    "both": (lambda: Tape(5, "both"), {}, True),
    "max_ep_len": (lambda: Tape(99), {"max_ep_len": 5}, False),
    "terminated_at_max_ep_len": (lambda: Tape(5, "terminated"), {"max_ep_len": 5}, True),
    "truncated_at_max_ep_len": (lambda: Tape(5, "truncated"), {"max_ep_len": 5}, False),
    "time_limit": (lambda: gym.wrappers.TimeLimit(Tape(99), 5), {}, False),
    "terminated_at_time_limit": (lambda: gym.wrappers.TimeLimit(Tape(5), 5), {}, True),
}


@pytest.mark.parametrize("num_envs", [1, 3])
@pytest.mark.parametrize("end", ENDS)
def test_done_means_terminated_and_no_transition_crosses(play, end, num_envs):
    env_fn, settings, done = ENDS[end]
    run = play(env_fn, num_envs=num_envs, **settings)
    episodes = check_rows(run.rows, 5, done)
    assert len(run.rows) == 48 and len(episodes) == num_envs * math.ceil(48 / num_envs / 5)
    assert len({env for env, _ in episodes}) == num_envs


@pytest.mark.parametrize("end", ["terminated", "truncated", "max_ep_len"])
def test_workers_store_what_one_process_would(play, end):
    env_fn, settings, done = ENDS[end]
    sync, workers = (
        play(env_fn, num_envs=3, vector=vector, start_steps=9, **settings)
        for vector in ("sync", "async")
    )
    check_rows(workers.rows, 5, done)
    assert repr(workers.rows) == repr(sync.rows)


@pytest.mark.parametrize("cls", [SyncVectorEnv, AsyncVectorEnv, Whole])
@pytest.mark.parametrize("mode", MODES, ids=lambda m: m.name)
@pytest.mark.parametrize("end", KINDS)
def test_no_transition_of_a_vector_environment_crosses_an_episode(play, cls, mode, end):
    run = play(vectorized(mode, cls, length=5, end=end))
    episodes = check_rows(run.rows, 5, end == "terminated")
    resets = cls is Whole and mode == AutoresetMode.NEXT_STEP  # a step in which nothing is done
    assert len(run.rows) == (48 - 6 if resets else 48) == run.loop.t
    assert len(episodes) == 12 if not resets else 9


def test_max_ep_len_cuts_a_vector_environment_that_lets_it(play):
    run = play(vectorized(AutoresetMode.DISABLED, Whole, length=99), max_ep_len=5)
    check_rows(run.rows, 5, False)
    assert len(run.rows) == 48
    with pytest.raises(SpinupError, match="outlasted max_ep_len=5"):
        play(vectorized(AutoresetMode.NEXT_STEP, Whole, length=99), max_ep_len=5)


@pytest.mark.parametrize("algo", CONTINUOUS)
@pytest.mark.parametrize("end", ["max_ep_len", "terminated_at_max_ep_len"])
def test_the_buffer_of_a_run_holds_what_happened(train, tracked, algo, end):
    env_fn, settings, done = ENDS[end]
    train(algo, env_fn, num_envs=2, num_test_episodes=0, start_steps=40, **settings)
    (objects,) = tracked
    data = objects["buffer"].ring.data
    n = objects["buffer"].ring.size
    names = dict(zip(NAMES, ("obs", "act", "rew", "obs2", "done"), strict=True))
    rows = [SimpleNamespace(**{k: data[name][i] for k, name in names.items()}) for i in range(n)]
    check_rows(rows, 5, done)
    assert n == 40 and data["done"].sum() == (8 if done else 0)


def test_an_action_comes_back_as_it_was_given_and_is_sent_within_the_bounds(play):
    class Wild(Fixed):
        def __call__(self, obs, rng):
            return np.full((len(obs), 2), 7.0)

    run = play(policy=Wild())
    (env,) = run.loop.streams.envs
    assert set(np.ravel([row.a for row in run.rows])) == {7.0}
    assert set(np.ravel(env.actions)) == {1.0}


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_the_actions_in_the_buffer_are_those_that_were_sent(train, tracked, algo):
    made = []

    class Watched(Tape):
        def __init__(self):
            super().__init__()
            made.append(self)

    noise = {} if algo == "sac" else {"act_noise": 5.0}
    train(algo, Watched, num_test_episodes=0, **noise)
    (objects,) = tracked
    assert np.array_equal(objects["buffer"].ring.data["act"][:40], made[0].actions)
    assert noise == {} or (np.abs(made[0].actions) == 1).any()


# ---- paths -----------------------------------------------------------------------------------


class OnPolicy(Fixed):
    """The same policy for an on-policy run."""

    def __call__(self, obs, rng):
        return super().__call__(obs, rng), None, None


@pytest.mark.parametrize("end", ["terminated", "truncated", "max_ep_len"])
def test_a_path_ends_with_its_episode_or_with_the_epoch(in_run, end):
    env_fn, settings, done = ENDS[end]  # episodes of 5 steps

    def body(run):
        loop, found = Loop(run), []
        for _ in run.epochs():
            for _ in loop.steps():
                loop.step(loop.act(OnPolicy())[0])
                found.append(
                    [
                        (p.i, p.last_obs if p.last_obs is None else p.last_obs.copy())
                        for p in loop.paths
                    ]
                )
        return found

    found = in_run("ppo", body, env_fn, steps_per_epoch=14, num_envs=2, epochs=2, **settings)
    assert [[i for i, _ in paths] for paths in found] == [
        [0, 1] if t in (5, 10, 7, 14) else [] for t in range(1, 15)
    ]
    for t, episode, step, ended in [(5, 0, 5, True), (7, 1, 2, False), (10, 1, 5, True)]:
        for _, obs in found[t - 1]:
            if ended and done:  # nothing follows
                assert obs is None
            else:  # the last observation of the episode, not the first one of the next
                assert obs[1:].tolist() == [episode, step]


def test_the_steps_of_all_shards_and_epochs_are_counted(in_run):
    def body(run):
        loop, counts = Loop(run), []
        for _ in run.epochs():
            for _ in loop.steps():
                loop.step(loop.act(OnPolicy())[0])
                counts.append(loop.total_steps())
            loop.log()
        return counts, read(SimpleNamespace(dir=run.output_dir))

    counts, rows = in_run("vpg", body, Tape, steps_per_epoch=12, num_envs=2, shards=3, epochs=2)
    assert counts == list(range(2, 25, 2))
    assert [row["TotalEnvInteracts"] for row in rows] == [12, 24]


# ---- the log ---------------------------------------------------------------------------------


@pytest.mark.parametrize("join_every", [1, 3, 100])
def test_the_row_of_an_epoch_says_what_its_updates_measured(play, monkeypatch, join_every):
    monkeypatch.setattr(loop_module, "_JOIN_EVERY", join_every)

    def update(loop):
        k = float(loop.updates)
        return {"QVals": np.array([k, -k]), "LossQ": k}

    rows = read(play(update=update, updates_per_step=0.125, update_every=8, steps_per_epoch=32))
    for row, first in zip(rows, (0, 4), strict=True):
        k = np.arange(first, first + 4)
        assert row["LossQ"] == k.mean() and row["AverageQVals"] == 0
        assert row["MaxQVals"] == k.max() and row["MinQVals"] == -k.max()
        assert row["StdQVals"] == pytest.approx(math.sqrt((k**2).mean()), rel=1e-5)
        assert row["EpLen"] == 5 and row["AverageEpRet"] == 100
    assert [row["Epoch"] for row in rows] == [0, 1]


def test_the_row_of_an_on_policy_epoch_has_its_values_and_numbers_in_order(in_run):
    def body(run):
        loop = Loop(run)
        for _ in run.epochs():
            for _ in loop.steps():
                loop.step(loop.act(OnPolicy())[0])
            vals = [np.array([1.0, 2.0]), np.array([6.0])]  # one array per shard
            loop.log({"LossPi": 0.5, "KL": np.float32(0.25)}, VVals=vals)
        return run

    run = in_run("ppo", body, Tape, steps_per_epoch=20, shards=2)
    (row,) = read(SimpleNamespace(dir=run.output_dir))
    assert row["AverageVVals"] == 3 and row["MaxVVals"] == 6 and row["MinVVals"] == 1
    assert row["AverageEpRet"] == 100 and row["EpLen"] == 5 and row["TotalEnvInteracts"] == 20
    names = [k for k in row if not k.startswith(("Std", "Max", "Min"))]
    episodes, last = ["Epoch", "AverageEpRet", "EpLen"], ["TotalEnvInteracts", "LossPi", "KL"]
    assert names == [*episodes, "AverageVVals", *last, "Time"]


def test_a_number_of_the_row_that_is_not_finite_stops_the_run_by_name(in_run):
    def body(run):
        loop = Loop(run)
        for _ in run.epochs():
            loop.log({"LossPi": math.inf})

    with pytest.raises(TrainingDiverged, match="LossPi became inf in epoch 0, so ppo stopped"):
        in_run("ppo", body, Tape)


@pytest.mark.parametrize("algo", PATIENT)
def test_an_epoch_without_an_update_logs_nan_for_its_losses(train, algo):
    run = train(algo, None, epochs=3, update_after=60)
    losses = [k for k in run.rows[0] if k.startswith("Loss") or k.endswith("Vals")]
    assert "LossQ" in losses and len(losses) >= 5
    for row, known in zip(run.rows, (False, True, True), strict=True):
        assert [math.isfinite(row[k]) for k in losses] == [known] * len(losses)
        assert row.keys() == run.rows[0].keys() and row["TotalEnvInteracts"] > 0
    header, *lines = (run.dir / "progress.txt").read_text().splitlines()
    assert len(lines) == 3 and all(x.count("\t") == header.count("\t") for x in lines)


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_an_epoch_without_a_finished_episode_logs_nan(train, algo):
    rows = train(algo, None, epochs=2, steps_per_epoch=4, max_ep_len=5000).rows
    for row in rows[:1] if env_of(algo) != "Pendulum-v1" else rows:
        assert math.isnan(row["AverageEpRet"]) and math.isnan(row["EpLen"])


def test_without_test_episodes_there_are_no_columns_for_them(train):
    rows = train("ddpg", "Pendulum-v1", num_test_episodes=0).rows
    assert not [k for k in rows[0] if "Test" in k]
