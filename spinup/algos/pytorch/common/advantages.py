"""Converting an epoch's data to the batches that on-policy updates learn from.

While the policy is fixed, acting needs only actions. The values and log-probabilities of all steps
in an epoch are computed afterwards in one batched call, which is much faster.
"""

import numpy as np
import torch

from spinup.algos.common import path_buffer
from spinup.algos.common.rollout import EpochBuffer as Epochs
from spinup.algos.pytorch.common.layers import takes_bytes


class EpochBuffer(Epochs):
    """Stores an epoch's steps and computes GAE-lambda advantages and rewards-to-go."""

    def get(self, ac, gamma, lam):
        """Return one batch per local shard, a dict of tensors whose first axis is the batch.

        It contains `obs`, `act`, `ret`, `adv` (normalized over all shards), and the `logp` and
        `val` of the policy and the value function that collected the data.
        """
        reward_scale = self._reward_scale(ac, gamma)
        batches = []
        for rollout in self.rollouts:
            obs, act = observations(rollout, ac, self.device), actions(rollout, self.device)
            val, last_vals, logp = estimates(rollout, ac, obs, act, self.device)
            adv, ret = rollout.advantages(val, last_vals, reward_scale, gamma, lam)
            found = {"adv": adv, "ret": ret, "val": val, "logp": logp}
            batch = {name: tensor(rollout.flat(x), self.device) for name, x in found.items()}
            batches.append({"obs": obs, "act": act, **batch})
        self.shards.weigh([len(batch["obs"]) for batch in batches])
        self.keep(batches)
        normalize_advantages(batches, [batch["adv"] for batch in batches], self.shards)
        return batches

    def _reward_scale(self, ac, gamma):
        """Return 1 or, with `normalize_ret`, 1 / (standard deviation of the discounted returns)."""
        ret_filter = getattr(ac, "ret_filter", None)
        if ret_filter is None:
            return 1.0
        total = self.shards.sum(self.return_sums(gamma))
        ret_filter.update(torch.as_tensor(total, device=ret_filter.std.device))
        return 1.0 / float(ret_filter.std)


def tensor(x, device="cpu"):
    """Copy an array to a tensor: floats become float32, integers keep their dtype.

    The data is copied because torch aligns its memory and NumPy does not, and the last bit of a
    matrix product may depend on the alignment.
    """
    dtype = torch.float32 if np.issubdtype(x.dtype, np.floating) else None
    return torch.tensor(x, dtype=dtype, device=device)


def observations(rollout, ac, device="cpu"):
    """Return a rollout's observations as float32, or images as bytes if the networks take them."""
    dtype = None if takes_bytes(ac) else torch.float32
    return torch.tensor(rollout.flat(rollout.obs), dtype=dtype, device=device)


def actions(rollout, device="cpu"):
    """Return a rollout's actions as sampled, before clipping."""
    return tensor(rollout.flat(rollout.act), device)


def estimates(rollout, ac, obs, act, device="cpu"):
    """Return values, the value after the end of each path, and log-probs: (val, after, logp).

    `val` and `logp` are (steps, num_envs) arrays. `after` has one number per path: 0 if the episode
    terminated, V(last observation) if the path was truncated.
    """
    last_obs = rollout.last_obs
    last = [torch.tensor(np.stack(last_obs), dtype=obs.dtype, device=device)] if last_obs else []
    with torch.no_grad():
        if rollout.val is None:
            every_val = ac.v(torch.cat([obs, *last])).reshape(-1).cpu().numpy()
            val, last_val = rollout.unflat(every_val[: len(obs)]), every_val[len(obs) :]
            logp = rollout.unflat(ac.pi(obs, act)[1].reshape(-1).cpu().numpy())
        else:
            val, logp = rollout.val, rollout.logp
            last_val = ac.v(*last).reshape(-1).cpu().numpy() if last else np.zeros(0)
    return val, rollout.after(last_val), logp


def wide(x):
    """Convert to float64, on the CPU if the device has no such numbers."""
    return (x.cpu() if x.device.type == "mps" else x).double()


def normalize_advantages(batches, parts, shards):
    """Set `adv` to `parts`, normalized to mean 0 and standard deviation 1 over all shards.

    A constant vector becomes zeros, and so does a batch of one.
    """
    count, total = shards.sum([np.array([x.numel(), float(wide(x).sum())]) for x in parts])
    mean = total / count
    squares = shards.sum([np.array(float((wide(x) - mean).square().sum())) for x in parts])
    std = float(np.sqrt(squares / count))
    # relative to the mean: otherwise, rounding noise in a constant vector would be scaled up to 1
    floor = 1e-8 + 1e-6 * abs(float(mean))
    for batch, x in zip(batches, parts, strict=True):
        batch["adv"] = ((wide(x) - mean) / (std + floor)).float().to(x.device)


def update_normalizer(ac, batches, shards):
    """Add an epoch's observations to the statistics of the policy's observation filter, if any.

    Call this after the update. The filter stays fixed while data is collected and learned from, so
    that the probability ratios compare two policies, not two filters.
    """
    obs_filter = getattr(getattr(ac, "pi", None), "obs_filter", None)
    if getattr(obs_filter, "normalize", False):
        sums = [obs_filter.batch_sums(batch["obs"]) for batch in batches]
        total = shards.sum([x.cpu().numpy() for x in sums])
        obs_filter.update(torch.as_tensor(total, device=obs_filter.sums.device))


class PathBuffer(path_buffer.PathBuffer):
    """The buffer from `spinup.algos.common.path_buffer`, with batches of tensors."""

    def get(self):
        """Return the whole buffer as float32 tensors, with `adv` normalized; empty the buffer."""
        return {k: torch.tensor(v, dtype=torch.float32) for k, v in self.take().items()}
