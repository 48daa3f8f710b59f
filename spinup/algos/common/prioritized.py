"""Proportional prioritised replay (Schaul et al. 2016, arXiv:1511.05952).

Transitions with a large temporal difference error are drawn more often, and importance weights
correct for it. The priorities are the leaves of a binary tree whose inner nodes are the sums of
their two children: finding a leaf or changing one takes as many steps as the tree is high, and all
leaves of a batch take them together.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np


class SumTree:
    """`size` numbers, zero or more, that are drawn in proportion to their size."""

    def __init__(self, size: int):
        self.size = size
        self.height = max(0, int(size - 1).bit_length())
        self._first = 1 << self.height  # the leaves are the last `_first` nodes
        self._nodes = np.zeros(2 * self._first)  # children of node k: 2k and 2k + 1; root: 1

    @property
    def total(self) -> float:
        """The sum of all."""
        return float(self._nodes[1])

    def get(self, index: Any) -> np.ndarray:
        """The numbers at some places."""
        return self._nodes[np.asarray(index) + self._first]

    def set(self, index: np.ndarray, values: Any) -> None:
        """Change the numbers at some places; of a place that is named twice the last one counts."""
        nodes = index + self._first
        self._nodes[nodes] = values
        for _ in range(self.height):
            nodes = nodes >> 1
            # Summed anew rather than adjusted: rounding errors do not add up over a run, and the
            # inner nodes follow from the leaves alone.
            left = nodes << 1
            self._nodes[nodes] = self._nodes[left] + self._nodes[left + 1]

    def find(self, mass: np.ndarray) -> np.ndarray:
        """The places where the running sum exceeds each of `mass`, numbers in [0, total)."""
        nodes = np.ones(len(mass), np.int64)
        mass = mass.copy()
        for _ in range(self.height):
            left = nodes << 1
            left_sum = self._nodes[left]
            # Rounding may push `mass` past the sum of what is there: never into an empty branch.
            right = (mass >= left_sum) & (self._nodes[left + 1] > 0)
            mass -= np.where(right, left_sum, 0.0)
            nodes = left + right
        return nodes - self._first


class Priorities:
    """The priorities of the rows of a ring of `size` rows.

    Args:
        size: rows of the ring.
        alpha: how much errors matter. 0 draws uniformly, 1 in proportion to the error.
        epsilon: added to every error, so that no row is lost for good.
    """

    def __init__(self, size: int, alpha: float = 0.6, epsilon: float = 1e-6):
        self.alpha, self.epsilon = alpha, epsilon
        self.tree = SumTree(size)
        self.highest = 1.0  # the largest priority so far
        self._new: list[np.ndarray] = []

    def add(self, index: np.ndarray) -> None:
        """Rows that were just written: they get the highest priority, to be seen at least once."""
        self._new.append(index)  # into the tree when it is next needed, several at once

    def _insert_new(self) -> None:
        if self._new:
            self.tree.set(np.concatenate(self._new), self.highest)
            self._new = []

    def sample(
        self, n: int, rows: int, beta: float, rng: np.random.Generator
    ) -> tuple[np.ndarray, np.ndarray]:
        """`n` places, drawn in proportion to their priorities, and their importance weights.

        The weights are `(rows P(i))^-beta`, divided by the largest of the batch so that they only
        ever make a step smaller. `rows` is how many the ring holds; `beta` = 1 corrects fully.
        """
        self._insert_new()
        # One draw from each of n equal slices of the total: the same probabilities, less variance.
        index = self.tree.find((np.arange(n) + rng.random(n)) * (self.tree.total / n))
        weight = (rows * self.tree.get(index) / self.tree.total) ** -beta
        return index, weight / weight.max()

    def update(self, index: np.ndarray, error: np.ndarray) -> None:
        """New priorities `(|error| + epsilon)^alpha` of some rows."""
        self._insert_new()
        priority = (np.abs(error, dtype=np.float64) + self.epsilon) ** self.alpha
        self.tree.set(index, priority)
        self.highest = max(self.highest, float(priority.max()))

    def state_dict(self) -> dict[str, Any]:
        """The priorities of the rows there are; the tree above them is computed again."""
        self._insert_new()
        priorities = np.trim_zeros(self.tree.get(np.arange(self.tree.size)), "b")
        return {"priorities": priorities, "highest": self.highest}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The priorities of a saved ring of the same size."""
        self._new = []
        self.tree = SumTree(self.tree.size)
        self.tree.set(np.arange(len(state["priorities"])), state["priorities"])
        self.highest = float(state["highest"])
