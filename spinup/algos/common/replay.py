"""Replay: a ring of past transitions, sampled uniformly.

The memory is plain NumPy arrays in the dtype of what is stored, so that images stay bytes, and rows
that were never written cost nothing. A checkpoint writes only the parts that changed since the one
before (`Ring.state_dict`), so that saving a full buffer of a million transitions costs as much as
what was added, not as much as what is there.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.utils.errors import SpinupError
from spinup.utils.memory import size_text

if TYPE_CHECKING:
    from spinup.runs.pieces import Piece

Field = tuple[tuple[int, ...], Any]  # shape of one row, dtype

# A chunk is what a checkpoint writes at once: small enough that rewriting a half-changed one costs
# little, large enough that a buffer is not ten thousand files.
_CHUNK_BYTES, _MOST_CHUNK_BYTES, _CHUNKS = 1 << 20, 1 << 26, 1024
# How much `sample_batches` gathers at once.
_GATHER_BYTES = 1 << 24


class Ring:
    """The newest `size` rows of some named fields."""

    def __init__(self, size: int, fields: Mapping[str, Field]):
        self.max_size = size
        dtypes = {name: np.dtype(dtype) for name, (_, dtype) in fields.items()}
        self.row_bytes = sum(
            int(np.prod(shape, dtype=np.int64)) * dtypes[name].itemsize
            for name, (shape, _) in fields.items()
        )
        try:
            # Zeroed memory is handed out by the system page by page, when it is first written.
            self.data = {
                name: np.zeros((self.max_size, *shape), dtypes[name])
                for name, (shape, _) in fields.items()
            }
        except (MemoryError, ValueError):  # more than there is, more than NumPy can count
            raise SpinupError(
                f"a replay buffer of {size} transitions needs {size_text(self.nbytes)} of memory, "
                "which this machine does not give: use a smaller replay_size"
            ) from None
        self.total = 0  # rows ever stored
        chunk_bytes = min(max(_CHUNK_BYTES, self.nbytes // _CHUNKS), _MOST_CHUNK_BYTES)
        self.chunk_rows = max(1, chunk_bytes // max(1, self.row_bytes))
        # What the disk already holds of each chunk; None where it is out of date.
        self._pieces: list[Piece | None] = [None] * -(-self.max_size // self.chunk_rows)

    @property
    def nbytes(self) -> int:
        """Bytes of the full ring."""
        return self.row_bytes * self.max_size

    @property
    def size(self) -> int:
        """Rows it holds now."""
        return min(self.total, self.max_size)

    @property
    def ptr(self) -> int:
        """Where the next row goes: over the oldest one, once the ring is full."""
        return self.total % self.max_size

    def store(self, rows: Mapping[str, Any]) -> np.ndarray:
        """Append rows, an array of n for each field; returns where those that stay are."""
        n = len(next(iter(rows.values())))
        if n > self.max_size:  # the last ones would write over the first
            self.total += n - self.max_size
            rows, n = {name: rows[name][-self.max_size :] for name in self.data}, self.max_size
        start = self.ptr
        if start + n <= self.max_size:
            index: Any = slice(start, start + n)
            where = np.arange(start, start + n)
        else:
            index = where = np.arange(start, start + n) % self.max_size
        for name, array in self.data.items():
            array[index] = rows[name]
        self.total += n
        self.changed(where[0] if n == 1 else where)
        return where

    def changed(self, rows: Any) -> None:
        """Say that these rows were written, which `store` does by itself."""
        chunks = rows // self.chunk_rows
        for chunk in (chunks,) if np.ndim(chunks) == 0 else np.unique(chunks):
            self._pieces[chunk] = None

    def state_dict(self) -> dict[str, Any]:
        """The rows, in pieces of which only those that changed since the last save are new."""
        from spinup.runs.pieces import Piece

        for i in range(-(-self.size // self.chunk_rows)):
            if self._pieces[i] is None:
                self._pieces[i] = Piece(self._chunk(i))
        return {
            "total": self.total,
            "max_size": self.max_size,
            "chunk_rows": self.chunk_rows,
            "pieces": [piece for piece in self._pieces if piece is not None],
        }

    def load_state_dict(
        self, state: Mapping[str, Any], renamed: Mapping[str, str] | None = None
    ) -> None:
        """The rows of a saved ring of the same size; `renamed` are new names of its fields."""
        if (state["max_size"], state["chunk_rows"]) != (self.max_size, self.chunk_rows):
            raise SpinupError(
                f"the saved buffer has room for {state['max_size']} rows, this one for "
                f"{self.max_size}: use the same replay_size and environment"
            )
        self.total = state["total"]
        self._pieces = [None] * len(self._pieces)
        for i, piece in enumerate(state["pieces"]):
            ours = self._chunk(i)
            saved = {(renamed or {}).get(name, name): x for name, x in piece.load().items()}
            if _layout(ours) != _layout(saved):
                raise SpinupError("the saved buffer holds other fields than this one: start anew")
            for name, values in saved.items():
                ours[name][:] = values
            self._pieces[i] = piece.holding(ours)

    def _chunk(self, i: int) -> dict[str, np.ndarray]:
        rows = slice(i * self.chunk_rows, min((i + 1) * self.chunk_rows, self.size))
        return {name: x[rows] for name, x in self.data.items()}


def _layout(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[Any, ...]]:
    return {name: (x.shape, x.dtype) for name, x in arrays.items()}


class ReplayBuffer:
    """Transitions `obs, act, rew, obs2, done`, drawn uniformly with replacement.

    `done` says that the episode terminated in `obs2`, so that nothing follows there; an episode
    that was only cut (a time limit) is not done.

    Args:
        obs_dim, act_dim: shape of one observation and action; None, an int or a tuple.
        size: how many transitions are kept; the oldest give way.
        obs_dtype, act_dtype: how they are kept, float32 by default.
        extra: further fields of a transition, name -> (shape, dtype).
        rng: generator that indices are drawn from; a fresh one by default.
    """

    def __init__(
        self,
        obs_dim: Any,
        act_dim: Any,
        size: float,
        *,
        obs_dtype: Any = np.float32,
        act_dtype: Any = np.float32,
        extra: Mapping[str, Field] | None = None,
        rng: np.random.Generator | None = None,
    ):
        obs, act = (_shape(obs_dim), obs_dtype), (_shape(act_dim), act_dtype)
        fields = {**_transition(obs, act), **(extra or {})}
        self.ring = Ring(check_count("size", size), fields)
        self.rng = rng or np.random.default_rng()

    def __len__(self) -> int:
        return self.ring.size

    def store(
        self, obs: Any, act: Any, rew: Any, next_obs: Any, done: Any, **extra: Any
    ) -> np.ndarray:
        """Append one transition; size-1 arrays are taken as the numbers they hold."""
        row = {"obs": obs, "act": act, "rew": rew, "obs2": next_obs, "done": done, **extra}
        fields = self.ring.data
        return self.ring.store(
            {name: np.asarray(x).reshape(1, *fields[name].shape[1:]) for name, x in row.items()}
        )

    def store_many(
        self, obs: Any, act: Any, rew: Any, obs2: Any, done: Any, **extra: Any
    ) -> np.ndarray:
        """Append several transitions, one a row; returns where they are."""
        rows = {"obs": obs, "act": act, "rew": rew, "obs2": obs2, "done": done, **extra}
        return self.ring.store(rows)

    def rows(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """The transitions at some places, each field as a fresh array."""
        return {name: x.take(index, axis=0) for name, x in self.ring.data.items()}

    def draw(self, *shape: int) -> np.ndarray:
        """Places of transitions, uniformly and with replacement."""
        if not len(self):
            raise SpinupError("the replay buffer is empty: store transitions before sampling")
        return self.rng.integers(len(self), size=[int(n) for n in shape])

    def sample_batch(self, batch_size: int = 32) -> dict[str, Any]:
        """A batch: `obs, act, rew, obs2, done`, each with `batch_size` rows."""
        return self.rows(self.draw(batch_size))

    def sample_batches(self, n: int, batch_size: int) -> Iterator[dict[str, Any]]:
        """`n` batches in a row, gathered many at once: cheaper than one by one."""
        if n == 0:
            return
        index = self.draw(n, batch_size)
        group = max(1, _GATHER_BYTES // max(1, index.shape[1] * self.ring.row_bytes))
        for start in range(0, n, group):
            joined = self.rows(index[start : start + group])
            for i in range(min(group, n - start)):
                yield {name: x[i] for name, x in joined.items()}

    def state_dict(self) -> dict[str, Any]:
        """Everything that a resumed run needs of it."""
        return {"ring": self.ring.state_dict(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved buffer."""
        self.ring.load_state_dict(state["ring"])
        self.rng.bit_generator.state = state["rng"]


def _transition(obs: Field, act: Field) -> dict[str, Field]:
    """The fields of a transition."""
    number, flag = ((), np.float32), ((), np.bool_)
    return {"obs": obs, "act": act, "rew": number, "obs2": obs, "done": flag}


def check_count(name: str, value: Any, least: int = 1) -> int:
    """A whole number, which may be written as 1e6; SpinupError if it is none."""
    number = isinstance(value, (int, float, np.integer)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < least or value != math.floor(value):
        raise SpinupError(f"{name}={value!r} must be a whole number, at least {least}")
    return int(value)


def _shape(dim: Any) -> tuple[int, ...]:
    if dim is None:
        return ()
    return tuple(int(d) for d in np.atleast_1d(dim))
