"""Deep reinforcement learning you can read, run, trust and resume.

Names are imported on first use: `import spinup` loads no framework, and
`from spinup import ppo_pytorch` loads only what PPO needs.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from spinup import registry as registry
from spinup.utils.errors import SpinupError as SpinupError
from spinup.utils.errors import nearest

if TYPE_CHECKING:  # for editors and type checkers; at run time, the registry resolves the names
    from spinup._exports import *  # noqa: F403

__version__ = "0.2.0"

# Exported names -> the modules that define them.
_HOMES = {
    "EpochLogger": "spinup.runs.logger",
    "Logger": "spinup.runs.logger",
    "check_env": "spinup.envs.checking",
    "register": "spinup.registry",
}
_MODULES = ("algos", "envs", "run", "user_config", "utils", "version")
__all__ = sorted([*_HOMES, *registry.exports(), "SpinupError", "__version__", "registry"])


def __getattr__(name: str) -> Any:
    """Import the object behind an exported name on first use (PEP 562)."""
    if name in registry.exports():
        return registry.load(name)
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    if name in _MODULES:
        return importlib.import_module(f"spinup.{name}")
    raise AttributeError(f"module 'spinup' has no attribute '{name}'{nearest(name, __dir__())}")


def __dir__() -> list[str]:
    return sorted({*__all__, *_MODULES})
