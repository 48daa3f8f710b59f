"""Keyword arguments that training functions share, in bundles for their signatures.

    @training_function
    def ppo(env_fn, ..., ent_coef: float = 0.0, **options: Unpack[TorchOptions]):

They say how a run is executed and watched, and mean the same in every algorithm. The decorator
shows and accepts them one by one, with the defaults below; type checkers read the bundle.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_type_hints

if TYPE_CHECKING:
    from torch import nn
    from typing_extensions import Unpack as Unpack
else:
    Unpack = dict  # Python 3.10 has none; only type checkers look at what it means

# The defaults, in the order in which signatures show the arguments.
DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {
        "updates_per_step": 1.0,
        "num_envs": 1,
        "vector": "sync",
        "shards": None,
        "num_threads": None,
        "device": "cpu",
        "compile": None,
        "resume": False,
        "overwrite": False,
        "progress": False,
        "save_best": False,
        "on_epoch": None,
    }
)


class RunOptions(TypedDict, total=False):
    """How any run is executed; each backend adds the type of its networks."""

    num_envs: int
    vector: Literal["sync", "async"]
    shards: int | None
    num_threads: int | None
    device: str
    resume: bool
    overwrite: bool
    progress: bool
    save_best: bool


class TorchOptions(RunOptions, total=False):
    """How a run with torch networks is executed."""

    on_epoch: Callable[[dict[str, Any], nn.Module], Any] | None


class OffPolicyOptions(TorchOptions, total=False):
    """How an off-policy run with torch networks is executed."""

    updates_per_step: float
    compile: bool | Literal["graph"] | None


class TfOptions(RunOptions, total=False):
    """How a run with networks in a TensorFlow graph is executed."""

    on_epoch: Callable[[dict[str, Any], Any], Any] | None


class TfOffPolicyOptions(TfOptions, total=False):
    """How an off-policy run with networks in a TensorFlow graph is executed."""

    updates_per_step: float


def names(bundle: str) -> list[str]:
    """Return the arguments in a bundle, given by its name, in the order of signatures."""
    fields = getattr(globals().get(bundle), "__annotations__", {})
    return [name for name in DEFAULTS if name in fields]


def expanded(function: Callable[..., Any], changed: Mapping[str, Any]) -> inspect.Signature:
    """Return a function's signature with the arguments of its bundle one by one.

    `changed` contains the defaults in which the function differs from `DEFAULTS`.
    """
    signature = inspect.signature(function)
    parameters = list(signature.parameters.values())
    if not parameters or parameters[-1].kind is not inspect.Parameter.VAR_KEYWORD:
        return signature
    (bundle,) = getattr(parameters.pop().annotation, "__args__", (None,))
    if bundle is None:
        return signature
    try:
        types = get_type_hints(bundle, localns=function.__globals__)
    except NameError:  # a user's module that does not import `nn`
        types = bundle.__annotations__
    defaults = {**DEFAULTS, **changed}
    options = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=types[name]
        )
        for name in names(bundle.__name__)
    ]
    return signature.replace(parameters=[*parameters, *options])
