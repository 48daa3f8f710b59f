"""TD3's networks, and the names that user code imports from here."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from spinup.algos.common.returns import discount_cumsum
from spinup.algos.pytorch.common.buffers import ReplayBuffer
from spinup.algos.pytorch.common.nets import (
    combined_shape,
    count_vars,
    make_obs_filter,
    mlp,
    samples_pi,
)
from spinup.algos.pytorch.common.qnets import MLPActor, MLPQFunction, bounds
from spinup.envs.bounds import require_finite_bounds

__all__ = [
    "Box",
    "Discrete",
    "MLPActor",
    "MLPActorCritic",
    "MLPQFunction",
    "ReplayBuffer",
    "combined_shape",
    "count_vars",
    "discount_cumsum",
    "mlp",
]


class MLPActorCritic(nn.Module):
    """A deterministic policy `pi` and two Q-functions, `q1` and `q2`.

    Args:
        observation_space: a Box of any shape (flattened).
        action_space: a Box with finite bounds.
        hidden_sizes: widths of the hidden layers. Wider layers can fit more and are slower;
            (64, 64) to (400, 300) are usual.
        activation: activation class of the hidden layers.
    """

    def __init__(
        self, observation_space, action_space, hidden_sizes=(256, 256), activation=nn.ReLU
    ):
        super().__init__()
        require_finite_bounds("td3", action_space)
        obs_dim = int(np.prod(observation_space.shape))
        act_dim = int(np.prod(action_space.shape))
        obs_filter = make_obs_filter(observation_space, normalize=False)
        sizes = (obs_dim, act_dim, hidden_sizes, activation)
        self.action_space = action_space
        self.pi = MLPActor(*sizes, *bounds(action_space), obs_filter)
        self.q1 = MLPQFunction(*sizes, obs_filter)
        self.q2 = MLPQFunction(*sizes, obs_filter)

    @samples_pi
    def act(self, obs):
        """Return the policy's action for one observation or a batch, as an array."""
        with torch.no_grad():
            return self.pi(obs).cpu().numpy()
