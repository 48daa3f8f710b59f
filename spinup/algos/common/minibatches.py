"""Splitting an epoch's batches into shuffled minibatches."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from spinup.parallel.mpi import Shards, most

Batch = dict[str, Any]  # names -> tensors or arrays


def minibatches(
    batches: list[Batch], passes: int, size: int | None, rngs: Any, shards: Shards
) -> Iterator[list[Batch]]:
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
