"""Streams of episodes: ends, seeds, workers, vector environments, and exact restoring."""

import os
import random
import signal
import warnings

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from spinup.envs.make_streams import make_streams
from spinup.envs.record import env_record
from spinup.envs.spaces import env_actions, stored_dtype
from spinup.envs.streams import Streams
from spinup.envs.vector import VectorStreams
from spinup.utils.errors import SpinupError
from spinup_lab.probe.environments import EpisodeEnd


class Tape(gym.Env):
    """The observation is (episode, step within it); the reward is ten times the step."""

    def __init__(self, length=3, end="terminated", log=None):
        self.observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        self.action_space = spaces.Discrete(2)
        self.length, self.end = length, end
        self.episode, self.t = 0, 0
        self.seeds, self.log = [], log

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seeds.append(seed)
        self.episode, self.t = self.episode + 1, 0
        return np.array([self.episode, self.t], float), {}

    def step(self, action):
        r = 10.0 * self.t
        self.t += 1
        over = self.t == self.length
        obs = np.array([self.episode, self.t], float)
        return obs, r, over and self.end == "terminated", over and self.end == "truncated", {}


class ArrayRewards(Tape):
    """Returns each reward as an array of one element, as some environments do."""

    def step(self, action):
        obs, r, *rest = super().step(action)
        return obs, np.array([r]), *rest


def seq(i):
    """The seed sequence of environment i in these tests."""
    return np.random.SeedSequence(7, spawn_key=(i,))


def streams_of(env_fn, n=1, max_ep_len=100, vector="sync"):
    streams = make_streams(env_fn, n, seq, max_ep_len, vector)
    streams.start()
    return streams


def zeros(streams):
    return np.zeros(streams.num_envs, np.int64)


# ---- ends of episodes ------------------------------------------------------------------------


def test_final_observation_is_kept_apart_from_the_first_of_the_next_episode():
    streams = streams_of(lambda: Tape(length=2))
    o2, r, terminated, truncated = streams.step(zeros(streams))
    assert o2.tolist() == [[1, 1]] and r.tolist() == [0] and streams.ended == []
    assert not terminated.any() and not truncated.any()
    o2, r, terminated, truncated = streams.step(zeros(streams))
    assert o2.tolist() == [[1, 2]] and r.tolist() == [10]
    assert terminated.tolist() == [True] and truncated.tolist() == [False]
    assert streams.ended == [0] and streams.obs.tolist() == [[2, 0]]


def test_flags_of_an_ended_episode_do_not_last_into_the_next_step():
    streams = streams_of(lambda: Tape(length=2))
    streams.step(zeros(streams))
    streams.step(zeros(streams))
    _, _, terminated, truncated = streams.step(zeros(streams))
    assert not terminated.any() and not truncated.any() and streams.ended == []


def test_max_ep_len_is_a_truncation():
    streams = streams_of(lambda: Tape(length=50), max_ep_len=2)
    streams.step(zeros(streams))
    o2, _, terminated, truncated = streams.step(zeros(streams))
    assert o2.tolist() == [[1, 2]]
    assert terminated.tolist() == [False] and truncated.tolist() == [True]
    assert streams.obs.tolist() == [[2, 0]]


def test_a_terminal_state_at_max_ep_len_stays_terminal():
    streams = streams_of(lambda: Tape(length=2), max_ep_len=2)
    streams.step(zeros(streams))
    _, _, terminated, truncated = streams.step(zeros(streams))
    assert terminated.tolist() == [True] and truncated.tolist() == [False]


def test_a_step_that_terminates_and_truncates_counts_as_terminated():
    class Both(Tape):
        def step(self, action):
            o, r, _, _, info = super().step(action)
            return o, r, True, True, info

    _, _, terminated, truncated = streams_of(Both).step([0])
    assert terminated.tolist() == [True] and truncated.tolist() == [False]


@pytest.mark.parametrize("max_ep_len, length", [(3, 3), (5, 5), (100, 5)])
def test_the_shorter_of_both_time_limits_truncates(max_ep_len, length):
    def env_fn():
        return gym.wrappers.TimeLimit(Tape(length=50), 5)

    streams = streams_of(env_fn, max_ep_len=max_ep_len)
    for _ in range(length):
        _, _, terminated, truncated = streams.step(zeros(streams))
    assert terminated.tolist() == [False] and truncated.tolist() == [True]
    assert streams.pop_finished()[1].tolist() == [length]


def test_returns_and_lengths_of_finished_episodes_are_popped_once():
    streams = streams_of(lambda: Tape(length=3), n=2)
    for _ in range(7):
        streams.step(zeros(streams))
    rets, lens = streams.pop_finished()
    assert rets.tolist() == [30, 30, 30, 30] and lens.tolist() == [3, 3, 3, 3]
    assert [len(x) for x in streams.pop_finished()] == [0, 0]


def test_streams_end_independently():
    lengths = iter([2, 3])
    streams = streams_of(lambda: Tape(length=next(lengths)), n=2)
    ended = []
    for _ in range(6):
        streams.step(zeros(streams))
        ended.append(list(streams.ended))
    assert ended == [[], [0], [1], [0], [], [0, 1]]


# ---- seeds -----------------------------------------------------------------------------------


def test_every_episode_of_every_environment_gets_a_seed_of_its_own():
    streams = streams_of(lambda: Tape(length=2), n=3)
    for _ in range(8):
        streams.step(zeros(streams))
    seeds = [s for env in streams.envs for s in env.seeds]
    assert len(seeds) == 15 and None not in seeds and len(set(seeds)) == 15
    again = streams_of(lambda: Tape(length=2), n=3)
    for _ in range(8):
        again.step(zeros(again))
    assert [s for env in again.envs for s in env.seeds] == seeds


def test_an_environments_seeds_do_not_depend_on_its_neighbours():
    alone = streams_of(lambda: Tape(length=2), n=1)
    lengths = iter([2, 5, 7])
    among = streams_of(lambda: Tape(length=next(lengths)), n=3)
    for streams in (alone, among):
        for _ in range(8):
            streams.step(zeros(streams))
    assert alone.envs[0].seeds == among.envs[0].seeds


def test_action_and_observation_spaces_are_seeded():
    def draws():
        streams = streams_of(lambda: gym.make("Pendulum-v1"), n=2)
        return [
            [e.action_space.sample().tolist(), e.observation_space.sample().tolist()]
            for e in streams.envs
        ]

    first, second = draws()
    assert first != second and draws() == [first, second]


# ---- observations ----------------------------------------------------------------------------


def test_observations_are_kept_in_float32_and_images_as_they_are():
    assert stored_dtype(spaces.Box(-1, 1, (2,), np.float64)) == np.float32
    assert stored_dtype(spaces.Box(0, 255, (2, 2), np.uint8)) == np.uint8
    assert streams_of(Tape).obs.dtype == np.float32


def test_actions_reach_the_environment_clipped_shaped_and_shifted():
    low, high = np.array([[-1.0], [0.0]]), np.array([[3.0], [0.5]])
    box = spaces.Box(low.astype(np.float32), high.astype(np.float32))
    sent = env_actions(box)(np.array([[-9.0, -9.0], [9.0, 9.0], [1.0, 0.25]], np.float32))
    assert np.asarray(sent).tolist() == [[[-1], [0]], [[3], [0.5]], [[1], [0.25]]]
    assert list(env_actions(spaces.Discrete(3, start=-1))(np.array([0, 2]))) == [-1, 1]
    multi = spaces.MultiDiscrete([2, 3], start=[10, 20])
    assert env_actions(multi)(np.array([[0, 0], [1, 2]])).tolist() == [[10, 20], [11, 22]]
    sent = env_actions(spaces.MultiBinary((2, 2)))(np.array([[1, 0, 0, 1]]))
    assert sent.tolist() == [[[1, 0], [0, 1]]] and sent.dtype == np.int8


# ---- saving and restoring --------------------------------------------------------------------


def actions_for(streams, rng):
    space = streams.action_space
    if isinstance(space, spaces.Discrete):
        return rng.integers(space.n, size=streams.num_envs)
    return rng.uniform(space.low, space.high, (streams.num_envs, *space.shape)).astype(np.float32)


def play(streams, rng, steps):
    """Everything that the next steps show."""
    seen = []
    for _ in range(steps):
        o2, r, terminated, truncated = streams.step(actions_for(streams, rng))
        seen.append([x.copy() for x in (o2, r, terminated, truncated, streams.obs)])
    return seen


def assert_same(one, other):
    for a, b in zip(one, other, strict=True):
        for x, y in zip(a, b, strict=True):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize(
    "env_id, vector",
    [
        ("CartPole-v1", "sync"),
        ("Pendulum-v1", "sync"),
        ("Hopper-v5", "sync"),
        ("Hopper-v5", "async"),
        ("CartPole-v1", "async"),
    ],
)
def test_restored_streams_go_on_bit_for_bit_in_the_middle_of_episodes(env_id, vector):
    def env_fn():
        return gym.make(env_id)

    rng = np.random.default_rng(3)
    streams = streams_of(env_fn, 2, 40, vector)
    play(streams, rng, 65)  # past an end, into the middle of an episode
    state = streams.state_dict()
    rng_state = rng.bit_generator.state
    want = play(streams, rng, 50)
    want_finished = streams.pop_finished()
    streams.close()

    other = make_streams(env_fn, 2, lambda i: np.random.SeedSequence(99 + i), 40, vector)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert other.load_state_dict(state) == []
    np.testing.assert_array_equal(other.obs, state["obs"])
    rng.bit_generator.state = rng_state
    assert_same(play(other, rng, 50), want)
    for got, expected in zip(other.pop_finished(), want_finished, strict=True):
        np.testing.assert_array_equal(got, expected)
    other.close()


def test_state_is_a_snapshot_that_later_steps_do_not_change():
    streams = streams_of(lambda: gym.make("CartPole-v1"), 2)
    rng = np.random.default_rng(0)
    play(streams, rng, 5)
    state = streams.state_dict()
    before = [state["obs"].copy(), [a.copy() for a in state["actions"]], list(state["seeds"])]
    play(streams, rng, 60)
    np.testing.assert_array_equal(state["obs"], before[0])
    for got, want in zip(state["actions"], before[1], strict=True):
        np.testing.assert_array_equal(got, want)
    assert state["seeds"] == before[2]


def test_streams_that_had_not_started_restore_as_not_started():
    env_fn = Tape
    fresh = make_streams(env_fn, 2, seq, 10)
    state = fresh.state_dict()
    other = make_streams(env_fn, 2, lambda i: np.random.SeedSequence(5 + i), 10)
    assert other.load_state_dict(state) == []
    fresh.start()
    other.start()
    assert [e.seeds for e in other.envs] == [e.seeds for e in fresh.envs]


class Unseeded(Tape):
    """Draws from a generator that no seed reaches."""

    def step(self, action):
        o, r, terminated, truncated, info = super().step(action)
        return o + random.SystemRandom().random(), r, terminated, truncated, info


def test_an_environment_that_does_not_come_back_is_named_and_starts_afresh():
    kinds = iter([Tape, Unseeded])
    streams = streams_of(lambda: next(kinds)(length=50), n=2)
    play(streams, np.random.default_rng(0), 4)
    kinds = iter([Tape, Unseeded])
    other = make_streams(lambda: next(kinds)(length=50), 2, seq, 100)
    with pytest.warns(UserWarning, match=r"environment 1 starts a fresh episode"):
        assert other.load_state_dict(streams.state_dict()) == [1]
    assert other.obs[0].tolist() == [1, 4]  # restored by replay
    assert other.obs[1].tolist() == [2, 0]  # a fresh episode
    rets = other._ep_ret
    assert rets[0] == 0 + 10 + 20 + 30 and rets[1] == 0


@pytest.mark.parametrize("vector", ["sync", "async"])
def test_one_reward_that_differs_by_one_bit_is_noticed_and_named(vector):
    streams = streams_of(lambda: Tape(length=50), vector=vector)
    play(streams, np.random.default_rng(0), 6)
    state = streams.state_dict()
    streams.close()
    state["rewards"][0][3] = np.nextafter(30.0, 31.0)
    other = make_streams(lambda: Tape(length=50), 1, seq, 100, vector)
    with pytest.warns(UserWarning) as said:
        assert other.load_state_dict(state) == [0]
    other.close()
    reason = "environment 0 starts a fresh episode, because the reward at step 4 of its episode is"
    assert [str(w.message)[: len(reason)] for w in said] == [reason]


def test_a_checkpoint_without_rewards_is_compared_by_its_return():
    streams = streams_of(lambda: Tape(length=50))
    play(streams, np.random.default_rng(0), 4)
    state = streams.state_dict()
    del state["rewards"], state["kept"]  # as older versions saved it
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make_streams(lambda: Tape(length=50), 1, seq, 100).load_state_dict(state) == []
    state["rets"] = [61.0]
    with pytest.warns(UserWarning, match=r"the return of its episode is 60\.0, not 61\.0"):
        assert make_streams(lambda: Tape(length=50), 1, seq, 100).load_state_dict(state) == [0]


def test_rewards_that_are_nan_are_the_same_again():
    class Undefined(Tape):
        def step(self, action):
            o, _, *rest = super().step(action)
            return o, float("nan"), *rest

    streams = streams_of(lambda: Undefined(length=50))
    play(streams, np.random.default_rng(0), 4)
    other = make_streams(lambda: Undefined(length=50), 1, seq, 100)
    assert other.load_state_dict(streams.state_dict()) == []


def test_an_environment_that_ends_early_in_the_replay_starts_afresh():
    streams = streams_of(lambda: Tape(length=50))
    play(streams, np.random.default_rng(0), 4)
    other = make_streams(lambda: Tape(length=3), 1, seq, 100)
    with pytest.warns(UserWarning, match="a fresh episode"):
        assert other.load_state_dict(streams.state_dict()) == [0]
    assert other.obs.tolist() == [[2, 0]]


def test_an_environment_that_is_over_after_the_replay_starts_afresh_though_it_looks_the_same():
    streams = streams_of(lambda: EpisodeEnd(end="truncated", length=50))
    play(streams, np.random.default_rng(0), 3)
    other = make_streams(lambda: EpisodeEnd(end="truncated", length=3), 1, seq, 100)
    with pytest.warns(UserWarning, match="a fresh episode"):
        assert other.load_state_dict(streams.state_dict()) == [0]
    other.step(zeros(other))  # an episode that is over would raise


def test_an_environment_that_changes_its_action_in_place_is_restored_exactly():
    class Doubles(gym.Env):
        def __init__(self):
            self.observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float32)
            self.action_space = spaces.Box(-1, 1, (1,), np.float32)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            self.x = self.np_random.random(1).astype(np.float32)
            return self.x.copy(), {}

        def step(self, action):
            action *= 2
            self.x = self.x + action
            return self.x.copy(), 0.0, False, False, {}

    streams = streams_of(Doubles, 2)
    play(streams, np.random.default_rng(0), 5)
    other = make_streams(Doubles, 2, seq, 100)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert other.load_state_dict(streams.state_dict()) == []
        # once more: the replay must not have changed the actions that are saved next
        again = make_streams(Doubles, 2, seq, 100)
        assert again.load_state_dict(other.state_dict()) == []


# ---- workers ---------------------------------------------------------------------------------


def test_workers_give_what_the_same_environments_give_in_this_process():
    def env_fn():
        return gym.make("CartPole-v1")

    sync, workers = streams_of(env_fn, 2), streams_of(env_fn, 2, vector="async")
    try:
        one = play(sync, np.random.default_rng(1), 60)
        other = play(workers, np.random.default_rng(1), 60)
        assert_same(one, other)
    finally:
        workers.close()


def test_a_worker_that_dies_is_a_clear_error():
    streams = streams_of(Tape, 2, vector="async")
    os.kill(streams.envs[1]._process.pid, signal.SIGKILL)
    streams.envs[1]._process.join(timeout=60)
    with pytest.raises(SpinupError, match="process of environment 1 was killed by SIGKILL"):
        for _ in range(3):
            streams.step(zeros(streams))
    streams.close()


def test_a_worker_that_dies_within_a_step_is_a_clear_error():
    class Dies(Tape):
        def step(self, action):
            os._exit(3)

    streams = streams_of(Dies, 1, vector="async")
    with pytest.raises(SpinupError, match="process of environment 0 exited with status 3"):
        streams.step([0])
    streams.close()


def test_an_environment_that_raises_in_a_worker_shows_its_traceback():
    class Raises(Tape):
        def step(self, action):
            raise ZeroDivisionError("the reason")

    streams = streams_of(Raises, 2, vector="async")
    with pytest.raises(
        RuntimeError,
        match=r"(?s)environment 0 failed.*Traceback.*in step.*ZeroDivisionError: the reason",
    ):
        streams.step(zeros(streams))
    streams.close()


def test_a_sentence_of_the_library_stays_one_sentence_in_a_worker():
    class Refuses(Tape):
        def step(self, action):
            raise SpinupError("the goal has the wrong shape")

    streams = streams_of(Refuses, 1, vector="async")
    with pytest.raises(SpinupError, match=r"^the goal has the wrong shape$"):
        streams.step(zeros(streams))
    streams.close()


def test_an_environment_that_cannot_be_made_in_a_worker_shows_its_traceback():
    main = os.getpid()

    def env_fn():
        if os.getpid() != main:
            raise OSError("no such file in a worker")
        return Tape()

    with pytest.raises(RuntimeError, match="no such file in a worker"):
        make_streams(env_fn, 2, seq, 10, "async")


def test_closing_ends_the_worker_processes():
    streams = streams_of(Tape, 2, vector="async")
    processes = [env._process for env in streams.envs]
    assert all(p.is_alive() for p in processes)
    streams.close()
    for p in processes:
        p.join(timeout=60)
        assert p.exitcode == 0


# ---- wrong input -----------------------------------------------------------------------------


def test_one_shared_environment_object_with_several_streams_is_refused():
    env = Tape()
    with pytest.raises(SpinupError, match="same environment object twice"):
        make_streams(lambda: env, 2, seq, 10)
    with pytest.raises(SpinupError, match="same environment object twice"):
        make_streams(lambda: gym.wrappers.TimeLimit(env, 5), 2, seq, 10)
    assert make_streams(lambda: env, 1, seq, 10).num_envs == 1


# ---- vector environments that users make -----------------------------------------------------


def tape_vector(mode, lengths=(2, 3), cls=SyncVectorEnv, end="terminated"):
    fns = [lambda n=n: Tape(length=n, end=end) for n in lengths]
    return cls(fns, autoreset_mode=mode)


class OwnVector(SyncVectorEnv):
    """A vector environment of a user's: no longer Gymnasium's own class."""


def test_gymnasiums_vector_environments_are_taken_apart():
    streams = make_streams(lambda: tape_vector(AutoresetMode.NEXT_STEP), 1, seq, 10)
    assert isinstance(streams, Streams) and streams.num_envs == 2
    streams = make_streams(
        lambda: tape_vector(AutoresetMode.NEXT_STEP, cls=AsyncVectorEnv), 1, seq, 10
    )
    assert isinstance(streams, Streams) and streams.num_envs == 2
    streams.start()
    for _ in range(3):
        streams.step(zeros(streams))
    assert streams.pop_finished()[1].tolist() == [2, 3]
    streams.close()


def test_taking_a_vector_environment_apart_gives_the_seeds_of_num_envs():
    apart = streams_of(lambda: SyncVectorEnv([Tape, Tape]))
    plain = streams_of(Tape, 2)
    assert [e.seeds for e in apart.envs] == [e.seeds for e in plain.envs]


def test_a_vector_environment_of_another_size_than_num_envs_is_refused():
    with pytest.raises(SpinupError, match="contradicts num_envs=4"):
        make_streams(lambda: tape_vector(AutoresetMode.NEXT_STEP), 4, seq, 10)
    assert make_streams(lambda: tape_vector(AutoresetMode.NEXT_STEP), 2, seq, 10).num_envs == 2


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_vector_environments_final_observations_come_from_the_old_episode(mode):
    streams = streams_of(lambda: tape_vector(mode, cls=OwnVector))
    assert isinstance(streams, VectorStreams)
    finals = []
    for _ in range(12):
        before = streams.obs.copy()
        o2, r, terminated, _ = streams.step(zeros(streams))
        for i in np.flatnonzero(streams.valid):
            assert o2[i, 0] == before[i, 0] and o2[i, 1] == before[i, 1] + 1
            assert r[i] == 10 * before[i, 1]
        assert not terminated[~streams.valid].any()
        finals += [(i, o2[i, 1]) for i in streams.ended]
    assert {(0, 2.0), (1, 3.0)} == set(finals)
    rets, lens = streams.pop_finished()
    assert set(zip(rets.tolist(), lens.tolist(), strict=True)) == {(10.0, 2), (30.0, 3)}


def test_reset_rows_are_marked_only_in_next_step_mode():
    def invalid(mode):
        streams = streams_of(lambda: tape_vector(mode, cls=OwnVector))
        rows = []
        for _ in range(4):
            streams.step(zeros(streams))
            rows.append((~streams.valid).tolist())
        return rows

    none = [[False, False]] * 4
    assert invalid(AutoresetMode.SAME_STEP) == none
    assert invalid(AutoresetMode.DISABLED) == none
    want = [[False, False], [False, False], [True, False], [False, True]]
    assert invalid(AutoresetMode.NEXT_STEP) == want


def test_a_vector_environment_that_outlasts_max_ep_len_is_an_error_unless_it_can_be_reset():
    def env_fn(mode):
        return lambda: tape_vector(mode, (9, 9), OwnVector)

    for mode in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        streams = streams_of(env_fn(mode), max_ep_len=2)
        streams.step(zeros(streams))
        with pytest.raises(SpinupError, match="outlasted max_ep_len=2"):
            streams.step(zeros(streams))
    streams = streams_of(env_fn(AutoresetMode.DISABLED), max_ep_len=2)
    streams.step(zeros(streams))
    o2, _, terminated, truncated = streams.step(zeros(streams))
    assert o2[:, 1].tolist() == [2, 2]
    assert streams.obs.tolist() == [[episode + 1, 0] for episode in o2[:, 0]]
    assert not terminated.any() and truncated.all()


def masked_cartpoles():
    envs = [lambda: gym.make("CartPole-v1", max_episode_steps=30)] * 3
    return OwnVector(envs, autoreset_mode=AutoresetMode.DISABLED)


@pytest.mark.parametrize("steps", [0, 1, 25, 200])
@pytest.mark.parametrize("reseed_after", [0, 90])
def test_environments_that_are_reset_one_by_one_are_restored_bit_for_bit(steps, reseed_after):
    def new():
        streams = make_streams(masked_cartpoles, 1, seq, 28)
        streams._reseed_after = reseed_after
        return streams

    one, two = new(), new()
    one.start()
    actions = np.random.default_rng(2).integers(2, size=(300, 3))
    for a in actions[:steps]:
        one.step(a)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert two.load_state_dict(one.state_dict()) == []
    for a in actions[steps:]:
        for x, y in zip(one.step(a), two.step(a), strict=True):
            assert x.tobytes() == y.tobytes()
        assert one.obs.tobytes() == two.obs.tobytes() and one.ended == two.ended
    assert one.finished == two.finished and max(n for _, n in one.finished) == 28
    episodes = [len(begins) for begins in one._begins]  # since the last seed
    assert max(episodes) == 1 if reseed_after == 0 else max(episodes) > 1


def test_a_checkpoint_of_a_version_that_saved_no_actions_starts_fresh_episodes():
    old = VectorStreams(masked_cartpoles(), seq(0), 100)
    old._started = True
    streams = make_streams(masked_cartpoles, 1, seq, 100)
    with pytest.warns(UserWarning, match="fresh episodes start"):
        assert streams.load_state_dict(old.state_dict()) == [0, 1, 2]
    streams.start()
    streams.step(zeros(streams))


@pytest.mark.parametrize("what", ["reward", "obs", "ended"])
def test_one_that_differs_starts_a_fresh_episode_and_the_others_go_on(what):
    one = make_streams(masked_cartpoles, 1, seq, 100)
    one.start()
    for a in np.random.default_rng(2).integers(2, size=(7, 3)):
        one.step(a)
    state = one.state_dict()
    if what == "reward":
        state["rewards"][1][3] = 2.0
    elif what == "obs":
        state["obs"][1, 0] += 1
    else:
        state["actions"][1] = np.zeros(60, np.int64)  # the pole falls long before
    two = make_streams(masked_cartpoles, 1, seq, 100)
    words = {"reward": "reward at step 4", "obs": "observation at step", "ended": "ended at step"}
    with pytest.warns(UserWarning, match=f"environment 1 .*{words[what]}"):
        assert two.load_state_dict(state) == [1]
    assert two.obs[[0, 2]].tobytes() == one.obs[[0, 2]].tobytes()
    assert two._ep_len.tolist() == [one._ep_len[0], 0, one._ep_len[2]]
    two.step(zeros(two))


def test_gym_make_vec_cartpole_runs_and_ends_where_its_states_say():
    streams = streams_of(lambda: gym.make_vec("CartPole-v1", num_envs=3), max_ep_len=600)
    assert isinstance(streams, VectorStreams) and streams.num_envs == 3
    rng = np.random.default_rng(0)
    for _ in range(120):
        before = streams.obs.copy()
        o2, _, terminated, _ = streams.step(rng.integers(2, size=3))
        fallen = (np.abs(o2[:, 0]) > 2.4) | (np.abs(o2[:, 2]) > 12 * np.pi / 180)
        assert (terminated == (fallen & streams.valid)).all()
        # the position moves by tau * velocity: no valid row may jump to another episode
        moved = before[:, 0] + 0.02 * before[:, 1]
        np.testing.assert_allclose(o2[streams.valid, 0], moved[streams.valid], atol=1e-5)
    assert len(streams.pop_finished()[0]) > 5


def test_a_restored_vector_environment_says_that_its_episodes_are_fresh():
    streams = streams_of(lambda: tape_vector(AutoresetMode.NEXT_STEP, cls=OwnVector))
    streams.step(zeros(streams))
    other = make_streams(lambda: tape_vector(AutoresetMode.NEXT_STEP, cls=OwnVector), 1, seq, 100)
    with pytest.warns(UserWarning, match="cannot be restored: fresh episodes"):
        assert other.load_state_dict(streams.state_dict()) == [0, 1]


def test_a_vector_environment_with_observations_that_are_no_box_is_refused():
    class Keyed(Tape):
        def __init__(self):
            super().__init__()
            self.observation_space = spaces.Discrete(4)

    with pytest.raises(SpinupError, match="must have Box observations"):
        make_streams(lambda: OwnVector([Keyed, Keyed]), 1, seq, 10)


def test_names_that_our_games_use_mean_nothing_in_a_users_environment():
    class Own(Tape):
        streams, max_ep_len = 3, -1  # "no limit", as its author sees it

    assert type(streams_of(Own)) is Streams
    assert "max_ep_len" not in env_record(Own())


@pytest.mark.parametrize("vector", ["sync", "async"])
def test_rewards_may_be_arrays_of_one_element(vector):
    streams = streams_of(lambda: ArrayRewards(length=9), 2, vector=vector)
    for _ in range(3):
        _, rew, _, _ = streams.step(zeros(streams))
    assert rew.tolist() == [20.0, 20.0]
    again = make_streams(lambda: ArrayRewards(length=9), 2, seq, 100, vector)
    again.load_state_dict(streams.state_dict())
    assert again.obs.tolist() == streams.obs.tolist() == [[1.0, 3.0], [1.0, 3.0]]
    again.close()
    streams.close()
