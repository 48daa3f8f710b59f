"""Many independent RNGs derived from one seed.

Every consumer of randomness in a run has its own RNG, identified by its purpose and indices.
An additional draw in one place therefore changes nothing elsewhere, and environment 3 of shard 1
gets the same seeds in any process.
"""

import random
from typing import Any

import numpy as np

# These numbers determine which streams a seed produces: never renumber, only append.
_PURPOSES = {
    "init": 0,
    "env": 1,
    "explore": 2,
    "replay": 3,
    "eval": 4,
    "minibatch": 5,
    "global": 6,
    "update": 7,
    "graph": 8,
    "diagnostics": 9,
}


class Seeds:
    """All RNGs of a run, derived from one `numpy.random.SeedSequence`."""

    def __init__(self, seed: int):
        self.seed = int(seed)  # `check_arguments` has checked it

    def sequence(self, purpose: str, *index: int) -> np.random.SeedSequence:
        """Return a purpose's seed sequence; indices distinguish consumers with the same purpose."""
        return np.random.SeedSequence(self.seed, spawn_key=(_PURPOSES[purpose], *index))

    def generator(self, purpose: str, *index: int) -> np.random.Generator:
        """Create a new RNG for a purpose."""
        return np.random.default_rng(self.sequence(purpose, *index))

    def integer(self, purpose: str, *index: int) -> int:
        """Return a 32-bit integer seed, for interfaces that need an integer."""
        return int(self.sequence(purpose, *index).generate_state(1)[0])


def seed_globals(seed: int) -> None:
    """Seed the global RNGs of Python and NumPy, which some environments still use."""
    random.seed(seed)
    np.random.seed(seed % 2**32)


def global_state(torch: Any = None) -> dict[str, Any]:
    """Return the state of Python's, NumPy's and (given the module) torch's global RNG."""
    version, words, gauss = random.getstate()
    name, keys, pos, has_gauss, cached = np.random.get_state()
    return {
        "python": {"version": version, "words": np.array(words, dtype=np.uint64), "gauss": gauss},
        "numpy": {"name": name, "keys": keys, "pos": pos, "has": has_gauss, "cached": cached},
        **({} if torch is None else {"torch": torch.get_rng_state()}),
    }


def set_global_state(state: dict[str, Any], torch: Any = None) -> None:
    """Restore a state returned by `global_state`."""
    py, npy = state["python"], state["numpy"]
    random.setstate((py["version"], tuple(int(w) for w in py["words"]), py["gauss"]))
    np.random.set_state((npy["name"], npy["keys"], npy["pos"], npy["has"], npy["cached"]))
    if torch is not None and "torch" in state:
        torch.set_rng_state(state["torch"])


def same_global_state(a: dict[str, Any], b: dict[str, Any]) -> bool:
    """Return whether two states returned by `global_state` are equal."""
    pairs = [(a[kind], b[kind]) for kind in ("python", "numpy")]
    numbers = [(x[name], y[name]) for x, y in pairs for name in x]
    if "torch" in a:
        numbers.append((a["torch"], b["torch"]))
    return all(np.array_equal(x, y) for x, y in numbers)
