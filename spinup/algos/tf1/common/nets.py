"""Networks as parts of a graph: placeholders, multi-layer perceptrons, policies, critics.

A policy function takes the observations `x`, the actions `a` and sizes, and returns the tensors
`pi` (sampled actions), `logp` (log-probabilities of `a`) and `logp_pi` (those of `pi`). A user's
function needs only these. For the library's own policies, `known(pi)` also returns their most
likely action, their entropy and their layers, with which `acting.py` acts in NumPy.
"""

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from spinup.algos.common.shapes import combined_shape
from spinup.algos.tf1.common.graph import records, require_graph
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf

HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))

# ---- placeholders


def placeholder(dim=None):
    """Return a float32 placeholder for a batch of rows of shape `dim`."""
    require_graph()
    return tf.placeholder(tf.float32, combined_shape(None, dim))


def placeholders(*args):
    """Return one placeholder per shape."""
    return [placeholder(dim) for dim in args]


def placeholder_from_space(space):
    """Return a placeholder for a batch of elements of `space`: float32, or int32 if discrete."""
    require_graph()
    if isinstance(space, spaces.Box):
        return placeholder(space.shape)
    if isinstance(space, spaces.Discrete):
        return tf.placeholder(tf.int32, (None,))
    if isinstance(space, (spaces.MultiDiscrete, spaces.MultiBinary)):
        return tf.placeholder(tf.int32, (None, int(np.prod(space.shape))))
    raise NotImplementedError(f"no placeholder for the space {space}")


def placeholders_from_spaces(*args):
    """Return one placeholder per space."""
    return [placeholder_from_space(space) for space in args]


# ---- layers


class _Mlp(NamedTuple):
    output: Any
    input: Any
    layers: list[Any]  # (kernel, bias, activation) of each layer


def dense(x, units, activation=None):
    """Return activation(x W + b), with torch's initial weights: uniform within 1/sqrt(inputs)."""
    inputs = x.shape.as_list()[-1]
    limit = 1 / np.sqrt(inputs) if inputs else 0.0
    with tf.variable_scope(None, default_name="dense", use_resource=True):
        start = tf.random_uniform_initializer(-limit, limit)
        kernel = tf.get_variable("kernel", (inputs, units), tf.float32, start)
        bias = tf.get_variable("bias", (units,), tf.float32, start)
    x = tf.nn.bias_add(tf.matmul(x, kernel), bias)
    return x if activation is None else activation(x), (kernel, bias, activation)


def mlp(x, hidden_sizes=(32,), activation=tf.tanh, output_activation=None):
    """Build a multi-layer perceptron; `hidden_sizes` are the widths of all layers after `x`."""
    require_graph()
    first, layers = x, []
    for j, size in enumerate(hidden_sizes):
        last = j == len(hidden_sizes) - 1
        x, layer = dense(x, int(size), output_activation if last else activation)
        layers.append(layer)
    records(x.graph, "mlps").append(_Mlp(x, first, layers))
    return x


def get_vars(scope=""):
    """Return the variables whose names contain `scope`, without those of the optimizers."""
    require_graph()
    return [
        v for v in tf.global_variables() if scope in v.name and not v.name.startswith("optimizers/")
    ]


def count_vars(scope=""):
    """Count the scalar parameters whose variables' names contain `scope`."""
    return sum(int(np.prod(v.shape.as_list())) for v in get_vars(scope))


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


# ---- observations


class ObsFilter(NamedTuple):
    """The running statistics of observations; `output` is the normalized tensor."""

    output: Any
    mean: Any
    std: Any
    sums: Any  # count, sums and sums of squares so far
    clip: float = 10.0


def flat_obs(x, normalize=False):
    """Prepare observations for the first layer: flatten and optionally normalize them.

    The statistics are variables. They change only between epochs (`advantages.update_normalizer`):
    the policy stays fixed during data collection and evaluation.
    """
    dim = int(np.prod(x.shape.as_list()[1:]))
    if len(x.shape) != 2:
        x = tf.reshape(x, (-1, dim))
    if not normalize:
        return x
    with tf.variable_scope("obs_filter", use_resource=True):
        mean = _fixed("mean", np.zeros(dim, np.float32))
        std = _fixed("std", np.ones(dim, np.float32))
        sums = _fixed("sums", np.zeros(2 * dim + 1))  # float64: they only ever grow
    clip = ObsFilter._field_defaults["clip"]
    limit = tf.where(sums[0] > 0, clip, np.inf)  # raw observations are not clipped
    x = tf.clip_by_value((x - mean) / std, -limit, limit)
    records(x.graph, "filters").append(ObsFilter(x, mean, std, sums))
    return x


def _fixed(name, value):
    """Return a variable that gradients do not change."""
    start = tf.constant_initializer(value)
    return tf.get_variable(name, value.shape, value.dtype, start, trainable=False)


# ---- policies


class Known(NamedTuple):
    """What the library knows about a policy that it built itself."""

    pi: Any
    mode: Any  # the most likely actions
    entropy: Any  # (B,)
    info: dict[str, Any]  # the parameters of the distributions, one row per observation
    kind: str  # how `numpy_actor` samples
    parts: dict[str, Any]  # named layers and variables, and constants


def remember(pi, mode, entropy, info, kind, **parts):
    """Describe the policy `pi` for `known`."""
    records(pi.graph, "policies").append(Known(pi, mode, entropy, info, kind, parts))


def known(pi):
    """Return the description of the policy tensor `pi`; None if the library did not build it."""
    return next((k for k in records(pi.graph, "policies") if k.pi is pi), None)


def _find(kind, output):
    return next((x for x in records(output.graph, kind) if x.output is output), None)


# Names of TensorFlow's activation functions -> names in `numpy_actor`.
_NAMES = {name: name for name in ("tanh", "relu", "elu", "sigmoid", "identity", "selu", "softplus")}
_NAMES |= {"swish": "silu", "silu": "silu", "softsign": "softsign", "relu6": "relu6"}


def describe(policy):
    """Return a `Known` policy's description for `numpy_actor`, and its variables by key.

    Returns (None, {}) if it contains something that only TensorFlow can compute.
    """
    found, arrays = {"kind": policy.kind}, {}

    def key(name, variable):
        arrays[name] = variable
        return name

    for name, part in policy.parts.items():
        if isinstance(part, tuple):  # a single layer
            kernel, bias, activation = part
            if activation is not None:
                return None, {}
            found[name] = [key(f"{name}.weight", kernel), key(f"{name}.bias", bias)]
            continue
        record = _find("mlps", part) if isinstance(part, tf.Tensor) else None
        if record is None:
            stored = isinstance(part, np.ndarray) or hasattr(part, "read_value")  # or a constant
            found[name] = key(name, part) if stored else part
            continue
        found[name] = []
        for j, (kernel, bias, activation) in enumerate(record.layers):
            word = "identity" if activation is None else _name(activation)
            if word is None:
                return None, {}
            names = key(f"{name}.{j}.weight", kernel), key(f"{name}.{j}.bias", bias)
            found[name].append([*names, word])
        if policy.kind == "deterministic":  # its last tanh is implied
            if found[name][-1][-1] != "tanh":
                return None, {}
            found[name][-1][-1] = "identity"
        obs_filter = _find("filters", record.input)
        if obs_filter is not None:
            found["obs_mean"] = key("obs_mean", obs_filter.mean)
            found["obs_std"] = key("obs_std", obs_filter.std)
            found["obs_sums"], found["obs_clip"] = key("obs_sums", obs_filter.sums), obs_filter.clip
    return found, arrays


def _name(activation):
    """Return the name of one of TensorFlow's activation functions; None for any other function."""
    if not str(getattr(activation, "__module__", "")).startswith("tensorflow."):
        return None
    return _NAMES.get(activation.__name__)


def gaussian_likelihood(x, mu, log_std):
    """Return the log-density of a diagonal Gaussian, summed over dimensions: (B, act) -> (B,)."""
    z = (x - mu) / tf.exp(log_std)
    return tf.reduce_sum(-0.5 * tf.square(z) - log_std - HALF_LOG_2PI, axis=1)


def diagonal_gaussian_kl(mu0, log_std0, mu1, log_std1):
    """Return the mean over the batch of KL(0 || 1), of diagonal Gaussians."""
    distance = tf.exp(2 * log_std0) + tf.square(mu0 - mu1)
    kl = log_std1 - log_std0 + 0.5 * distance * tf.exp(-2 * log_std1) - 0.5
    return tf.reduce_mean(tf.reduce_sum(kl, axis=1))


def categorical_kl(logp0, logp1):
    """Return the mean over the batch of KL(0 || 1), from the log-probabilities of all actions."""
    return tf.reduce_mean(tf.reduce_sum(tf.exp(logp0) * (logp0 - logp1), axis=1))


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
    return pi, *(tf.reduce_sum(tf.where(act > 0, log_one, log_zero), 1) for act in (a, pi))


def _chosen(logp_all, a):
    """Return the log-probabilities of the actions `a`: (B, n), (B,) -> (B,)."""
    return tf.reduce_sum(tf.one_hot(a, logp_all.shape[1]) * logp_all, axis=1)


def _remember_discrete(pi, mode, logp_all, kind, logits, **parts):
    entropy = -tf.reduce_sum(tf.exp(logp_all) * logp_all, axis=1)
    remember(pi, mode, entropy, {"logp_all": logp_all}, kind, layers=logits, **parts)


def mlp_gaussian_policy(x, a, hidden_sizes, activation, output_activation, action_space):
    """Box: a diagonal Gaussian whose standard deviation does not depend on the state."""
    act_dim = int(np.prod(action_space.shape))
    mu = mlp(x, [*hidden_sizes, act_dim], activation, output_activation)
    start = tf.constant_initializer(-0.5)
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

    Returns:
        pi, logp, logp_pi and v: sampled actions, log-probabilities of `a` and of `pi`, and values.
    """
    require_graph()
    x = flat_obs(x, normalize_obs)
    if normalize_ret:
        with tf.variable_scope("ret_filter", use_resource=True):
            _fixed("std", np.ones(()))
            _fixed("sums", np.zeros(3))
    policy = policy or policy_for(action_space)
    last, getters = len(hidden_sizes), (None, None)
    if orthogonal_init:
        getters = orthogonal(last, 0.01), orthogonal(last, 1.0)
    with tf.variable_scope("pi", custom_getter=getters[0]):
        outputs = policy(x, a, hidden_sizes, activation, output_activation, action_space)
    with tf.variable_scope("v", custom_getter=getters[1]):
        v = tf.squeeze(mlp(x, [*hidden_sizes, 1], activation, None), axis=1)
    return *outputs, v


# ---- quantities that the losses compute from the networks


def flat(values):
    """Reshape to one number per row, (B,).

    A user's network may return a column (B, 1), and (B, 1) minus (B,) would silently broadcast to
    (B, B).
    """
    return tf.reshape(values, [-1])


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
