"""Policies in NumPy, for acting on few observations at a time: forward passes, and heads.

A head is how a policy turns the outputs of its network into actions, as two functions: `sample`,
from (outputs, rng) to random actions, and `mode`, from outputs to the most likely ones. The torch
networks and `NumpyActor` act through the same heads.
"""

from collections.abc import Callable, Sequence

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]
Sample = Callable[[np.ndarray, np.random.Generator], np.ndarray]
Head = tuple[Sample, Function]
Layer = tuple[np.ndarray, np.ndarray, Function | None]  # weight (in, out), bias and activation


def _elu(x: np.ndarray) -> np.ndarray:
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 0.5 * np.tanh(0.5 * x) + 0.5  # exp(-x) would overflow


# In place where NumPy supports it; the argument is always a new array.
ACTIVATIONS: dict[str, Function] = {
    "tanh": lambda x: np.tanh(x, out=x),
    "relu": lambda x: np.maximum(x, 0, out=x),
    "elu": _elu,
    "sigmoid": _sigmoid,
    "silu": lambda x: x * _sigmoid(x),
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


# ---- heads


def categorical() -> Head:
    """One softmax: the outputs are logits."""
    return gumbel_argmax, lambda logits: logits.argmax(-1)


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

    def sample(mu: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        noise = rng.standard_normal(mu.shape, np.float32)
        noise *= std
        noise += mu
        return noise

    return sample, lambda mu: mu


def squashed_gaussian(dim: int, low: float, high: float, scale: Function) -> Head:
    """Gaussians squashed by tanh: the outputs are means and log standard deviations, side by side.

    These are clipped to [low, high]; `scale` maps (-1, 1) to the bounds.
    """

    def sample(out: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        u = np.exp(out[:, dim:].clip(low, high))
        u *= rng.standard_normal(u.shape, np.float32)
        u += out[:, :dim]
        return scale(np.tanh(u))

    return sample, lambda out: scale(np.tanh(out[:, :dim]))


def deterministic(scale: Function) -> Head:
    """One action: the outputs are in (-1, 1), and `scale` maps them to the bounds."""
    return lambda squashed, rng: scale(squashed), scale
