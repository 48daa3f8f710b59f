"""The memory of trajectories that ACER replays: what is sampled, and what is kept of an end."""

import numpy as np
import pytest
import torch

from spinup.algos.common import replay
from spinup.algos.pytorch.acer.core import TrajectoryBuffer
from spinup.runs.storage.checkpoints import load_checkpoint, save_checkpoint


def filled(steps, size=20, num_envs=2, seed=0, n_actions=2):
    """A buffer whose observations tell stream and time: 1000 i + t."""
    buffer = TrajectoryBuffer(num_envs, (1,), n_actions, size, rng=np.random.default_rng(seed))
    for t in range(steps):
        store(buffer, t)
    return buffer


def store(buffer, t, **changes):
    n = buffer.num_envs
    here = (1000.0 * np.arange(n) + t)[:, None]
    row = {
        "obs": here,
        "act": np.full(n, t % 2),
        "rew": here[:, 0] / 10,
        "obs2": here + 1,
        "done": np.zeros(n, bool),
        "behavior": -here - [[0.0, 0.5]],
        "ended": [],
        **changes,
    }
    buffer.store(**row)


@pytest.mark.parametrize("steps", [4, 9, 10, 27])
def test_stretches_are_consecutive_steps_and_never_cross_the_write_position(steps):
    buffer = filled(steps)  # room for 10 steps of each stream
    assert len(buffer) == min(steps, 10)
    seen = set()
    for _ in range(300):
        batch = buffer.sample(4)
        assert batch["obs"].shape == (4, 2, 1) and batch["logmu"].shape == (4, 2, 2)
        for i in range(2):
            times = (batch["obs"][:, i, 0] - 1000 * i).tolist()
            assert times == [times[0] + j for j in range(4)]
            seen.add(times[0])
        torch.testing.assert_close(batch["obs2"], batch["obs"] + 1)
        torch.testing.assert_close(batch["rew"], batch["obs"][..., 0] / 10)
        torch.testing.assert_close(batch["logmu"][..., 0], -batch["obs"][..., 0])
        assert batch["act"].tolist() == (batch["obs"][..., 0] % 2).tolist()
    assert seen == set(range(max(0, steps - 10), steps - 3))
    newest = buffer.newest(4)["obs"][:, 1, 0] - 1000
    assert newest.tolist() == [steps - 4, steps - 3, steps - 2, steps - 1]


def test_streams_are_replayed_from_different_times():
    buffer = filled(10)
    first = [buffer.sample(4)["obs"][0, :, 0] for _ in range(20)]
    assert any(x[0] != x[1] - 1000 for x in first)


def test_replays_are_a_poisson_number_from_the_runs_own_generator():
    buffer = filled(10, seed=5)
    other = filled(10, seed=5)
    state = np.random.get_state()[1].copy()
    counts = [len(list(buffer.replays(1.5, 2))) for _ in range(2000)]
    assert np.mean(counts) == pytest.approx(1.5, abs=0.1)
    assert np.var(counts) == pytest.approx(1.5, abs=0.2)
    assert counts[:50] == [len(list(other.replays(1.5, 2))) for _ in range(50)]
    assert (np.random.get_state()[1] == state).all()
    assert list(buffer.replays(0, 2)) == []


def test_images_stay_bytes_in_memory_and_are_numbers_in_a_batch():
    buffer = TrajectoryBuffer(2, (2, 2), 3, 8, obs_dtype=np.uint8)
    image = np.full((2, 2, 2), 200, np.uint8)
    for _ in range(3):
        buffer.store(image, [0, 2], [1.0, 2.0], image, [True, False], behavior=0, ended=[0])
    assert buffer.ring.data["obs"].dtype == buffer.ring.data["obs2"].dtype == np.uint8
    batch = buffer.newest(2)
    assert batch["obs"].dtype == torch.float32 and float(batch["obs"].max()) == 200
    assert batch["act"].dtype == torch.int64
    assert batch["done"].tolist() == batch["ended"].tolist() == [[1, 0], [1, 0]]
    assert batch["valid"].tolist() == [[1, 1], [1, 1]]


def test_a_saved_buffer_goes_on_as_the_one_it_was():
    one, other = filled(13, seed=1), filled(2, seed=9)
    one.sample(3)
    other.load_state_dict(one.state_dict())
    for _ in range(5):
        for x, y in zip(one.sample(3).values(), other.sample(3).values(), strict=True):
            assert torch.equal(x, y)
    assert len(list(one.replays(3, 2))) == len(list(other.replays(3, 2)))


def test_an_episode_that_could_not_be_restored_ended_where_it_was_saved(monkeypatch, tmp_path):
    monkeypatch.setattr(replay, "_CHUNK_BYTES", 1)  # every row is a file, written when it changed

    def saved_and_loaded(buffer, step):
        save_checkpoint(tmp_path, buffer.state_dict(), step)
        loaded = filled(0)
        loaded.load_state_dict(load_checkpoint(tmp_path)[0])
        return loaded

    buffer = saved_and_loaded(filled(5), 1)
    store(buffer, 5, obs=np.array([[5.0], [-7.0]]))  # stream 0 went on, stream 1 began anew
    ended = buffer.newest(3)["ended"].tolist()
    assert ended == [[0, 0], [0, 1], [0, 0]]
    assert buffer.newest(3)["done"].sum() == 0  # it was cut, not over
    assert saved_and_loaded(buffer, 2).newest(3)["ended"].tolist() == ended


def test_an_end_is_kept_even_where_the_next_episode_begins_as_it_ended():
    buffer = filled(2)
    store(buffer, 2, ended=[1])
    store(buffer, 3)
    assert buffer.newest(3)["ended"].tolist() == [[0, 0], [0, 1], [0, 0]]


def test_resets_of_a_vector_environment_are_kept_as_such():
    buffer = filled(3)
    store(buffer, 3, ended=[1])
    one = np.array([[4.0]])
    only_first = {"obs": one, "act": [1], "rew": [0.5], "obs2": one + 1, "done": [False]}
    store(buffer, 4, **only_first, took=np.array([True, False]))
    store(buffer, 5, obs=np.array([[5.0], [50.0]]), took=np.array([True, True]))
    batch = buffer.newest(4)
    assert batch["valid"].tolist() == [[1, 1], [1, 1], [1, 0], [1, 1]]
    assert batch["ended"][:2].tolist() == [[0, 0], [0, 1]]
    assert batch["obs"][:, 0, 0].tolist() == [2, 3, 4, 5]
