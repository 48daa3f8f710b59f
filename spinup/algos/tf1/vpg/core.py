"""VPG's networks, and the names that user code imports from here."""

from gymnasium.spaces import Box, Discrete

from spinup.algos.common.returns import combined_shape, discount_cumsum
from spinup.algos.tf1.common.advantages import PathBuffer as VPGBuffer
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
