"""The command `spinup probe`: which part of this algorithm is broken?"""

from __future__ import annotations

import ast
import contextlib
import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from spinup import registry
from spinup.cli.parsers import command_parser
from spinup.utils.errors import SpinupError, nearest, one_line
from spinup.utils.importing import import_from_here, import_object

# The parser is built first, because `--help` must not import a framework.


def main(argv: Sequence[str] | None = None) -> int:
    """Run `spinup probe FUNCTION`; return 0 (no fault), 1 (a fault) or 2 (it could not be run)."""
    try:
        args = command_parser("probe", beside=__file__).parse_args(argv)
        if args.adapter is None and args.function is None:
            raise SpinupError(
                "name a training function, as in 'spinup probe mymodule:myalgo' or 'spinup probe "
                "ppo', or pass --adapter FILE"
            )
        given = dict(_setting(text) for text in args.set)
        import_from_here()  # `module:function` may name a file in the working directory
        functions = _functions(args.function, args.adapter)
        reports = [_probe(function, name, args, given) for name, function in functions]
    except SpinupError as error:
        print(f"spinup: {one_line(error)}", file=sys.stderr)
        return 2
    if args.json:
        found = [report.to_dict() for report in reports]
        print(json.dumps(found[0] if len(found) == 1 else found, indent=2))
    return int(not all(report.passed for report in reports))


def _probe(function: Callable[..., Any], name: str, args: Any, given: dict[str, Any]) -> Any:
    from spinup_lab.probe import probe

    report = probe(
        function,
        name,
        only=args.only,
        gamma=args.gamma,
        given=given,
        adapter=args.adapter is not None,
        trust_pickle=args.trust_pickle,
    )
    if not args.json:
        print(report.text())
    return report


def _setting(text: str) -> tuple[str, Any]:
    """Split NAME=VALUE; a value that is neither JSON nor a Python literal is a string."""
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        raise SpinupError(f"--set needs NAME=VALUE, such as pi_lr=0.01, not {text!r}")
    for read in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError):
            return name, read(value)
    return name, value


def _functions(spec: str | None, adapter: str | None) -> list[tuple[str, Callable[..., Any]]]:
    if adapter is not None:
        path = Path(adapter)
        return [(path.name, _from_file(path, "train"))]
    assert spec is not None
    if spec == "all":
        return [(name, registry.load(name)) for name in registry.algorithms()]
    module, colon, name = spec.partition(":")
    if not colon:
        return [(spec, registry.load(spec))]
    if module.endswith(".py"):
        return [(spec, _from_file(Path(module), name))]
    return [(spec, _import(module, name))]


def _import(module: str, name: str) -> Callable[..., Any]:
    try:
        return import_object(module, name)
    except ModuleNotFoundError as error:
        if error.name and not module.startswith(error.name):
            raise SpinupError(
                f"the module '{module}' needs '{error.name}', which is not installed"
            ) from error
        raise SpinupError(
            f"there is no module '{module}' here: name one that 'import {module}' would find"
        ) from error
    except ImportError as error:
        found = sys.modules.get(module)
        known = [n for n, x in vars(found).items() if callable(x)] if found else []
        raise SpinupError(
            f"the module '{module}' has no function '{name}'{nearest(name, known)}"
        ) from error
    except Exception as error:  # the module may be anybody's
        raise SpinupError(
            f"the module '{module}' cannot be imported: {type(error).__name__}: {one_line(error)}"
        ) from error


def _from_file(path: Path, name: str) -> Callable[..., Any]:
    if not path.is_file():
        raise SpinupError(f"there is no file {path}: pass a Python file")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise SpinupError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:  # the file may contain anything
        raise SpinupError(
            f"{path} cannot be imported: {type(error).__name__}: {one_line(error)}"
        ) from error
    function = getattr(module, name, None)
    if not callable(function):
        raise SpinupError(f"{path} has no function '{name}'")
    return function
