"""VPG's networks, and the names that user code imports from here."""

from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical, Normal

from spinup.algos.common.returns import discount_cumsum
from spinup.algos.pytorch.common.advantages import PathBuffer as VPGBuffer
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
