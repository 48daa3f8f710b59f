"""Storing an on-policy epoch's steps; the backends compute values and advantages from them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from spinup.algos.common.rollout import Rollout


class EpochBuffer:
    """An epoch's steps: one rollout per local shard; `store` writes to the active shard's."""

    def __init__(self, run: Any, loop: Any):
        self.loop, self.shards, self.device = loop, run.shards, run.device
        loop.buffer = self
        steps = run.steps_per_shard // loop.num_envs
        self.rollouts = run.rollouts = [Rollout(streams, steps) for streams in run.streams]

    def store(
        self, obs: np.ndarray, act: np.ndarray, rew: np.ndarray, val: Any = None, logp: Any = None
    ) -> None:
        """Append one step of every environment."""
        loop = self.loop
        self.rollouts[loop.shard].store(obs, act, rew, val, logp, loop.took)

    def finish_path(self, i: int, last_obs: np.ndarray | None) -> None:
        """End environment i's path at the last stored step.

        `last_obs` is None if the episode terminated: no reward follows. If the path was truncated,
        V(last_obs) estimates the rewards that would have followed.
        """
        self.rollouts[self.loop.shard].finish_path(i, last_obs, i in self.loop.ended)

    def keep(self, batches: Sequence[Mapping[str, Any]]) -> None:
        """Keep the epoch's batches as they are now for `diagnostics.txt`: `adv` not normalized."""
        self.batches = [dict(batch) for batch in batches]

    def return_sums(self, gamma: float) -> list[np.ndarray]:
        """Return each shard's count, sum and sum of squares of its discounted returns so far."""
        sums = []
        for rollout in self.rollouts:
            x = rollout.discounted_returns(gamma)
            sums.append(np.array([len(x), x.sum(), np.square(x).sum()]))
        return sums
