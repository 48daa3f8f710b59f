"""`spinup envs [PATTERN]`: the environments that can be made here, with their spaces."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import textwrap
import warnings
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any

from spinup.cli.parsers import command_parser
from spinup.runs.screen import columns
from spinup.utils.errors import SpinupError, nearest
from spinup.utils.importing import import_from_here


def main(argv: Sequence[str] | None = None) -> int:
    """Make every matching environment once, and list those that work."""
    args = command_parser("envs").parse_args(argv)
    ids = matching(args.pattern, args.all)
    rows, missing = [("id", "actions", "observations")], []
    with _elsewhere():
        for env_id in ids:
            env = _made(env_id)
            if env is None:
                missing.append(env_id)
                continue
            rows.append((env_id, _space(env.action_space), _space(env.observation_space)))
            env.close()
    widths = [max(len(row[i]) for row in rows) for i in range(2)]
    if len(rows) > 1:
        for name, act, obs in rows:
            print(f"{name:<{widths[0]}}  {act:<{widths[1]}}  {obs}"[: columns()].rstrip())
    if missing:
        shown = ", ".join(missing[:6]) + (", ..." if len(missing) > 6 else "")
        verb = "is" if len(missing) == 1 else "are"
        text = (
            f"{len(missing)} more {verb} registered, but cannot be made here because a package is "
            f"missing or too new: {shown}. 'spinup ppo --env ID' says which, or what runs instead."
        )
        print("\n" * (len(rows) > 1) + textwrap.fill(text, columns(), break_on_hyphens=False))
    return 0


def matching(pattern: str, everything: bool) -> list[str]:
    """Return the registered ids that match a pattern; raise SpinupError if there are none."""
    import gymnasium

    from spinup.envs.make import import_module, import_providers

    module, _, pattern = pattern.rpartition(":")
    if module:
        import_from_here()
        import_module(module, f"{module}:{pattern}")
    if pattern:
        import_providers(pattern)
    specs = sorted(gymnasium.registry.values(), key=lambda spec: spec.id.lower())
    wild = any(c in pattern for c in "*?[")
    wanted = pattern.lower() if wild else f"*{_escaped(pattern.lower())}*"
    found = [spec for spec in specs if fnmatchcase(spec.id.lower(), wanted)]
    newest = {(s.namespace, s.name): s.version for s in sorted(specs, key=lambda s: s.version or 0)}
    named = bool(re.search(r"-v[\d?*]+$", pattern))
    if not everything and not named:
        found = [s for s in found if newest[s.namespace, s.name] == s.version]
    if not everything and "probe" not in pattern.lower():
        found = [s for s in found if not s.id.startswith("spinup/Probe")]
    if not found:
        raise SpinupError(
            f"no environment matches '{pattern}': 'spinup envs' lists all, and ids of other "
            f"packages need module:PATTERN{nearest(pattern, [s.id for s in specs])}"
        )
    return [spec.id for spec in found]


def _escaped(text: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", text)


def _made(env_id: str) -> Any:
    """Make an environment; return None if it cannot be made."""
    from spinup.envs.make import make_env, resolve_env_id

    with warnings.catch_warnings(), _silence():
        warnings.simplefilter("ignore")
        try:
            # an old version is a newer one by another name
            return make_env(env_id) if resolve_env_id(env_id) == env_id else None
        except Exception:  # a missing package, or whatever an environment raises
            return None


@contextlib.contextmanager
def _elsewhere() -> Iterator[None]:
    """Work in a temporary folder, because some simulators write a log to the working directory."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(here)


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """Discard what environments print; simulators also write to the descriptors."""
    with (
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
        open(os.devnull, "w") as nowhere,
    ):
        kept = os.dup(2)
        os.dup2(nowhere.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(kept, 2)
            os.close(kept)


def _space(space: Any) -> str:
    """Describe a space in a few words: `Box(17,)`, `Discrete(4)`, `Dict(a, b)`."""
    from gymnasium import spaces

    if isinstance(space, spaces.Box):
        same = space.low.min() == space.low.max() and space.high.min() == space.high.max()
        ends = f" in [{space.low.min():g}, {space.high.max():g}]" if same else ""
        return f"Box{space.shape}".replace(" ", "") + ("" if "inf" in ends else ends)
    if isinstance(space, spaces.Dict):
        return f"Dict({', '.join(space)})"
    if isinstance(space, spaces.Tuple):
        return f"Tuple({', '.join(_space(s) for s in space)})"
    return " ".join(str(space).split())
