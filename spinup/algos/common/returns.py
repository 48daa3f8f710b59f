"""Discounted sums and generalized advantage estimation (GAE), on NumPy arrays."""

from typing import Any

import numpy as np


def discount_cumsum(x: Any, discount: float) -> np.ndarray:
    """Compute discounted cumulative sums: `out[t] = x[t] + discount * out[t + 1]`.

    Input: `[x0, x1, x2]`. Output: `[x0 + g x1 + g^2 x2, x1 + g x2, x2]`, float64, summed over the
    first axis. In one dimension, a loop over Python floats is faster than one NumPy call per step.
    """
    x = np.asarray(x, dtype=np.float64)
    if x.ndim == 1:
        total, out = 0.0, []
        for value in reversed(x.tolist()):
            total = value + discount * total
            out.append(total)
        out.reverse()
        return np.array(out, dtype=np.float64)
    sums = np.zeros_like(x)
    running = np.zeros(x.shape[1:])
    for t in reversed(range(len(x))):
        running = x[t] + discount * running
        sums[t] = running
    return sums


def gae(
    rew: np.ndarray, val: np.ndarray, last_val: float, gamma: float, lam: float
) -> tuple[np.ndarray, np.ndarray]:
    """Compute the advantages and rewards-to-go of one path of T steps.

    Args:
        rew: rewards, (T,).
        val: V(s_t) of the visited states, (T,).
        last_val: value of the state after the last step: 0 if the episode terminated there,
            V(final observation) if the path was truncated by a time limit or the end of the epoch.
        gamma: discount factor.
        lam: lambda of GAE; 1 gives Monte Carlo advantages, 0 one-step TD errors.

    Returns:
        (adv, ret): adv_t = sum_l (gamma lam)^l delta_{t+l} with
        delta_t = r_t + gamma V(s_{t+1}) - V(s_t) (Schulman et al. 2016, eq. 16), and
        ret_t = r_t + gamma r_{t+1} + ... + gamma^{T-t} last_val, the value function's target.
    """
    rew = np.asarray(rew, dtype=np.float64)
    val = np.append(np.asarray(val, dtype=np.float64), last_val)
    delta = rew + gamma * val[1:] - val[:-1]
    adv = discount_cumsum(delta, gamma * lam)
    ret = discount_cumsum(np.append(rew, last_val), gamma)[:-1]
    return adv, ret


def combined_shape(length: int | None, shape: Any = None) -> tuple[Any, ...]:
    """Return a buffer's shape: `length` entries of `shape` (None, an int or a tuple)."""
    if shape is None:
        return (length,)
    return (length, shape) if np.isscalar(shape) else (length, *shape)
