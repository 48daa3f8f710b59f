"""Fixtures for tests of the torch algorithms."""

from types import SimpleNamespace

import numpy as np
import pytest

from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common.advantages import EpochBuffer
from spinup.utils.mpi_tools import Shards
from spinup.utils.seeding import Seeds


@pytest.fixture
def gather():
    """A function that gathers one epoch as on-policy algorithms do, and returns its buffer.

    `shards` are the environments of each shard. Every shard takes `steps` steps in each of them.
    """

    def run_epoch(shards, policy, steps, seed=0):
        run = SimpleNamespace(
            row=SimpleNamespace(on_policy=True),
            streams=list(shards),
            shards=Shards(len(shards)),
            steps_per_shard=steps * shards[0].num_envs,
            device="cpu",
            seeds=Seeds(0),
            explore_rngs=[np.random.default_rng(seed) for _ in shards],
            stop_requested=lambda: False,
        )
        loop = Loop(run)
        buffer = EpochBuffer(run, loop)
        for _ in loop.steps():
            a, v, logp = loop.act(policy)
            o, a, r, _, _ = loop.step(a)
            buffer.store(o, a, r, v, logp)
            for path in loop.paths:
                buffer.finish_path(path.i, path.last_obs)
        return buffer

    return run_epoch
