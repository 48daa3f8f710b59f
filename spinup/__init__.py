"""Deep reinforcement learning you can read, run, trust and resume.

Everything here is looked up when it is first used: `import spinup` loads no framework, and
`from spinup import ppo_pytorch` loads only what PPO needs.
"""

from __future__ import annotations

import importlib
from typing import Any

from spinup import registry
from spinup.utils.errors import SpinupError, nearest

__version__ = "0.1.0"

_LOGGERS = ("EpochLogger", "Logger")
_MODULES = ("algos", "envs", "run", "user_config", "utils")


def __getattr__(name: str) -> Any:
    """Import what an exported name stands for (PEP 562)."""
    if name in registry.exports():
        return registry.load(name)
    if name in _LOGGERS:
        return getattr(importlib.import_module("spinup.runs.logger"), name)
    if name in _MODULES:
        return importlib.import_module(f"spinup.{name}")
    raise AttributeError(f"module 'spinup' has no attribute '{name}'{nearest(name, __dir__())}")


def __dir__() -> list[str]:
    return sorted(
        {*registry.exports(), *_LOGGERS, *_MODULES, "SpinupError", "__version__", "registry"}
    )


__all__ = ["SpinupError", "__version__", "registry"]
