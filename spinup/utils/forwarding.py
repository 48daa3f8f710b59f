"""Old import paths: modules that only forward names to where the code lives now."""

import importlib
from collections.abc import Callable
from typing import Any


def forward(target: str, **moved: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a module whose names are those of `target` (PEP 562).

    A module is imported when a name in it is first used, so that importing the old path loads
    nothing else.

    Args:
        target: the module that has the names.
        moved: names that live in another module, and that module.
    """

    def getattribute(name: str) -> Any:
        return getattr(importlib.import_module(moved.get(name, target)), name)

    def names() -> list[str]:
        own = dir(importlib.import_module(target))
        return sorted({*moved, *(name for name in own if not name.startswith("__"))})

    return getattribute, names


def run_main(target: str) -> int:
    """Run `target` as a program, for `python -m` of the old path; its exit status."""
    status: int | None = importlib.import_module(target).main()
    return status or 0
