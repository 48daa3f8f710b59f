"""Policies in NumPy, for acting on few observations at a time: forward passes, and heads.

A head turns outputs into random actions (`sample`) and into the most likely ones (`mode`).
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]
Sample = Callable[[np.ndarray, np.random.Generator], np.ndarray]
Head = tuple[Sample, Function]
Layer = tuple[np.ndarray, np.ndarray, Function | None]  # weight (in, out), bias and activation


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.tanh(0.5 * x) + 0.5  # exp(-x) would overflow


def _silu(x: np.ndarray) -> np.ndarray:
    return x * _sigmoid(x)


def _gelu(x: np.ndarray) -> np.ndarray:
    erf = np.array([math.erf(v) for v in x.ravel() / math.sqrt(2)], x.dtype)
    return 0.5 * x * (1 + erf.reshape(x.shape))


def _selu(x: np.ndarray) -> np.ndarray:
    alpha, scale = 1.6732632423543772, 1.0507009873554805
    return scale * np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


# Plain names of activations, without underscores, as on the command line.
# In place where NumPy supports it; the argument is always a new array.
ACTIVATIONS: dict[str, Function] = {
    "tanh": lambda x: np.tanh(x, out=x),
    "relu": lambda x: np.maximum(x, 0, out=x),
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "sigmoid": _sigmoid,
    "silu": _silu,
    "swish": _silu,
    "identity": lambda x: x,
    "selu": _selu,
    "gelu": _gelu,
    "leakyrelu": lambda x: np.where(x > 0, x, np.float32(0.01) * x),  # torch's slope
    "relu6": lambda x: np.minimum(np.maximum(x, 0), 6),
    "softplus": lambda x: np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x))),
    "softsign": lambda x: x / (1 + np.abs(x)),
}


def normalizer(mean: np.ndarray, std: np.ndarray, limit: float) -> Function:
    """Return the normalization of observations: subtract, divide, clip to +-limit."""
    return lambda obs: np.minimum(np.maximum((obs - mean) / std, -limit), limit)


def forward_pass(layers: Sequence[Layer], normalize: Function | None = None) -> Function:
    """Return the function (n, *observation) -> (n, outputs) that these layers compute."""

    def forward(obs: np.ndarray) -> np.ndarray:
        n = len(obs)
        # one observation as a vector: a matrix-vector product is cheaper than a matrix product
        x = obs.reshape(-1) if n == 1 else obs.reshape(n, -1)
        if x.dtype != np.float32:
            x = x.astype(np.float32)
        if normalize is not None:
            x = normalize(x)
        for weight, bias, activate in layers:
            x = x.dot(weight)
            x += bias
            if activate is not None:
                x = activate(x)
        return x[None] if n == 1 else x

    return forward


def gumbel_argmax(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Sample from a softmax: argmax(logits + Gumbel noise)."""
    # minus the logarithm of an exponential variable is Gumbel noise
    return (logits - np.log(rng.standard_exponential(logits.shape))).argmax(-1)


# One softmax: the outputs are logits.
CATEGORICAL: Head = (gumbel_argmax, lambda logits: logits.argmax(-1))


def multicategorical(nvec: Sequence[int]) -> Head:
    """Independent softmaxes, whose logits are side by side."""
    cuts = np.cumsum(nvec)[:-1]

    def sample(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        return np.stack([gumbel_argmax(x, rng) for x in np.split(logits, cuts, -1)], -1)

    def mode(logits: np.ndarray) -> np.ndarray:
        return np.stack([x.argmax(-1) for x in np.split(logits, cuts, -1)], -1)

    return sample, mode


def bernoulli() -> Head:
    """Independent coins, one logit each."""

    def sample(logits: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        # u < sigmoid(x), written as logit(u) < x, which needs no sigmoid
        u = rng.random(logits.shape)
        return (np.log(u) - np.log1p(-u) < logits).astype(np.int64)

    return sample, lambda logits: (logits > 0).astype(np.int64)


def gaussian(std: np.ndarray) -> Head:
    """Gaussians with fixed standard deviations: the outputs are means."""
    return lambda mu, rng: rng.standard_normal(mu.shape, np.float32) * std + mu, lambda mu: mu


def squashed_gaussian(dim: int, low: float, high: float, scale: Function) -> Head:
    """Gaussians squashed by tanh: the outputs are means, and log standard deviations to clip."""

    def sample(out: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        std = np.exp(out[:, dim:].clip(low, high))
        noise = rng.standard_normal(std.shape, np.float32)
        return scale(np.tanh(std * noise + out[:, :dim]))

    return sample, lambda out: scale(np.tanh(out[:, :dim]))


def deterministic(scale: Function) -> Head:
    """One action: the outputs are in (-1, 1), and `scale` maps them to the bounds."""
    return lambda squashed, rng: scale(squashed), scale
