"""A policy that consists of a description (JSON) and arrays, computed in NumPy.

    actor = NumpyActor(description, arrays)
    outputs = actor(obs)  # (n, *observation) -> (n, outputs)
    actions = actor.sample(outputs, rng)  # or actor.mode(outputs)

Graph-mode policies act through it in training, and saved ones without their framework. The
description contains names of arrays, never code:
- `kind`: one of `KINDS`.
- `layers`: one `[weight, bias, activation]` for each layer, which computes
  activation(x @ weight + bias). For "squashed_gaussian", these are the hidden layers. The last
  layer of every other kind computes logits or means; for "deterministic", it computes u.
- "gaussian": `log_std`, (actions,).
- "multicategorical": `nvec`, the number of values of each component.
- "squashed_gaussian": `mu_layer` and `log_std_layer`, each `[weight, bias]`, and `limits`, the
  smallest and largest log standard deviation.
- "squashed_gaussian" and "deterministic": `scale` and `center`, (actions,). The action is
  center + scale * tanh(u).
- If observations are normalized: `obs_mean` and `obs_std`, (inputs,), and `obs_clip`, a number, or
  null if they are not clipped.

A description can come from a file that somebody else wrote. Everything in it is checked, and it can
ask for no more memory than its arrays take.
"""

import itertools
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np

from spinup.algos.common import numpy_net
from spinup.algos.common.numpy_net import ACTIVATIONS, Function, Head, Layer, Sample
from spinup.utils.errors import SpinupError

# What the outputs of a network mean.
KINDS = (
    *("categorical", "multicategorical", "bernoulli", "gaussian"),
    *("squashed_gaussian", "deterministic"),
)


class NumpyActor:
    """Computes actions from a description and its arrays; see above.

    The arrays are not copied. Attributes: `description` and `arrays`; `kind`; `obs_dim`, the number
    of inputs; `act_dim`, the number of logits or of the action's components; `nvec` (empty unless
    "multicategorical"). Raises `SpinupError` if an entry is missing, unknown, or does not fit.
    """

    sample: Sample  # (outputs, rng) -> random actions
    mode: Function  # outputs -> the most likely actions

    def __init__(self, description: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.description, self.arrays = description, arrays
        if not isinstance(description, Mapping):
            _refuse(f"is {_short(description)}, not a dict")
        self.kind = kind = description.get("kind")
        if not isinstance(kind, str) or kind not in KINDS:
            _refuse(f"has the kind {_short(kind)}, not one of {', '.join(KINDS)}")
        layers = description.get("layers")
        if not isinstance(layers, list) or len(layers) > len(arrays):
            _refuse("has no valid list of layers")
        self._layers = [self._layer(layer) for layer in layers]
        self.nvec: tuple[int, ...] = ()
        self.sample, self.mode = self._head(description)
        widths = [weight.shape for weight, _, _ in self._layers]
        if any(a[1] != b[0] for a, b in itertools.pairwise(widths)):
            _refuse(f"has layers that do not fit each other: {_short(widths)}")
        self.obs_dim = widths[0][0]
        self._forward = numpy_net.forward_pass(self._layers, self._normalizer(description))

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        """Run the network: (n, *observation) -> (n, outputs)."""
        return self._forward(obs)

    def _array(self, key: Any, ndim: int, size: int | None = None) -> np.ndarray:
        """Return an array of float32, with the expected number of axes and elements."""
        array = self.arrays.get(key) if isinstance(key, str) else None
        if array is None:
            _refuse(f"names the array {_short(key)}, which does not exist")
        if array.dtype != np.float32 or array.ndim != ndim or 0 in array.shape:
            _refuse(f"names the array {key!r}, which is {array.dtype} {array.shape}")
        if size is not None and len(array) != size:
            _refuse(f"names the array {key!r}, which has {len(array)} numbers instead of {size}")
        return array

    def _layer(self, entry: Any, activation: str | None = None) -> Layer:
        """Read `[weight, bias, activation]`, or `[weight, bias]` with a given activation."""
        entry = [*entry, activation] if activation and isinstance(entry, list) else entry
        if not isinstance(entry, list) or len(entry) != 3:
            _refuse(f"has the layer {_short(entry)}, which is not [weight, bias, activation]")
        if not isinstance(entry[2], str) or entry[2].replace("_", "") not in ACTIVATIONS:
            _refuse(f"has the activation {_short(entry[2])}, not one of {', '.join(ACTIVATIONS)}")
        weight = self._array(entry[0], 2)
        name = entry[2].replace("_", "")
        activate = None if name == "identity" else ACTIVATIONS[name]
        return weight, self._array(entry[1], 1, weight.shape[1]), activate

    def _bounds(self, about: Mapping[str, Any]) -> Function:
        """Return the function from (-1, 1) to the action's bounds."""
        dim = self.act_dim
        scale, center = (self._array(about.get(key), 1, dim) for key in ("scale", "center"))
        return lambda squashed: center + scale * squashed

    def _normalizer(self, description: Mapping[str, Any]) -> Function | None:
        if "obs_mean" not in description:
            return None
        keys = ("obs_mean", "obs_std")
        mean, std = (self._array(description.get(key), 1, self.obs_dim) for key in keys)
        clip = description.get("obs_clip")
        return numpy_net.normalizer(mean, std, np.inf if clip is None else _number(clip))

    def _head(self, about: Mapping[str, Any]) -> Head:
        """Set `act_dim`, and return the functions that map the network's outputs to actions."""
        if self.kind == "squashed_gaussian":
            return self._squashed_gaussian(about)
        if not self._layers:
            _refuse("has no layers")
        weight, bias, activation = self._layers[-1]
        self.act_dim = weight.shape[1]
        if self.kind == "deterministic":
            if activation is not None:
                _refuse("has an activation after its last layer, whose tanh is implied")
            self._layers[-1] = (weight, bias, ACTIVATIONS["tanh"])
            return numpy_net.deterministic(self._bounds(about))
        if self.kind == "gaussian":
            return numpy_net.gaussian(np.exp(self._array(about.get("log_std"), 1, self.act_dim)))
        if self.kind == "multicategorical":
            given = about.get("nvec")
            nvec = given if isinstance(given, list) else []
            if not all(type(n) is int and n > 0 for n in nvec) or sum(nvec) != self.act_dim:
                _refuse(f"has nvec {_short(given)}, which does not fit its {self.act_dim} logits")
            self.nvec = tuple(nvec)
            return numpy_net.multicategorical(nvec)
        return numpy_net.CATEGORICAL if self.kind == "categorical" else numpy_net.bernoulli()

    def _squashed_gaussian(self, about: Mapping[str, Any]) -> Head:
        heads = (about.get("mu_layer"), about.get("log_std_layer"))
        mu, log_std = (self._layer(head, "identity") for head in heads)
        if mu[0].shape != log_std[0].shape:
            _refuse(f"has heads of different shapes: {mu[0].shape} and {log_std[0].shape}")
        # the means and the log standard deviations side by side, in one product
        weight, bias = (np.concatenate([mu[i], log_std[i]], -1) for i in (0, 1))
        self._layers.append((weight, bias, None))
        self.act_dim = len(mu[1])
        scale, limits = self._bounds(about), about.get("limits")
        if not isinstance(limits, list) or len(limits) != 2:
            _refuse(f"has the limits {_short(limits)}, which are not two numbers")
        low, high = (_number(limit) for limit in limits)
        return numpy_net.squashed_gaussian(self.act_dim, low, high, scale)


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e9:
        _refuse(f"has the value {_short(value)} where it needs a number")
    return value


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _refuse(problem: str) -> NoReturn:
    raise SpinupError(f"the description of the policy's network {problem}: save the policy again")
