"""Look up activations by name, in either backend."""

import importlib
import re
from typing import Any

from spinup.utils.errors import SpinupError, nearest

# Plain name of an activation -> (name in torch.nn, name in tf.nn).
ACTIVATIONS = {
    "tanh": ("Tanh", "tanh"),
    "relu": ("ReLU", "relu"),
    "elu": ("ELU", "elu"),
    "selu": ("SELU", "selu"),
    "gelu": ("GELU", "gelu"),
    "silu": ("SiLU", "silu"),
    "swish": ("SiLU", "silu"),
    "leakyrelu": ("LeakyReLU", "leaky_relu"),
    "relu6": ("ReLU6", "relu6"),
    "sigmoid": ("Sigmoid", "sigmoid"),
    "softplus": ("Softplus", "softplus"),
    "softsign": ("Softsign", "softsign"),
}


def activation(name: Any, backend: str, typed: str = "--act") -> Any:
    """Return the activation called `name` (`tanh`, `torch.nn.ELU`, `tf.nn.elu`) in `backend`.

    Names are looked up in a fixed table. They mean the same function in both backends. For an
    unknown backend, the name itself is returned.
    """
    if not isinstance(name, str):
        raise SpinupError(f"'{typed}' must be the name of an activation, not {name!r}")
    plain = re.sub(r"^(torch\.nn\.functional\.|torch\.nn\.|torch\.|nn\.|tf\.nn\.|tf\.)", "", name)
    plain = plain.lower().replace("_", "")
    if plain not in ACTIVATIONS:
        raise SpinupError(
            f"'{name}' is not a known activation: choose one of {', '.join(ACTIVATIONS)}"
            f"{nearest(plain, ACTIVATIONS)}"
        )
    torch_name, tf_name = ACTIVATIONS[plain]
    if backend == "pytorch":
        if plain == "tanh":
            return importlib.import_module("spinup.algos.pytorch.common.layers").Tanh
        return getattr(importlib.import_module("torch.nn"), torch_name)
    if backend == "tf1":
        if plain == "leakyrelu":  # TensorFlow's own has another slope
            return importlib.import_module("spinup.algos.tf1.common.layers").leaky_relu
        importlib.import_module("spinup.utils.tf")  # imports TensorFlow without its messages
        return getattr(importlib.import_module("tensorflow").nn, tf_name)
    return name
