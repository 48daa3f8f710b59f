"""Find the broken part of a training function, with probe environments whose answers are known.

    from spinup_lab.probe import probe
    report = probe(my_algorithm)     # a training function with `env_fn` as its first argument
    report.passed, report.verdict    # Verdict(part, reason, probes), or None

`spinup probe module:function` does the same from the command line.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spinup_lab.probe.tree import probe
    from spinup_lab.probe.verdict import Report, Verdict

__all__ = ["Report", "Verdict", "probe"]

_MODULES = {"Report": "verdict", "Verdict": "verdict", "probe": "tree"}


def __getattr__(name: str) -> Any:
    """Import the module that defines an exported name (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
