"""Algorithms that live outside this package.

    spinup.register("myalgo", myalgo)           # in this process

    [project.entry-points."spinup.algorithms"]  # in pyproject.toml, for an installed package
    myalgo = "mypackage.myalgo:myalgo"

Both make an algorithm known to the command line, grids, `test_policy` and resume. Installed
algorithms are found by reading the packages' metadata; nothing is imported until one is used.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from typing import Any

from spinup.registry import ANY_ACTIONS, ROWS, Algorithm
from spinup.utils.errors import SpinupError, one_line
from spinup.utils.importing import installed_only

GROUP = "spinup.algorithms"

_REGISTERED: dict[str, Algorithm] = {}  # what this process has registered or loaded


def register(
    name: str,
    function: Callable[..., Any],
    backend: str = "pytorch",
    *,
    action_spaces: Sequence[str] = ANY_ACTIONS,
    observation: str = "vector",
    on_policy: bool | None = None,
    mpi: bool | None = None,
) -> None:
    """Make a training function known by name, as the library's own are; a later call replaces it.

    Args:
        name: the name to type, and the name that the function passes to `TorchRun` or `TfRun`.
        function: the training function: its first argument is `env_fn`, and it takes `seed` and
            `logger_kwargs`.
        backend: the framework of its networks, which decides what `--act` means.
        action_spaces: names of the Gymnasium action spaces that it supports.
        observation: 'vector', or 'goal' for goal environments.
        on_policy: whether it learns only from data of the current policy. None means that it does
            if it has no argument `replay_size`.
        mpi: whether it can run in several processes. None means that on-policy algorithms can.
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise SpinupError(
            f"an algorithm's name must be an identifier such as 'myalgo', not {name!r}"
        )
    if any(name == row.name for row in ROWS):
        raise SpinupError(f"'{name}' is an algorithm of this library: choose another name")
    if not callable(function):
        raise SpinupError(f"register('{name}', ...) needs a training function, not {function!r}")
    unknown = sorted(set(action_spaces) - set(ANY_ACTIONS))
    if unknown:
        raise SpinupError(
            f"'{unknown[0]}' is not an action space: choose from {', '.join(ANY_ACTIONS)}"
        )
    guess = inferred(name, inspect.signature(function).parameters)
    chosen = guess.on_policy if on_policy is None else on_policy
    _REGISTERED[name] = Algorithm(
        name,
        (backend,),
        tuple(action_spaces),
        observation,
        mpi=chosen if mpi is None else mpi,
        on_policy=chosen,
        function=function,
    )


def inferred(name: str, arguments: Mapping[str, Any]) -> Algorithm:
    """Return the row of an algorithm of which only the arguments are known."""
    on_policy = "replay_size" not in arguments
    return Algorithm(name, ("pytorch",), ANY_ACTIONS, "vector", mpi=on_policy, on_policy=on_policy)


def names() -> tuple[str, ...]:
    """Return the names of all algorithms outside the package, without importing any."""
    own = {row.name for row in ROWS}
    installed = (entry.name for entry in _entry_points())
    return tuple(dict.fromkeys(n for n in (*_REGISTERED, *installed) if n not in own))


def find(name: str) -> Algorithm | None:
    """Return the row of an algorithm outside the package, which is imported; None if unknown."""
    if name in _REGISTERED:
        return _REGISTERED[name]
    for entry in _entry_points():
        if entry.name == name:
            return _load(entry)
    return None


def _entry_points() -> tuple[metadata.EntryPoint, ...]:
    # A folder in the working directory must not add commands: it may have been downloaded.
    with installed_only():
        return _entry_points_on(tuple(sys.path))


@functools.cache
def _entry_points_on(path: tuple[str, ...]) -> tuple[metadata.EntryPoint, ...]:
    """Read the metadata of all packages on Python's search path, which is `path`, once."""
    return tuple(metadata.entry_points(group=GROUP))


def _load(entry: metadata.EntryPoint) -> Algorithm:
    """Import an installed algorithm; its module may call `register` itself to say more."""
    package = entry.dist.name if entry.dist else entry.module
    try:
        function = entry.load()
    except Exception as error:  # a package can raise anything when it is imported
        raise SpinupError(
            f"the algorithm '{entry.name}' of the package '{package}' cannot be imported "
            f"({type(error).__name__}: {one_line(error)}): correct or uninstall the package"
        ) from error
    if entry.name not in _REGISTERED:
        register(entry.name, function)
    return _REGISTERED[entry.name]
