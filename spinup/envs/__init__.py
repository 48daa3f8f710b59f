"""Environments: made by id, adapted to one interface, and probes with known answers.

    from spinup.envs import adapt_env, make_env
    env = adapt_env(make_env("LunarLander-v3"))

Importing this package registers the probe environments (`spinup/Probe...-v0`) and
`spinup/BitFlip-v0`.
"""

from spinup.envs.adapter import adapt_env
from spinup.envs.bitflip import register_bitflip
from spinup.envs.make import env_record, make_env, resolve_env_id
from spinup.envs.probes import PROBES, register_probes
from spinup.envs.spaces import (
    check_spaces,
    nearest,
    require_finite_bounds,
    space_from_json,
    space_to_json,
)

__all__ = [
    "PROBES",
    "adapt_env",
    "check_spaces",
    "env_record",
    "make_env",
    "nearest",
    "require_finite_bounds",
    "resolve_env_id",
    "space_from_json",
    "space_to_json",
]

register_probes()
register_bitflip()
