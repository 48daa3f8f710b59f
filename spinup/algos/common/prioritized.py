"""Proportional prioritized replay (Schaul et al. 2016, arXiv:1511.05952).

Transitions with a large temporal-difference error are sampled more often, and importance-sampling
weights correct for the bias. The priorities are the leaves of a sum tree: a binary tree in which
each inner node is the sum of its two children. Finding or changing a leaf takes one step per level
of the tree, and all of a batch's leaves are processed at once.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np


class SumTree:
    """`size` non-negative numbers that can be sampled in proportion to their values."""

    def __init__(self, size: int):
        self.size = size
        self.height = max(0, int(size - 1).bit_length())
        self._first = 1 << self.height  # the leaves are the last `_first` nodes
        self._nodes = np.zeros(2 * self._first)  # children of node k: 2k and 2k + 1; root: 1

    @property
    def total(self) -> float:
        """The sum of all numbers."""
        return float(self._nodes[1])

    def get(self, index: Any) -> np.ndarray:
        """Return the numbers at the given indices."""
        return self._nodes[np.asarray(index) + self._first]

    def set(self, index: np.ndarray, values: Any) -> None:
        """Set the numbers at the given indices; for a repeated index, the last value wins."""
        nodes = index + self._first
        self._nodes[nodes] = values
        for _ in range(self.height):
            nodes = nodes >> 1
            # Recompute rather than adjust the sums: rounding errors then do not accumulate over a
            # run, and the inner nodes depend only on the leaves.
            left = nodes << 1
            self._nodes[nodes] = self._nodes[left] + self._nodes[left + 1]

    def find(self, mass: np.ndarray) -> np.ndarray:
        """For each `mass` in [0, total), find the first index whose cumulative sum exceeds it."""
        nodes = np.ones(len(mass), np.int64)
        mass = mass.copy()
        for _ in range(self.height):
            left = nodes << 1
            left_sum = self._nodes[left]
            # Rounding may push `mass` past the total: never descend into an empty branch.
            right = (mass >= left_sum) & (self._nodes[left + 1] > 0)
            mass -= np.where(right, left_sum, 0.0)
            nodes = left + right
        return nodes - self._first


class Priorities:
    """The priorities of the rows in a replay buffer.

    Args:
        size: capacity of the replay buffer.
        alpha: exponent of the errors. 0 samples uniformly, 1 in proportion to the error.
        epsilon: added to every error, so that every row can still be sampled.
    """

    def __init__(self, size: int, alpha: float = 0.6, epsilon: float = 1e-6):
        self.alpha, self.epsilon = alpha, epsilon
        self.tree = SumTree(size)
        self.highest = 1.0  # the largest priority so far
        self._new: list[np.ndarray] = []

    def add(self, index: np.ndarray) -> None:
        """Give new rows the highest priority so far, so that each is likely to be sampled once."""
        self._new.append(index)  # inserted together when the tree is next needed

    def remove(self, index: np.ndarray) -> None:
        """Never sample these rows again, until they are added anew."""
        if len(index):
            self._insert_new()
            self.tree.set(index, 0.0)

    def _insert_new(self) -> None:
        if self._new:
            self.tree.set(np.concatenate(self._new), self.highest)
            self._new = []

    def sample(
        self, n: int, rows: int, beta: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """Sample `n` indices in proportion to their priorities; return them and their weights.

        The importance weights are `(rows P(i))^-beta`, divided by the largest in the batch so that
        they can shrink a step but never enlarge it. `rows` is the number of stored rows; `beta` = 1
        corrects the bias fully.
        """
        self._insert_new()
        # Stratified: one draw from each of n equal slices of the total reduces the variance.
        index = self.tree.find((np.arange(n) + rng.random(n)) * (self.tree.total / n))
        weight = (rows * self.tree.get(index) / self.tree.total) ** -beta
        return index, weight / weight.max()

    def update(self, index: np.ndarray, error: np.ndarray) -> None:
        """Set the priorities of the given rows to `(|error| + epsilon)^alpha`."""
        self._insert_new()
        priority = (np.abs(error, dtype=np.float64) + self.epsilon) ** self.alpha
        self.tree.set(index, priority)
        self.highest = max(self.highest, float(priority.max()))

    def state_dict(self) -> dict[str, Any]:
        """Return the stored rows' priorities; loading recomputes the rest of the tree."""
        self._insert_new()
        priorities = np.trim_zeros(self.tree.get(np.arange(self.tree.size)), "b")
        return {"priorities": priorities, "highest": self.highest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the priorities of a replay buffer of the same capacity."""
        self._new = []
        self.tree = SumTree(self.tree.size)
        self.tree.set(np.arange(len(state["priorities"])), state["priorities"])
        self.highest = float(state["highest"])
