"""One seed, many independent generators.

Every consumer of randomness in a run has its own generator, identified by its purpose and indices.
An additional draw in one place therefore changes nothing elsewhere, and environment 3 of shard 1
gets the same seeds in any process.
"""

import random
from typing import Any

import numpy as np

from spinup.utils.errors import SpinupError

# These numbers are part of what a seed means: never renumber, only append.
_PURPOSES = {
    "init": 0,
    "env": 1,
    "explore": 2,
    "replay": 3,
    "eval": 4,
    "minibatch": 5,
    "global": 6,
    "update": 7,
}


class Seeds:
    """All generators of a run, derived from one `numpy.random.SeedSequence`."""

    def __init__(self, seed: int):
        if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
            raise SpinupError(f"seed={seed!r} must be a whole number, zero or more")
        self.seed = int(seed)

    def sequence(self, purpose: str, *index: int) -> np.random.SeedSequence:
        """The seed sequence for a purpose; indices distinguish consumers with the same purpose."""
        return np.random.SeedSequence(self.seed, spawn_key=(_PURPOSES[purpose], *index))

    def generator(self, purpose: str, *index: int) -> np.random.Generator:
        """A new generator for a purpose."""
        return np.random.default_rng(self.sequence(purpose, *index))

    def integer(self, purpose: str, *index: int) -> int:
        """A 32-bit integer seed, for interfaces that need an integer."""
        return int(self.sequence(purpose, *index).generate_state(1)[0])


def seed_globals(seed: int) -> None:
    """Seed the global generators of Python and NumPy: some environments still draw from them."""
    random.seed(seed)
    np.random.seed(seed % 2**32)


def global_state() -> dict[str, Any]:
    """The state of Python's and NumPy's global generators, as plain data."""
    version, words, gauss = random.getstate()
    name, keys, pos, has_gauss, cached = np.random.get_state()
    return {
        "python": {"version": version, "words": np.array(words, dtype=np.uint64), "gauss": gauss},
        "numpy": {"name": name, "keys": keys, "pos": pos, "has": has_gauss, "cached": cached},
    }


def set_global_state(state: dict[str, Any]) -> None:
    """Restore what `global_state` returned."""
    py, npy = state["python"], state["numpy"]
    random.setstate((py["version"], tuple(int(w) for w in py["words"]), py["gauss"]))
    np.random.set_state((npy["name"], npy["keys"], npy["pos"], npy["has"], npy["cached"]))
