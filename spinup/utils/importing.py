"""Importing what the user or a file names."""

import importlib
import os
import sys
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


def import_from_here() -> None:
    """Let names that the user typed find modules in the working directory, as `python -m` does.

    The directory is last on the path, so that no file there shadows an installed package.
    """
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)
