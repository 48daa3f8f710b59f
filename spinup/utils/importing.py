"""Importing an object by the names that a file recorded for it."""

import importlib
from typing import Any


def import_object(module: str, qualname: str) -> Any:
    """Return the object `qualname` (`Class` or `Outer.Inner`) from `module`.

    This executes the module: call it only with names that the user trusts. Raises `ImportError`
    for every name that cannot be resolved.
    """
    try:
        found: Any = importlib.import_module(module)
        for part in qualname.split("."):
            found = getattr(found, part)
    except (AttributeError, TypeError, ValueError) as error:  # also empty and relative names
        raise ImportError(str(error)) from error
    return found
