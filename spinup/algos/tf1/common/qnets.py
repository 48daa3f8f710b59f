"""Networks that the off-policy algorithms share: Q-functions, and policies with bounded actions.

Actions are in a Box whose bounds may differ by dimension and need not be symmetric. A policy
computes in (-1, 1); its output is scaled by half the width of the range and shifted to its center.
"""

import math

import numpy as np

from spinup.algos.tf1.common.layers import HALF_LOG_2PI, dense, mlp, remember
from spinup.utils.tf import tf

LOG_STD_MIN, LOG_STD_MAX = -20, 2


def bounds(action_space):
    """Return (half the width, center) of every dimension of a Box, as flat float32 arrays."""
    low, high = action_space.low.reshape(-1), action_space.high.reshape(-1)
    return ((high - low) / 2).astype(np.float32), ((high + low) / 2).astype(np.float32)


def action_limits(action_space):
    """Return (low, high) of every dimension of a Box, as flat float32 arrays."""
    return tuple(x.reshape(-1).astype(np.float32) for x in (action_space.low, action_space.high))


def flat_act(a):
    """Flatten actions with several axes: (B, ...) -> (B, act)."""
    dim = int(np.prod(a.shape.as_list()[1:]))
    return a if len(a.shape) == 2 else tf.reshape(a, (-1, dim))


def mlp_q_function(x, a, hidden_sizes, activation):
    """Build Q(s, a), (B,), with a linear output layer, because values may be negative."""
    q = mlp(tf.concat([x, flat_act(a)], axis=-1), [*hidden_sizes, 1], activation, None)
    return tf.squeeze(q, axis=1)


def mlp_deterministic_policy(x, hidden_sizes, activation, output_activation, action_space):
    """Build a deterministic policy, (B, act): the last layer's tanh, scaled to the bounds."""
    scale, center = bounds(action_space)
    squashed = mlp(x, [*hidden_sizes, len(scale)], activation, output_activation)
    pi = center + scale * squashed
    remember(pi, pi, None, {}, "deterministic", layers=squashed, scale=scale, center=center)
    return pi


def mlp_squashed_policy(x, hidden_sizes, activation, output_activation, action_space):
    """Build a Gaussian that depends on the state, squashed by tanh and scaled to the bounds.

    Returns mu (B, act), pi (B, act) and logp_pi (B,): the squashed means, samples, and the samples'
    log-densities.
    """
    scale, center = bounds(action_space)
    h = mlp(x, hidden_sizes, activation, activation) if len(hidden_sizes) else x
    mu, mu_layer = dense(h, len(scale), output_activation)
    log_std, log_std_layer = dense(h, len(scale))
    log_std = tf.clip_by_value(log_std, LOG_STD_MIN, LOG_STD_MAX)
    # u = mu + std * noise: the gradient passes through the sample (reparameterization).
    noise = tf.random.normal(tf.shape(mu))
    u = mu + tf.exp(log_std) * noise
    logp_pi = squashed_log_prob(noise, log_std, u, scale)
    mode, pi = center + scale * tf.tanh(mu), center + scale * tf.tanh(u)
    if len(hidden_sizes):
        parts = {"mu_layer": mu_layer, "log_std_layer": log_std_layer}
        parts |= {"limits": [LOG_STD_MIN, LOG_STD_MAX], "scale": scale, "center": center}
        remember(pi, mode, None, {}, "squashed_gaussian", layers=h, **parts)
    return mode, pi, logp_pi


def squashed_log_prob(noise, log_std, u, scale):
    """Return the log-density of c + s tanh(u), u = mu + std * noise: (B, act) -> (B,).

    The change of variables subtracts log(s (1 - tanh(u)^2)) per dimension. For large u, 1 -
    tanh(u)^2 rounds to zero; 2 (log 2 - u - softplus(-2u)) is its numerically stable logarithm.
    """
    gaussian = -0.5 * tf.square(noise) - log_std - HALF_LOG_2PI
    log_slope = 2 * (math.log(2) - u - tf.nn.softplus(-2 * u)) + np.log(scale)
    return tf.reduce_sum(gaussian - log_slope, axis=1)
