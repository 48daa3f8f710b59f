"""Parts that networks are built from: placeholders, layers, prepared observations.

For a policy that the library built itself, `known(pi)` returns its most likely action, its entropy
and its layers, with which `acting.py` acts in NumPy.
"""

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from spinup.algos.common.returns import combined_shape
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
        return tf.placeholder(tf.int32, (None, *space.shape))
    raise SpinupError(
        f"there is no placeholder for the space {space}: use Box, Discrete, MultiDiscrete or "
        "MultiBinary"
    )


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


def leaky_relu(x):
    """Leaky ReLU with torch's slope for negative inputs, 0.01; TensorFlow's own has 0.2."""
    return tf.nn.leaky_relu(x, 0.01)


def get_vars(scope=""):
    """Return the trainable variables whose names contain `scope`."""
    require_graph()
    return [v for v in tf.trainable_variables() if scope in v.name]


def count_vars(scope=""):
    """Count the scalar parameters whose variables' names contain `scope`."""
    return sum(int(np.prod(v.shape.as_list())) for v in get_vars(scope))


def flat(values):
    """Reshape to one number per row, (B,).

    A user's network may return a column (B, 1), and (B, 1) minus (B,) would silently broadcast to
    (B, B).
    """
    if values.shape.rank == 2:
        from spinup.algos.common.columns import say_that_a_column_was_flattened

        say_that_a_column_was_flattened(values.shape)
    return tf.reshape(values, [-1])


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
        mean = fixed("mean", np.zeros(dim, np.float32))
        std = fixed("std", np.ones(dim, np.float32))
        sums = fixed("sums", np.zeros(2 * dim + 1))  # float64: they only ever grow
    clip = ObsFilter._field_defaults["clip"]
    limit = tf.where(sums[0] > 0, clip, np.inf)  # raw observations are not clipped
    x = tf.clip_by_value((x - mean) / std, -limit, limit)
    records(x.graph, "filters").append(ObsFilter(x, mean, std, sums))
    return x


def fixed(name, value):
    """Return a variable that gradients do not change."""
    start = tf.constant_initializer(value)
    return tf.get_variable(name, value.shape, value.dtype, start, trainable=False)


# ---- policies that the library knows


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
# Not its leaky_relu, whose slope differs.
_NAMES = {name: name for name in ("tanh", "relu", "elu", "sigmoid", "identity", "selu", "softplus")}
_NAMES |= {name: name for name in ("gelu", "relu6", "silu", "softsign")}
_NAMES["swish"] = "silu"


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
    """Return the name of an activation function; None if only TensorFlow can compute it."""
    if activation is leaky_relu:
        return "leakyrelu"
    if not str(getattr(activation, "__module__", "")).startswith("tensorflow."):
        return None
    return _NAMES.get(activation.__name__)


def gaussian_likelihood(x, mu, log_std):
    """Return the log-density of a diagonal Gaussian, summed over dimensions: (B, act) -> (B,)."""
    z = (x - mu) / tf.exp(log_std)
    return tf.reduce_sum(-0.5 * tf.square(z) - log_std - HALF_LOG_2PI, axis=1)
