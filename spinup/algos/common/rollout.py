"""The data that an on-policy algorithm collects in one epoch, and minibatches of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spinup.algos.common.returns import discount_cumsum, gae
from spinup.envs.spaces import act_dtype, action_shape, stored_dtype
from spinup.parallel.mpi import Shards, most

if TYPE_CHECKING:
    from spinup.algos.common.loop import Loop
    from spinup.runs.run import Run


class Path(NamedTuple):
    """A segment of one episode: rows `start` to `stop` - 1 of environment `i`.

    `last_obs` is the observation to bootstrap from, or None if the episode terminated. `ended` is
    False if only the end of the epoch cut the path, so that its episode continues.
    """

    i: int
    start: int
    stop: int
    last_obs: np.ndarray | None
    ended: bool = True

    @property
    def rows(self) -> tuple[slice, int]:
        """The path's index in a (steps, num_envs) array."""
        return slice(self.start, self.stop), self.i


class Rollout:
    """One shard's transitions: `steps` rows of `num_envs` transitions each."""

    def __init__(self, streams: Any, steps: int):
        n = streams.num_envs
        shape, space = tuple(streams.observation_space.shape or ()), streams.action_space
        self.steps, self.num_envs = steps, n
        self.t = 0  # rows filled so far
        self.obs = np.zeros((steps, n, *shape), stored_dtype(streams.observation_space))
        self.act = np.zeros((steps, n, *action_shape(space)), act_dtype(space))
        self.rew = np.zeros((steps, n))
        self.valid = np.ones((steps, n), dtype=bool)  # False if the step was used for a reset
        self.val: np.ndarray | None = None  # filled only if the policy returns values while acting
        self.logp: np.ndarray | None = None
        self.paths: list[Path] = []
        self._start = [0] * n
        # What the episodes that began in earlier epochs have returned so far, discounted.
        self.earlier = np.zeros(n)

    def clear(self) -> None:
        """Empty the rollout for the next epoch."""
        self.t = 0
        self.paths = []
        self._start = [0] * self.num_envs
        self.valid[:] = True

    def store(
        self,
        obs: np.ndarray,
        act: np.ndarray,
        rew: np.ndarray,
        val: Any = None,
        logp: Any = None,
        took: np.ndarray | None = None,
    ) -> None:
        """Append one row. An environment whose `took` is False took no step and has no entry."""
        t, row = self.t, slice(None) if took is None else took
        self.obs[t, row] = obs
        self.act[t, row] = act if self.act.ndim <= 3 else np.reshape(act, (-1, *self.act.shape[2:]))
        self.rew[t, row] = rew
        if val is not None:
            self._keep_estimates()
            self.val[t], self.logp[t] = np.reshape(val, -1), np.reshape(logp, -1)  # type: ignore[index]
        self.t = t + 1
        if took is not None:
            self.valid[t] = took
            for i in np.flatnonzero(~took).tolist():
                self._start[i] = self.t  # a reset is not part of any path

    def finish_path(self, i: int, last_obs: np.ndarray | None, ended: bool = True) -> None:
        """End environment i's path at the last stored row.

        `last_obs` is the observation to bootstrap from; None means that the episode terminated.
        `ended` is False if the episode continues in the next epoch.
        """
        if self.t > self._start[i]:
            kept = None if last_obs is None else last_obs.copy()
            self.paths.append(Path(i, self._start[i], self.t, kept, ended))
        elif self.t == 0:  # an episode of the last epoch that could not be resumed
            self.earlier[i] = 0.0
        self._start[i] = self.t

    @property
    def last_obs(self) -> list[np.ndarray]:
        """The observations to bootstrap from, of the paths that were truncated."""
        return [path.last_obs for path in self.paths if path.last_obs is not None]

    def after(self, last_vals: np.ndarray) -> list[float]:
        """Return the value after each path: 0 if the episode terminated, else V(last_obs)."""
        remaining = iter(last_vals.tolist())
        return [0.0 if path.last_obs is None else next(remaining) for path in self.paths]

    def advantages(
        self, val: np.ndarray, after: list[float], reward_scale: float, gamma: float, lam: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the GAE-lambda advantages and rewards-to-go of all paths, (steps, num_envs)."""
        adv, ret = np.zeros(self.rew.shape), np.zeros(self.rew.shape)
        for path, last_val in zip(self.paths, after, strict=True):
            rew = self.rew[path.rows] * reward_scale
            adv[path.rows], ret[path.rows] = gae(rew, val[path.rows], last_val, gamma, lam)
        return adv, ret

    def discounted_returns(self, gamma: float) -> np.ndarray:
        """Return r_t + gamma r_(t-1) + ... for every step, back to the start of its episode.

        The sums of episodes that continue are kept for the next epoch, so call this once per epoch,
        after its last step.
        """
        earlier, sums = self.earlier, []
        self.earlier = np.zeros(self.num_envs)
        for path in self.paths:
            rew = self.rew[path.rows].copy()
            if path.start == 0:
                rew[0] += gamma * earlier[path.i]
            sums.append(discount_cumsum(rew[::-1], gamma))  # the last step comes first
            self.earlier[path.i] = 0.0 if path.ended else sums[-1][0]
        return np.concatenate(sums)

    def flat(self, x: np.ndarray) -> np.ndarray:
        """Flatten the valid entries of a (steps, num_envs, ...) array into one batch axis."""
        return x[self.valid] if not self.valid.all() else x.reshape(-1, *x.shape[2:])

    def unflat(self, x: np.ndarray) -> np.ndarray:
        """Invert `flat`, for one number per entry."""
        out = np.zeros(self.valid.shape, x.dtype)
        out[self.valid] = x
        return out

    def _keep_estimates(self) -> None:
        if self.val is None or self.logp is None:
            self.val = np.zeros((self.steps, self.num_envs), np.float32)
            self.logp = np.zeros((self.steps, self.num_envs), np.float32)

    def state_dict(self) -> dict[str, Any]:
        """Return the data collected so far in this epoch."""
        t = self.t
        return {
            "t": t,
            "obs": self.obs[:t].copy(),
            "act": self.act[:t].copy(),
            "rew": self.rew[:t].copy(),
            "valid": self.valid[:t].copy(),
            "val": None if self.val is None else self.val[:t].copy(),
            "logp": None if self.logp is None else self.logp[:t].copy(),
            "start": list(self._start),
            "paths": [[p.i, p.start, p.stop, p.ended, p.last_obs] for p in self.paths],
            "earlier": self.earlier.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue an interrupted epoch."""
        t = self.t = state["t"]
        for name in ("obs", "act", "rew", "valid"):
            getattr(self, name)[:t] = state[name]
        for name in ("val", "logp"):
            if state[name] is not None:
                self._keep_estimates()
                getattr(self, name)[:t] = state[name]
        self._start = list(state["start"])
        new = "earlier" in state  # version 0.1.0 saved neither this nor whether a path ended
        self.paths = [
            Path(i, start, stop, obs, end or not new) for i, start, stop, end, obs in state["paths"]
        ]
        self.earlier[:] = state["earlier"] if new else 0.0


class EpochBuffer:
    """An epoch's steps: one rollout per local shard; `store` writes to the active shard's."""

    def __init__(self, run: Run, loop: Loop):
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


def minibatches(
    batches: list[dict[str, Any]], passes: int, size: int | None, rngs: Any, shards: Shards
) -> Iterator[list[dict[str, Any]]]:
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
