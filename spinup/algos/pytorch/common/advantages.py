"""From what an epoch gathered to the batches that on-policy updates learn from.

While the policy is fixed, acting needs only actions. Values and log-probabilities of all the states
and actions of an epoch come from one batched call afterwards, which is what makes this fast.
"""

import numpy as np
import torch

from spinup.algos.common.returns import discount_cumsum, gae
from spinup.algos.common.rollout import Rollout
from spinup.utils.mpi_pytorch import shard_mean


class EpochBuffer:
    """Stores the steps of an epoch and computes GAE-lambda advantages and rewards-to-go.

    It holds one rollout per local shard, and stores into that of the shard whose turn it is.
    """

    def __init__(self, run, loop):
        self.loop, self.shards, self.device = loop, run.shards, run.device
        steps = run.steps_per_shard // loop.num_envs
        self.rollouts = run.rollouts = [Rollout(streams, steps) for streams in run.streams]

    def store(self, obs, act, rew, val=None, logp=None):
        """Append one step of every environment."""
        loop = self.loop
        self.rollouts[loop.shard].store(obs, act, rew, val, logp, loop.took)

    def finish_path(self, i, last_obs):
        """The path of environment i ends with the step stored last.

        `last_obs` is None if the episode terminated, so that nothing follows. If the path was only
        cut, V(last_obs) stands for the rewards that would have followed.
        """
        self.rollouts[self.loop.shard].finish_path(i, last_obs)

    def get(self, ac, gamma, lam):
        """The batch of each local shard, a dict of tensors with the batch as the first axis.

        It holds `obs`, `act`, `ret`, `adv` (normalized over all shards), and `logp` and `val` under
        the policy and the value function that the data was collected with.
        """
        reward_scale = _reward_scale(self.rollouts, ac, gamma, self.shards)
        batches = []
        for rollout in self.rollouts:
            obs, act = observations(rollout, self.device), actions(rollout, self.device)
            val, last_vals, logp = estimates(rollout, ac, obs, act, self.device)
            adv, ret = np.zeros(rollout.rew.shape), np.zeros(rollout.rew.shape)
            for path, last_val in zip(rollout.paths, last_vals, strict=True):
                rew = rollout.rew[path.rows] * reward_scale
                adv[path.rows], ret[path.rows] = gae(rew, val[path.rows], last_val, gamma, lam)
            found = {"adv": adv, "ret": ret, "val": val, "logp": logp}
            batch = {name: tensor(rollout.flat(x), self.device) for name, x in found.items()}
            batches.append({"obs": obs, "act": act, **batch})
        normalize_advantages(batches, [batch["adv"] for batch in batches], self.shards)
        return batches


def tensor(x, device="cpu"):
    """A copy of an array as a tensor: floats as float32, integers as they are.

    A copy, because torch's own allocations are aligned and NumPy's are not, and the last bit of a
    matrix product may depend on that.
    """
    dtype = torch.float32 if np.issubdtype(x.dtype, np.floating) else None
    return torch.tensor(x, dtype=dtype, device=device)


def observations(rollout, device="cpu"):
    """The observations of a rollout as float32, images too."""
    return torch.tensor(rollout.flat(rollout.obs), dtype=torch.float32, device=device)


def actions(rollout, device="cpu"):
    """The actions of a rollout as they were sampled."""
    return tensor(rollout.flat(rollout.act), device)


def estimates(rollout, ac, obs, act, device="cpu"):
    """Values, values after the end of each path, and log-probabilities, from one call each.

    Returns `val` and `logp` as (steps, num_envs) arrays and a list with one number per path: 0
    where the episode terminated, V(last observation) where it was only cut.
    """
    last_obs = [path.last_obs for path in rollout.paths if path.last_obs is not None]
    last = (
        [torch.tensor(np.stack(last_obs), dtype=torch.float32, device=device)] if last_obs else []
    )
    with torch.no_grad():
        if rollout.val is None:
            every_val = ac.v(torch.cat([obs, *last])).reshape(-1).cpu().numpy()
            val, last_val = rollout.unflat(every_val[: len(obs)]), every_val[len(obs) :]
            logp = rollout.unflat(ac.pi(obs, act)[1].reshape(-1).cpu().numpy())
        else:
            val, logp = rollout.val, rollout.logp
            last_val = ac.v(*last).reshape(-1).cpu().numpy() if last else np.zeros(0)
    remaining = iter(last_val.tolist())
    after = [0.0 if path.last_obs is None else next(remaining) for path in rollout.paths]
    return val, after, logp


def normalize_advantages(batches, parts, shards):
    """Set `adv` to `parts`, minus their mean over all shards, over their standard deviation.

    A constant vector gives zeros; so does a batch of one.
    """
    count, total = shards.sum([np.array([x.numel(), float(x.double().sum())]) for x in parts])
    mean = total / count
    squares = shards.sum([np.array(float((x.double() - mean).square().sum())) for x in parts])
    std = float(np.sqrt(squares / count))
    # relative to the mean, or rounding noise in a constant vector would be blown up to size one
    floor = 1e-8 + 1e-6 * abs(float(mean))
    for batch, x in zip(batches, parts, strict=True):
        batch["adv"] = ((x.double() - mean) / (std + floor)).float()


def _reward_scale(rollouts, ac, gamma, shards):
    """1, or with `normalize_ret` one over the standard deviation of discounted returns so far."""
    ret_filter = getattr(ac, "ret_filter", None)
    if ret_filter is None:
        return 1.0
    sums = []
    for rollout in rollouts:
        x = np.concatenate(
            [discount_cumsum(rollout.rew[p.rows][::-1], gamma) for p in rollout.paths]
        )
        sums.append(np.array([len(x), x.sum(), np.square(x).sum()]))
    total = torch.as_tensor(shards.sum(sums), device=ret_filter.std.device)
    ret_filter.update(total)
    return 1.0 / float(ret_filter.std)


def update_normalizer(ac, batches, shards):
    """Add an epoch's observations to the statistics of the policy's observation filter, if any.

    Called after the update: while data is collected and learned from, the filter is fixed, so the
    probability ratios compare one policy with another and not two filters.
    """
    obs_filter = getattr(getattr(ac, "pi", None), "obs_filter", None)
    if getattr(obs_filter, "normalize", False):
        sums = [obs_filter.batch_sums(batch["obs"]) for batch in batches]
        obs_filter.update(shard_mean(sums, shards) * shards.count)
