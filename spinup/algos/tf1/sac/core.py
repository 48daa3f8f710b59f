"""SAC's networks, and the names that user code imports from here."""

import math

import numpy as np
from gymnasium.spaces import Box, Discrete

from spinup.algos.common.returns import combined_shape, discount_cumsum
from spinup.algos.tf1.common.buffers import ReplayBuffer
from spinup.algos.tf1.common.graph import records
from spinup.algos.tf1.common.layers import (
    count_vars,
    dense,
    flat_obs,
    gaussian_likelihood,
    get_vars,
    known,
    mlp,
    placeholder,
    placeholders,
)
from spinup.algos.tf1.common.networks import outputs
from spinup.algos.tf1.common.qnets import (
    LOG_STD_MAX,
    LOG_STD_MIN,
    bounds,
    mlp_q_function,
    mlp_squashed_policy,
)
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf


def mlp_gaussian_policy(x, a, hidden_sizes, activation, output_activation):
    """Build a Gaussian that depends on the state; returns mu, pi and logp_pi, not yet squashed.

    A `policy` function of one's own has the same arguments and results.
    """
    act_dim = a.shape.as_list()[-1]
    h = mlp(x, hidden_sizes, activation, activation)
    mu, _ = dense(h, act_dim, output_activation)
    log_std = tf.clip_by_value(dense(h, act_dim)[0], LOG_STD_MIN, LOG_STD_MAX)
    pi = mu + tf.exp(log_std) * tf.random.normal(tf.shape(mu))
    return mu, pi, gaussian_likelihood(pi, mu, log_std)


def apply_squashing_func(mu, pi, logp_pi):
    """Squash actions to (-1, 1) by tanh, and correct the log-density of `pi` for it.

    1 - tanh(u)^2 rounds to zero for large u; 2 (log 2 - u - softplus(-2u)) is its stable logarithm.
    """
    log_slope = 2 * (math.log(2) - pi - tf.nn.softplus(-2 * pi))
    return tf.tanh(mu), tf.tanh(pi), logp_pi - tf.reduce_sum(log_slope, axis=1)


def mlp_actor_critic(
    x,
    a,
    hidden_sizes=(256, 256),
    activation=tf.nn.relu,
    output_activation=None,
    policy=None,
    action_space=None,
):
    """Build a stochastic policy and two Q-functions, separate networks of the same shape.

    Args:
        x, a: placeholders of observations and actions.
        hidden_sizes: widths of the hidden layers. Wider layers can fit more and are slower;
            (64, 64) to (400, 300) are usual.
        activation: activation function of the hidden layers.
        output_activation: activation function of the policy's means, before they are squashed.
        policy: function (x, a, hidden_sizes, activation, output_activation) that returns mu, pi and
            logp_pi, which are then squashed; None builds the library's policy.
        action_space: a Box with finite bounds, or Discrete.

    Returns:
        mu, pi, logp_pi, q1 and q2: the most likely actions, sampled ones and their
        log-probabilities, and both Q(x, a).
    """
    x = flat_obs(x)
    sizes = (hidden_sizes, activation, output_activation)
    with tf.variable_scope("pi"):
        if isinstance(action_space, Discrete):
            from spinup.algos.tf1.common.nets import mlp_categorical_policy

            if policy is not None:
                raise SpinupError(
                    "sac's policy function returns continuous actions, but the action space is "
                    "Discrete: omit policy, which picks a softmax"
                )
            pi, _, logp_pi = mlp_categorical_policy(x, a, *sizes, action_space)
            mu = known(pi).mode
        elif policy is None:
            from spinup.envs.bounds import check_bounds

            check_bounds("sac", action_space)
            mu, pi, logp_pi = mlp_squashed_policy(x, *sizes, action_space)
        else:
            scale, center = bounds(action_space)
            found = outputs(policy(x, a, *sizes), ("mu", "pi", "logp_pi"), "policy")
            mu, pi, logp_pi = apply_squashing_func(**found)
            mu, pi = center + scale * mu, center + scale * pi
            logp_pi = logp_pi - float(np.log(scale).sum())
    build = _mlp_discrete_q_function if isinstance(action_space, Discrete) else mlp_q_function
    with tf.variable_scope("q1"):
        q1 = build(x, a, hidden_sizes, activation, *_number_of_actions(action_space))
    with tf.variable_scope("q2"):
        q2 = build(x, a, hidden_sizes, activation, *_number_of_actions(action_space))
    return mu, pi, logp_pi, q1, q2


# ---- discrete actions


def _number_of_actions(action_space):
    return (int(action_space.n),) if isinstance(action_space, Discrete) else ()


def _mlp_discrete_q_function(x, a, hidden_sizes, activation, n):
    """Build Q(s, a) for the given actions, (B,), from the values of all actions, (B, n)."""
    every = mlp(x, [*hidden_sizes, n], activation, None)
    q = tf.reduce_sum(tf.one_hot(a, n) * every, axis=1)
    records(q.graph, "every q").append((q, every))
    return q


def is_discrete(pi):
    """Return whether these are discrete actions."""
    return pi.dtype.is_integer


def action_logps(pi):
    """Return the log-probabilities of all actions, (B, n)."""
    return known(pi).info["logp_all"]


def every_q(ac, o):
    """Return both critics' values of all actions, (B, n) each."""
    found = ac(o, ac.act)
    values = records(found["q1"].graph, "every q")
    return [next(every for q, every in values if q is found[name]) for name in ("q1", "q2")]


def check_actor_critic(ac, action_space):
    """Reject a user's graph function for Discrete actions: it returns no values of all actions."""
    if isinstance(action_space, Discrete) and known(ac.built["pi"]) is None:
        raise SpinupError(
            "sac needs the values of all Discrete actions at once, which an actor_critic of your "
            "own does not return on this backend: use core.mlp_actor_critic, or sac_pytorch"
        )


def temperature(alpha):
    """Return the logarithm of the weight of the entropy: fixed, or learned from 1 ('auto')."""
    # stored as a logarithm, so that a learned temperature stays positive
    learned = isinstance(alpha, str)
    start = 0.0 if learned else math.log(alpha) if alpha else -math.inf
    with tf.variable_scope("temperature", use_resource=True):
        value = tf.constant_initializer(start)
        return tf.get_variable("log_alpha", (), tf.float32, value, trainable=learned)


def default_target_entropy(action_space):
    """Return half the uniform entropy of Discrete actions; for a Box, sum(log(half range) - 1).

    Entropies are in action units, so the logarithms make the target independent of their scale.
    """
    if isinstance(action_space, Discrete):
        return 0.5 * math.log(action_space.n)
    half_range, _ = bounds(action_space)
    return float((np.log(half_range.astype(np.float64)) - 1).sum())
