"""Networks for every kind of actions, and what their parameters are."""

import numpy as np
import torch
from gymnasium import spaces

from spinup.algos.pytorch.common import nets
from spinup.algos.pytorch.ddpg import core as ddpg_core

OBS = spaces.Box(-1, 1, (3,), np.float32)
BOX = spaces.Box(np.array([-1, 0], np.float32), np.array([3, 0.5], np.float32))
ACTIONS = {
    "Discrete": spaces.Discrete(4),
    "Discrete from 5": spaces.Discrete(3, start=5),
    "Box": BOX,
    "Box of two dimensions": spaces.Box(-1, 1, (2, 2), np.float32),
    "MultiDiscrete": spaces.MultiDiscrete([3, 2]),
    "MultiBinary": spaces.MultiBinary(3),
}
KINDS = list(ACTIONS)


def actor_critic(kind="Box", cls=nets.MLPActorCritic, **kwargs):
    return cls(OBS, ACTIONS[kind], **{"hidden_sizes": (16, 16), **kwargs})


def small_ddpg():
    """The networks of DDPG, with six units."""
    return ddpg_core.MLPActorCritic(OBS, BOX, hidden_sizes=(6,))


def values(module):
    """A copy of the parameters, in their order."""
    return [p.detach().clone() for p in module.parameters()]


def equal(one, other):
    """Whether two lists of tensors are the same, bit for bit."""
    return all(torch.equal(p, q) for p, q in zip(one, other, strict=True))
