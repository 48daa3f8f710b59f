"""Policies and batches for the cases of the on-policy exercises, in double precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical

from spinup.algos.pytorch.common.nets import MLPActorCritic


class TablePolicy(nn.Module):
    """One row of logits per state. Observations are the numbers of states, [B] integers."""

    def __init__(self, probabilities: Any):
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(probabilities, dtype=torch.float64).log())

    def forward(self, obs: Any, act: Any = None) -> tuple[Any, Any]:
        """Return the distributions and, if actions are given, their log-probabilities [B]."""
        pi = Categorical(logits=self.logits[obs])
        return pi, None if act is None else pi.log_prob(act)


class TableValue(nn.Module):
    """One value per state."""

    def __init__(self, values: Any):
        super().__init__()
        self.values = nn.Parameter(torch.tensor(values, dtype=torch.float64))

    def forward(self, obs: Any) -> Any:
        """Return values, [B]."""
        return self.values[obs]


class TableActorCritic(nn.Module):
    """A policy `pi` and a value function `v` of a few states."""

    def __init__(self, probabilities: Any, values: Any = ()):
        super().__init__()
        self.pi = TablePolicy(probabilities)
        self.v = TableValue(values or [0.0] * len(probabilities))


def numbers(*values: float) -> torch.Tensor:
    """Return a vector in double precision."""
    return torch.tensor(values, dtype=torch.float64)


def one_ratio(ratio: float, adv: float) -> tuple[TableActorCritic, dict[str, Any]]:
    """Return a policy of one state and a batch of one action, whose probability ratio is given.

    The probability of action 0 was 0.4 when the data was collected and is 0.4 * ratio now.
    """
    now = 0.4 * ratio
    ac = TableActorCritic([[now, 1 - now]], [0.5])
    batch = {
        "obs": torch.tensor([0]),
        "act": torch.tensor([0]),
        "adv": numbers(adv),
        "logp": numbers(0.4).log(),
        "ret": numbers(2.0),
        "val": numbers(0.5),
    }
    return ac, batch


def one_value(val: float, old: float, ret: float) -> tuple[TableActorCritic, dict[str, Any]]:
    """Return a value function of one state and a batch of one step."""
    ac, batch = one_ratio(1.0, 1.0)
    ac.v = TableValue([val])
    return ac, {**batch, "ret": numbers(ret), "val": numbers(old)}


def networks(rows: int, discrete: bool, far: float = 0.3) -> tuple[nn.Module, dict[str, Any]]:
    """Return the library's networks and a random batch; `far` is how far the policy has moved."""
    space = spaces.Discrete(3) if discrete else spaces.Box(-1, 1, (2,))
    ac = MLPActorCritic(spaces.Box(-np.inf, np.inf, (3,)), space, (8,), nn.Tanh).double()
    obs = torch.randn(rows, 3, dtype=torch.float64)
    if discrete:
        act = torch.randint(3, (rows,))
    else:
        act = torch.randn(rows, 2, dtype=torch.float64)
    with torch.no_grad():
        logp, val = ac.pi(obs, act)[1], ac.v(obs)
    moved = torch.randn(3, rows, dtype=torch.float64)
    batch = {
        "obs": obs,
        "act": act,
        "adv": moved[0] + 0.2,
        "ret": val + moved[1],
        "val": val + far * moved[2],
        "logp": logp + far * moved[2],
    }
    return ac, batch
