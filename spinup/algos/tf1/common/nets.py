"""The on-policy algorithms' networks as parts of a graph: policies and value functions.

A policy function takes the observations `x`, the actions `a` and sizes, and returns the tensors
`pi` (sampled actions), `logp` (log-probabilities of `a`) and `logp_pi` (those of `pi`). A user's
function needs only these; the library's own also describe themselves (`layers.remember`).
"""

import functools

import numpy as np
from gymnasium import spaces

from spinup.algos.tf1.common.graph import require_graph
from spinup.algos.tf1.common.layers import (
    HALF_LOG_2PI,
    fixed,
    flat,
    flat_obs,
    gaussian_likelihood,
    known,
    mlp,
    remember,
)
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf

# ---- policies


def mlp_categorical_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """Discrete(n): a softmax over n logits."""
    sizes = [*hidden_sizes, int(action_space.n)]
    logits = mlp(x, sizes, activation, output_activation)
    logp_all = tf.nn.log_softmax(logits)
    pi = tf.cast(tf.random.categorical(logits, 1)[:, 0], a.dtype)
    _remember_discrete(pi, tf.argmax(logits, 1), logp_all, "categorical", logits)
    return pi, _chosen(logp_all, a), _chosen(logp_all, pi)


def mlp_multi_categorical_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """MultiDiscrete: one softmax for each component, from one network."""
    nvec = [int(n) for n in action_space.nvec.ravel()]
    logits = mlp(x, [*hidden_sizes, sum(nvec)], activation, output_activation)
    parts = tf.split(logits, nvec, axis=1)
    logps = [tf.nn.log_softmax(part) for part in parts]
    pi = tf.cast(tf.concat([tf.random.categorical(part, 1) for part in parts], 1), a.dtype)
    mode = tf.stack([tf.argmax(part, 1) for part in parts], 1)
    _remember_discrete(pi, mode, tf.concat(logps, 1), "multicategorical", logits, nvec=nvec)
    a = tf.reshape(a, (-1, len(nvec)))
    return pi, *(
        tf.add_n([_chosen(logp, act[:, i]) for i, logp in enumerate(logps)]) for act in (a, pi)
    )


def mlp_bernoulli_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """MultiBinary: independent Bernoulli variables, one logit each."""
    sizes = [*hidden_sizes, int(np.prod(action_space.shape))]
    logits = mlp(x, sizes, activation, output_activation)
    log_one, log_zero = tf.math.log_sigmoid(logits), tf.math.log_sigmoid(-logits)
    u = tf.random.uniform(tf.shape(logits))
    pi = tf.cast(tf.math.log(u) - tf.math.log1p(-u) < logits, a.dtype)
    mode = tf.cast(logits > 0, tf.int64)
    logp_all = tf.concat([log_one, log_zero], 1)
    _remember_discrete(pi, mode, logp_all, "bernoulli", logits)
    a = tf.reshape(a, (-1, sizes[-1]))
    return pi, *(tf.reduce_sum(tf.where(act > 0, log_one, log_zero), 1) for act in (a, pi))


def _chosen(logp_all, a):
    """Return the log-probabilities of the actions `a`: (B, n), (B,) -> (B,)."""
    return tf.reduce_sum(tf.one_hot(a, logp_all.shape[1]) * logp_all, axis=1)


def _remember_discrete(pi, mode, logp_all, kind, logits, **parts):
    entropy = -tf.reduce_sum(tf.exp(logp_all) * logp_all, axis=1)
    remember(pi, mode, entropy, {"logp_all": logp_all}, kind, layers=logits, **parts)


def mlp_gaussian_policy(
    x, a, hidden_sizes, activation, output_activation, action_space, log_std_init=-0.5
):
    """Box: a diagonal Gaussian whose standard deviation does not depend on the state."""
    act_dim = int(np.prod(action_space.shape))
    mu = mlp(x, [*hidden_sizes, act_dim], activation, output_activation)
    start = tf.constant_initializer(log_std_init)
    log_std = tf.get_variable("log_std", (act_dim,), tf.float32, start, use_resource=True)
    pi = mu + tf.random.normal(tf.shape(mu)) * tf.exp(log_std)
    entropy = tf.reduce_sum(log_std + 0.5 + HALF_LOG_2PI + tf.zeros_like(mu), axis=1)
    info = {"mu": mu, "log_std": log_std + tf.zeros_like(mu)}
    remember(pi, mu, entropy, info, "gaussian", layers=mu, log_std=log_std)
    logp, logp_pi = (
        gaussian_likelihood(tf.reshape(act, (-1, act_dim)), mu, log_std) for act in (a, pi)
    )
    return pi, logp, logp_pi


def policy_for(action_space):
    """Return the policy function that matches the action space."""
    kinds = (
        (spaces.Box, mlp_gaussian_policy),
        (spaces.Discrete, mlp_categorical_policy),
        (spaces.MultiDiscrete, mlp_multi_categorical_policy),
        (spaces.MultiBinary, mlp_bernoulli_policy),
    )
    for kind, policy in kinds:
        if isinstance(action_space, kind):
            return policy
    raise TypeError(f"no policy for action space {action_space}")


def mlp_actor_critic(
    x,
    a,
    hidden_sizes=(64, 64),
    activation=tf.tanh,
    output_activation=None,
    policy=None,
    action_space=None,
    normalize_obs=False,
    normalize_ret=False,
    orthogonal_init=False,
    log_std_init=None,
):
    """Build a policy and a value function, two separate networks of the same shape.

    Args:
        x, a: placeholders of observations and actions.
        hidden_sizes: widths of the hidden layers. Wider layers can fit more and are slower;
            (32, 32) to (256, 256) are usual.
        activation: activation function of the hidden layers.
        output_activation: activation function of the policy's last layer.
        policy: function (x, a, hidden_sizes, activation, output_activation, action_space) that
            builds the policy; None picks the one that matches the action space.
        action_space: Box, Discrete, MultiDiscrete or MultiBinary.
        normalize_obs: subtract the running mean of observations and divide by their running
            standard deviation. Helps if components differ in scale.
        normalize_ret: divide rewards by the running standard deviation of discounted returns before
            they are used. Helps if returns are large.
        orthogonal_init: initialize weights orthogonally, with gain 0.01 in the policy's last layer.
        log_std_init: for a Box, the logarithm of the standard deviation that actions start with.
            Lower values explore less; -2 to 0 are usual. None means -0.5.

    Returns:
        pi, logp, logp_pi and v: sampled actions, log-probabilities of `a` and of `pi`, and values.
    """
    require_graph()
    x = flat_obs(x, normalize_obs)
    if normalize_ret:
        with tf.variable_scope("ret_filter", use_resource=True):
            fixed("std", np.ones(()))
            fixed("sums", np.zeros(3))
    policy = policy or policy_for(action_space)
    if log_std_init is not None:
        policy = functools.partial(policy, log_std_init=log_std_init)
    last, getters = len(hidden_sizes), (None, None)
    if orthogonal_init:
        getters = orthogonal(last, 0.01), orthogonal(last, 1.0)
    with tf.variable_scope("pi", custom_getter=getters[0]):
        outputs = policy(x, a, hidden_sizes, activation, output_activation, action_space)
    with tf.variable_scope("v", custom_getter=getters[1]):
        v = tf.squeeze(mlp(x, [*hidden_sizes, 1], activation, None), axis=1)
    return *outputs, v


def orthogonal(output_layer, output_gain):
    """Return a variable getter for orthogonal weights (gain sqrt(2), but `output_gain` at last)."""

    def initialized(getter, name, *args, **kwargs):
        last = name.split("/")[-2] == ("dense" if output_layer == 0 else f"dense_{output_layer}")
        if name.endswith("/kernel"):
            kwargs["initializer"] = tf.orthogonal_initializer(output_gain if last else 2**0.5)
        elif name.endswith("/bias"):
            kwargs["initializer"] = tf.zeros_initializer()
        return getter(name, *args, **kwargs)

    return initialized


# ---- quantities that the losses compute from the networks


def entropy(ac, ent_coef=0.0):
    """Return a batch's mean entropy; for a user's policy, estimated from the sampled actions.

    The gradient of that estimate is wrong for discrete actions, so an entropy bonus is refused.
    """
    policy = known(ac.pi)
    if policy is None and ent_coef:
        raise SpinupError(
            f"ent_coef={ent_coef} needs the policy's entropy, which a policy function of your own "
            "does not return: use ent_coef=0"
        )
    return tf.reduce_mean(-flat(ac.logp_pi) if policy is None else policy.entropy)


def approx_kl(logp_old, logp):
    """Estimate KL(old || new) from samples of old: mean of (ratio - 1) - log ratio (>= 0)."""
    log_ratio = logp - logp_old
    return tf.reduce_mean(tf.exp(log_ratio) - 1 - log_ratio)


def diagonal_gaussian_kl(mu0, log_std0, mu1, log_std1):
    """Return the mean over the batch of KL(0 || 1), of diagonal Gaussians."""
    distance = tf.exp(2 * log_std0) + tf.square(mu0 - mu1)
    kl = log_std1 - log_std0 + 0.5 * distance * tf.exp(-2 * log_std1) - 0.5
    return tf.reduce_mean(tf.reduce_sum(kl, axis=1))


def categorical_kl(logp0, logp1):
    """Return the mean over the batch of KL(0 || 1), from the log-probabilities of all actions."""
    return tf.reduce_mean(tf.reduce_sum(tf.exp(logp0) * (logp0 - logp1), axis=1))
