"""HER in whole runs: every base, what the buffer holds, saved policies, resuming, wrong input."""

import functools
import inspect
import itertools
import math
import os
import signal
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup.algos.pytorch.common.buffers import make_replay_buffer
from spinup.algos.pytorch.dqn import core as dqn_core
from spinup.algos.pytorch.her import core
from spinup.algos.pytorch.her import her as module
from spinup.algos.pytorch.her.her import her
from spinup.algos.pytorch.td3 import td3 as td3_module
from spinup.algos.pytorch.td3.td3 import td3_update
from spinup.envs import make_env
from spinup.policies.loading import load_policy_and_env
from spinup.policies.play import run_policy
from spinup.runs.arguments.table import ARGUMENTS
from spinup.runs.signals import Signals
from spinup.runs.storage.packing import pack, unpack
from spinup.utils.errors import SpinupError
from spinup.utils.seeding import Seeds
from tests.helpers.comparing import table_cells

# ---- training ------------------------------------------------------------------------------------


class Reach(gymnasium.Env):
    """A point moved by its action that should come within 0.2 of its goal; it never terminates."""

    def __init__(self):
        point = spaces.Box(-1.0, 1.0, (2,), np.float64)
        self.observation_space = spaces.Dict(
            {"observation": point, "achieved_goal": point, "desired_goal": point}
        )
        self.action_space = spaces.Box(-0.5, 0.5, (2,), np.float32)

    def _seen(self):
        return {"observation": self.at, "achieved_goal": self.at, "desired_goal": self.goal}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.goal = self.np_random.uniform(-1, 1, (2, 2))
        self.t = 0
        return self._seen(), {}

    def step(self, action):
        self.at = np.clip(self.at + action, -1, 1)
        self.t += 1
        rew = self.compute_reward(self.at, self.goal, {})
        return self._seen(), float(rew), False, self.t == 10, {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(np.linalg.norm(achieved_goal - desired_goal, axis=-1) > 0.2).astype(float)


STRATEGIES = ARGUMENTS["strategy"].domain.words
SMALL = {"start_steps": 20, "update_after": 20, "update_every": 10, "batch_size": 16}
SMALL.update(replay_size=5000, num_test_episodes=2, num_threads=1)
BITFLIP = functools.partial(make_env, "spinup/BitFlip-v0", {"n": 4})


@pytest.fixture
def her_run(train, monkeypatch):
    """Trains HER a little; also gives the replay buffer of the run."""
    kept = []

    def keep(*args, **kwargs):
        kept.append(make_replay_buffer(*args, **kwargs))
        return kept[-1]

    monkeypatch.setattr(module, "make_replay_buffer", keep)

    def run(env=BITFLIP, **kwargs):
        result = train("her", env, **{**SMALL, **kwargs})
        result.buffer = kept[-1]
        return result

    return run


@pytest.mark.parametrize(
    ("base", "env", "columns"),
    [
        ("dqn", BITFLIP, {"AverageQVals", "LossQ", "Epsilon"}),
        ("sac", BITFLIP, {"AverageQ1Vals", "AverageLogPi", "LossPi", "Alpha"}),
        ("ddpg", Reach, {"AverageQVals", "LossPi", "LossQ"}),
        ("td3", Reach, {"AverageQ1Vals", "AverageQ2Vals", "LossPi"}),
        ("sac", Reach, {"AverageQ1Vals", "AverageLogPi", "LossPi", "Alpha"}),
    ],
)
def test_every_base_trains_logs_and_moves_its_networks(her_run, base, env, columns):
    run, untrained = (her_run(env, base=base, epochs=2, update_after=n) for n in (20, 10**6))
    last = run.rows[-1]
    assert columns | {"SuccessRate", "TestSuccessRate", "AverageTestEpRet"} <= set(last)
    assert not any(np.isnan(value) for value in last.values())
    assert 0 <= last["SuccessRate"] <= 1 and 0 <= last["TestSuccessRate"] <= 1
    assert last["TotalEnvInteracts"] == 80
    pairs = zip(run.ac.parameters(), untrained.ac.parameters(), strict=True)
    assert all(not torch.equal(p, q) for p, q in pairs if p.requires_grad)


def test_sac_as_a_base_aims_for_an_entropy_in_units_of_the_action_range(her_run):
    def rows(**target):
        return her_run(Reach, base="sac", base_kwargs={"alpha": "auto", **target}).rows

    # two dimensions of half range 0.5
    ours = rows()
    assert ours == rows(target_entropy=2 * math.log(0.5) - 2) != rows(target_entropy=-2.0)
    assert math.isfinite(ours[-1]["LossPi"]) and ours[-1]["Alpha"] != 1.0


def test_the_base_follows_from_the_actions(her_run):
    assert type(her_run(BITFLIP).ac.net).__module__.endswith("dqn.core")
    assert type(her_run(Reach).ac.net).__module__.endswith("ddpg.core")


class Diary(gymnasium.Env):
    """Goals that say which episode of which environment they are from, and which step."""

    made = 0

    def __init__(self, length=7):
        Diary.made += 1
        self.me, self.episode, self.length = Diary.made, 0, length
        page = spaces.Box(-1.0, 1e6, (3,), np.float64)
        self.observation_space = spaces.Dict(
            {"observation": page, "achieved_goal": page, "desired_goal": page}
        )
        self.action_space = spaces.Discrete(3)

    def _seen(self):
        page = np.array([self.me, self.episode, self.t], float)
        goal = np.array([self.me, self.episode, 1000.0])
        return {"observation": page, "achieved_goal": page, "desired_goal": goal}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.t = self.episode + 1, 0
        return self._seen(), {}

    def step(self, action):
        self.t += 1
        return self._seen(), -1.0, False, self.t == self.length, {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        return -(achieved_goal != desired_goal).any(axis=-1).astype(float)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("num_envs", [1, 2])
def test_the_buffer_holds_whole_episodes_and_k_copies_and_nothing_crosses(
    her_run, strategy, num_envs
):
    run = her_run(Diary, strategy=strategy, k=3, num_envs=num_envs, num_test_episodes=0)
    # 40 steps: 5 whole episodes of 7 in one environment, or 2 in each of two; the rest goes on.
    n_real = 35 if num_envs == 1 else 28
    n = len(run.buffer)
    assert n == 4 * n_real
    rows = {name: x[:n] for name, x in run.buffer.ring.data.items()}
    achieved, desired, seen = slice(0, 3), slice(3, 6), slice(6, 9)
    before, after, goal = (
        rows["obs"][:, achieved],
        rows["obs2"][:, achieved],
        rows["obs2"][:, desired],
    )
    np.testing.assert_array_equal(rows["obs"][:, desired], goal)
    np.testing.assert_array_equal(before[:, :2], after[:, :2])  # the same episode
    np.testing.assert_array_equal(before[:, 2] + 1, after[:, 2])
    np.testing.assert_array_equal(rows["obs2"][:, seen], after)
    real = goal[:, 2] == 1000
    assert real.sum() == n_real
    # every step of every whole episode once as it was, and three times relabeled
    for which, times in ((real, 1), (~real, 3)):
        pages, counts = np.unique(after[which], axis=0, return_counts=True)
        assert len(pages) == n_real and set(counts) == {times}
    reached = (after == goal).all(axis=1)
    np.testing.assert_array_equal(rows["rew"], reached - 1.0)
    assert reached[~real].any() and not reached[real].any()
    assert not rows["done"].any()
    same_episode = (goal[:, :2] == after[:, :2]).all(axis=1)
    assert same_episode[real].all()
    copies = after[~real], goal[~real]
    if strategy == "random":
        assert not same_episode[~real].all()
    else:
        assert same_episode[~real].all()
        later = copies[1][:, 2] - copies[0][:, 2]
        assert {"future": (later >= 0).all(), "episode": (later < 0).any()}.get(strategy, True)
        if strategy == "final":
            assert (copies[1][:, 2] == 7).all()


def test_random_goals_come_only_from_what_has_been_seen_by_then(her_run):
    run = her_run(Diary, strategy="random", k=3, num_test_episodes=0)
    rows = run.buffer.ring.data
    after, goal = (rows["obs2"][: len(run.buffer), part] for part in (slice(0, 3), slice(3, 6)))
    assert (goal[:, 1] <= after[:, 1]).all()
    assert (goal[:, 1] < after[:, 1]).any()


def test_without_copies_the_buffer_holds_what_happened(her_run):
    run = her_run(Diary, k=0, num_test_episodes=0)
    assert len(run.buffer) == 35
    assert (run.buffer.ring.data["obs2"][:35, 5] == 1000).all()


def test_an_episode_cut_by_max_ep_len_is_stored_too(her_run):
    run = her_run(Diary, k=1, max_ep_len=5, num_test_episodes=0)
    assert len(run.buffer) == 2 * 40
    after = run.buffer.ring.data["obs2"][:80, 2]
    assert after.max() == 5 and not run.buffer.ring.data["done"][:80].any()


def test_there_is_no_update_before_an_episode_is_over(her_run):
    run = her_run(functools.partial(Diary, 100), max_ep_len=100, num_test_episodes=0)
    assert len(run.buffer) == 0
    row = run.rows[-1]
    assert np.isnan(row["LossQ"]) and np.isnan(row["SuccessRate"])


def test_bits_that_were_flipped_to_their_goal_are_done_and_the_others_not(her_run):
    buffer = her_run(BITFLIP, k=2, steps_per_epoch=200).buffer
    rows = {name: x[: len(buffer)] for name, x in buffer.ring.data.items()}
    reached = (rows["obs2"][:, 0:4] == rows["obs2"][:, 4:8]).all(axis=1)
    np.testing.assert_array_equal(rows["done"], reached)
    np.testing.assert_array_equal(rows["rew"], reached - 1.0)
    assert 0.2 < reached.mean() < 0.8


# ---- networks and saved policies -----------------------------------------------------------------


def first_layer(ac):
    return next(m for m in ac.net.modules() if isinstance(m, torch.nn.Linear))


def test_the_networks_see_the_desired_goal_and_not_the_achieved_one(her_run):
    ac = her_run(BITFLIP, ac_kwargs={"normalize_obs": False}).ac
    row = torch.tensor([0.0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1])  # achieved, desired, observation
    assert ac.inputs(row).tolist() == [1, 1, 0, 0, 0, 1, 0, 1]
    np.testing.assert_array_equal(ac.inputs(row.numpy()), ac.inputs(row))
    assert first_layer(ac).in_features == 8


def test_parts_that_are_not_side_by_side_are_picked_one_by_one():
    space = spaces.Box(np.arange(5.0, dtype=np.float32), np.full(5, 9.0, np.float32))
    parts = [[3, 5], [0, 1]]
    ac = core.GoalActorCritic(space, spaces.Discrete(2), "dqn", parts, normalize_obs=False)
    assert ac.inputs(torch.arange(5.0)).tolist() == [0, 3, 4]
    assert ac.inputs(np.arange(5.0)[None]).tolist() == [[0, 3, 4]]


def test_inputs_are_normalized_by_what_the_networks_have_seen_hindsight_included(her_run):
    run = her_run(Reach, num_test_episodes=3)
    seen = run.buffer.ring.data["obs"][: len(run.buffer), 2:].astype(np.float64)
    norm = run.ac.obs_filter
    np.testing.assert_allclose(norm.mean, seen.mean(axis=0), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(norm.std, seen.std(axis=0), rtol=1e-4)
    rows = run.buffer.ring.data["obs"][:9]
    expected = (rows[:, 2:] - seen.mean(axis=0)) / seen.std(axis=0)
    np.testing.assert_allclose(run.ac.inputs(rows), expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(run.ac.inputs(torch.as_tensor(rows)), expected, rtol=1e-3, atol=1e-4)


class Recorder(dqn_core.MLPQNetwork):
    """A user's own networks; remembers the space it was made for."""

    def __init__(self, observation_space, action_space, width=8):
        super().__init__(observation_space, action_space, hidden_sizes=(width,))
        self.observation_space = observation_space


def test_networks_of_the_users_own_are_made_for_observation_and_desired_goal(her_run):
    ac = her_run(BITFLIP, actor_critic=Recorder, ac_kwargs={"width": 6}).ac
    assert type(ac.net) is Recorder and ac.net.observation_space.shape == (8,)
    assert first_layer(ac).out_features == 6


@pytest.mark.parametrize(("base", "env"), [("dqn", BITFLIP), ("sac", BITFLIP)])
def test_a_saved_policy_acts_in_its_environment_as_the_trained_one(her_run, base, env):
    run = her_run(env, base=base, ac_kwargs={"hidden_sizes": (8,), "activation": torch.nn.Tanh})
    loaded, get_action = load_policy_and_env(run.dir, deterministic=True)
    assert loaded.observation_space.shape == (12,) and loaded.unwrapped.n == 4
    ours = run.ac.make_get_action(deterministic=True)
    for seed in range(20):
        o, _ = loaded.reset(seed=seed)
        assert get_action(o) == ours(o)
    assert len(run_policy(loaded, get_action, num_episodes=2, render=False)["EpRet"]) == 2


def test_a_saved_policy_of_the_users_own_class_needs_the_class(her_run):
    run = her_run(BITFLIP, actor_critic=Recorder, ac_kwargs={"width": 6})
    with pytest.raises(SpinupError, match=r"partial\(GoalActorCritic, actor_critic=Recorder\)"):
        load_policy_and_env(run.dir)
    whole = functools.partial(core.GoalActorCritic, actor_critic=Recorder)
    _, get_action = load_policy_and_env(run.dir, actor_critic=whole)
    assert get_action(np.zeros(12, np.float32)) in range(4)


# ---- success -------------------------------------------------------------------------------------


def test_success_rates_are_the_share_of_episodes_whose_last_step_reached_the_goal(her_run):
    seen = []

    class Watch(gymnasium.Wrapper):
        def step(self, action):
            result = self.env.step(action)
            if result[2] or result[3]:
                seen.append(result[4]["is_success"])
            return result

    (row,) = her_run(lambda: Watch(BITFLIP()), steps_per_epoch=200, num_test_episodes=0).rows
    assert row["SuccessRate"] == pytest.approx(np.mean(seen), abs=1e-4)
    assert 0 < row["SuccessRate"] < 1
    seen.clear()
    (row,) = her_run(lambda: Watch(BITFLIP()), steps_per_epoch=200, num_test_episodes=30).rows
    assert row["TestSuccessRate"] == pytest.approx(np.mean(seen[-30:]), abs=1e-4)
    assert row["SuccessRate"] == pytest.approx(np.mean(seen[:-30]), abs=1e-4)


# ---- resuming ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "kwargs", "stops"),
    [
        (BITFLIP, {"strategy": "random", "num_envs": 2}, (9, 8, 12)),
        (Reach, {"base": "td3"}, (9, 25, 24)),
        (Reach, {"base": "sac", "base_kwargs": {"alpha": "auto"}}, (9, 25, 24)),
    ],
)
def test_a_run_stopped_in_the_middle_of_episodes_ends_as_one_never_stopped(
    tmp_path, monkeypatch, env, kwargs, stops
):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    settings = {**SMALL, "steps_per_epoch": 34, "epochs": 3, "update_every": 2, **kwargs}
    settings["ac_kwargs"] = {"hidden_sizes": (8,)}

    def run(name, **more):
        logger_kwargs = {"output_dir": str(tmp_path / name), "quiet": True}
        return her(env, logger_kwargs=logger_kwargs, **settings, **more)

    unwatched = Signals.poll

    def stop_after(n):
        polls = itertools.count()

        def poll(self):
            if next(polls) == n:
                signal.raise_signal(signal.SIGTERM)
            return unwatched(self)

        monkeypatch.setattr(Signals, "poll", poll)

    whole = run("whole")
    for i, n in enumerate(stops):  # in the middle of an epoch, once in that of its test episodes
        stop_after(n)
        with pytest.raises(SystemExit, match=f"{128 + signal.SIGTERM}"):
            run("stopped", resume=i > 0)
    stop_after(-1)
    resumed = run("stopped", resume=True)
    assert table_cells(tmp_path / "stopped") == table_cells(tmp_path / "whole")
    assert len(table_cells(tmp_path / "whole")) == 4
    pairs = zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True)
    assert all(torch.equal(p, q) for p, q in pairs)


class Tracker:
    """As much of a run as `Episodes` needs."""

    def __init__(self, num_envs):
        self.seeds, self.streams = Seeds(0), [SimpleNamespace(num_envs=num_envs, frame_stack=1)]

    def track(self, **objects):
        self.tracked = objects


def step_of(t, i, episode=0):
    """A transition of environment i: everything in it tells which."""
    return [100.0 * i + 10 * episode + t], t, -1.0 * t, [100.0 * i + 10 * episode + t + 1], False


def transitions(*steps):
    return tuple(np.array(column) for column in zip(*steps, strict=True))


def test_episodes_are_kept_apart_until_they_end():
    episodes = core.Episodes(Tracker(2))
    assert episodes.add(transitions(step_of(0, 0), step_of(0, 1)), []) == []
    (one,) = episodes.add(transitions(step_of(1, 0), step_of(1, 1)), [1])
    np.testing.assert_array_equal(one["obs"], [[100], [101]])
    np.testing.assert_array_equal(one["obs2"], [[101], [102]])
    np.testing.assert_array_equal(one["act"], [0, 1])
    np.testing.assert_array_equal(one["rew"], [0, -1])
    assert one["done"].tolist() == [False, False]
    both = episodes.add(transitions(step_of(2, 0), step_of(0, 1, episode=1)), [0, 1])
    assert [x["obs"].ravel().tolist() for x in both] == [[0, 1, 2], [110]]


def test_what_is_kept_does_not_change_when_the_environment_writes_its_arrays_anew():
    episodes = core.Episodes(Tracker(1))
    given = transitions(step_of(0, 0))
    episodes.add(given, [])
    for array in given:
        array[:] = 77
    (one,) = episodes.add(transitions(step_of(1, 0)), [0])
    np.testing.assert_array_equal(one["obs"], [[0], [1]])


def test_an_episode_that_could_not_be_restored_ends_where_it_was():
    before, after = core.Episodes(Tracker(1)), core.Episodes(Tracker(1))
    before.add(transitions(step_of(0, 0)), [])
    before.add(transitions(step_of(1, 0)), [])
    state = unpack(*pack(before.state_dict()))  # as a checkpoint holds it
    after.load_state_dict(state)
    assert after.rng.bit_generator.state == before.rng.bit_generator.state
    (old,) = after.add(transitions(step_of(0, 0, episode=3)), [])
    np.testing.assert_array_equal(old["obs"], [[0], [1]])
    (new,) = after.add(transitions(step_of(1, 0, episode=3)), [0])
    np.testing.assert_array_equal(new["obs"], [[30], [31]])


# ---- wrong input ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("env", "kwargs", "message"),
    [
        ("CartPole-v1", {}, "her needs a goal environment"),
        ("Pendulum-v1", {}, "her needs a goal environment"),
        (BITFLIP, {"base": "ddpg"}, "base='ddpg' cannot learn Discrete actions.*use dqn or sac"),
        (Reach, {"base": "dqn"}, "base='dqn' cannot learn Box actions.*use ddpg or td3 or sac"),
        (BITFLIP, {"base": "dqm"}, "did you mean dqn"),
        (BITFLIP, {"strategy": "futur"}, "did you mean future"),
        (BITFLIP, {"k": -1}, "k=-1 must be a whole number"),
        (BITFLIP, {"k": 1.5}, "k=1.5 must be a whole number"),
        (
            BITFLIP,
            {"base_kwargs": {"act_noise": 0.1}},
            "no entry 'act_noise' for dqn.*eps_",
        ),
        (Reach, {"base_kwargs": {"act_nose": 0.1}}, "did you mean act_noise"),
        (Reach, {"base": "sac", "base_kwargs": {"alpha": "Auto"}}, "alpha='Auto' must be a number"),
        (BITFLIP, {"base_kwargs": {"eps_end": 2}}, "eps_end=2 must be a number between 0 and 1"),
    ],
)
def test_wrong_input_is_refused_in_one_sentence_before_anything_is_written(
    train, tmp_path, env, kwargs, message
):
    with pytest.raises(SpinupError, match=message) as caught:
        train("her", env, **kwargs)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def learners(monkeypatch):
    """Which learners HER made, and with which options."""
    made = []

    def watch(name, make):
        def learner(run, ac, **options):
            made.append((name, ac, options))
            return make(run, ac, **options)

        # HER asks the signature which options there are
        return functools.wraps(make)(learner)

    for name, base in core.BASES.items():
        watched = base._replace(learner=watch(name, base.learner))
        monkeypatch.setitem(core.BASES, name, watched)
    return made


@pytest.mark.parametrize(
    ("base", "env"),
    [("dqn", BITFLIP), ("sac", BITFLIP), ("ddpg", Reach), ("td3", Reach), ("sac", Reach)],
)
def test_each_base_learns_with_its_own_learner_on_its_own_networks(her_run, learners, base, env):
    run = her_run(env, base=base, gamma=0.9, polyak=0.8, lr=0.01)
    ((name, ac, options),) = learners
    assert name == base and ac is run.ac.net
    assert (options["gamma"], options["polyak"]) == (0.9, 0.8)
    rates = {key: value for key, value in options.items() if key.endswith("lr")}
    assert rates and set(rates.values()) == {0.01}


def test_options_of_the_base_reach_it_and_the_others_are_its_own_defaults(her_run, learners):
    her_run(Reach, base="td3", base_kwargs={"policy_delay": 3}, lr=0.01, gamma=0.9, polyak=0.8)
    her_run(BITFLIP, lr=0.01)
    (_, _, td3_options), (_, _, dqn_options) = learners
    assert td3_options == {
        **{"act_noise": 0.1, "target_noise": 0.2, "noise_clip": 0.5, "policy_delay": 3},
        **{"gamma": 0.9, "polyak": 0.8, "pi_lr": 0.01, "q_lr": 0.01},
    }
    assert dqn_options["target_update_every"] == 1 and dqn_options["double_q"] is True


def test_the_delay_of_td3_reaches_its_update_and_counts_gradient_steps(her_run, monkeypatch):
    moves = []

    def watched(*args, **kwargs):
        given = inspect.signature(td3_update).bind(*args, **kwargs)
        moves.append(given.arguments["update_policy"])
        return td3_update(*args, **kwargs)

    monkeypatch.setattr(td3_module, "td3_update", watched)
    her_run(Reach, base="td3", base_kwargs={"policy_delay": 3}, update_every=7)
    assert moves[:7] == [True, False, False, True, False, False, True] and len(moves) > 10


def test_the_schedule_of_dqn_is_followed(her_run):
    options = {"eps_start": 0.8, "eps_end": 0.2, "eps_steps": 80}
    rows = her_run(BITFLIP, base_kwargs=options, epochs=3).rows
    assert [row["Epsilon"] for row in rows] == pytest.approx([0.5, 0.2, 0.2])


@pytest.mark.parametrize("epsilon", [0.0, 1.0])
def test_epsilon_decides_whether_the_networks_act(her_run, epsilon):
    settings = {"k": 0, "start_steps": 0, "update_after": 10**6, "num_test_episodes": 0}
    settings["ac_kwargs"] = {"normalize_obs": False}
    run = her_run(BITFLIP, base_kwargs={"eps_start": epsilon, "eps_end": epsilon}, **settings)
    rows = {name: x[: len(run.buffer)] for name, x in run.buffer.ring.data.items()}
    best = run.ac.act(torch.as_tensor(rows["obs"]))  # the networks are what they were all along
    agree = (best == rows["act"]).mean()
    assert agree == 1 if epsilon == 0 else agree < 0.6


# ---- learning ------------------------------------------------------------------------------------


def test_eight_bits_are_learned_with_hindsight(her_run):
    settings = {"steps_per_epoch": 1000, "epochs": 3, "start_steps": 500, "update_after": 500}
    settings.update(updates_per_step=0.5, batch_size=64, replay_size=100000, lr=3e-3, polyak=0.98)
    env = functools.partial(make_env, "spinup/BitFlip-v0", {"n": 8})
    run = her_run(env, num_test_episodes=50, ac_kwargs={"hidden_sizes": (64,)}, **settings)
    assert run.rows[0]["TestSuccessRate"] <= 0.3  # eight steps among 256 states meet few goals
    assert run.rows[-1]["TestSuccessRate"] >= 0.9
