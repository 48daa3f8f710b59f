"""From rollouts to the batches that on-policy updates learn from."""

import numpy as np
import torch
from torch.distributions import kl_divergence

from spinup.algos.common.returns import discount_cumsum, gae
from spinup.algos.pytorch.common.nets import DiagonalNormal, MultiCategorical
from spinup.utils.mpi_pytorch import shard_mean


def tensor(x, device="cpu"):
    """A copy of an array as a tensor: floats as float32, integers as they are.

    A copy, because torch's own allocations are aligned and NumPy's are not, and the last bit of a
    matrix product may depend on that.
    """
    dtype = torch.float32 if np.issubdtype(x.dtype, np.floating) else None
    return torch.tensor(x, dtype=dtype, device=device)


def advantages(rollouts, ac, gamma, lam, shards, device="cpu"):
    """GAE-lambda advantages and rewards-to-go of everything that was collected.

    Returns one dict a rollout (that is, a local shard) of tensors with the batch as the first axis:
    `obs`, `act`, `ret`, `adv` (normalised over all shards), `logp` and `val` under the policy and
    the value function that the data was collected with.
    """
    reward_scale = _reward_scale(rollouts, ac, gamma, shards)
    data = []
    for rollout in rollouts:
        obs, act = (
            observations(rollout.flat(rollout.obs), device),
            tensor(rollout.flat(rollout.act), device),
        )
        val, final_val, logp = estimates(rollout, ac, obs, act, device)
        adv, ret = np.zeros(rollout.rew.shape), np.zeros(rollout.rew.shape)
        for path, last_val in zip(rollout.paths, final_val, strict=True):
            rows = slice(path.start, path.stop), path.i
            adv[rows], ret[rows] = gae(
                rollout.rew[rows] * reward_scale, val[rows], last_val, gamma, lam
            )
        flat = {"adv": adv, "ret": ret, "val": val, "logp": logp}
        batch = {name: tensor(rollout.flat(x), device) for name, x in flat.items()}
        data.append({"obs": obs, "act": act, **batch})
    for batch, adv in zip(data, normalized([b["adv"] for b in data], shards), strict=True):
        batch["adv"] = adv
    return data


def observations(x, device="cpu"):
    """Observations as float32, images too."""
    return torch.tensor(x, dtype=torch.float32, device=device)


def estimates(rollout, ac, obs, act, device="cpu"):
    """Values, values after the end of each path, and log-probabilities, from one call each.

    Returns `val` and `logp` as (steps, num_envs) arrays and a list with one number a path: 0 where
    the episode terminated, V(final observation) where it was only cut.
    """
    finals = [path.final_obs for path in rollout.paths if not path.terminated]
    with torch.no_grad():
        if rollout.val is None:
            every_obs = torch.cat([obs, observations(np.stack(finals), device)]) if finals else obs
            every_val = ac.v(every_obs).reshape(-1).cpu().numpy()
            val = unflat(rollout, every_val[: len(obs)])
            logp = unflat(rollout, ac.pi(obs, act)[1].reshape(-1).cpu().numpy())
            final_val = every_val[len(obs) :]
        else:
            val, logp = rollout.val, rollout.logp
            final_val = (
                ac.v(observations(np.stack(finals), device)).reshape(-1).cpu().numpy()
                if finals
                else np.zeros(0)
            )
    remaining = iter(final_val.tolist())
    return val, [0.0 if path.terminated else next(remaining) for path in rollout.paths], logp


def unflat(rollout, x):
    """The inverse of `rollout.flat` for one number an entry."""
    out = np.zeros(rollout.valid.shape, x.dtype)
    out[rollout.valid] = x
    return out


def normalized(parts, shards):
    """Subtract the mean over all shards, divide by the standard deviation over all shards.

    `parts` are vectors, one a local shard. A constant vector gives zeros; so does a batch of one.
    """
    count, total = shards.sum([np.array([x.numel(), float(x.double().sum())]) for x in parts])
    mean = total / count
    squares = shards.sum([np.array(float((x.double() - mean).square().sum())) for x in parts])
    std = float(np.sqrt(squares / count))
    # relative to the mean, or rounding noise in a constant vector would be blown up to size one
    floor = 1e-8 + 1e-6 * abs(float(mean))
    return [((x.double() - mean) / (std + floor)).float() for x in parts]


def _reward_scale(rollouts, ac, gamma, shards):
    """1, or with `normalize_ret` one over the standard deviation of discounted returns so far."""
    ret_filter = getattr(ac, "ret_filter", None)
    if ret_filter is None:
        return 1.0
    sums = []
    for rollout in rollouts:
        rets = [
            discount_cumsum(rollout.rew[p.start : p.stop, p.i][::-1], gamma) for p in rollout.paths
        ]
        x = np.concatenate(rets)
        sums.append(np.array([len(x), x.sum(), np.square(x).sum()]))
    total = torch.as_tensor(shards.sum(sums), device=ret_filter.std.device)
    ret_filter.update(total)
    return 1.0 / float(ret_filter.std)


def update_normalizer(ac, data, shards):
    """Add an epoch's observations to the statistics of the policy's observation filter, if any.

    Called after the update: while data is collected and learned from, the filter is fixed, so the
    probability ratios compare one policy with another and not two filters.
    """
    obs_filter = getattr(getattr(ac, "pi", None), "obs_filter", None)
    if getattr(obs_filter, "normalize", False):
        sums = [obs_filter.batch_sums(batch["obs"]) for batch in data]
        obs_filter.update(shard_mean(sums, shards) * shards.count)


def policy(ac, batch):
    """Distributions and log-probabilities (B,) of a batch: (pi, logp)."""
    pi, logp = ac.pi(batch["obs"], batch["act"])
    # A user's column (B, 1) minus a row (B,) would broadcast to a square without a word.
    return pi, logp.reshape(-1)


def values(ac, batch):
    """Values (B,) of a batch."""
    return ac.v(batch["obs"]).reshape(-1)


def entropy(pi):
    """Mean entropy of a batch of distributions, summed over the dimensions of an action."""
    ent = pi.entropy()
    return (ent.sum(-1) if ent.ndim > 1 else ent).mean()


def approx_kl(logp_old, logp):
    """KL(old || new) from samples of old: mean of (ratio - 1) - log ratio, never negative."""
    log_ratio = logp - logp_old
    return (log_ratio.exp() - 1 - log_ratio).mean()


def mean_kl(pi_old, pi, logp_old, logp):
    """Mean KL(old || new), in closed form where the distributions have one, else from samples.

    The second derivative of the sample form at `old` is the empirical Fisher matrix, so that a
    user's own distribution, which needs only `entropy()`, works in a trust region too.
    """
    if isinstance(pi, (DiagonalNormal, MultiCategorical)):
        return pi_old.kl(pi).mean()
    try:
        kl = kl_divergence(pi_old, pi)
    except (NotImplementedError, TypeError):
        return approx_kl(logp_old, logp)
    return (kl.sum(-1) if kl.ndim > 1 else kl).mean()
