"""What PPO needs from a network, and the helpers its file uses."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical, Normal

from spinup.algos.common.returns import discount_cumsum
from spinup.algos.common.schedules import linear_schedule
from spinup.algos.pytorch.common.buffers import PathBuffer as PPOBuffer
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
    "PPOBuffer",
    "Tanh",
    "TorchRun",
    "advantages",
    "approx_kl",
    "backward",
    "clipped_step",
    "combined_shape",
    "count_vars",
    "discount_cumsum",
    "entropy",
    "evaluate",
    "linear_schedule",
    "minibatches",
    "mlp",
    "policy",
    "update_normalizer",
    "values",
]


def minibatches(data, passes, size, rngs, shards):
    """What each gradient step learns from: all of `data`, `passes` times, or shuffled pieces of it.

    `data` holds one batch a local shard. Each is shuffled by its own generator and cut into the
    same number of nearly equal pieces, so that a minibatch has about `size` rows over all shards.
    """
    if size is not None:
        rows = float(shards.sum([np.array(float(len(b["obs"]))) for b in data]))
        count = max(1, -int(-rows // size))
    for _ in range(passes):
        if size is None:
            yield data
            continue
        orders = [rng.permutation(len(b["obs"])) for rng, b in zip(rngs, data, strict=True)]
        for piece in zip(*(np.array_split(order, count) for order in orders), strict=True):
            yield [{k: x[rows] for k, x in b.items()} for rows, b in zip(piece, data, strict=True)]


def clipped_step(optimizer, max_grad_norm):
    """A step of the optimizer, the gradient shortened to `max_grad_norm` unless that is None."""
    if max_grad_norm is not None:
        params = [p for group in optimizer.param_groups for p in group["params"]]
        torch.nn.utils.clip_grad_norm_(params, max_grad_norm)
    optimizer.step()
