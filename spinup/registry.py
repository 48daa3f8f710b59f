"""The algorithms: the library's own, and those that live outside this package.

`ROWS` is the table that the exports, the command line, the docs and the tests read. Two ways make
another algorithm known to the command line, grids, `test_policy` and resume:

    spinup.register("myalgo", myalgo)           # in this process

    [project.entry-points."spinup.algorithms"]  # in pyproject.toml, for an installed package
    myalgo = "mypackage.myalgo:myalgo"

Nothing, and no framework, is imported until an algorithm is used.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from spinup import user_config
from spinup.utils.errors import SpinupError, nearest, one_line

if TYPE_CHECKING:
    from importlib import metadata

# Package that failed to import -> package to install with pip.
EXTRA_OF = {"tensorflow": "spinup[tf]", "mpi4py": "spinup[mpi]", "torch": "spinup"}

GRAPH_SAVER = "spinup.algos.tf1.common.saver"  # imported by name from the logger, a layer below

_REGISTERED: dict[str, Algorithm] = {}  # what this process has registered or loaded


@dataclass(frozen=True)
class Algorithm:
    """One row of the table: an algorithm and where it can be used.

    Attributes:
        name: name of the function, its module and its folder.
        backends: folders under `spinup/algos` that implement it, the preferred backend first.
        action_spaces: names of the Gymnasium action spaces that it supports.
        observation: 'vector' (a flattened Box) or 'goal' (a dict with a desired goal).
        mpi: whether it can run in several processes (`--cpu`).
        on_policy: whether it learns only from data of the current policy.
        function: the training function of an algorithm outside this package.
    """

    name: str
    backends: tuple[str, ...]
    action_spaces: tuple[str, ...]
    observation: str
    mpi: bool
    on_policy: bool
    function: Callable[..., Any] | None = None

    def module(self, backend: str) -> str:
        """Return the dotted name of the module that contains the training function."""
        if self.function is not None:
            return self.function.__module__
        return f"spinup.algos.{backend}.{self.name}.{self.name}"

    def default_backend(self) -> str:
        """Return the configured backend if the algorithm has it, else the first one."""
        wanted = user_config.DEFAULT_BACKEND.get(self.name)
        return wanted if wanted in self.backends else self.backends[0]


ANY_ACTIONS = ("Discrete", "Box", "MultiDiscrete", "MultiBinary")

ROWS: tuple[Algorithm, ...] = (
    Algorithm("reinforce", ("pytorch",), ANY_ACTIONS, "vector", mpi=True, on_policy=True),
    Algorithm("vpg", ("pytorch", "tf1"), ANY_ACTIONS, "vector", mpi=True, on_policy=True),
    Algorithm("trpo", ("pytorch", "tf1"), ANY_ACTIONS, "vector", mpi=True, on_policy=True),
    Algorithm("ppo", ("pytorch", "tf1"), ANY_ACTIONS, "vector", mpi=True, on_policy=True),
    Algorithm("ddpg", ("pytorch", "tf1"), ("Box",), "vector", mpi=False, on_policy=False),
    Algorithm("td3", ("pytorch", "tf1"), ("Box",), "vector", mpi=False, on_policy=False),
    Algorithm("sac", ("pytorch", "tf1"), ("Box", "Discrete"), "vector", mpi=False, on_policy=False),
    Algorithm("dqn", ("pytorch",), ("Discrete",), "vector", mpi=False, on_policy=False),
    Algorithm("acer", ("pytorch",), ("Discrete", "Box"), "vector", mpi=False, on_policy=False),
    Algorithm("her", ("pytorch",), ("Discrete", "Box"), "goal", mpi=False, on_policy=False),
)


def algorithms() -> tuple[str, ...]:
    """Return the names of all algorithms, in table order."""
    return tuple(row.name for row in ROWS)


def exports() -> tuple[str, ...]:
    """Return every name under which `spinup` exports a training function."""
    return tuple(
        name for row in ROWS for name in (row.name, *(f"{row.name}_{b}" for b in row.backends))
    )


def find(name: str) -> Algorithm | None:
    """Return the row of `name`, also of an algorithm outside this package; None if unknown."""
    for row in (*ROWS, *_REGISTERED.values()):
        if row.name == name:
            return row
    for entry in _entry_points():
        if entry.name == name:
            return _load(entry)
    return None


def get(name: str) -> Algorithm:
    """Return the row of `name`; raise SpinupError, with the nearest name, if there is none."""
    row = find(name)
    if row is None:
        raise unknown(name)
    return row


def row_of_run(name: str, arguments: Mapping[str, Any]) -> Algorithm:
    """Return the row of a run; a training function that nobody has registered also has one."""
    return find(name) or inferred(name, arguments)


def inferred(name: str, arguments: Mapping[str, Any]) -> Algorithm:
    """Return the row of an algorithm of which only the arguments are known."""
    on_policy = "replay_size" not in arguments
    return Algorithm(name, ("pytorch",), ANY_ACTIONS, "vector", mpi=on_policy, on_policy=on_policy)


def backends(name: str) -> tuple[str, ...]:
    """Return the backends that implement `name`."""
    return get(name).backends


def resolve(spec: str) -> tuple[str, str]:
    """Resolve `'ppo'` or `'ppo_pytorch'` to `('ppo', 'pytorch')`; raise if it is unknown."""
    for row in ROWS:
        if spec == row.name:
            return row.name, row.default_backend()
        if spec.startswith(row.name + "_") and spec[len(row.name) + 1 :] in row.backends:
            return row.name, spec[len(row.name) + 1 :]
    # The longest first: one name may be the beginning of another.
    for name in sorted((*outside(), *algorithms()), key=len, reverse=True):
        if spec == name:
            return name, get(name).default_backend()
        if spec.startswith(name + "_"):
            row, backend = get(name), spec[len(name) + 1 :]
            if backend in row.backends:
                return name, backend
            raise SpinupError(
                f"'{name}' has no backend '{backend}': it has {', '.join(row.backends)}"
                f"{nearest(backend, row.backends)}"
            )
    raise unknown(spec)


def unknown(spec: str) -> SpinupError:
    """Return the error for a name that no algorithm has, with the nearest name."""
    names = (*algorithms(), *outside())
    return SpinupError(
        f"there is no algorithm '{spec}': choose one of {', '.join(names)}"
        f"{nearest(spec, (*exports(), *names))}"
    )


def load(name: str, backend: str | None = None) -> Callable[..., Any]:
    """Import and return the training function of `name` (`'ppo'` or `'ppo_pytorch'`)."""
    if backend is None:
        name, backend = resolve(name)
    row = get(name)
    if backend not in row.backends:
        resolve(f"{name}_{backend}")  # raises the error for an unknown backend
    if row.function is not None:
        return row.function
    try:
        module = importlib.import_module(row.module(backend))
    except ModuleNotFoundError as error:
        package = (error.name or "").split(".")[0]
        if package not in EXTRA_OF:
            raise
        raise SpinupError(
            f"{name} on {backend} needs the package '{package}', which is not installed: "
            f"run pip install '{EXTRA_OF[package]}'"
        ) from error
    function: Callable[..., Any] = getattr(module, name)
    return function


# ----------------------------------------------------------------- algorithms outside this package


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


def outside() -> tuple[str, ...]:
    """Return the names of the algorithms outside this package, without importing them."""
    own = {row.name for row in ROWS}
    installed = (entry.name for entry in _entry_points())
    return tuple(dict.fromkeys(n for n in (*_REGISTERED, *installed) if n not in own))


def _entry_points() -> tuple[metadata.EntryPoint, ...]:
    from spinup.utils.importing import installed_only

    # A folder in the working directory must not add commands: it may have been downloaded.
    with installed_only():
        return _entry_points_on(tuple(sys.path))


@functools.cache
def _entry_points_on(path: tuple[str, ...]) -> tuple[metadata.EntryPoint, ...]:
    """Read the metadata of all packages on Python's search path, which is `path`, once."""
    from importlib import metadata

    return tuple(metadata.entry_points(group="spinup.algorithms"))


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
