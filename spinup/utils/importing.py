"""Importing what the user or a file names."""

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from spinup.utils.errors import SpinupError


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


def import_named(module: str) -> Any:
    """Import a module that a table of ours names; a missing package is one sentence."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.partition(".")[0]
        if error.name != package:
            raise
        raise SpinupError(
            f"{module} is in the package {package}, which is not installed: install spinup again"
        ) from error


def import_from_here() -> None:
    """Let names that the user typed find modules in the working directory, as `python -m` does.

    The directory is last on the path, so that no file there shadows an installed package.
    """
    here = os.getcwd()
    if here not in sys.path and "" not in sys.path:
        sys.path.append(here)


def is_here(folder: str) -> bool:
    """Return whether an entry of Python's search path is the working directory."""
    try:
        return os.path.samefile(folder or os.curdir, os.curdir)
    except OSError:  # it does not exist
        return False


@contextlib.contextmanager
def installed_only() -> Iterator[None]:
    """Leave the working directory out of Python's search path, where `python -m` puts it first.

    For imports that the user did not ask for by name, such as the package of an environment that a
    downloaded file mentions: the same folder could contain a module of that name.
    """
    kept = [folder for folder in sys.path if not is_here(folder)]
    before, sys.path[:] = sys.path[:], kept
    try:
        yield
    finally:
        sys.path[:] = before + [folder for folder in sys.path if folder not in kept]
