"""Environments: creating them by ID, adapting them to one interface, and probe environments.

    from spinup.envs import adapt_env, make_env
    env = adapt_env(make_env("LunarLander-v3"))

Importing this package registers the probe environments (`spinup/Probe...-v0`) and
`spinup/BitFlip-v0`. Its names are imported on first use.
"""

import importlib
from typing import TYPE_CHECKING, Any

from spinup.envs.registration import PROBES, register

if TYPE_CHECKING:
    from spinup.envs.adapter import adapt_env as adapt_env
    from spinup.envs.bounds import require_finite_bounds as require_finite_bounds
    from spinup.envs.make import make_env as make_env
    from spinup.envs.make import resolve_env_id as resolve_env_id
    from spinup.envs.record import env_record as env_record
    from spinup.envs.space_json import space_from_json as space_from_json
    from spinup.envs.space_json import space_to_json as space_to_json
    from spinup.envs.spaces import check_spaces as check_spaces

_MODULES = {
    "adapt_env": "adapter",
    "check_spaces": "spaces",
    "env_record": "record",
    "make_env": "make",
    "require_finite_bounds": "bounds",
    "resolve_env_id": "make",
    "space_from_json": "space_json",
    "space_to_json": "space_json",
}
__all__ = ["PROBES", *_MODULES]


def __getattr__(name: str) -> Any:
    """Import the module that defines an exported name (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


register()
