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
from typing import TYPE_CHECKING, Any, Literal, TypedDict, get_type_hints, is_typeddict

if TYPE_CHECKING:
    from torch import nn
    from typing_extensions import Unpack as Unpack
else:
    Unpack = dict  # Python 3.10 has none; only type checkers look at what it means

# The defaults, in the order in which signatures show the arguments.
_LIMITS = dict(vector="sync", shards=None, num_threads=None, device="cpu", compile=None)
_FILES = dict(resume=False, overwrite=False, progress=False, save_best=False, on_epoch=None)
DEFAULTS = MappingProxyType(dict(updates_per_step=1.0, num_envs=1, **_LIMITS, **_FILES))


class RunOptions(TypedDict, total=False):
    """How any run is executed; the bundles below add the types of a backend's networks."""

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
    on_epoch: Callable[[dict[str, Any], nn.Module], Any] | None


class OffPolicyOptions(TorchOptions, total=False):
    updates_per_step: float
    compile: bool | Literal["graph"] | None


class TfOptions(RunOptions, total=False):
    on_epoch: Callable[[dict[str, Any], Any], Any] | None


class TfOffPolicyOptions(TfOptions, total=False):
    updates_per_step: float


def names(bundle: str) -> list[str]:
    """Return the arguments in a bundle, given by its name, in the order of signatures."""
    return [n for n in DEFAULTS if n in getattr(globals().get(bundle), "__annotations__", {})]


def expanded(function: Callable[..., Any], changed: Mapping[str, Any]) -> inspect.Signature:
    """Return a function's signature, its bundle as single arguments; `changed` are its defaults."""
    signature = inspect.signature(function)
    own = list(signature.parameters.values())
    bundle: Any = getattr(own[-1].annotation, "__args__", ("",))[0] if own else ""
    if not is_typeddict(bundle):
        return signature
    last = own.pop()
    try:
        types = get_type_hints(bundle, localns=function.__globals__)
    except NameError:  # a user's module that does not import `nn`
        types = bundle.__annotations__
    for name, value in {**DEFAULTS, **changed}.items():
        if name in types:
            option = last.replace(name=name, kind=last.KEYWORD_ONLY, annotation=types[name])
            own.append(option.replace(default=value))
    return signature.replace(parameters=own)
