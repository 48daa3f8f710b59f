"""Applying a mutant: as a copy of a module, to this process, or to a whole program."""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import linecache
import os
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from spinup.utils.errors import SpinupError
from spinup_lab.bugs.mutants import Mutant, find, healthy_source, mutated

VARIABLE = "SPINUP_ZOO"  # names the mutant that a child process is to run with
_SWAPPED = ("__code__", "__defaults__", "__kwdefaults__")
_ACTIVE: list[str] = []  # the mutants that are applied to this process now


def source(name: str, dotted: str | None = None) -> str:
    """Return the text of a mutant's module (its first one by default) with the fault."""
    mutant = find(name)
    dotted = dotted or mutant.module
    return mutated(mutant, dotted, healthy_source(dotted))


def module(name: str, dotted: str | None = None) -> types.ModuleType:
    """Return a copy of a mutant's module with the fault. `sys.modules` keeps the healthy one.

    Only this copy has the fault: the modules that it imports are healthy.
    """
    mutant = find(name)
    return _copy(mutant, dotted or mutant.module)


def function(name: str, attribute: str) -> Any:
    """Return the faulty version of a function, a method (`Class.method`) or a class."""
    for dotted in find(name).modules:
        found: Any = module(name, dotted)
        for part in attribute.split("."):
            found = getattr(found, part, None)
        if found is not None:
            return found
    raise SpinupError(f"the modules of mutant {name} define no {attribute!r}")


@contextlib.contextmanager
def applied(name: str) -> Iterator[Mutant]:
    """Run this process with the fault, for the duration of a `with` block.

    The healthy functions get the faulty ones' code, so everybody who has imported them already
    runs the fault too, and existing objects do. Afterwards they have their own code again.
    """
    mutant = find(name)
    if _ACTIVE:
        raise SpinupError(f"mutant {_ACTIVE[0]} is applied already: apply one at a time")
    undo: list[tuple[Any, str, Any]] = []
    for dotted in mutant.modules:
        healthy = importlib.import_module(dotted)
        faulty = _copy(mutant, dotted)
        for mine, theirs in _pairs(vars(healthy), vars(faulty), dotted):
            if (
                not _same(mine.__code__, theirs.__code__)
                or mine.__defaults__ != theirs.__defaults__
            ):
                undo += [(mine, slot, getattr(mine, slot)) for slot in _SWAPPED]
                for slot in _SWAPPED:
                    setattr(mine, slot, getattr(theirs, slot))
        for added in vars(faulty).keys() - vars(healthy).keys():
            undo.append((healthy, added, _MISSING))
            setattr(healthy, added, getattr(faulty, added))
    if not undo:
        raise SpinupError(f"mutant {name} changes no function: nothing can be applied")
    _ACTIVE.append(name)
    try:
        yield mutant
    finally:
        _ACTIVE.remove(name)
        for owner, slot, value in reversed(undo):
            if value is _MISSING:
                delattr(owner, slot)
            else:
                setattr(owner, slot, value)


_MISSING = object()


def _copy(mutant: Mutant, dotted: str) -> types.ModuleType:
    """Load a mutant's version of a module under the module's name, outside `sys.modules`."""
    spec = importlib.util.find_spec(dotted)
    if spec is None or spec.origin is None:
        raise SpinupError(f"mutant {mutant.id} changes {dotted}, which does not exist")
    spec.loader = loader = _Loader(mutant, dotted, spec.origin)
    copy = importlib.util.module_from_spec(spec)
    loader.exec_module(copy)
    return copy


def _compiled(mutant: Mutant, dotted: str, text: str) -> types.CodeType:
    """Compile faulty source; tracebacks and `inspect.getsource` show its own lines."""
    filename = f"<zoo {mutant.id}: {dotted}>"
    linecache.cache[filename] = (len(text), None, text.splitlines(keepends=True), filename)
    return compile(text, filename, "exec", dont_inherit=True)


def _pairs(
    healthy: Mapping[str, Any], faulty: Mapping[str, Any], dotted: str
) -> Iterator[tuple[types.FunctionType, types.FunctionType]]:
    """Yield the functions that a module or class defines, healthy and faulty side by side."""
    for name, mine in healthy.items():
        theirs = faulty.get(name)
        if getattr(mine, "__module__", dotted) != dotted:
            continue
        if inspect.isclass(mine) and inspect.isclass(theirs):
            yield from _pairs(vars(mine), vars(theirs), dotted)
        yield from zip(_functions(mine), _functions(theirs), strict=False)


def _functions(x: Any) -> Iterator[types.FunctionType]:
    """Yield the plain functions inside a function, property, method or decorated function."""
    if isinstance(x, property):
        for part in (x.fget, x.fset, x.fdel):
            yield from _functions(part)
    elif isinstance(x, (staticmethod, classmethod)):
        yield from _functions(x.__func__)
    elif hasattr(x, "__wrapped__"):
        yield from _functions(x.__wrapped__)
    elif inspect.isfunction(x):
        yield x


def _same(a: types.CodeType, b: types.CodeType) -> bool:
    """Return whether two code objects do the same; they may come from different lines."""
    names = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars")
    if any(getattr(a, name) != getattr(b, name) for name in names):
        return False
    if len(a.co_consts) != len(b.co_consts):
        return False
    for x, y in zip(a.co_consts, b.co_consts, strict=True):
        if isinstance(x, types.CodeType) and isinstance(y, types.CodeType):
            if not _same(x, y):
                return False
        elif type(x) is not type(y) or x != y:
            return False
    return True


# ---- whole programs ------------------------------------------------------------------------------


class _Loader(importlib.machinery.SourceFileLoader):
    """Loads a mutant's version of a module; it neither reads nor writes compiled files."""

    def __init__(self, mutant: Mutant, dotted: str, path: str):
        super().__init__(dotted, path)
        self.mutant = mutant

    def get_code(self, fullname: str) -> types.CodeType:
        text = mutated(self.mutant, fullname, self.get_data(self.path).decode("utf-8"))
        return _compiled(self.mutant, fullname, text)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, mutant: Mutant):
        self.mutant = mutant

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname not in self.mutant.modules:
            return None
        rest = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(fullname, path, target) for finder in rest)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(self.mutant, fullname, spec.origin)
        return spec


def install(name: str) -> Mutant:
    """Let this process, from now on, import the mutant's version of the modules it changes."""
    mutant = find(name)
    if early := [dotted for dotted in mutant.modules if dotted in sys.modules]:
        raise SpinupError(
            f"mutant {name} comes too late, as {early[0]} is imported already: start a new process "
            f"with python -m spinup_lab.bugs {name} -- MODULE"
        )
    sys.meta_path.insert(0, _Finder(mutant))
    return mutant


def child_environment(name: str, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return environment variables with which a Python program, and its children, have the fault.

    `site/sitecustomize.py`, which Python imports at its start, then calls `install`.
    """
    find(name)
    environ = dict(os.environ if environ is None else environ)
    site = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
    paths = [site, environ.get("PYTHONPATH", "")]
    return {
        **environ,
        VARIABLE: name,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }
