"""TRPO's networks and linear algebra, and the names that user code imports from here."""

import numpy as np
from gymnasium.spaces import Box, Discrete

from spinup.algos.common.returns import combined_shape, discount_cumsum
from spinup.algos.tf1.common import nets
from spinup.algos.tf1.common.advantages import PathBuffer
from spinup.algos.tf1.common.gradients import gradients
from spinup.algos.tf1.common.graph import Function
from spinup.algos.tf1.common.layers import (
    count_vars,
    gaussian_likelihood,
    get_vars,
    known,
    mlp,
    placeholder,
    placeholder_from_space,
    placeholders,
    placeholders_from_spaces,
)
from spinup.algos.tf1.common.nets import categorical_kl, diagonal_gaussian_kl
from spinup.algos.tf1.common.objectives import shard_mean
from spinup.parallel.tf import assign_params_from_flat, flat_concat
from spinup.utils.tf import tf


def keys_as_sorted_list(dict):
    """Return the keys, sorted."""
    return sorted(dict)


def values_as_sorted_list(dict):
    """Return the values, in the order of the sorted keys."""
    return [dict[key] for key in keys_as_sorted_list(dict)]


# ---- networks that also return their distributions


def _with_kl(policy, x, a, *args, **kwargs):
    """Build a policy; also return its distribution's parameters, placeholders for old ones, KL."""
    pi, logp, logp_pi = policy(x, a, *args, **kwargs)
    info = known(pi).info
    info_phs = {name: placeholder(value.shape[1:].as_list()) for name, value in info.items()}
    old, new = (values_as_sorted_list(values) for values in (info_phs, info))
    if "mu" in info:
        d_kl = diagonal_gaussian_kl(
            info_phs["mu"], info_phs["log_std"], info["mu"], info["log_std"]
        )
    else:
        d_kl = categorical_kl(*old, *new)
    return pi, logp, logp_pi, info, info_phs, d_kl


def mlp_categorical_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """Discrete(n): a softmax over n logits; returns pi, logp, logp_pi, info, info_phs and d_kl."""
    args = (hidden_sizes, activation, output_activation, action_space)
    return _with_kl(nets.mlp_categorical_policy, x, a, *args)


def mlp_gaussian_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """Box: a diagonal Gaussian; returns pi, logp, logp_pi, info, info_phs and d_kl."""
    args = (hidden_sizes, activation, output_activation, action_space)
    return _with_kl(nets.mlp_gaussian_policy, x, a, *args)


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
    """Build a policy and a value function as `nets.mlp_actor_critic` does, with what TRPO needs.

    Args:
        x, a: placeholders of observations and actions.
        hidden_sizes: widths of the hidden layers.
        activation: activation function of the hidden layers.
        output_activation: activation function of the policy's last layer.
        policy: function like `mlp_gaussian_policy`; None picks the one that matches the action
            space.
        action_space: Box, Discrete, MultiDiscrete or MultiBinary.
        normalize_obs: subtract the running mean of observations and divide by their running
            standard deviation. Helps if components differ in scale.
        normalize_ret: divide rewards by the running standard deviation of discounted returns before
            they are used. Helps if returns are large.
        orthogonal_init: initialize weights orthogonally, with gain 0.01 in the policy's last layer.
        log_std_init: for a Box, the logarithm of the standard deviation that actions start with.

    Returns:
        pi, logp, logp_pi, info, info_phs, d_kl and v.
    """
    if policy is None:
        chosen = nets.policy_for(action_space)

        def policy(x, a, *args, **kwargs):
            return _with_kl(chosen, x, a, *args, **kwargs)

    sizes = (hidden_sizes, activation, output_activation)
    options = (normalize_obs, normalize_ret, orthogonal_init, log_std_init)
    return nets.mlp_actor_critic(x, a, *sizes, policy, action_space, *options)


class GAEBuffer(PathBuffer):
    """The buffer of `PathBuffer`, which also stores the distributions' parameters of each step."""

    def __init__(self, obs_dim, act_dim, size, info_shapes, gamma=0.99, lam=0.95):
        super().__init__(obs_dim, act_dim, size, gamma, lam)
        self.info_bufs = {
            k: np.zeros([size, *v], dtype=np.float32) for k, v in sorted(info_shapes.items())
        }

    def store(self, obs, act, rew, val, logp, info):
        """Append one step; `info` is a dict of parameters, or a list in the order of the keys."""
        i = self.ptr
        super().store(obs, act, rew, val, logp)
        values = values_as_sorted_list(info) if isinstance(info, dict) else info
        for buffer, value in zip(self.info_bufs.values(), values, strict=True):
            buffer[i] = np.reshape(value, buffer.shape[1:])

    def get(self):
        """Return [obs, act, adv, ret, logp, *info], with `adv` normalized; empty the buffer."""
        return [*super().get(), *(buffer.copy() for buffer in self.info_bufs.values())]


# ---- old and new policies


def old_policy(ac):
    """Return the placeholders of the old policy's parameters, by name."""
    return {f"old {name}": ph for name, ph in ac.info_phs.items()}


def with_old_policy(kl, batches):
    """Return the batches with the parameters of the distributions before the update added."""
    return [{**b, **kl.parameters(b)} for b in batches]


class TrustRegion:
    """The KL divergence's products H v, and the distributions' parameters, for batches of arrays.

    H is never formed: H v is the gradient of (gradient . v).
    """

    def __init__(self, ac, batch, params):
        vector, hvp = hessian_vector_product(ac.d_kl, params)
        self.product = Function({**batch, "v": vector}, hvp)
        rows = tf.shape(ac.obs)[0]
        self._parameters = Function(
            batch, {f"old {k}": _rows(ac.info[k], ph, rows) for k, ph in ac.info_phs.items()}
        )

    def parameters(self, batch):
        """Return the parameters of the policy's distributions, by name."""
        return self._parameters(batch)


def _rows(value, ph, rows):
    """Repeat a parameter that is the same for all observations, once per row."""
    if len(value.shape) == len(ph.shape):
        return value
    return tf.broadcast_to(value, [rows, *ph.shape[1:].as_list()])


def averaged_product(kl, batches, v, shards):
    """Return H v, averaged over shards."""
    return shard_mean([kl.product({**batch, "v": v}) for batch in batches], shards)


# ---- flat vectors


def flat_grad(f, params):
    """Return the gradient of `f` as one vector; zeros where `f` does not depend on a parameter."""
    return flat_concat(gradients(f, params))


def hessian_vector_product(f, params):
    """Return a placeholder v and the product H v, where H is the Hessian of `f`."""
    g = flat_grad(f, params)
    v = tf.placeholder(tf.float32, g.shape)
    return v, flat_grad(tf.reduce_sum(g * v), params)


class FlatParams:
    """Parameters as one vector: reading and overwriting them in the default session."""

    def __init__(self, params):
        new = placeholder()
        self._get = Function({}, flat_concat([p.read_value() for p in params]))
        self._set = Function({"new": new}, [], [assign_params_from_flat(new, params)])

    def get(self):
        """Return all parameters as one vector (a copy)."""
        return self._get({})

    def set(self, flat):
        """Overwrite all parameters."""
        self._set({"new": flat})


def conjugate_gradient(product, b, iters):
    """Solve A x = b approximately from products `product(v)` = A v; A is positive definite."""
    x = np.zeros_like(b)
    r = b.copy()  # residual b - A x at x = 0
    p = r.copy()
    rr = r @ r
    for _ in range(iters):
        if rr < 1e-20:
            break  # solved; another iteration would divide by zero
        z = product(p)
        alpha = rr / (p @ z)
        x += alpha * p
        r -= alpha * z
        rr_new = r @ r
        p = r + (rr_new / rr) * p
        rr = rr_new
    return x
