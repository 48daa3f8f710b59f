"""Small networks and batches in double precision, for the cases of the exercises."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn


class Networks(nn.Module):
    """Networks as attributes of one object, like an actor-critic: `Networks(pi=..., q=...)`."""

    def __init__(self, **parts: nn.Module):
        super().__init__()
        for name, part in parts.items():
            setattr(self, name, part)


class LinearPolicy(nn.Module):
    """pi(o) = gain * o, for observations and actions of one dimension."""

    def __init__(self, gain: float):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain, dtype=torch.float64))

    def forward(self, obs):
        """Return actions: (B, 1) -> (B, 1)."""
        return self.gain * obs


class LinearCritic(nn.Module):
    """Q(o, a) = w_o * o + w_a * a, for observations and actions of one dimension."""

    def __init__(self, w_o: float, w_a: float):
        super().__init__()
        self.w_o = nn.Parameter(torch.tensor(w_o, dtype=torch.float64))
        self.w_a = nn.Parameter(torch.tensor(w_a, dtype=torch.float64))

    def inputs(self, obs, act):
        """Build the input as the library's critics do: (B, 1), (B, 1) -> (B, 2)."""
        return torch.cat([obs, act], -1)

    def q(self, x):
        """Return values as a column: (B, 2) -> (B, 1)."""
        return self.w_o * x[:, :1] + self.w_a * x[:, 1:]

    def forward(self, obs, act):
        """Return values: (B, 1), (B, 1) -> (B,)."""
        return self.q(self.inputs(obs, act)).squeeze(-1)


class TableCritic(nn.Module):
    """Q(o, a) of discrete actions = o * w_a, for observations of one dimension."""

    def __init__(self, *weights: float):
        super().__init__()
        self.weights = nn.Parameter(torch.tensor(weights, dtype=torch.float64))

    def forward(self, obs):
        """Return the values of all actions: (B, 1) -> (B, n)."""
        return obs * self.weights


class GivenPolicy(nn.Module):
    """A stochastic policy whose samples and log-probabilities are simple functions of o.

    It returns the action `gain * o` with the log-probability `slope * o`, without drawing anything.
    """

    def __init__(self, gain: float, slope: float):
        super().__init__()
        self.gain = nn.Parameter(torch.tensor(gain, dtype=torch.float64))
        self.slope = nn.Parameter(torch.tensor(slope, dtype=torch.float64))

    def forward(self, obs, deterministic=False, with_logprob=True):
        """Return actions (B, 1) and log-probabilities (B,)."""
        return self.gain * obs, (self.slope * obs).squeeze(-1)


def box(act_dim: int, low: float = -1.0, high: float = 1.0) -> spaces.Box:
    """Return an action space."""
    return spaces.Box(np.float32(low), np.float32(high), (act_dim,))


def actor_critic(algo: str, action_space: Any, obs_dim: int = 3, **options: Any) -> nn.Module:
    """Return the library's networks for an algorithm, small, with random weights."""
    core = importlib.import_module(f"spinup.algos.pytorch.{algo}.core")
    make = core.MLPQNetwork if algo == "dqn" else core.MLPActorCritic
    observation_space = spaces.Box(-np.inf, np.inf, (obs_dim,))
    options.setdefault("hidden_sizes", (8,))
    ac = make(observation_space, action_space, **options).double()
    with torch.no_grad():  # larger than usual, so that values and targets differ visibly
        for p in ac.parameters():
            p.copy_(torch.randn_like(p) * 0.7)
    return ac


def networks(algo: str, space: Any, obs_dim: int = 3) -> tuple[Any, nn.Module, nn.Module]:
    """Return an action space and two sets of networks for it: trained ones and their target."""
    return space, actor_critic(algo, space, obs_dim), actor_critic(algo, space, obs_dim)


def batch_of(rows: int, action_space: Any, obs_dim: int = 3, done: Any = None) -> dict[str, Any]:
    """Return a batch of random transitions; by default, every third one is `done`."""
    if isinstance(action_space, spaces.Box):
        low, high = (torch.as_tensor(x).double() for x in (action_space.low, action_space.high))
        act = low + (high - low) * torch.rand(rows, len(low), dtype=torch.float64)
    else:
        act = torch.randint(int(action_space.n), (rows,))
    ends = torch.arange(rows) % 3 == 2 if done is None else torch.full((rows,), bool(done))
    return {
        "obs": torch.randn(rows, obs_dim, dtype=torch.float64),
        "act": act,
        "rew": torch.randn(rows, dtype=torch.float64),
        "obs2": torch.randn(rows, obs_dim, dtype=torch.float64),
        "done": ends.double(),
    }


def transition(o: float, a: float, r: float, o2: float, d: float = 0.0) -> dict[str, Any]:
    """Return a batch of one transition, with observations and actions of one dimension."""
    rows = {"obs": [[o]], "act": [[a]], "rew": [r], "obs2": [[o2]], "done": [d]}
    return {name: torch.tensor(x, dtype=torch.float64) for name, x in rows.items()}
