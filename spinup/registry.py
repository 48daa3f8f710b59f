"""The table of algorithms, used by the exports, the command line, the docs and the tests.

This module imports no framework; `load` imports one algorithm's module on demand. `spinup.names`
resolves names, and `spinup.plugins` finds algorithms outside this package.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from spinup import user_config


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
        function: the training function of an algorithm outside this package (`spinup.plugins`).
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
    for row in ROWS:
        if row.name == name:
            return row
    from spinup import plugins

    return plugins.find(name)


def get(name: str) -> Algorithm:
    """Return the row of `name`; raise SpinupError, with the nearest name, if there is none."""
    row = find(name)
    if row is None:
        from spinup import names

        raise names.unknown(name)
    return row


def outside() -> tuple[str, ...]:
    """Return the names of the algorithms outside this package, without importing them."""
    from spinup import plugins

    return plugins.names()


def row_of_run(name: str, arguments: Mapping[str, Any]) -> Algorithm:
    """Return the row of a run; a training function that nobody has registered also has one."""
    from spinup import plugins

    return find(name) or plugins.inferred(name, arguments)


def backends(name: str) -> tuple[str, ...]:
    """Return the backends that implement `name`."""
    return get(name).backends


def resolve(spec: str) -> tuple[str, str]:
    """Resolve `'ppo'` or `'ppo_pytorch'` to `('ppo', 'pytorch')`; raise if it is unknown."""
    from spinup import names

    return names.resolve(spec)


def load(name: str, backend: str | None = None) -> Callable[..., Any]:
    """Import and return the training function of `name` (`'ppo'` or `'ppo_pytorch'`)."""
    from spinup import names

    return names.load(name, backend)
