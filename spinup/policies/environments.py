"""Recreate a saved policy's environment from the description that the run recorded."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from spinup.utils.errors import SpinupError, printable
from spinup.utils.importing import installed_only

_RAW_ATARI = "ale_py.env:AtariEnv"
# Wrappers that `gymnasium.make` applies automatically.
_STANDARD_WRAPPERS = {"TimeLimit", "OrderEnforcing", "PassiveEnvChecker"}
# Wrappers whose observations are rendered images.
_SEES_PICTURES = {"AddRenderObservation"}
# Registered ids whose arguments name another environment to create, possibly as `module:id`.
_INDIRECT_IDS = re.compile(r"GymV\d+Environment(-v\d+)?")


def names_module(env_id: str) -> bool:
    """Return whether creating an environment imports a module that its id or arguments name."""
    return ":" in env_id or _INDIRECT_IDS.fullmatch(env_id) is not None


def saved_env(
    env: Any,
    env_kwargs: Mapping[str, Any] | None,
    meta: dict[str, Any],
    render_mode: str | None,
    trust: bool,
) -> Any:
    """Return the environment of a save, or the one that the caller names instead.

    The run's own id, given by the caller, still has the arguments and wrappers that were recorded.
    """
    record = meta.get("env")
    record = record if isinstance(record, dict) else {}
    env_id, kwargs, named = record.get("id"), _kwargs(record), env is not None
    if named and (kwargs is None or not _names(env, env_id)):
        return given_env(env, env_kwargs, render_mode)
    if not named:
        if not isinstance(env_id, str):
            raise SpinupError(
                "the file does not have the id of its environment: pass one with env=... (--env on "
                "the command line)"
            )
        module = record.get("module")
        if ":" in env_id:
            module, _, env_id = env_id.rpartition(":")
        if (module or names_module(env_id)) and not trust:
            # Importing a module runs its code, and this name comes from a file.
            raise SpinupError(
                f"the file asks to import {module or 'a module'} to make {env_id}: pass the "
                "environment with env=... (--env), or trust_pickle=True (--trust-pickle) if you "
                "trust the file"
            )
        env = f"{module}:{env_id}" if module else env_id
    if kwargs is None:
        raise SpinupError(
            f"some arguments of {env_id} could not be saved: "
            "pass the environment with env=... (--env)"
        )
    return _rewrapped(env, {**kwargs, **(env_kwargs or {})}, record, render_mode, trust, named)


def _names(env: Any, env_id: Any) -> bool:
    """Return whether a caller's environment is the recorded id, with or without its module."""
    if not isinstance(env, str) or not isinstance(env_id, str):
        return False
    return env.rpartition(":")[2] == env_id.rpartition(":")[2]


def _kwargs(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the recorded arguments, or None if some could not be saved."""
    kwargs = record.get("kwargs") or {}
    named = isinstance(kwargs, dict) and all(name.isidentifier() for name in kwargs)
    if not named or record.get("exact_kwargs") is False:
        return None
    if "vectorization_mode" in kwargs:  # of `gymnasium.make_vec`; a policy is played in one
        kwargs = {k: v for k, v in kwargs.items() if k not in ("vectorization_mode", "num_envs")}
    # `make_env` would preprocess the game, which `gymnasium.make` did not
    raw = {"preprocessing": False} if record.get("class") == _RAW_ATARI else {}
    return {**raw, **kwargs}


def _rewrapped(
    env_id: str,
    kwargs: dict[str, Any],
    record: dict[str, Any],
    render_mode: str | None,
    trust: bool,
    named: bool,
) -> Any:
    """Create the environment with its wrappers.

    If some of these cannot be rebuilt from a file, that is an error; if the caller has `named` the
    environment, a warning.
    """
    from spinup.envs import adapt_env
    from spinup.envs.wrappers import rewrap

    limit = kwargs.pop("max_episode_steps", None)  # the caller's limit overrides the saved one
    specs = record.get("wrapper_specs")
    if render_mode is None and isinstance(specs, list):
        pictures = any(isinstance(s, dict) and s.get("name") in _SEES_PICTURES for s in specs)
        render_mode = "rgb_array" if pictures else None

    def make(saved_limit: int | None) -> Any:
        steps = saved_limit if limit is None else limit
        limited = kwargs if steps is None else {**kwargs, "max_episode_steps": steps}
        try:
            # A module in the working directory is not what the file means by a package's name.
            with contextlib.nullcontext() if trust or named else installed_only():
                return _made_by_id(env_id, limited, render_mode)
        except SpinupError:
            raise
        except Exception as error:  # arguments from a file can make a constructor raise anything
            raise SpinupError(
                f"{env_id} cannot be made as it was saved "
                f"({type(error).__name__}: {str(error)[:300]}): pass the environment with env=... "
                "(--env)"
            ) from error

    if isinstance(specs, list):
        made, missing = rewrap(make, specs, trust)
    else:  # saved by a version that recorded only the wrappers' names
        steps = record.get("max_episode_steps")
        whole = isinstance(steps, int) and not isinstance(steps, bool) and steps > 0
        made = make(steps if whole else None)
        names = record.get("wrappers")
        named = names if isinstance(names, list) else []
        missing = [str(name) for name in named if name not in _STANDARD_WRAPPERS]
    if missing:
        fault = (
            f"the policy was trained in {env_id} with {printable(', '.join(missing))}, which "
            "cannot be rebuilt from a file"
        )
        if not named:
            raise SpinupError(f"{fault}: pass the environment with env=... (--env)")
        warnings.warn(f"{fault} and is left out", stacklevel=5)
    return adapt_env(made)


def _made_by_id(env_id: str, kwargs: dict[str, Any], render_mode: str | None) -> Any:
    from spinup.envs import make_env

    drawing = {} if render_mode is None else {"render_mode": render_mode}
    return make_env(env_id, kwargs, **drawing)


def given_env(env: Any, env_kwargs: Mapping[str, Any] | None, render_mode: str | None) -> Any:
    """Adapt the caller's environment: an id, a function that creates it, or an instance."""
    from spinup.envs import adapt_env

    if isinstance(env, str):
        return adapt_env(_made_by_id(env, dict(env_kwargs or {}), render_mode))
    if env_kwargs:
        raise SpinupError("env_kwargs work only with an environment id: leave them out")
    if isinstance(env, type) or (callable(env) and not hasattr(env, "step")):
        env = env()
    return adapt_env(env)


def check_spaces_agree(meta: dict[str, Any], env: Any) -> None:
    from spinup.envs import space_from_json
    from spinup.envs.spaces import is_image

    for name in ("observation_space", "action_space"):
        saved, here = space_from_json(meta[name]), getattr(env, name)
        same_size = all(
            np.array_equal(np.asarray(getattr(saved, size, 0)), np.asarray(getattr(here, size, 0)))
            for size in ("shape", "n", "nvec", "start")
        )
        # Bounds are not compared, because they make no difference to the network.
        same_type = type(saved).__name__ == type(here).__name__
        if is_image(saved):  # an encoder scales them
            same_type = same_type and saved.dtype == here.dtype
        if not same_type or not same_size:
            raise SpinupError(
                f"the policy was trained with the {name.replace('_', ' ')} {saved}, but this "
                f"environment has {here}: pass its training environment with env=... (--env)"
            )
