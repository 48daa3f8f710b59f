"""What VPG needs from a network, and the helpers its file uses."""

from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical, Normal

from spinup.algos.common.returns import discount_cumsum
from spinup.algos.pytorch.common.buffers import PathBuffer as VPGBuffer
from spinup.algos.pytorch.common.nets import (
    Actor,
    MLPActorCritic,
    MLPCategoricalActor,
    MLPCritic,
    MLPGaussianActor,
    Tanh,
    combined_shape,
    count_vars,
    mlp,
)
from spinup.algos.pytorch.common.onpolicy import (
    advantages,
    approx_kl,
    entropy,
    policy,
    update_normalizer,
    values,
)
from spinup.algos.pytorch.common.run import TorchRun
from spinup.utils.mpi_pytorch import backward, evaluate

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
    "Tanh",
    "TorchRun",
    "VPGBuffer",
    "advantages",
    "approx_kl",
    "backward",
    "combined_shape",
    "count_vars",
    "discount_cumsum",
    "entropy",
    "evaluate",
    "mlp",
    "policy",
    "update_normalizer",
    "values",
]
