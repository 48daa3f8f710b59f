"""A multi-layer perceptron's forward pass in NumPy, for acting on few observations at a time."""

from collections.abc import Callable, Sequence

import numpy as np

Function = Callable[[np.ndarray], np.ndarray]
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
