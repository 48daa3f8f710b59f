"""Creating environments by ID, in any version that a tutorial or an old script asks for.

    env = make_env("LunarLander-v2")     # creates LunarLander-v3, with a warning

`resolve_env_id` returns the ID of the environment that would be created.
"""

from __future__ import annotations

import copy
import functools
import importlib
import importlib.util
import inspect
import re
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import gymnasium
import numpy as np
from gymnasium import error
from gymnasium.envs.registration import EnvSpec, load_env_creator, parse_env_id

from spinup.utils.errors import SpinupError, check_name, nearest
from spinup.utils.importing import installed_only

__all__ = ["env_fn_of", "env_maker", "make_env", "resolve_env_id"]

# Packages that, when imported, register environments with IDs that match these patterns.
_ATARI = (
    r"ALE/.*|.*(NoFrameskip|Deterministic|-ram).*|(Pong|Breakout|SpaceInvaders|Qbert|Seaquest|"
    r"BeamRider|Enduro|MsPacman|Asteroids|Freeway|MontezumaRevenge|Boxing|Assault|Alien)(-v\d+)?"
)
_ROBOTICS = r"(Fetch|Hand(Reach|Manipulate)|AdroitHand|PointMaze|AntMaze|FrankaKitchen).*"
_PROVIDERS = (
    (re.compile(_ATARI), "ale_py", "pip install 'spinup[atari]'"),
    (re.compile(_ROBOTICS), "gymnasium_robotics", "pip install gymnasium-robotics"),
)
# A word in the entry point or the failed import, and the command that installs the package.
_DEPENDENCIES = (
    ("mujoco", "pip install 'spinup[mujoco]'"),
    ("box2d", "pip install 'spinup[box2d]'"),
    ("ale_py", "pip install 'spinup[atari]'"),
    ("minatar", "pip install 'spinup[minatar]'"),
    ("pygame", "pip install 'spinup[video]'"),
)
# Environments that `make_env` replaces with ours, which resume exactly.
_ATARI_ENV = "ale_py.env:AtariEnv"
_REPLACED = {
    "minatar.gym:BaseEnv": "spinup.envs.minatar:MinAtar",
    _ATARI_ENV: "spinup.envs.atari:Atari",
}
# Arguments of ale-py's environment that the preprocessed one does not have.
_RAW_ONLY = ("obs_type", "mode", "difficulty", "sound_obs")


def make_env(
    env_id: str, env_kwargs: Mapping[str, Any] | None = None, **make_kwargs: Any
) -> gymnasium.Env:
    """Create an environment by its ID.

    Args:
        env_id: an ID registered with Gymnasium, or `module:id`, which imports `module` first. If
            this version was removed or does not run, the newest version that works is created,
            with a warning that names both.
        env_kwargs: arguments for the environment's constructor, and `max_episode_steps`.
        make_kwargs: more such arguments, e.g. `render_mode="rgb_array"`; override `env_kwargs`.

    Raises:
        SpinupError: the ID is unknown, the environment does not take an argument, or a package is
            not installed (the message includes the command that installs it).
    """
    kwargs = _checked_kwargs(env_kwargs, make_kwargs)
    resolved = resolve_env_id(env_id)
    first = resolved.rpartition(":")[2]
    # The versions to try: the resolved one, then newer ones, newest first.
    spec = gymnasium.registry[first]
    newer = [s.id for s in _versions(spec.namespace, spec.name) if s.version > (spec.version or 0)]
    ids = [first, *reversed(newer)]

    failures: list[ImportError | error.Error] = []
    for made_id in ids:
        try:
            env = _gym_make(made_id, kwargs)
        except (ImportError, error.DependencyNotInstalled, error.DeprecatedEnv) as failure:
            failures.append(failure)
            continue
        except TypeError as failure:
            _raise_bad_kwargs(made_id, kwargs, failure)
        requested = env_id.rpartition(":")[2]
        if made_id != requested:
            known = parse_env_id(requested)[2] is not None
            reason = f"is not available with gymnasium {gymnasium.__version__}"
            warnings.warn(
                f"{requested} {reason if known else 'names no version'}: running {made_id} "
                "instead, the newest version that works",
                stacklevel=2,
            )
        # Set it on the innermost object, so that no wrapper added by the user hides it.
        env.unwrapped._spinup_requested_id = env_id  # type: ignore[attr-defined]
        return env
    # Help the user run the newest version: ids[1], if there is one.
    newest = min(1, len(ids) - 1)
    _raise_missing_dependency(env_id, ids[newest], failures[newest])


def env_maker(env_id: str, env_kwargs: Mapping[str, Any] | None = None) -> Callable[[], Any]:
    """Return a picklable `env_fn` that creates a new `env_id` on every call."""
    _check_id(env_id)
    return functools.partial(make_env, env_id, dict(env_kwargs or {}))


def env_fn_of(env: Any) -> Any:
    """Return the `env_fn` that a training function was meant to get: an ID becomes a function.

    Raises:
        SpinupError: `env` is an environment, of which a run cannot make a second one.
    """
    if isinstance(env, str):
        return env_maker(env)
    if not isinstance(env, type) and hasattr(env, "step") and hasattr(env, "reset"):
        spec = getattr(env, "spec", None)
        env_id = getattr(spec, "id", None) or "CartPole-v1"
        kind = type(getattr(env, "unwrapped", env)).__name__
        raise SpinupError(
            f"env_fn is an environment ({kind}), but training makes its own: pass the id "
            f"{env_id!r}, or a function such as lambda: gym.make({env_id!r})"
        )
    return env


def _check_id(env_id: Any) -> None:
    if not isinstance(env_id, str):
        raise SpinupError(
            f"an environment's id is a string such as 'CartPole-v1', not {env_id!r}: pass the id, "
            "or an env_fn that makes the environment"
        )


def resolve_env_id(env_id: str) -> str:
    """Return the ID of the environment that `make_env(env_id)` creates, without creating it.

    A prefix `module:` is kept, and the module is imported. An ID that is registered but fails
    because a package is missing is returned unchanged; `env_record` records the actual ID.

    Raises:
        SpinupError: no version of the environment is registered.
    """
    _check_id(env_id)
    check_name(env_id, "the environment's id")
    module, colon, name_part = env_id.rpartition(":")
    if module:
        import_module(module, env_id)
    try:
        namespace, name, version = parse_env_id(name_part)
    except error.Error as failure:
        hint = nearest(name_part, gymnasium.registry)
        raise SpinupError(
            f"{env_id!r} is not an environment id: write [module:][namespace/]Name-v0, such as "
            f"CartPole-v1{hint}"
        ) from failure

    versions = _versions(namespace, name)
    if not versions and name_part not in gymnasium.registry:
        import_providers(name_part, others=False)
        versions = _versions(namespace, name)
    if name_part in gymnasium.registry and not _is_stub(gymnasium.registry[name_part]):
        return env_id
    working = [spec for spec in versions if not _is_stub(spec)]
    # A version above the newest never existed: it is a mistake, not an old ID.
    if working and (version is None or version < working[-1].version):
        return module + colon + working[-1].id
    _raise_unknown(env_id, name_part, working and working[-1].id)


# ---------------------------------------------------------------------------------------------
# The registry
# ---------------------------------------------------------------------------------------------


def _versions(namespace: str | None, name: str) -> list[Any]:
    """Return the registered versions of an environment, oldest first."""
    specs = [s for s in gymnasium.registry.values() if (s.namespace, s.name) == (namespace, name)]
    return sorted((s for s in specs if s.version is not None), key=lambda spec: spec.version)


def _is_stub(spec: EnvSpec) -> bool:
    """Return whether an ID is registered only to report that the environment was removed.

    For MuJoCo v2 and v3, Gymnasium registers a function that raises; its real environments are
    classes, named by a string.
    """
    entry = spec.entry_point
    return inspect.isfunction(entry) and entry.__module__.split(".")[0] == "gymnasium"


def import_module(module: str, env_id: str) -> None:
    """Import the module that an ID names; raise SpinupError if it cannot be imported."""
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as failure:
        absent = failure.name or ""
        if module == absent or module.startswith(f"{absent}."):
            reason = f"there is no module {module!r} on the path"
        else:
            reason = f"the module {module!r} needs {absent!r}, which is not installed"
        raise SpinupError(
            f"{env_id} cannot be made because {reason}: install it, or run where it can be imported"
        ) from failure
    except (ValueError, TypeError) as failure:
        raise SpinupError(
            f"{env_id!r} is not an environment id: write module:Name-v0 with an importable module"
        ) from failure


def import_providers(env_id: str, others: bool = True) -> None:
    """Import the package that registers this ID, or raise an error with the install command.

    If `others`, import the other packages that are installed, too: `env_id` is only part of an ID.
    A saved policy may name the ID, so a file in the working directory does not count as a package.
    """
    for pattern, module, install in _PROVIDERS:
        needed = pattern.fullmatch(env_id)
        if needed or others:
            with installed_only():
                if importlib.util.find_spec(module) is not None:
                    importlib.import_module(module)
                elif needed:
                    raise SpinupError(
                        f"{env_id} needs the package {module}, which is not installed: run "
                        f"{install}"
                    )


def _raise_unknown(env_id: str, name_part: str, newest: str | list) -> NoReturn:
    twins = [known for known in gymnasium.registry if known.endswith(f"/{name_part}")]
    if twins or newest:  # Pong-v5: ALE/Pong-v5 rather than Pong-v4
        hint = f"; did you mean {min(twins) if twins else newest}?"
    else:
        hint = nearest(name_part, [known for known in gymnasium.registry if known != name_part])
    raise SpinupError(
        f"there is no environment {env_id!r}: ids of other packages are written module:Name-v0, "
        f"and gymnasium.pprint_registry() lists those that are registered{hint}"
    )


# ---------------------------------------------------------------------------------------------
# Creating environments
# ---------------------------------------------------------------------------------------------


def _checked_kwargs(
    env_kwargs: Mapping[str, Any] | None, make_kwargs: dict[str, Any]
) -> dict[str, Any]:
    if env_kwargs is not None and not isinstance(env_kwargs, Mapping):
        raise SpinupError(
            f"env_kwargs must be a dict of the environment's arguments, not {env_kwargs!r}"
        )
    kwargs = {**(env_kwargs or {}), **make_kwargs}
    if "id" in kwargs:
        raise SpinupError("env_kwargs must not hold 'id': name the environment with env_id")
    limit = kwargs.get("max_episode_steps")
    if limit is not None:
        whole = isinstance(limit, int | np.integer) and not isinstance(limit, bool)
        if not whole or (limit < 1 and limit != -1):
            raise SpinupError(
                f"max_episode_steps must be a positive integer (or -1 for none), not {limit!r}"
            )
        kwargs["max_episode_steps"] = int(limit)
    return kwargs


def _gym_make(env_id: str, kwargs: dict[str, Any]) -> gymnasium.Env:
    """Call `gymnasium.make` without its checker, which would cost time on every step.

    Its warning that a newer version exists is silenced too: if the version works, the user asked
    for it, and if not, `make_env` issues its own warning. So is the one that a window needs pygame.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", r".*is out of date", DeprecationWarning)
        warnings.filterwarnings("ignore", r".*HumanRendering wrapper is being applied")
        spec = copy.copy(gymnasium.spec(env_id))
        atari = spec.entry_point == _ATARI_ENV and spec.kwargs.get("frameskip") in (1, 4)
        raw = atari and kwargs.get("preprocessing") is False
        if atari and not raw:
            _check_preprocessed(env_id, kwargs)
            spec.kwargs = {**spec.kwargs, "frameskip": 4}  # also those with NoFrameskip in their ID
        if not raw and (atari or spec.entry_point != _ATARI_ENV):
            spec.entry_point = _REPLACED.get(str(spec.entry_point), spec.entry_point)
        given = {k: v for k, v in kwargs.items() if not (atari and k == "preprocessing")}
        env = gymnasium.make(spec, **{"disable_env_checker": True, **given})
        if atari and env.unwrapped.spec is not None:  # for the record of the environment
            env.unwrapped.spec.kwargs.update(
                {"preprocessing": False} if raw else env.unwrapped.settings  # type: ignore[attr-defined]
            )
        return env


def _check_preprocessed(env_id: str, kwargs: dict[str, Any]) -> None:
    if not isinstance(kwargs.get("preprocessing", True), bool):
        raise SpinupError(f"preprocessing must be true or false, not {kwargs['preprocessing']!r}")
    for name in _RAW_ONLY:
        if name in kwargs:
            raise SpinupError(
                f"{env_id} is preprocessed and has no argument {name!r}: add preprocessing=False "
                "(--env_kwargs:preprocessing false) for the environment of ale-py itself"
            )


def _raise_bad_kwargs(env_id: str, kwargs: dict[str, Any], failure: TypeError) -> NoReturn:
    """Raise an error that names the invalid argument; other TypeErrors keep their traceback."""
    text = str(failure)
    entry = gymnasium.registry[env_id].entry_point
    entry = _REPLACED.get(str(entry), entry)
    creator: Any = load_env_creator(entry) if isinstance(entry, str) else entry
    known = list(inspect.signature(creator).parameters)
    unexpected = re.search(r"unexpected keyword argument '(\w+)'", text)
    if unexpected and unexpected[1] in kwargs:
        name = unexpected[1]
        others = sorted(set(known) - {"self", "args", "kwargs"})
        takes = f"it takes {', '.join(others)}" if others else "it takes none"
        hint = nearest(name, others)
        raise SpinupError(
            f"{env_id} has no argument {name!r} ({takes}): correct env_kwargs{hint}"
        ) from failure
    missing = re.search(r"missing \d+ required .*?argument.*?: '(\w+)'", text)
    if missing and missing[1] in known and missing[1] not in kwargs:
        raise SpinupError(
            f"{env_id} needs the argument {missing[1]!r}: pass env_kwargs={{{missing[1]!r}: ...}}"
        ) from failure
    if "must inherit from the gymnasium.Env" in text or "Gym is incompatible" in text:
        raise SpinupError(
            f"{env_id} is registered but is not a gymnasium.Env: instead of its id, pass an env_fn "
            "that makes it, and it will be adapted"
        ) from failure
    raise failure


def _raise_missing_dependency(
    env_id: str, made_id: str, failure: ImportError | error.Error
) -> NoReturn:
    what = env_id if env_id.rpartition(":")[2] == made_id else f"{env_id} (now {made_id})"
    # Depending on the environment, its module or the failed import reveals the missing package.
    clues = f"{failure} {getattr(failure, 'name', '')} {gymnasium.registry[made_id].entry_point}"
    for clue, install in _DEPENDENCIES:
        if clue in clues.lower():
            raise SpinupError(
                f"{what} needs {clue}, which is not installed or not compatible: run {install}"
            ) from failure
    reason = " ".join(str(failure).split()).rstrip(".")
    raise SpinupError(f"{what} cannot be made ({reason}): install its dependencies") from failure
