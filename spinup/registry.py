"""The algorithms: one row each. The exports, the command line, the docs and the tests read it.

No framework is imported here; `load` imports the module of one algorithm when asked.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spinup import user_config
from spinup.utils.errors import SpinupError, nearest

# The package that failed to import -> what to install with pip.
EXTRA_OF = {"tensorflow": "spinup[tf]", "mpi4py": "spinup[mpi]", "torch": "spinup"}


@dataclass(frozen=True)
class Algorithm:
    """One row: an algorithm and where it can be used.

    Attributes:
        name: name of the function, of its module and of its folder.
        backends: folders under `spinup/algos` that implement it, preferred one first.
        action_spaces: names of the Gymnasium action spaces that it supports.
        observation: 'vector' (a flattened Box) or 'goal' (a dict with a desired goal).
        mpi: whether it can run on several processes (`--cpu`).
        on_policy: whether it learns only from data of the current policy.
    """

    name: str
    backends: tuple[str, ...]
    action_spaces: tuple[str, ...]
    observation: str
    mpi: bool
    on_policy: bool

    def module(self, backend: str) -> str:
        """The dotted name of the module that holds the training function."""
        return f"spinup.algos.{backend}.{self.name}.{self.name}"

    def default_backend(self) -> str:
        """The backend that the user configured if it exists, else the first."""
        wanted = user_config.DEFAULT_BACKEND.get(self.name)
        return wanted if wanted in self.backends else self.backends[0]


_ANY = ("Discrete", "Box", "MultiDiscrete", "MultiBinary")

ROWS: tuple[Algorithm, ...] = (
    Algorithm("reinforce", ("pytorch",), _ANY, "vector", mpi=True, on_policy=True),
    Algorithm("vpg", ("pytorch",), _ANY, "vector", mpi=True, on_policy=True),
    Algorithm("trpo", ("pytorch",), _ANY, "vector", mpi=True, on_policy=True),
    Algorithm("ppo", ("pytorch",), _ANY, "vector", mpi=True, on_policy=True),
    Algorithm("ddpg", ("pytorch",), ("Box",), "vector", mpi=False, on_policy=False),
    Algorithm("td3", ("pytorch",), ("Box",), "vector", mpi=False, on_policy=False),
    Algorithm("sac", ("pytorch",), ("Box", "Discrete"), "vector", mpi=False, on_policy=False),
    Algorithm("dqn", ("pytorch",), ("Discrete",), "vector", mpi=False, on_policy=False),
    Algorithm("acer", ("pytorch",), ("Discrete", "Box"), "vector", mpi=False, on_policy=False),
    Algorithm("her", ("pytorch",), ("Discrete", "Box"), "goal", mpi=False, on_policy=False),
)


def algorithms() -> tuple[str, ...]:
    """The names of all algorithms, in the order of the rows."""
    return tuple(row.name for row in ROWS)


def exports() -> tuple[str, ...]:
    """Every name under which `spinup` exports a training function."""
    return tuple(
        name for row in ROWS for name in (row.name, *(f"{row.name}_{b}" for b in row.backends))
    )


def get(name: str) -> Algorithm:
    """The row of `name`; SpinupError, with the nearest name, if there is none."""
    for row in ROWS:
        if row.name == name:
            return row
    raise SpinupError(
        f"there is no algorithm '{name}': choose one of {', '.join(algorithms())}"
        f"{nearest(name, algorithms())}"
    )


def backends(name: str) -> tuple[str, ...]:
    """The backends that implement `name`."""
    return get(name).backends


def resolve(spec: str) -> tuple[str, str]:
    """`'ppo'` or `'ppo_pytorch'` -> `('ppo', 'pytorch')`; SpinupError for anything else."""
    for row in ROWS:
        if spec == row.name:
            return row.name, row.default_backend()
        if spec.startswith(row.name + "_"):
            backend = spec[len(row.name) + 1 :]
            if backend in row.backends:
                return row.name, backend
            raise SpinupError(
                f"'{row.name}' has no backend '{backend}': it has {', '.join(row.backends)}"
                f"{nearest(backend, row.backends)}"
            )
    raise SpinupError(
        f"there is no algorithm '{spec}': choose one of {', '.join(algorithms())}"
        f"{nearest(spec, exports())}"
    )


def load(name: str, backend: str | None = None) -> Callable[..., Any]:
    """Import and return the training function of `name` (`'ppo'` or `'ppo_pytorch'`)."""
    if backend is None:
        name, backend = resolve(name)
    row = get(name)
    if backend not in row.backends:
        resolve(f"{name}_{backend}")  # raises with the sentence for it
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
