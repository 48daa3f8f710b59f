"""TD3's networks, and the names that user code imports from here."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn

from spinup.algos.common.returns import combined_shape, discount_cumsum
from spinup.algos.pytorch.common.buffers import ReplayBuffer
from spinup.algos.pytorch.common.layers import count_vars, mlp, samples_pi
from spinup.algos.pytorch.common.qnets import MLPActor, MLPQFunction, bounds, shared_layers
from spinup.envs.bounds import require_finite_bounds


class MLPActorCritic(nn.Module):
    """A deterministic policy `pi` and two Q-functions, `q1` and `q2`.

    Args:
        observation_space: a Box of any shape. Images get an encoder; all others are flattened.
        action_space: a Box with finite bounds.
        hidden_sizes: widths of the hidden layers. Wider layers can fit more and are slower;
            (64, 64) to (400, 300) are usual. None means (256, 256), also after an encoder.
        activation: activation class of the hidden layers.
        encoder: how images are read: 'nature' (from 36 pixels on), 'small', 'auto' (one of these),
            'flat' (no encoder), or a class that makes a module. The critics train it.
    """

    HIDDEN_SIZES = (256, 256)

    def __init__(
        self,
        observation_space,
        action_space,
        hidden_sizes=None,
        activation=nn.ReLU,
        encoder="auto",
    ):
        super().__init__()
        require_finite_bounds("td3", action_space)
        obs_dim, hidden_sizes, (for_pi, for_q1, for_q2) = shared_layers(
            observation_space, encoder, hidden_sizes, self.HIDDEN_SIZES
        )
        act_dim = int(np.prod(action_space.shape))
        sizes = (obs_dim, act_dim, hidden_sizes, activation)
        self.action_space = action_space
        self.pi = MLPActor(*sizes, *bounds(action_space), for_pi)
        self.q1 = MLPQFunction(*sizes, for_q1)
        self.q2 = MLPQFunction(*sizes, for_q2)

    @samples_pi
    def act(self, obs):
        """Return the policy's action for one observation or a batch, as an array."""
        with torch.no_grad():
            return self.pi(obs).cpu().numpy()
