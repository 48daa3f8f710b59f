"""The loop: what a step returns, when updates are due, the log, and tests that change nothing."""

import itertools
import json
import math
import signal
from collections import Counter
from contextlib import nullcontext
from fractions import Fraction
from inspect import signature
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv
from torch import nn

from spinup import registry
from spinup.algos.common import loop as loop_module
from spinup.algos.common.evaluation import play_test
from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common import run as torch_run
from spinup.algos.pytorch.common.run import TorchRun
from spinup.algos.pytorch.ddpg import ddpg as ddpg_module
from spinup.envs import make_env
from spinup.parallel import mpi as mpi_tools
from spinup.runs.run import Run, TrainingDiverged
from spinup.runs.storage.checkpoints import load_checkpoint
from spinup.utils.errors import SpinupError
from spinup.utils.seeding import global_state

ROWS = [row for row in registry.ROWS if not row.on_policy]
OFF_POLICY = [row.name for row in ROWS]
# ACER keeps trajectories, in a buffer of its own.
CONTINUOUS = [r.name for r in ROWS if r.action_spaces[0] == "Box" and r.observation == "vector"]
PATIENT = [n for n in OFF_POLICY if "update_after" in signature(registry.load(n)).parameters]
KINDS = ("terminated", "truncated")
NAMES = ("o", "a", "r", "o2", "d")
POLICY = np.float32(0.123)  # an action that is never drawn at random


class Tape(gym.Env):
    """The observation tells environment, episode and step; the reward is ten times the step."""

    def __init__(self, length=5, end="terminated"):
        self.observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self.length, self.end = length, end
        self.episode, self.t, self.seeds, self.actions = -1, 0, [], []

    def obs(self):
        # The first seed tells environments apart, in whatever process they live.
        return np.array([self.seeds[0] % 2**20, self.episode, self.t], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode, self.t = self.episode + 1, 0
        return self.obs(), {}

    def step(self, action):
        self.actions.append(np.array(action))
        self.t += 1
        over = self.t == self.length
        terminated, truncated = (over and self.end in (kind, "both") for kind in KINDS)
        return self.obs(), 10.0 * (self.t - 1), terminated, truncated, {}


class Fixed:
    """A policy whose actions are recognised."""

    def __init__(self):
        self.begun = 0

    def begin(self, rng):
        self.begun += 1

    def renew(self):
        raise AssertionError("nothing was restored")

    def __call__(self, obs, rng):
        return np.full((len(obs), 2), POLICY)


@pytest.fixture
def play(in_run):
    """A function that runs the loop without a network; returns the loop and all transitions.

    `update(loop)` is called for every gradient step and returns what it measured.
    """

    def loop_of(
        env_fn=Tape,
        policy=None,
        update=lambda loop: {},
        get_action=None,
        algo="ddpg",
        start_steps=0,
        update_after=0,
        update_every=1,
        updates_per_step=0.0,
        **given,
    ):
        policy, rows = policy or Fixed(), []

        def body(run):
            loop = Loop(run, ("QVals",), ("LossQ",))
            for _epoch in run.epochs():
                for _t in loop.steps():
                    a = loop.act(policy, start_steps)
                    for row in zip(*(x.copy() for x in loop.step(a)), strict=True):
                        rows.append(SimpleNamespace(**dict(zip(NAMES, row, strict=True))))
                    for _ in range(loop.updates_due(update_after, update_every, updates_per_step)):
                        loop.record(update(loop))
                loop.evaluate(get_action, run.config["num_test_episodes"])
                loop.log()
            return SimpleNamespace(loop=loop, rows=rows, policy=policy, dir=run.output_dir)

        return in_run(algo, body, env_fn, **{"epochs": 2, **given})

    return loop_of


def vectorized(mode=AutoresetMode.NEXT_STEP, cls=SyncVectorEnv, n=3, **kwargs):
    """An env_fn whose environment is a vector of n tapes."""
    return lambda: cls([lambda: Tape(**kwargs)] * n, autoreset_mode=mode)


class Whole(SyncVectorEnv):
    """A vector environment of a user's own, which is not taken apart."""


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
        env = Counting(make_env(default_env(algo)))
        env.number = len(taken)
        taken.append(0)
        return env

    rows = train(algo, env_fn, num_envs=2, epochs=2, num_test_episodes=1).rows
    assert [row["TotalEnvInteracts"] for row in rows] == [40, 80]
    assert taken[:2] == [40, 40] and sum(taken[2:]) == sum(row["TestEpLen"] for row in rows)


def default_env(algo):
    row = registry.get(algo)
    if row.observation == "goal":
        return "spinup/BitFlip-v0"
    return "Pendulum-v1" if "Box" in row.action_spaces else "CartPole-v1"


def updates_by_the_rule(steps, n, after, every, ratio):
    """Gradient steps in `steps` steps, n at a time, in exact arithmetic.

    Each block of `every` steps is worth every x ratio gradient steps, done when the block is
    complete; blocks that were complete before `after` steps are worth nothing.
    """
    each = every * Fraction(ratio).limit_denominator(1000)
    lost = max((t // every for t in range(0, steps + 1, n) if t < after), default=0)
    return max(0, math.floor(steps // every * each) - math.floor(lost * each))


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


class Numbers:
    """A buffer whose batches are numbers."""

    def __init__(self, size=1):
        self.size, self.asked = size, []

    def __len__(self):
        return self.size

    def sample_batches(self, n, batch_size, **options):
        self.asked.append((n, batch_size, options))
        return iter(range(n))


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


@pytest.fixture
def tracked(monkeypatch):
    """Everything that the runs of a test track, one dict a run."""
    found, track = [], Run.track

    def remember(run, **objects):
        if not run.tracked:
            found.append(run.tracked)
        track(run, **objects)

    monkeypatch.setattr(Run, "track", remember)
    return found


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


def read(run):
    lines = (run.dir / "progress.txt").read_text().splitlines()
    names = lines[0].split("\t")
    return [dict(zip(names, map(float, x.split("\t")), strict=True)) for x in lines[1:]]


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
    for row in rows[:1] if default_env(algo) != "Pendulum-v1" else rows:
        assert math.isnan(row["AverageEpRet"]) and math.isnan(row["EpLen"])


def test_without_test_episodes_there_are_no_columns_for_them(train):
    rows = train("ddpg", "Pendulum-v1", num_test_episodes=0).rows
    assert not [k for k in rows[0] if "Test" in k]


# ---- test episodes ---------------------------------------------------------------------------


class Drawing(gym.Wrapper):
    """Draws from NumPy's global generator: when it is made, and in every step."""

    def __init__(self, env):
        super().__init__(env)
        np.random.random(3)

    def step(self, action):
        o, r, terminated, truncated, info = self.env.step(action)
        return o, r + np.random.random(), terminated, truncated, info


class Q(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Linear(4, 1)

    def forward(self, obs, act):
        return self.net(torch.cat([obs, act], -1)).squeeze(-1)


class Dropout(nn.Module):
    """An actor-critic of a user's own that draws whenever it acts."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.pi, self.q = nn.Linear(3, 1), Q()

    def act(self, obs):
        with torch.no_grad():
            return (self.pi(obs) + 0.1 * torch.randn(1)).numpy()


def pair(train, tracked, algo, make_env_fn, **kwargs):
    """The same run without test episodes and with three of them; fails unless training agrees."""
    runs = []
    for n in (0, 3):
        tracked.clear()
        run = train(algo, make_env_fn(), num_test_episodes=n, epochs=2, **kwargs)
        runs.append(SimpleNamespace(run=run, tracked=dict(tracked[0])))
    without, with_tests = runs
    for p, q in zip(without.run.ac.parameters(), with_tests.run.ac.parameters(), strict=True):
        assert torch.equal(p, q)
    buffers = [r.tracked["buffer"] for r in runs]
    assert buffers[0].ring.total == buffers[1].ring.total > 70
    for name, x in buffers[0].ring.data.items():
        assert np.array_equal(x, buffers[1].ring.data[name]), name
    assert buffers[0].rng.bit_generator.state == buffers[1].rng.bit_generator.state
    for one, other in zip(without.run.rows, with_tests.run.rows, strict=True):
        assert repr(one) == repr({k: v for k, v in other.items() if "Test" not in k})
        assert other["TestEpLen"] > 0 and other.keys() - one.keys() >= {"AverageTestEpRet"}
    return with_tests.run


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_test_episodes_change_nothing_in_training(train, tracked, algo):
    pair(train, tracked, algo, lambda: default_env(algo))


@pytest.mark.parametrize("num_envs", [1, 2])
def test_test_episodes_of_an_environment_with_global_randomness_change_nothing(
    train, tracked, num_envs
):
    pair(train, tracked, "td3", lambda: lambda: Drawing(gym.make("Pendulum-v1")), num_envs=num_envs)


@pytest.mark.parametrize("algo", ["ddpg", "sac"])
def test_test_episodes_in_the_training_environment_itself_change_nothing(train, tracked, algo):
    def make_env_fn():
        env = gym.make("Pendulum-v1")
        return lambda: env

    # the epoch ends in the middle of an episode
    pair(train, tracked, algo, make_env_fn, steps_per_epoch=50, max_ep_len=17)


def test_test_episodes_of_a_network_that_draws_change_nothing(train, tracked):
    pair(train, tracked, "ddpg", lambda: "Pendulum-v1", actor_critic=Dropout, start_steps=3)


@pytest.mark.parametrize("cls", [SyncVectorEnv, AsyncVectorEnv])
def test_vector_environments_are_tested_in_one_of_their_own(train, cls):
    run = train("ddpg", lambda: cls([lambda: gym.make("Pendulum-v1")] * 2))
    assert run.rows[0]["TestEpLen"] == 20 and run.rows[0]["TotalEnvInteracts"] == 40


def test_a_vector_environment_that_cannot_be_tested_is_refused_at_once(train, tmp_path):
    env_fn = vectorized(cls=Whole)
    with pytest.raises(SpinupError, match="use num_test_episodes=0") as error:
        train("ddpg", env_fn, steps_per_epoch=60)
    assert "\n" not in str(error.value) and list(tmp_path.iterdir()) == []
    assert train("ddpg", env_fn, steps_per_epoch=60, num_test_episodes=0).rows


def test_test_episodes_have_seeds_of_their_own_that_depend_on_the_epoch_alone(play):
    def seeds_of(num_envs=1, **kwargs):
        made = []

        class Watched(Tape):
            def __init__(self):
                super().__init__()
                made.append(self)

        settings = {"epochs": 3, "num_test_episodes": 2, "num_envs": num_envs, **kwargs}
        play(Watched, get_action=lambda o: np.zeros(2, np.float32), **settings)
        assert len(made) == num_envs + 1  # one test environment for the whole run
        return [s for env in made[:-1] for s in env.seeds], made[-1].seeds

    training, tests = seeds_of()
    assert len(tests) == 6 and None not in tests
    assert len({*tests, *training}) == len(tests) + len(training)
    for other in ({"num_envs": 2}, {"steps_per_epoch": 20}, {"start_steps": 7}, {"max_ep_len": 3}):
        assert seeds_of(**other)[1] == tests
    assert not set(seeds_of(seed=1)[1]) & set(tests)


def test_an_environment_that_draws_from_its_spaces_repeats_in_tests_too(train):
    class Sampling(gym.Env):
        def __init__(self):
            self.observation_space = spaces.Box(-1, 1, (2,), np.float32)
            self.action_space = spaces.Box(-1, 1, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return self.observation_space.sample(), {}

        def step(self, action):
            return self.observation_space.sample(), float(action[0]), False, False, {}

    one, other = (train("ddpg", Sampling, epochs=2, max_ep_len=5) for _ in range(2))
    assert one.rows == other.rows
    assert one.rows[0]["AverageTestEpRet"] != one.rows[1]["AverageTestEpRet"]


@pytest.mark.parametrize("algo", CONTINUOUS)
def test_test_episodes_are_played_without_noise(train, algo):
    made = []

    class Still(Tape):
        def __init__(self):
            super().__init__(length=30)
            made.append(self)

        def obs(self):
            return np.ones(3, np.float32)

    train(algo, Still, epochs=1)
    training, test = (np.unique(env.actions, axis=0) for env in made)
    assert len(training) > 10 and len(test) == 1


def test_the_log_says_what_the_test_episodes_were(play):
    acts = []
    run = play(
        get_action=lambda o: acts.append(o.copy()) or np.zeros(2, np.float32),
        num_test_episodes=3,
        max_ep_len=4,
    )
    rows = read(run)
    assert [row["TestEpLen"] for row in rows] == [4, 4]
    assert [row["AverageTestEpRet"] for row in rows] == [60, 60]
    assert [int(o[2]) for o in acts] == [0, 1, 2, 3] * 6  # the first observation included


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
            rows = read(SimpleNamespace(dir=tmp_path / folder))
            found.rows = [{k: v for k, v in row.items() if k != "Time"} for row in rows]
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


def test_test_episodes_accept_rewards_that_are_arrays_of_one_element():
    class ArrayRewards(Tape):
        def step(self, action):
            o, r, *rest = super().step(action)
            return o, np.array([r]), *rest

    found = play_test(ArrayRewards(length=3), lambda o: np.zeros(2), 5, 100)
    assert found == {"TestEpRet": 30.0, "TestEpLen": 3.0}
