"""The replay buffer: what it keeps, what it costs, and what it draws."""

import collections
import os
import time
import tracemalloc
import warnings

import numpy as np
import pytest
import torch

import spinup
from spinup import registry
from spinup.algos.common import replay
from spinup.algos.common.replay import ReplayBuffer, Ring, check_count
from spinup.algos.pytorch.common import buffers
from spinup.envs import make_env
from spinup.envs.stacks import transition_bytes
from spinup.utils import memory
from spinup.utils.errors import SpinupError

FIELDS = {"obs", "act", "rew", "obs2", "done"}
OFF_POLICY = [row.name for row in registry.ROWS if not row.on_policy]


def numbered(first, n):
    """Transitions first, first + 1, ... whose fields all tell their number."""
    k = np.arange(first, first + n)
    obs = np.stack([k, -k], 1).astype(np.float32)
    return obs, k[:, None] / 8, k * 2.0, obs + 0.5, k % 3 == 0


def number_of(rows):
    """The numbers of transitions; fails unless all their fields belong together."""
    k = np.asarray(rows["obs"])[..., 0]
    np.testing.assert_array_equal(np.asarray(rows["obs"])[..., 1], -k)
    np.testing.assert_array_equal(np.asarray(rows["act"])[..., 0], k / 8)
    np.testing.assert_array_equal(np.asarray(rows["rew"]), 2 * k)
    np.testing.assert_array_equal(np.asarray(rows["obs2"]), np.asarray(rows["obs"]) + 0.5)
    np.testing.assert_array_equal(np.asarray(rows["done"]), k % 3 == 0)
    return k.astype(int)


def filled(n, size=None, cls=ReplayBuffer, **kwargs):
    buffer = cls(2, 1, size or n, **{"rng": np.random.default_rng(0), **kwargs})
    for first in range(0, n, 10):
        buffer.store_many(*numbered(first, min(10, n - first)))
    return buffer


# ---- what is kept ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 7, 64])
def test_the_newest_rows_are_kept_whatever_the_sizes_they_come_in(size):
    rng = np.random.default_rng(size)
    buffer = ReplayBuffer(2, 1, size)
    want = collections.deque(maxlen=size)
    for _ in range(200):
        n = int(rng.integers(2 * size + 1))  # from none to more than there is room for
        first = int(buffer.ring.total)
        if n == 1 and rng.random() < 0.5:
            where = buffer.store(*(x[0] for x in numbered(first, 1)))
        else:
            where = buffer.store_many(*numbered(first, n))
        want.extend(range(first, first + n))
        assert number_of(buffer.rows(where)).tolist() == list(range(first, first + n))[-size:]
        held = number_of(buffer.rows(np.arange(len(buffer))))
        assert sorted(held) == list(want) and len(buffer) == len(want)
    assert buffer.ring.total > 3 * size


def test_what_was_stored_does_not_change_with_the_callers_arrays():
    obs, act, rew, obs2, done = numbered(0, 2)
    buffer = ReplayBuffer(2, 1, 5)
    buffer.store_many(obs, act, rew, obs2, done)
    obs[:], act[:], rew[:], obs2[:], done[:] = 9, 9, 9, 9, False
    assert number_of(buffer.rows(np.arange(2))).tolist() == [0, 1]
    batch = buffer.sample_batch(8)
    batch["obs"][:] = 77
    assert number_of(buffer.rows(np.arange(2))).tolist() == [0, 1]


@pytest.mark.parametrize("cls", [ReplayBuffer, buffers.ReplayBuffer])
def test_arrays_of_one_number_are_taken_as_the_number(cls):
    buffer = cls(3, 1, 10)
    one = np.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        buffer.store(np.zeros(3), np.float32(0.5), one, np.ones(3), np.array([True]))
        buffer.store(np.zeros(3), one / 2, np.float64(1), np.ones(3), 1.0)
        buffer.store(np.zeros((1, 3)), [[0.5]], np.ones((1, 1)), np.ones((1, 3)), np.ones((1, 1)))
        buffer.store(torch.zeros(3), torch.tensor(0.5), torch.ones(1), torch.ones(3), True)
    rows = buffer.rows(np.arange(4))
    assert np.asarray(rows["act"]).tolist() == [[0.5]] * 4
    assert np.asarray(rows["rew"]).tolist() == [1] * 4
    assert np.asarray(rows["done"]).tolist() == [True] * 4
    scalar = cls(None, None, 4, act_dtype=np.int64)
    scalar.store(np.array([2.0]), np.array([3]), 0, 4.0, False)
    assert [np.asarray(x).tolist() for x in scalar.rows(np.arange(1)).values()] == [
        [2.0],
        [3],
        [0],
        [4.0],
        [False],
    ]


def test_further_fields_travel_with_their_transition():
    buffer = ReplayBuffer(2, 1, 6, extra={"goal": ((3,), np.float64), "k": ((), np.int32)})
    obs, act, rew, obs2, done = numbered(0, 4)
    buffer.store_many(obs, act, rew, obs2, done, goal=np.eye(4)[:, :3], k=np.arange(4))
    buffer.store(*(x[0] for x in numbered(4, 1)), goal=[7, 7, 7], k=np.array([4]))
    batch = buffer.sample_batch(50)
    assert set(batch) == FIELDS | {"goal", "k"}
    np.testing.assert_array_equal(batch["k"], number_of(batch))
    assert batch["goal"][batch["k"] == 4].tolist() == [[7, 7, 7]] * int((batch["k"] == 4).sum())


# ---- what it costs ---------------------------------------------------------------------------


def test_every_field_keeps_its_type():
    buffer = ReplayBuffer((4, 4, 3), None, 20, obs_dtype=np.uint8, act_dtype=np.int64)
    obs = np.arange(48, dtype=np.uint8).reshape(1, 4, 4, 3) + 200
    buffer.store_many(obs, np.array([2**40]), [0.1], obs + 1, [True])
    assert {k: x.dtype for k, x in buffer.ring.data.items()} == {
        "obs": np.uint8,
        "act": np.int64,
        "rew": np.float32,
        "obs2": np.uint8,
        "done": np.bool_,
    }
    rows = buffer.sample_batch(2)
    assert rows["act"].tolist() == [2**40] * 2 and rows["obs"].dtype == np.uint8
    np.testing.assert_array_equal(rows["obs"][0], obs[0])


@pytest.mark.parametrize(
    ("obs_dim", "obs_dtype", "act_dim", "act_dtype", "each"),
    [
        (17, np.float32, 6, np.float32, 2 * 68 + 24 + 4 + 1),
        ((84, 84, 4), np.uint8, None, np.int64, 2 * 28224 + 8 + 4 + 1),
    ],
    ids=["vectors", "images"],
)
def test_a_full_buffer_takes_the_memory_of_its_transitions(
    obs_dim, obs_dtype, act_dim, act_dtype, each
):
    size = 2_000_000 // each
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        buffer = ReplayBuffer(obs_dim, act_dim, size, obs_dtype=obs_dtype, act_dtype=act_dtype)
        row = {k: np.zeros((1, *x.shape[1:]), x.dtype) for k, x in buffer.ring.data.items()}
        for _ in range(size + 10):
            buffer.store_many(**row)
        del row
        taken = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert each * size <= taken <= 1.05 * each * size
    assert buffer.ring.nbytes == each * size


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_memory_is_taken_when_rows_are_written_and_not_before():
    before = resident()
    buffer = ReplayBuffer(300, 1, 1e6)  # 2.4 GB
    assert resident() - before < 20e6
    rows = {k: np.ones((10_000, *x.shape[1:])) for k, x in buffer.ring.data.items()}
    before = resident()
    buffer.store_many(**rows)
    assert 20e6 < resident() - before < 40e6  # 24 MB of them


def test_a_transition_of_an_environment_costs_what_its_buffer_says():
    for env_id in ("Pendulum-v1", "CartPole-v1"):
        env = make_env(env_id)
        obs, act = env.observation_space, env.action_space
        dtype = np.float32 if env_id == "Pendulum-v1" else np.int64
        buffer = ReplayBuffer(obs.shape, act.shape, 10, act_dtype=dtype)
        assert transition_bytes(obs, act) == buffer.ring.row_bytes


# ---- what is drawn ---------------------------------------------------------------------------


@pytest.mark.parametrize("stored", [40, 100, 163], ids=["partly_full", "full", "wrapped"])
def test_every_stored_row_is_as_likely_as_any_other_and_no_other_row_is_drawn(stored):
    buffer = filled(stored, size=100, rng=np.random.default_rng(5))
    held = range(max(0, stored - 100), stored)
    draws = np.concatenate(
        [number_of(buffer.sample_batch(10_000))]
        + [number_of(b) for b in buffer.sample_batches(90, 1000)]
    )
    counts = np.bincount(draws, minlength=stored)[held.start :]
    assert counts.sum() == 100_000 and len(counts) == len(held)  # nothing from outside
    expected = 100_000 / len(held)
    chi2 = float(((counts - expected) ** 2 / expected).sum())
    dof = len(held) - 1
    assert abs(chi2 - dof) < 4 * np.sqrt(2 * dof)
    # with replacement, and the draws of a batch do not depend on each other
    repeated = np.mean(draws[1:] == draws[:-1])
    assert abs(repeated - 1 / len(held)) < 4 * np.sqrt(1 / len(held) / 100_000)


def test_draws_come_from_the_buffers_own_generator_alone():
    drawn = []
    for seed in (1, 2):
        np.random.seed(seed)
        torch.manual_seed(seed)
        buffer = filled(50, cls=buffers.ReplayBuffer, rng=np.random.default_rng(3))
        state = np.random.get_state()[1].copy(), torch.get_rng_state()
        drawn.append(number_of(buffer.sample_batch(20)))
        drawn.append(number_of(next(iter(buffer.sample_batches(1, 20)))))
        assert np.array_equal(np.random.get_state()[1], state[0])
        assert torch.equal(torch.get_rng_state(), state[1])
    np.testing.assert_array_equal(drawn[0], drawn[2])
    np.testing.assert_array_equal(drawn[1], drawn[3])
    assert not np.array_equal(drawn[0], drawn[1])
    other = filled(50, rng=np.random.default_rng(4))
    assert not np.array_equal(number_of(other.sample_batch(20)), drawn[0])


def test_a_loaded_buffer_continues_with_the_same_rows_and_the_same_draws():
    one, other = filled(70, size=50), ReplayBuffer(2, 1, 50)
    one.sample_batch(13)
    other.load_state_dict(one.state_dict())
    for buffer in (one, other):
        buffer.store_many(*numbered(70, 9))
    assert other.ring.total == 79 and other.ring.ptr == one.ring.ptr
    for _ in range(3):
        np.testing.assert_array_equal(
            number_of(one.sample_batch(30)), number_of(other.sample_batch(30))
        )
    one.store_many(*numbered(200, 50))  # neither writes into the other
    assert number_of(other.rows(np.arange(50))).max() == 78


def test_a_buffer_of_another_size_is_not_loaded():
    with pytest.raises(SpinupError, match="room for 50 rows, this one for 60"):
        ReplayBuffer(2, 1, 60).load_state_dict(filled(50).state_dict())


def test_many_batches_are_what_one_batch_after_the_other_would_be():
    one, other = filled(30), filled(30)
    got = [number_of(b) for b in one.sample_batches(7, 11)]
    want = number_of(other.sample_batch(77)).reshape(7, 11)
    np.testing.assert_array_equal(got, want)
    assert list(one.sample_batches(0, 11)) == []


def test_batches_are_gathered_in_groups_that_fit_in_memory(monkeypatch):
    want = [number_of(b) for b in filled(30).sample_batches(7, 11)]
    buffer, seen = filled(30), []
    monkeypatch.setattr(replay, "_GATHER_BYTES", 3 * 11 * buffer.ring.row_bytes)
    gather = buffer.rows
    monkeypatch.setattr(buffer, "rows", lambda i: seen.append(i.shape) or gather(i))
    got = [number_of(b) for b in buffer.sample_batches(7, 11)]
    np.testing.assert_array_equal(got, want)
    assert seen == [(3, 11), (3, 11), (1, 11)]


def test_a_hundred_thousand_rows_are_drawn_without_a_loop():
    buffer = ReplayBuffer(17, 6, 100_000)
    buffer.ring.total = 100_000
    times = []
    for _ in range(7):
        start = time.process_time()
        for batch in buffer.sample_batches(100, 1000):
            assert len(batch["rew"]) == 1000
        times.append(time.process_time() - start)
    assert min(times) < 0.06  # one Python statement a row and field takes longer


def test_drawing_from_an_empty_buffer_is_one_sentence():
    for cls in (ReplayBuffer, buffers.ReplayBuffer):
        with pytest.raises(SpinupError, match="the replay buffer is empty") as error:
            cls(2, 1, 10).sample_batch()
        assert "\n" not in str(error.value)


# ---- the contract with existing code ---------------------------------------------------------


@pytest.mark.parametrize("algo", ["ddpg", "td3", "sac"])
def test_user_code_finds_the_buffer_where_it_was(algo):
    module = __import__(registry.get(algo).module("pytorch"), fromlist=["ReplayBuffer"])
    buffer = module.ReplayBuffer(3, 2, 50)
    for i in range(60):
        buffer.store(np.full(3, i), np.full(2, i), i, np.full(3, i + 1), i % 2 == 0)
    batch = buffer.sample_batch(batch_size=40)
    assert set(batch) == FIELDS and len(buffer.sample_batch()["rew"]) == 32
    assert {k: tuple(x.shape) for k, x in batch.items()} == {
        "obs": (40, 3),
        "act": (40, 2),
        "rew": (40,),
        "obs2": (40, 3),
        "done": (40,),
    }
    assert {x.dtype for x in batch.values()} == {torch.float32}
    i = batch["rew"]
    assert torch.equal(batch["obs2"][:, 0], i + 1) and torch.equal(batch["act"][:, 1], i)
    assert torch.equal(batch["done"], (i % 2 == 0).float()) and i.min() >= 10


def test_discrete_actions_come_as_integers_and_images_as_numbers():
    buffer = buffers.ReplayBuffer((2, 2), None, 5, obs_dtype=np.uint8, act_dtype=np.int64)
    buffer.store(np.full((2, 2), 255), 3, 1.0, np.zeros((2, 2)), False)
    batch = buffer.sample_batch(4)
    assert batch["act"].dtype == torch.int64 and batch["act"].tolist() == [3] * 4
    assert batch["obs"].dtype == torch.float32 and batch["obs"].unique().tolist() == [255]


# ---- sizes -----------------------------------------------------------------------------------


def test_a_size_may_be_written_as_a_float():
    assert ReplayBuffer(1, 1, 1e3).ring.max_size == 1000
    assert check_count("n", np.int64(3)) == 3 and check_count("n", 0.0, 0) == 0
    assert isinstance(check_count("n", 1e6), int)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "1000", None, float("inf"), float("nan")])
def test_a_size_that_is_none_is_refused(wrong):
    with pytest.raises(SpinupError, match="must be a whole number, at least 1") as error:
        ReplayBuffer(1, 1, wrong)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", [1e15, 1e18])
def test_a_size_beyond_all_memory_is_refused_by_its_bytes(size):
    with pytest.raises(SpinupError, match=r"transitions needs \d+\.\d GiB of memory"):
        Ring(int(size), {"x": ((1000,), np.float64)})


def test_the_memory_of_this_machine_is_known():
    available = memory.available_memory()
    assert available is None or 1e6 < available < 1e16


@pytest.fixture
def older_run(tmp_path):
    """A finished run in the directory of the next one, and a check that it is as it was."""
    folder = tmp_path / "run0"
    folder.mkdir()
    (folder / "progress.txt").write_text("Epoch\n0\n")

    def untouched():
        files = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*"))
        return files == ["run0", "run0/progress.txt"]

    return untouched


def test_a_buffer_that_does_not_fit_is_refused_by_its_size(tmp_path, monkeypatch, older_run):
    # Pendulum: 3 + 3 observations, an action, a reward, a flag
    needed = 100_000 * (4 * (3 + 3 + 1 + 1) + 1)
    monkeypatch.setattr(memory, "available_memory", lambda: needed - 1)
    with pytest.raises(SpinupError, match="a replay buffer of 100000 transitions") as error:
        spinup.ddpg_pytorch(
            lambda: make_env("Pendulum-v1"),
            replay_size=1e5,
            logger_kwargs={"output_dir": str(tmp_path / "run0")},
            overwrite=True,
        )
    assert "needs 3.1 MiB of memory, but only 3.1 MiB are free" in str(error.value)
    assert "\n" not in str(error.value) and older_run()


@pytest.mark.parametrize("algo", OFF_POLICY)
def test_a_buffer_that_does_not_fit_is_refused_before_a_directory_is_touched(
    train, monkeypatch, older_run, algo
):
    monkeypatch.setattr(memory, "available_memory", lambda: 300)
    with pytest.raises(SpinupError, match="a replay buffer of 40 transitions needs"):
        train(algo, None)
    assert older_run()


def test_only_what_a_run_can_fill_has_to_fit(train, monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 80 * 33)
    assert len(train("ddpg", "Pendulum-v1", epochs=2, replay_size=1e6).rows) == 2
    with pytest.raises(SpinupError, match="120 transitions"):
        train("ddpg", "Pendulum-v1", epochs=3, replay_size=1e6)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, "many", float("nan")])
def test_a_replay_size_that_is_none_is_refused_before_a_directory_is_touched(
    train, older_run, wrong
):
    with pytest.raises(SpinupError, match=r"replay_size=.* must be a whole number") as error:
        train("ddpg", "Pendulum-v1", replay_size=wrong)
    assert "\n" not in str(error.value) and older_run()


def test_a_buffer_smaller_than_a_step_of_all_environments_trains_from_the_last_of_them(train):
    run = train("ddpg", "Pendulum-v1", replay_size=3, batch_size=3, num_envs=4)
    assert np.isfinite(run.rows[0]["LossQ"])


def test_user_code_reads_the_arrays_by_their_old_names():
    buffer = ReplayBuffer(2, 1, 3)
    for i in range(4):  # the fourth overwrites the first
        buffer.store([i, i], [10 + i], 20 + i, [i + 1, i + 1], i == 2)
    assert (buffer.ptr, buffer.size, buffer.max_size) == (1, 3, 3)
    np.testing.assert_array_equal(buffer.obs_buf, [[3, 3], [1, 1], [2, 2]])
    np.testing.assert_array_equal(buffer.obs2_buf, [[4, 4], [2, 2], [3, 3]])
    np.testing.assert_array_equal(buffer.act_buf, [[13], [11], [12]])
    np.testing.assert_array_equal(buffer.rew_buf, [23, 21, 22])
    np.testing.assert_array_equal(buffer.done_buf, [0, 0, 1])
    buffer.rew_buf[:] = 7  # the buffer's own arrays, not copies
    assert set(buffer.sample_batch(8)["rew"]) == {7}


def test_a_users_subclass_may_keep_arrays_of_its_own():
    class Own(ReplayBuffer):
        def __init__(self, obs_dim, act_dim, size):
            self.obs_buf = np.zeros((size, obs_dim))
            self.rew_buf = np.zeros(size)
            self.ptr, self.size, self.max_size = 0, 0, size

        def store(self, obs, rew):
            self.obs_buf[self.ptr], self.rew_buf[self.ptr] = obs, rew
            self.ptr = (self.ptr + 1) % self.max_size
            self.size = min(self.size + 1, self.max_size)

    buffer = Own(2, 1, 3)
    for i in range(4):
        buffer.store([i, i], i)
    assert (buffer.ptr, buffer.size, buffer.max_size) == (1, 3, 3)
    assert buffer.rew_buf.tolist() == [3, 1, 2]
