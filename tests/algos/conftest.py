"""Fixtures for tests of the algorithms: tiny training runs and their results."""

import inspect
import itertools
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup import registry
from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common import nets
from spinup.algos.pytorch.common.advantages import EpochBuffer
from spinup.parallel.mpi import Shards
from spinup.runs.arguments import training_function
from spinup.runs.run import Run
from spinup.utils.seeding import Seeds
from tests.helpers.training import OFF_POLICY, PASSES, TINY, env_of, read_rows


@pytest.fixture(autouse=True)
def torch_generator_is_left_alone():
    """A test that seeds torch's global generator must not decide what the next one draws."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.fixture
def train(tmp_path, monkeypatch):
    """A function that trains for one tiny epoch and returns the network, the rows, the folder.

    The name may end in its backend (`ppo_tf1`). `env` is an id, an `env_fn` or None for one that
    the algorithm learns in; every other argument goes to the training function. Rows of
    `progress.txt` come back as dicts of floats, without the column of the clock.
    """
    runs = []
    # Nobody pulls the plug here, and waiting for the disk is a third of a tiny run.
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def run(name, env, /, **kwargs):
        name, _, backend = name.partition("_")
        function = registry.load(name, backend or "pytorch")
        known = inspect.signature(function).parameters
        off_policy = not registry.get(name).on_policy
        tiny = {k: v for k, v in OFF_POLICY.items() if k in known and off_policy}
        settings = {**TINY, **tiny, **PASSES.get(name, {}), **kwargs}
        if "actor_critic" not in settings:
            settings.setdefault("ac_kwargs", {"hidden_sizes": (8,)})
        folder = tmp_path / f"run{len(runs)}"
        runs.append(folder)
        settings.setdefault("logger_kwargs", {"output_dir": str(folder), "quiet": True})
        folder = Path(settings["logger_kwargs"]["output_dir"])
        ac = function(env or env_of(name), **settings)
        return SimpleNamespace(ac=ac, rows=read_rows(folder), dir=folder)

    return run


@pytest.fixture
def in_run(tmp_path, monkeypatch):
    """A function that calls `body(run)` in a run of an algorithm and returns what it returns.

    Networks are the body's business. The arguments are those of a training function, `env_fn`
    first; each run has a new folder unless `logger_kwargs` names one.
    """
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    numbers = itertools.count()

    def call(algo, body, env_fn, make_run=Run, **given):
        @training_function
        def training(
            env_fn,
            logger_kwargs,
            ac_kwargs,
            seed=0,
            steps_per_epoch=24,
            epochs=1,
            replay_size=1000,
            num_test_episodes=0,
            max_ep_len=100,
            save_freq=100,
            num_envs=1,
            vector="sync",
            shards=None,
            num_threads=1,
            device="cpu",
            resume=False,
            overwrite=False,
            progress=False,
        ):
            with make_run(algo) as run:
                return body(run)

        folder = {"output_dir": str(tmp_path / f"in_run{next(numbers)}"), "quiet": True}
        return training(env_fn, **{"logger_kwargs": folder, "ac_kwargs": {}, **given})

    return call


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
            signals=SimpleNamespace(poll=lambda: False),
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


@pytest.fixture
def mlp_batch():
    """A function from an action space to a float64 actor-critic and a batch of its own actions."""

    def make(action_space, n=12, hidden_sizes=(5,), shift=0.0, **kwargs):
        torch.manual_seed(7)
        obs_space = spaces.Box(-1, 1, (3,), np.float32)
        ac = nets.MLPActorCritic(obs_space, action_space, hidden_sizes=hidden_sizes, **kwargs)
        ac = ac.double()
        obs = torch.randn(n, 3, dtype=torch.float64)
        act = torch.as_tensor(ac.step(obs)[0])
        with torch.no_grad():
            logp, val = ac.pi(obs, act)[1], ac.v(obs)
            for p in ac.parameters():  # away from the policy that acted
                p += shift * torch.randn_like(p)
        batch = {"obs": obs, "act": act, "logp": logp, "val": val}
        batch["adv"] = torch.randn(n, dtype=torch.float64)
        batch["ret"] = torch.randn(n, dtype=torch.float64)
        return ac, batch

    return make
