"""The buffer that code written for the original Spinning Up uses."""

import numpy as np
import pytest
import torch

from spinup.algos.pytorch.common.advantages import PathBuffer


def standardized(x):
    return (x - x.mean()) / (x.std() + 1e-8)


def test_the_buffer_squeezes_size_one_arrays():
    buffer = PathBuffer(2, (), 3, gamma=0.5, lam=0.5)
    for t, (r, v) in enumerate(((1.0, 2.0), (2.0, 4.0), (3.0, 6.0))):
        buffer.store(
            np.array([t, -t]), np.array([1]), np.array([r]), np.array([[v]]), np.array([-0.5])
        )
    buffer.finish_path(np.array([8.0]))
    data = buffer.get()
    np.testing.assert_allclose(data["ret"], [3.75, 5.5, 7.0])
    np.testing.assert_allclose(data["adv"], standardized(np.array([1.3125, 1.25, 1.0])), rtol=1e-4)
    assert set(data) == {"obs", "act", "ret", "adv", "logp"}
    assert all(x.dtype == torch.float32 for x in data.values())
    assert (
        data["obs"].tolist() == [[0, 0], [1, -1], [2, -2]] and data["logp"].tolist() == [-0.5] * 3
    )


def test_the_buffer_keeps_paths_apart_and_starts_again_after_get():
    buffer = PathBuffer(1, 2, 4, gamma=1.0, lam=1.0)
    for _ in range(2):
        for r in (1.0, 2.0):
            buffer.store([0.0], [0.0, 1.0], r, 0.0, 0.0)
        buffer.finish_path(0)
        for r in (4.0, 8.0):
            buffer.store([0.0], [0.0, 1.0], r, 0.0, 0.0)
        buffer.finish_path(16)
        data = buffer.get()
        assert data["ret"].tolist() == [3, 2, 28, 24]
        assert float(data["adv"].mean()) == pytest.approx(0, abs=1e-6)
        assert data["act"].shape == (4, 2)


def test_the_buffer_gives_zeros_for_a_constant_advantage():
    buffer = PathBuffer(1, 1, 3, gamma=0.9, lam=0.9)
    for _ in range(3):
        buffer.store(0.0, 0.0, 0.1, 0.0, 0.0)
        buffer.finish_path(0)
    assert buffer.get()["adv"].tolist() == [0, 0, 0]


def test_a_buffer_that_is_not_full_or_too_full_says_so():
    buffer = PathBuffer(1, 1, 1)
    with pytest.raises(ValueError, match="contains 0 of 1"):
        buffer.get()
    buffer.store(0.0, 0.0, 0.0, 0.0, 0.0)
    with pytest.raises(IndexError, match="full"):
        buffer.store(0.0, 0.0, 0.0, 0.0, 0.0)
