"""Old import paths: modules that only forward names to the code's new location."""

from collections.abc import Callable
from typing import Any

from spinup.utils.importing import import_named


def forward(*targets: str, **moved: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module whose names are defined elsewhere (PEP 562).

    A target module is imported when one of its names is first used, so that importing the old path
    loads nothing else.

    Args:
        targets: the modules that define the names, searched in this order.
        moved: individual names from other modules, each with its module.
    """

    def getattribute(name: str) -> Any:
        if name == "__path__":  # the import system asks for it, to see whether this is a package
            raise AttributeError(name)
        if name == "__all__":  # for `from old_path import *`
            return [public for public in names() if not public.startswith("_")]
        for target in (moved[name],) if name in moved else targets:
            module = import_named(target)
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(f"there is no name {name!r} in {' or '.join(targets)}")

    def names() -> list[str]:
        found = {name for target in targets for name in dir(import_named(target))}
        return sorted({*moved, *(name for name in found if not name.startswith("__"))})

    return getattribute, names


def run_main(target: str) -> int:
    """Run `target` as a program, for `python -m` with the old path; return its exit status."""
    status: int | None = import_named(target).main()
    return status or 0
