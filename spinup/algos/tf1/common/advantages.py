"""Converting an epoch's data to the batches that on-policy updates learn from.

While the policy is fixed, acting needs only actions. The values and log-probabilities of all steps
in an epoch are computed afterwards in one batched call, which is much faster.
"""

import numpy as np

from spinup.algos.common import path_buffer
from spinup.algos.common.rollout import EpochBuffer as Epochs
from spinup.algos.tf1.common import layers
from spinup.algos.tf1.common.graph import Function


class EpochBuffer(Epochs):
    """Stores an epoch's steps and computes GAE-lambda advantages and rewards-to-go."""

    def __init__(self, run, loop, ac):
        super().__init__(run, loop)
        self.run, self.dtypes = run, {k: x.dtype.as_numpy_dtype for k, x in run.batch().items()}
        self.value = Function({"obs": ac.obs}, layers.flat(ac.v))
        self.logp = Function({"obs": ac.obs, "act": ac.act}, layers.flat(ac.logp))

    def get(self, gamma, lam):
        """Return one batch per local shard, a dict of arrays whose first axis is the batch.

        It contains `obs`, `act`, `ret`, `adv` (normalized over all shards), and the `logp` and
        `val` of the policy and the value function that collected the data.
        """
        reward_scale = self._reward_scale(gamma)
        batches = []
        for rollout, rng in zip(self.rollouts, self.run.explore_rngs, strict=True):
            obs = rollout.flat(rollout.obs).astype(self.dtypes["obs"])
            act = rollout.flat(rollout.act).astype(self.dtypes["act"])
            val, last_vals = self._values(rollout, obs, rng)
            adv, ret = rollout.advantages(val, last_vals, reward_scale, gamma, lam)
            rows = {"adv": adv, "ret": ret, "val": val}
            batch = {name: rollout.flat(x).astype(np.float32) for name, x in rows.items()}
            logp = self.logp({"obs": obs, "act": act}, rng)
            batches.append({"obs": obs, "act": act, "logp": logp, **batch})
        self.shards.weigh([len(batch["obs"]) for batch in batches])
        self.keep(batches)
        normalize_advantages(batches, self.shards)
        return batches

    def _values(self, rollout, obs, rng):
        """Return the values, (steps, num_envs), and the value after the end of each path.

        The latter is 0 if the episode terminated, V(last observation) if the path was truncated.
        `rng` is used only if a user's networks are random.
        """
        last_obs = [x[None] for x in rollout.last_obs]
        every = self.value({"obs": np.concatenate([obs, *last_obs]).astype(obs.dtype)}, rng)
        return rollout.unflat(every[: len(obs)]), rollout.after(every[len(obs) :])

    def _reward_scale(self, gamma):
        """Return 1 or, with `normalize_ret`, 1 / (standard deviation of the discounted returns)."""
        variables = self.run.variables
        if "ret_filter/sums" not in variables.names:
            return 1.0
        sums = variables.get("ret_filter/sums") + self.shards.sum(self.return_sums(gamma))
        std = float(_mean_and_std(sums)[1][0])
        variables.set({"ret_filter/sums": sums, "ret_filter/std": np.array(std)})
        return 1.0 / std


def normalize_advantages(batches, shards):
    """Normalize `adv` to mean 0 and standard deviation 1 over all shards.

    A constant vector becomes zeros, and so does a batch of one.
    """
    parts = [batch["adv"].astype(np.float64) for batch in batches]
    count, total = shards.sum([np.array([len(x), x.sum()]) for x in parts])
    mean = total / count
    squares = shards.sum([np.array(np.square(x - mean).sum()) for x in parts])
    # relative to the mean: otherwise, rounding noise in a constant vector would be scaled up to 1
    floor = 1e-8 + 1e-6 * abs(float(mean))
    for batch, x in zip(batches, parts, strict=True):
        batch["adv"] = ((x - mean) / (np.sqrt(squares / count) + floor)).astype(np.float32)


def update_normalizer(run, batches):
    """Add an epoch's observations to the statistics of the policy's observation filter, if any.

    Call this after the update. The filter stays fixed while data is collected and learned from, so
    that the probability ratios compare two policies, not two filters.
    """
    if "obs_filter/sums" not in run.variables.names:
        return
    parts = []
    for batch in batches:
        x = batch["obs"].reshape(len(batch["obs"]), -1).astype(np.float64)
        parts.append(np.concatenate([[len(x)], x.sum(0), np.square(x).sum(0)]))
    sums = run.variables.get("obs_filter/sums") + run.shards.sum(parts)
    mean, std = _mean_and_std(sums)
    new = {"sums": sums, "mean": mean.astype(np.float32), "std": std.astype(np.float32)}
    run.variables.set({f"obs_filter/{name}": x for name, x in new.items()})


def _mean_and_std(sums):
    """Return mean and standard deviation (1 if there is none beyond rounding errors).

    `sums` contains the count, the sums and the sums of squares.
    """
    dim = len(sums) // 2
    mean = sums[1 : dim + 1] / sums[0]
    var = sums[dim + 1 :] / sums[0] - np.square(mean)
    return mean, np.sqrt(np.where(var > 1e-30 + 1e-12 * np.square(mean), var, 1.0))


class PathBuffer(path_buffer.PathBuffer):
    """The buffer from `spinup.algos.common.path_buffer`, with batches as lists of arrays."""

    def get(self):
        """Return [obs, act, adv, ret, logp], with `adv` normalized; empty the buffer."""
        data = self.take()
        return [data[name] for name in ("obs", "act", "adv", "ret", "logp")]
