"""From the name of an algorithm, as a user types it, to its training function."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from spinup.registry import ROWS, algorithms, exports, get, outside
from spinup.utils.errors import SpinupError, nearest

# Package that failed to import -> package to install with pip.
EXTRA_OF = {"tensorflow": "spinup[tf]", "mpi4py": "spinup[mpi]", "torch": "spinup"}


def unknown(spec: str) -> SpinupError:
    """Return the error for a name that no algorithm has, with the nearest name."""
    names = (*algorithms(), *outside())
    return SpinupError(
        f"there is no algorithm '{spec}': choose one of {', '.join(names)}"
        f"{nearest(spec, (*exports(), *names))}"
    )


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
