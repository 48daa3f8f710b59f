"""Modules that exist for their names: user code imports from them what lives elsewhere."""

import importlib
from collections.abc import Callable
from typing import Any


def forward(target: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a module whose names are those of `target` (PEP 562).

    `target` is imported when a name is first asked for, so that importing the old path costs
    nothing and points at nothing above it.
    """

    def getattribute(name: str) -> Any:
        return getattr(importlib.import_module(target), name)

    def names() -> list[str]:
        return [n for n in dir(importlib.import_module(target)) if not n.startswith("__")]

    return getattribute, names


def run_main(target: str) -> int:
    """`python -m` of the old path: what `target` does as a program; its exit status."""
    status: int | None = importlib.import_module(target).main()
    return status or 0
