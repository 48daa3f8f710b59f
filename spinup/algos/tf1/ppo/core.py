"""PPO's networks, and the names that user code imports from here."""

from gymnasium.spaces import Box, Discrete

from spinup.algos.common.minibatches import minibatches
from spinup.algos.common.returns import discount_cumsum
from spinup.algos.common.shapes import combined_shape
from spinup.algos.tf1.common.layers import (
    count_vars,
    gaussian_likelihood,
    get_vars,
    mlp,
    placeholder,
    placeholder_from_space,
    placeholders,
    placeholders_from_spaces,
)
from spinup.algos.tf1.common.nets import (
    mlp_actor_critic,
    mlp_categorical_policy,
    mlp_gaussian_policy,
)
from spinup.algos.tf1.common.path_buffer import PathBuffer as PPOBuffer
