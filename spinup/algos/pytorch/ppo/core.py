"""PPO's networks and minibatches, and the names that user code imports from here."""

import numpy as np
from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical, Normal

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
from spinup.utils.mpi_tools import most

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


def minibatches(batches, passes, size, rngs, shards):
    """Yield each gradient step's data: the whole batch or shuffled minibatches, `passes` times.

    `batches` contains one batch per local shard. Each is shuffled with its own RNG and split into
    the same number of nearly equal parts. A minibatch has about `size` rows over all shards, and at
    least one row of each.
    """
    if size is not None:
        rows = float(shards.sum([np.array(float(len(b["obs"]))) for b in batches]))
        fewest = -most(-min(len(b["obs"]) for b in batches))
        count = min(max(1, -int(-rows // size)), fewest)
    for _ in range(passes):
        if size is None:
            yield batches
            continue
        orders = [rng.permutation(len(b["obs"])) for rng, b in zip(rngs, batches, strict=True)]
        for piece in zip(*(np.array_split(order, count) for order in orders), strict=True):
            yield [
                {k: x[rows] for k, x in b.items()} for rows, b in zip(piece, batches, strict=True)
            ]
