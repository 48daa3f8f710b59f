"""Recording a run's environment as JSON, so that it can be created again.

    env_record(make_env("LunarLander-v2"))   # {"id": "LunarLander-v3", "requested_id": ...}

`spinup.envs.wrappers` rebuilds wrappers from such a record.
"""

from __future__ import annotations

import contextlib
import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import RecordConstructorArgs

from spinup.envs.layers import Adapter, layers

__all__ = ["env_record", "is_plain", "wrapper_records"]


def env_record(env: Any) -> dict[str, Any]:
    """Record how to create this environment again, for `config.json` and saved policies.

    Every value is JSON, or None if it is unknown:

    - `id`: the ID that was created; `requested_id`: the ID that was passed to `make_env`;
    - `module`: the module to import first, for IDs passed as `module:id`;
    - `kwargs`: the constructor's arguments, without `render_mode`; `exact_kwargs`: False if some
      of them had to be replaced with their `repr`;
    - `max_episode_steps`: the shortest time limit in force;
    - `wrappers`: names of the wrappers, outermost first, without those added by `adapt_env`;
    - `wrapper_specs`: the data from which `spinup.envs.wrappers` rebuilds them, innermost first;
    - `class`: `module:qualname` of the innermost environment; `gymnasium`: the version;
    - `max_ep_len`, only for some of our own games: what the default means for them.

    Args:
        env: any environment, created by `make_env`, by `gymnasium.make` or directly.
    """
    stack = list(layers(env))
    base = getattr(env, "unwrapped", stack[-1])
    # Do not use env.spec: wrappers copy it, which fails for some wrappers and adds nothing about
    # the base environment.
    spec = getattr(base, "spec", None)
    requested = getattr(base, "_spinup_requested_id", None)
    kwargs = getattr(spec, "kwargs", getattr(spec, "_kwargs", None))  # the name in old gym
    if kwargs is not None:
        kwargs = {str(k): v for k, v in dict(kwargs).items() if k != "render_mode"}
    limits = [getattr(layer, "_max_episode_steps", None) for layer in stack]
    limits.append(getattr(spec, "max_episode_steps", None))
    cls = type(base)
    # a user's environment may use this name for something else
    longest = getattr(base, "max_ep_len", None) if cls.__module__.startswith("spinup.") else None
    return {
        "id": getattr(spec, "id", None),
        "requested_id": requested,
        "module": (requested or "").rpartition(":")[0] or None,
        "kwargs": _to_json(kwargs),
        "exact_kwargs": None if kwargs is None else is_plain(kwargs),
        "max_episode_steps": min((int(n) for n in limits if n is not None), default=None),
        "wrappers": [
            type(layer).__name__ for layer in stack[:-1] if not isinstance(layer, Adapter)
        ],
        "wrapper_specs": wrapper_records(env),
        "class": f"{cls.__module__}:{cls.__qualname__}",
        "gymnasium": gymnasium.__version__,
        **({} if longest is None else {"max_ep_len": longest}),
    }


def wrapper_records(env: Any) -> list[dict[str, Any]]:
    """Return the name, class and arguments of every wrapper, innermost first, as JSON.

    `kwargs` is None if the wrapper does not record its arguments or JSON cannot represent them.
    """
    wrappers = [layer for layer in layers(env) if not isinstance(layer, Adapter)][:-1]
    return [_record(wrapper) for wrapper in reversed(wrappers)]


def _record(wrapper: Any) -> dict[str, Any]:
    cls = type(wrapper)
    kwargs = None
    if isinstance(wrapper, RecordConstructorArgs):
        with contextlib.suppress(TypeError):
            kwargs = {k: _encode(v) for k, v in wrapper._saved_kwargs.items() if k != "env"}
    path = f"{cls.__module__}:{cls.__qualname__}"
    return {"name": cls.__name__, "class": path, "kwargs": kwargs}


def is_plain(value: Any) -> bool:
    """Test whether `_to_json` preserves the value (a tuple or an array becomes a list)."""
    if isinstance(value, dict):
        return all(isinstance(k, str) and is_plain(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(map(is_plain, value))
    if isinstance(value, np.ndarray | np.generic):
        return is_plain(value.tolist())
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def _to_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(k): _to_json(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(v) for v in value]
    if isinstance(value, np.ndarray | np.generic):
        return _to_json(value.tolist())
    return value if is_plain(value) else repr(value)


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if np.isfinite(value) else {"float": str(value)}
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in "biuf":
            raise TypeError
        flat = [_encode(v) for v in value.ravel().tolist()]
        return {"array": flat, "dtype": value.dtype.name, "shape": list(value.shape)}
    if isinstance(value, tuple):
        return {"tuple": [_encode(v) for v in value]}
    if isinstance(value, list):
        return [_encode(v) for v in value]
    if isinstance(value, np.dtype) or (isinstance(value, type) and issubclass(value, np.generic)):
        return {"dtype": np.dtype(value).name}
    raise TypeError
