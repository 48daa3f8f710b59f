"""Replay: a ring buffer of past transitions, sampled uniformly.

Transitions are stored in plain NumPy arrays that keep their dtype, so images stay bytes. Rows that
were never written take no memory. A checkpoint writes only the parts that changed since the
previous one (`Ring.state_dict`), so saving a full buffer of a million transitions costs no more
than saving the new ones. `spinup.algos.common.frames` stores stacks of frames.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.envs.spaces import act_dtype, stored_dtype
from spinup.utils.errors import SpinupError

if TYPE_CHECKING:
    from spinup.runs.run import Run
    from spinup.runs.storage.arrays import Piece

Field = tuple[tuple[int, ...], Any]  # shape of one row, dtype

# A checkpoint writes the buffer in chunks: small enough that rewriting a half-changed one is cheap,
# large enough that a buffer does not become ten thousand files.
_CHUNK_BYTES, _MOST_CHUNK_BYTES, _CHUNKS = 1 << 20, 1 << 26, 1024
# The maximum amount of data that `sample_batches` gathers at once.
_GATHER_BYTES = 1 << 24
# A run says beforehand how large its replay buffer will be, from this size on.
_LARGE_BYTES = 1 << 28


class Ring:
    """A ring buffer: the newest `size` rows of several named fields."""

    rows_are = "transitions"  # in messages
    lost: Any = ()  # indices of rows that the last `store` made unusable without overwriting them

    def __init__(self, size: int, fields: Mapping[str, Field]):
        self.max_size = size
        dtypes = {name: np.dtype(dtype) for name, (_, dtype) in fields.items()}
        self.row_bytes = sum(
            int(np.prod(shape, dtype=np.int64)) * dtypes[name].itemsize
            for name, (shape, _) in fields.items()
        )
        nbytes = self.row_bytes * size
        try:
            # The OS provides zeroed memory page by page, when a page is first written.
            self.data = {
                name: np.zeros((self.max_size, *shape), dtypes[name])
                for name, (shape, _) in fields.items()
            }
        except (MemoryError, ValueError):  # more than is available, or than NumPy can index
            from spinup.utils.memory import size_text

            raise SpinupError(
                f"a replay buffer of {size} {self.rows_are} needs {size_text(nbytes)} of memory, "
                "more than this machine has: use a smaller replay_size"
            ) from None
        self.total = 0  # rows stored so far, including overwritten ones
        chunk_bytes = min(max(_CHUNK_BYTES, nbytes // _CHUNKS), _MOST_CHUNK_BYTES)
        self.chunk_rows = max(1, chunk_bytes // max(1, self.row_bytes))
        # Each chunk as last saved; None if it has changed since.
        self._pieces: list[Piece | None] = [None] * -(-self.max_size // self.chunk_rows)

    @property
    def nbytes(self) -> int:
        """Size of the full ring in bytes."""
        return self.bytes_for(self.max_size)

    def bytes_for(self, rows: int) -> int:
        """Return the memory in bytes that the first `rows` rows need."""
        return self.row_bytes * rows

    @property
    def size(self) -> int:
        """Number of rows stored now."""
        return min(self.total, self.max_size)

    @property
    def ptr(self) -> int:
        """Index of the next row to write; in a full ring, the oldest row."""
        return self.total % self.max_size

    def store(self, rows: Mapping[str, Any]) -> np.ndarray:
        """Append n rows, one array of length n per field; return the indices of the rows kept."""
        n = len(next(iter(rows.values())))
        if n > self.max_size:  # the last rows would overwrite the first ones
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

    def take(self, index: np.ndarray, entry: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Return the rows at the given indices, or one entry of each, fields as new arrays."""
        if entry is not None:
            return {name: x[index, entry] for name, x in self.data.items()}
        return {name: x.take(index, axis=0) for name, x in self.data.items()}

    def nth(self, n: np.ndarray) -> np.ndarray:
        """Convert numbers from 0 to `size` - 1 to indices of rows."""
        return n

    def changed(self, rows: Any) -> None:
        """Mark these rows as changed since the last save; `store` calls this itself."""
        chunks = rows // self.chunk_rows
        for chunk in (chunks,) if np.ndim(chunks) == 0 else np.unique(chunks):
            self._pieces[chunk] = None

    def state_dict(self) -> dict[str, Any]:
        """Return the rows in pieces, reusing those that have not changed since the last save."""
        from spinup.runs.storage.arrays import Piece

        for i in range(-(-min(self.total, self.max_size) // self.chunk_rows)):
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
        """Restore a saved ring of the same size; `renamed` maps old field names to new ones."""
        if state["max_size"] != self.max_size:
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
                raise SpinupError("the saved buffer has different fields: start a new run instead")
            for name, values in saved.items():
                ours[name][:] = values
            self._pieces[i] = piece.holding(ours)

    def _chunk(self, i: int) -> dict[str, np.ndarray]:
        rows = slice(i * self.chunk_rows, min((i + 1) * self.chunk_rows, self.total, self.max_size))
        return {name: x[rows] for name, x in self.data.items()}


def _layout(arrays: Mapping[str, np.ndarray]) -> dict[str, tuple[Any, ...]]:
    return {name: (x.shape, x.dtype) for name, x in arrays.items()}


class _Read:
    """An attribute that is computed, unless a user's subclass assigns its own."""

    def __init__(self, read: Callable[[Any], Any]):
        self.read = read

    def __get__(self, buffer: Any, owner: type) -> Any:
        return self if buffer is None else self.read(buffer)


class ReplayBuffer:
    """Transitions `obs, act, rew, obs2, done`, sampled uniformly with replacement.

    `done` means that the episode terminated in `obs2`. A truncated episode (time limit) is not
    done.

    Args:
        obs_dim, act_dim: shapes of one observation and one action: None, an int or a tuple.
        size: capacity in transitions; the oldest are overwritten.
        obs_dtype, act_dtype: dtypes in which observations and actions are stored.
        extra: additional fields of a transition: name -> (shape, dtype).
        rng: RNG for sampling; a new one by default.
        ring: creates the arrays from a size and fields: `Ring`, or `frames.FrameRing` with options.
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
        ring: Callable[[int, Mapping[str, Field]], Ring] = Ring,
    ):
        obs, act = (_shape(obs_dim), obs_dtype), (_shape(act_dim), act_dtype)
        self._fields = {**_transition(obs, act), **(extra or {})}
        self.ring = ring(check_count("size", size), self._fields)
        self.rng = rng or np.random.default_rng()

    # The names by which user code reads the buffer; the arrays are the buffer's own.
    obs_buf = _Read(lambda self: self.ring.data["obs"])
    obs2_buf = _Read(lambda self: self.ring.data["obs2"])
    act_buf = _Read(lambda self: self.ring.data["act"])
    rew_buf = _Read(lambda self: self.ring.data["rew"])
    done_buf = _Read(lambda self: self.ring.data["done"])
    ptr = _Read(lambda self: self.ring.ptr)
    size = _Read(lambda self: self.ring.size)
    max_size = _Read(lambda self: self.ring.max_size)

    def __len__(self) -> int:
        return self.ring.size

    def store(
        self, obs: Any, act: Any, rew: Any, next_obs: Any, done: Any, **extra: Any
    ) -> np.ndarray:
        """Append one transition; size-1 arrays are treated as scalars."""
        row = {"obs": obs, "act": act, "rew": rew, "obs2": next_obs, "done": done, **extra}
        return self.ring.store(
            {name: np.asarray(x).reshape(1, *self._fields[name][0]) for name, x in row.items()}
        )

    def store_many(
        self, obs: Any, act: Any, rew: Any, obs2: Any, done: Any, **extra: Any
    ) -> np.ndarray:
        """Append several transitions, one per row; return their indices."""
        rows = {"obs": obs, "act": act, "rew": rew, "obs2": obs2, "done": done, **extra}
        return self.ring.store(rows)

    def rows(self, index: np.ndarray) -> dict[str, np.ndarray]:
        """Return the transitions at the given indices, each field as a new array."""
        return self.ring.take(index)

    def draw(self, *shape: int) -> np.ndarray:
        """Draw indices of transitions, uniformly with replacement."""
        if not len(self):
            raise SpinupError("the replay buffer is empty: store transitions before sampling")
        return self.ring.nth(self.rng.integers(len(self), size=[int(n) for n in shape]))

    def sample_batch(self, batch_size: int = 32) -> dict[str, Any]:
        """Sample a batch: `obs, act, rew, obs2, done`, each with `batch_size` rows."""
        return self.rows(self.draw(batch_size))

    def sample_batches(self, n: int, batch_size: int) -> Iterator[dict[str, Any]]:
        """Yield `n` batches, gathering many at once, which is cheaper than one by one."""
        if n == 0:
            return
        index = self.draw(n, batch_size)
        group = max(1, _GATHER_BYTES // max(1, index.shape[1] * self.ring.row_bytes))
        for start in range(0, n, group):
            joined = self.rows(index[start : start + group])
            for batch in zip(*joined.values(), strict=True):
                yield dict(zip(joined, batch, strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Return all the state that a resumed run needs."""
        return {"ring": self.ring.state_dict(), "rng": self.rng.bit_generator.state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved buffer."""
        self.ring.load_state_dict(state["ring"])
        self.rng.bit_generator.state = state["rng"]


def for_run(buffer_class: Any, run: Run, replay_size: float, **kwargs: Any) -> Any:
    """Create a run's replay buffer from its spaces; check that it fits in memory."""
    space, act_space = run.observation_space, run.action_space
    buffer = buffer_class(
        space.shape,
        act_space.shape,
        replay_size,
        obs_dtype=stored_dtype(space),
        act_dtype=act_dtype(act_space),
        rng=run.seeds.generator("replay"),
        ring=ring_for(run),
        **kwargs,
    )
    planned = min(buffer.ring.max_size, run.planned_steps)
    announce(run, planned, buffer.ring.bytes_for(planned))
    run.track(buffer=buffer)
    first = max(run.config.get(name, 0) for name in ("update_after", "update_every"))
    if first > run.planned_steps > 0:
        run.logger.log(
            f"This run takes no gradient step: it ends after {run.planned_steps} environment "
            f"steps, and the first gradient step is due after {first}.",
            "yellow",
        )
    return buffer


def ring_for(run: Run) -> Callable[[int, Mapping[str, Field]], Ring]:
    """Return what creates a run's ring from a size and fields; it stores each frame once."""
    if run.streams[0].frame_stack == 1:
        return Ring
    from spinup.algos.common.frames import frame_ring

    return frame_ring(run)


def announce(run: Run, planned: int, nbytes: int) -> None:
    """Check that a run's replay buffer of `planned` transitions fits; say so if it is large."""
    from spinup.utils.memory import check_memory, size_text

    what = f"a replay buffer of {planned} transitions"
    check_memory(what, nbytes)
    if nbytes >= _LARGE_BYTES:
        run.logger.log(f"Memory: {what} needs up to {size_text(nbytes)}.")


def _transition(obs: Field, act: Field) -> dict[str, Field]:
    """Return the fields of a transition."""
    number, flag = ((), np.float32), ((), np.bool_)
    return {"obs": obs, "act": act, "rew": number, "obs2": obs, "done": flag}


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Convert `value` to an int, even from 1e6; raise SpinupError if it is not a whole number."""
    number = isinstance(value, (int, float, np.integer)) and not isinstance(value, bool)
    if not number or not math.isfinite(value) or value < least or value != math.floor(value):
        raise SpinupError(f"{name}={value!r} must be a whole number, at least {least}")
    return int(value)


def _shape(dim: Any) -> tuple[int, ...]:
    if dim is None:
        return ()
    return tuple(int(d) for d in np.atleast_1d(dim))
