"""The bug zoo: real mistakes of reinforcement learning code, each a small change of our own.

    from spinup_lab import bugs as zoo

    zoo.load()["gae-off-by-one"].story          # every mutant, as data
    zoo.function("gae-off-by-one", "gae")       # the faulty function, beside the healthy one
    with zoo.applied("gae-off-by-one"):         # everything in this process runs with the fault
        ...

    python -m spinup_lab.bugs gae-off-by-one -- spinup.run ppo --env CartPole-v1

No file changes, and nothing of the fault is left behind. The mutants are in the `.toml` files of
this folder, and `environments.py` has environments with typical faults of their own.
"""

from spinup_lab.bugs.applying import applied, function, module, source
from spinup_lab.bugs.mutants import (
    PARTS,
    BrokenEnvironment,
    Edit,
    Mutant,
    broken_environments,
    find,
    load,
)

__all__ = [
    "PARTS",
    "BrokenEnvironment",
    "Edit",
    "Mutant",
    "applied",
    "broken_environments",
    "find",
    "function",
    "load",
    "module",
    "source",
]
