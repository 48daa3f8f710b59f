"""Replay of frame stacks against the plain buffer, which stores every stack whole."""

import warnings
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spinup.algos.common import frames
from spinup.algos.common.frames import FrameRing, frame_ring
from spinup.algos.common.nstep import NStep
from spinup.algos.common.prioritized import Priorities
from spinup.algos.common.replay import ReplayBuffer, Ring
from spinup.envs.stacks import transition_bytes
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint
from spinup.utils.errors import SpinupError

FRAME = (2, 3)


class Game:
    """One stream of stacks; `shades` different frames, so that some repeat."""

    def __init__(self, rng, k, shades, padding, dtype):
        self.rng, self.k, self.shades, self.padding, self.dtype = rng, k, shades, padding, dtype
        self.begin()

    def frame(self):
        return self.rng.integers(self.shades, size=FRAME).astype(self.dtype)

    def begin(self):
        last = self.frame()
        others = {
            "repeat": lambda: last,
            "zero": lambda: np.zeros(FRAME, self.dtype),
            "other": self.frame,
        }[self.padding]
        self.obs = np.stack([*(others() for _ in range(self.k - 1)), last])

    def step(self):
        self.obs = np.stack([*self.obs[1:], self.frame()])
        return self.obs


def play(seed, steps, *, num_envs, k, n_step, ends, lost, shades, padding, dtype):
    """Yield the rows of each step, as `ReplayBuffer.store_many` takes them."""
    rng = np.random.default_rng(seed)
    games = [Game(rng, k, shades, padding, dtype) for _ in range(num_envs)]
    nstep = NStep(n_step, 0.9, num_envs)
    for t in range(steps):
        took = np.flatnonzero(rng.random(num_envs) < 0.8) if lost else np.arange(num_envs)
        obs = np.array([games[i].obs for i in took])
        obs2 = np.array([games[i].step() for i in took])
        act, rew = took + 10 * t, rng.random(len(took))
        done, cut = rng.random(len(took)) < ends, rng.random(len(took)) < ends
        ended = took[done | cut].tolist()
        for i in ended:
            games[i].begin()
        if lost and rng.random() < 0.05:  # an episode that a resumed run could not restore
            games[int(rng.integers(num_envs))].begin()
        rows = nstep.add(obs, act, rew, obs2, done, ended, took.tolist())
        if rows:
            yield rows


def make(k, size, ring=Ring, dtype=np.uint8, seed=0):
    return ReplayBuffer(
        (k, *FRAME),
        None,
        size,
        obs_dtype=dtype,
        act_dtype=np.int64,
        extra={"discount": ((), np.float32)},
        rng=np.random.default_rng(seed),
        ring=ring,
    )


def of_run(k, num_envs, n_step):
    """The ring that a run would create."""
    return frame_ring(
        SimpleNamespace(
            streams=[SimpleNamespace(num_envs=num_envs)],
            observation_space=SimpleNamespace(shape=(k, *FRAME)),
            config={"n_step": n_step},
        )
    )


def same(one, other):
    assert one.keys() == other.keys()
    for name in one:
        assert one[name].dtype == other[name].dtype, name
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


games = st.fixed_dictionaries(
    {
        "num_envs": st.integers(1, 3),
        "k": st.integers(2, 4),
        "n_step": st.integers(1, 6),
        "ends": st.sampled_from([0.0, 0.02, 0.2, 0.9]),
        "lost": st.booleans(),
        "shades": st.sampled_from([2, 250]),
        "padding": st.sampled_from(["repeat", "zero", "other"]),
        "dtype": st.sampled_from([np.uint8, np.bool_, np.float32]),
    }
)


@given(games, st.integers(0, 2**32), st.integers(1, 80), st.integers(20, 90))
@settings(max_examples=60)
def test_what_is_stored_comes_back_and_what_is_overwritten_does_not(game, seed, size, saved_at):
    k, dtype = game["k"], game["dtype"]
    ring = of_run(k, game["num_envs"], game["n_step"])
    plain, buffer = make(k, size, dtype=dtype), make(k, size, ring, dtype)
    priorities = Priorities(size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # buffers so small run short of frames
        for t, rows in enumerate(play(seed, 100, **game)):
            where = plain.store_many(**rows)
            np.testing.assert_array_equal(buffer.store_many(**rows), where)
            priorities.add(where)
            priorities.remove(buffer.ring.lost)
            if t == saved_at:
                saved, buffer = buffer, make(k, size, ring, dtype)
                buffer.load_state_dict(saved.state_dict())
            elif t > saved_at:
                saved.store_many(**rows)
            if t >= saved_at:  # the loaded buffer continues like the other
                assert buffer.ring.first == saved.ring.first
                assert buffer.ring.frames.total == saved.ring.frames.total
            # the rows that can be sampled are the newest ones, as the plain buffer has them
            held = buffer.ring.nth(np.arange(len(buffer)))
            oldest = plain.ring.total - len(buffer)
            if len(buffer) < len(plain):
                np.testing.assert_array_equal(held, np.arange(oldest, plain.ring.total) % size)
            assert len(set(held.tolist())) == len(held) == len(buffer) <= len(plain)
            same(buffer.rows(held), plain.rows(held))
            priorities._insert_new()
            likely = np.flatnonzero(priorities.tree.get(np.arange(size)))
            assert sorted(held.tolist()) == likely.tolist()
    if len(buffer) == len(plain) > 0:
        for a, b in zip(buffer.sample_batches(3, 7), plain.sample_batches(3, 7), strict=True):
            same(a, b)


@given(games, st.integers(0, 2**32), st.integers(100, 200))
@settings(max_examples=20)
def test_a_ring_of_usual_size_loses_nothing_to_usual_episodes(game, seed, size):
    game = {**game, "ends": min(game["ends"], 0.01), "lost": False, "padding": "repeat"}
    k = game["k"]
    plain = make(k, size, dtype=game["dtype"])
    buffer = make(k, size, of_run(k, game["num_envs"], game["n_step"]), game["dtype"])
    for rows in play(seed, 300, **game):
        plain.store_many(**rows)
        buffer.store_many(**rows)
        assert len(buffer) == len(plain)
    for a, b in zip(buffer.sample_batches(5, 9), plain.sample_batches(5, 9), strict=True):
        same(a, b)


ATARI = {"num_envs": 2, "k": 4, "n_step": 3, "ends": 0.0, "lost": False, "shades": 250}
ATARI |= {"padding": "zero", "dtype": np.uint8}


@pytest.mark.parametrize("n_step", [1, 3, 10])
def test_each_frame_is_stored_once(n_step):
    buffer = make(4, 5000, of_run(4, 2, n_step))
    steps = 200
    for rows in play(0, steps, **{**ATARI, "n_step": n_step}):
        buffer.store_many(**rows)
    # every step's frame of both streams, each stream's first one, and black
    assert buffer.ring.frames.total <= 2 * (steps + 1) + 1


def test_an_episode_that_is_longer_than_the_ring_keeps_it_full():
    buffer = make(4, 100, of_run(4, 2, 3))
    for rows in play(0, 1000, **ATARI):
        buffer.store_many(**rows)
    assert len(buffer) == 100 and not len(buffer.ring.lost)


def test_observations_that_share_no_frames_come_back_as_well_with_a_warning_that_few_fit():
    buffer = make(3, 60, partial(FrameRing, obs_shape=(3, *FRAME), window=12))
    rng = np.random.default_rng(0)
    with pytest.warns(UserWarning, match="room for only 12 of its 60 transitions"):
        for t in range(100):
            obs, obs2 = rng.integers(250, size=(2, 1, 3, *FRAME), dtype=np.uint8)
            buffer.store_many(obs, [t], [0.0], obs2, [False], discount=[1.0])
            (found,) = buffer.rows(np.array([t % 60]))["obs"]
            np.testing.assert_array_equal(found, obs[0])
    acts = np.unique(buffer.sample_batch(2000)["act"])
    np.testing.assert_array_equal(acts, np.arange(100 - len(buffer), 100))


def test_more_rows_than_there_is_room_for_leave_the_newest():
    one, many = make(4, 50, of_run(4, 1, 1)), make(4, 50, of_run(4, 1, 1))
    steps = list(play(0, 400, **{**ATARI, "num_envs": 1, "n_step": 1}))
    for rows in steps:
        one.store_many(**rows)
    many.store_many(**{name: np.concatenate([rows[name] for rows in steps]) for name in steps[0]})
    assert len(one) == len(many) == 50
    same(one.rows(np.arange(50)), many.rows(np.arange(50)))


def test_a_single_transition_is_stored_like_any_other():
    buffer = make(4, 50, of_run(4, 1, 1))
    obs = np.arange(5 * 6).reshape(5, *FRAME)
    where = buffer.store(obs[:4], 1, 2.0, obs[1:], True, discount=0.5)
    row = buffer.rows(where)
    np.testing.assert_array_equal(row["obs"][0], obs[:4])
    np.testing.assert_array_equal(row["obs2"][0], obs[1:])
    assert row["done"].tolist() == [True] and row["discount"].tolist() == [0.5]
    assert buffer.ring.frames.total == 5


def test_batches_belong_to_the_caller():
    buffer = make(4, 50, of_run(4, 2, 3))
    for rows in play(0, 20, **ATARI):
        buffer.store_many(**rows)
    index = np.arange(5)
    want = buffer.rows(index)
    for x in buffer.rows(index).values():
        x[:] = 0
    same(buffer.rows(index), want)


# ---- memory ----------------------------------------------------------------------------------


def box(shape, dtype=np.uint8):
    return SimpleNamespace(shape=shape, dtype=np.dtype(dtype))


def test_a_million_transitions_of_atari_take_seven_gigabytes():
    shape, size = (4, 84, 84), 1_000_000
    ring = FrameRing(
        1, {"obs": (shape, np.uint8), "obs2": (shape, np.uint8)}, obs_shape=shape, window=14
    )
    assert 7.0e9 < ring.bytes_for(size) < 7.5e9
    discrete = box((), np.int64)
    each = transition_bytes(box(shape), discrete, frame_stack=4)
    whole = transition_bytes(box(shape), discrete)
    assert 7.0e9 < each * size < 7.5e9 and whole * size > 56e9


def test_what_does_not_fit_is_called_by_its_name():
    with pytest.raises(SpinupError, match=f"a replay buffer of {10**15} frames needs .* GiB"):
        frames.Frames(10**15, {"frame": ((84, 84), np.uint8)})


def test_a_transition_of_stacks_costs_what_its_buffer_says():
    size, k = 10_000, 4
    buffer = ReplayBuffer(
        (k, *FRAME),
        None,
        size,
        obs_dtype=np.uint8,
        act_dtype=np.int64,
        ring=partial(FrameRing, obs_shape=(k, *FRAME), window=12),
    )
    each = transition_bytes(box((k, *FRAME)), box((), np.int64), frame_stack=k)
    assert abs(buffer.ring.nbytes - each * size) <= 24 * 6 + size
    data = [*buffer.ring.data.values(), buffer.ring.frames.data["frame"]]
    assert buffer.ring.nbytes == sum(x.nbytes for x in data)
    assert buffer.ring.row_bytes > 2 * k * 6  # what a batch takes, not what is stored


# ---- resuming --------------------------------------------------------------------------------


def test_a_checkpoint_of_frames_costs_as_much_as_what_is_new(tmp_path, monkeypatch):
    monkeypatch.setattr("spinup.algos.common.replay._CHUNK_BYTES", 1 << 12)
    buffer = make(4, 5000, of_run(4, 2, 3))
    steps = play(0, 4000, **ATARI)

    def pieces():
        return {path.name: path.stat().st_size for path in (tmp_path / "pieces").iterdir()}

    sizes = []
    for t, rows in enumerate(steps):
        buffer.store_many(**rows)
        if t % 500 == 499:
            before = pieces() if sizes else {}
            save_checkpoint(tmp_path, {"buffer": buffer.state_dict()}, t)
            after = pieces()
            sizes.append(sum(after[name] for name in after.keys() - before.keys()))
            loaded, _ = load_checkpoint(tmp_path)
            other = make(4, 5000, of_run(4, 2, 3))
            other.load_state_dict(loaded["buffer"])
            index = np.arange(len(buffer))
            same(other.rows(index), buffer.rows(index))
    # 1000 frames of 6 bytes, 1000 rows of 61, and at most one chunk more at either end
    assert max(sizes) < 1000 * (6 + 61) + 4 * (1 << 12) + 60 * 500
    assert buffer.ring.total > 5000


def test_a_buffer_of_whole_stacks_is_not_loaded_as_one_of_frames():
    plain, buffer = make(4, 50), make(4, 50, of_run(4, 2, 3))
    with pytest.raises(SpinupError, match="stores every stack of frames whole") as error:
        buffer.load_state_dict(plain.state_dict())
    assert "\n" not in str(error.value)
    for rows in play(0, 20, **ATARI):
        buffer.store_many(**rows)
    with pytest.raises(SpinupError, match="different fields"):
        plain.load_state_dict(buffer.state_dict())


def test_frames_are_found_in_one_call(monkeypatch):
    buffer = make(4, 50, of_run(4, 2, 3))
    for rows in play(0, 20, **ATARI):
        buffer.store_many(**rows)
    calls = []

    class Counting(np.ndarray):
        def take(self, *args, **kwargs):
            calls.append(args)
            return np.asarray(self).take(*args, **kwargs)

    data = buffer.ring.frames.data
    data["frame"] = data["frame"].view(Counting)
    buffer.sample_batch(32)
    assert len(calls) == 1 and frames.STACKS == ("obs", "obs2")
