"""PPO's networks, and the names that user code imports from here."""

from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical, Normal

from spinup.algos.common.minibatches import minibatches
from spinup.algos.common.returns import discount_cumsum
from spinup.algos.pytorch.common.nets import (
    Actor,
    MLPActorCritic,
    MLPCategoricalActor,
    MLPCritic,
    MLPGaussianActor,
    combined_shape,
    count_vars,
    mlp,
)
from spinup.algos.pytorch.common.path_buffer import PathBuffer as PPOBuffer

__all__ = [
    "Actor",
    "Box",
    "Categorical",
    "Discrete",
    "MLPActorCritic",
    "MLPCategoricalActor",
    "MLPCritic",
    "MLPGaussianActor",
    "Normal",
    "PPOBuffer",
    "combined_shape",
    "count_vars",
    "discount_cumsum",
    "minibatches",
    "mlp",
]
