"""Fixtures for tests of the algorithms: tiny training runs and their results."""

import csv
import inspect
import itertools
import math
import os
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical

from spinup import registry
from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common import nets
from spinup.algos.pytorch.common.advantages import EpochBuffer
from spinup.parallel.mpi import Shards
from spinup.runs.arguments import training_function
from spinup.runs.run import Run
from spinup.utils.seeding import Seeds

TINY = {"steps_per_epoch": 40, "epochs": 1, "max_ep_len": 20, "save_freq": 1000}
PASSES = {"ppo": {"train_pi_iters": 3, "train_v_iters": 3}, "vpg": {"train_v_iters": 3}}
PASSES["trpo"] = {"train_v_iters": 3}
# Those of them that an algorithm has are what its tiny run uses.
OFF_POLICY = {
    "replay_size": 1000,
    "batch_size": 8,
    "start_steps": 10,
    "update_after": 10,
    "update_every": 5,
    "num_test_episodes": 1,
}


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


def env_of(name):
    """The id of an environment that an algorithm learns in."""
    row = registry.get(name)
    if row.observation == "goal":
        return "spinup/BitFlip-v0"
    discrete = row.on_policy or row.action_spaces[0] == "Discrete"
    return "CartPole-v1" if discrete else "Pendulum-v1"


def read_rows(folder):
    with open(folder / "progress.txt", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [{k: _number(v) for k, v in row.items() if k != "Time"} for row in rows]


def _number(text):
    """Like `float`, with one NaN for all, so that two rows with a NaN can be equal."""
    return math.nan if math.isnan(float(text)) else float(text)


# ---- a policy and a value function small enough to work out by hand --------------------------


class TablePi(nn.Module):
    """One row of logits a state; observations are the numbers of states."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits, dtype=torch.float64))

    def forward(self, obs, act=None):
        pi = Categorical(logits=self.logits[obs])
        return pi, None if act is None else pi.log_prob(act)


class TableV(nn.Module):
    """One number a state."""

    def __init__(self, values):
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values, dtype=torch.float64))

    def forward(self, obs):
        return self.values[obs]


class TableAC(nn.Module):
    """`pi` from probabilities and `v` from values, in double precision."""

    def __init__(self, probs, values=(0.0, 0.0)):
        super().__init__()
        self.pi = TablePi(np.log(probs).tolist())
        self.v = TableV(list(values))


def table_batch(obs, act, adv, ret=None, p_old=None, val=None):
    """A batch as the updates take it; `p_old` are the old probabilities of the actions."""
    n = len(obs)
    floats = {
        "adv": adv,
        "ret": np.zeros(n) if ret is None else ret,
        "logp": np.zeros(n) if p_old is None else np.log(p_old),
        "val": np.zeros(n) if val is None else val,
    }
    batch = {k: torch.tensor(np.asarray(x, dtype=np.float64)) for k, x in floats.items()}
    return {"obs": torch.tensor(obs), "act": torch.tensor(act), **batch}


def score(probs, obs, act):
    """Gradient of log p(act | obs) with respect to all logits, one row a sample: onehot - p."""
    probs = np.asarray(probs)
    out = np.zeros((len(obs), *probs.shape))
    for i, (s, a) in enumerate(zip(obs, act, strict=True)):
        out[i, s] = -probs[s]
        out[i, s, a] += 1
    return out


def finite_differences(f, module, eps=1e-6):
    """The gradient of f() with respect to all parameters of a float64 module, as one vector."""
    grad = []
    with torch.no_grad():
        for p in module.parameters():
            flat = p.view(-1)
            for i in range(flat.numel()):
                keep = flat[i].item()
                flat[i] = keep + eps
                up = float(f())
                flat[i] = keep - eps
                grad.append((up - float(f())) / (2 * eps))
                flat[i] = keep
    return np.array(grad)


@pytest.fixture
def table():
    """The tools above, as attributes."""
    return SimpleNamespace(
        AC=TableAC, batch=table_batch, score=score, finite_differences=finite_differences
    )


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


# ---- critics and a deterministic actor for numbers: observation and action are one each -------


class LinearQ(nn.Module):
    """Q(o, a) = w0 + w1 o + w2 a."""

    def __init__(self, *weights):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(weights, dtype=torch.float64))

    def forward(self, obs, act):
        return self.w[0] + self.w[1] * obs[:, 0] + self.w[2] * act[:, 0]


class LinearPi(nn.Module):
    """pi(o) = k0 + k1 o."""

    def __init__(self, *weights):
        super().__init__()
        self.k = nn.Parameter(torch.tensor(weights, dtype=torch.float64))

    def forward(self, obs):
        return self.k[0] + self.k[1] * obs


class NetworksOf(nn.Module):
    """An actor-critic with the given networks."""

    def __init__(self, **networks):
        super().__init__()
        for name, network in networks.items():
            setattr(self, name, network)


def transitions(obs, act, rew, obs2, done):
    """A batch of float64 transitions of one-dimensional observations and actions."""
    rows = {"obs": obs, "act": act, "rew": rew, "obs2": obs2, "done": done}
    batch = {k: torch.tensor(v, dtype=torch.float64) for k, v in rows.items()}
    return {k: v if k in ("rew", "done") else v.unsqueeze(-1) for k, v in batch.items()}


@pytest.fixture
def linear():
    """The tools above, as attributes."""
    return SimpleNamespace(
        AC=NetworksOf,
        Q=LinearQ,
        Pi=LinearPi,
        transitions=transitions,
        finite_differences=finite_differences,
    )
