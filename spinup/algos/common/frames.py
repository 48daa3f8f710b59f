"""Replay of frame stacks, in which each frame is stored once.

An observation that stacks the last k frames shares all but one of them with the next observation,
and a transition's `obs2` is a later transition's `obs`. Storing them whole stores every frame 2k
times. Here the frames have a ring buffer of their own, and a transition holds the slots of its
frames there: a million transitions of four 84x84 frames take 7 GiB instead of 53.

Frames are recognized by their bytes, among the newest ones. So nothing depends on which environment
a transition comes from, on where episodes begin, or on how many steps lie between `obs` and `obs2`:
whatever is stored comes back bit for bit, and observations that share no frames only take more
room. Once a frame is overwritten, the transitions that refer to it are no longer sampled.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from spinup.algos.common.replay import Field, Ring
from spinup.envs.stacks import FRAMES_PER_TRANSITION
from spinup.utils.errors import SpinupError

if TYPE_CHECKING:
    from spinup.runs.run import Run

STACKS = ("obs", "obs2")  # the fields that are stacks of frames
_BEGUN = "frames_before"  # a row's field: the number of frames stored before it


class Frames(Ring):
    """The frames of a `FrameRing`, one per row."""

    rows_are = "frames"


class FrameRing(Ring):
    """A ring buffer whose observations are stacks of frames. It looks like a `Ring` from outside.

    Args:
        size: capacity in rows, if no more than FRAMES_PER_TRANSITION frames are new in each.
        fields: name -> (shape, dtype); `obs` and `obs2` have the shape (..., k, *frame).
        obs_shape: shape of one stack: (k, *frame).
        window: number of newest frames among which the frames of a row are looked up.
    """

    def __init__(
        self, size: int, fields: Mapping[str, Field], *, obs_shape: tuple[int, ...], window: int
    ):
        shape, dtype = fields["obs"]
        ahead = shape[: len(shape) - len(obs_shape)]  # more than one stack per row
        slots: Field = ((*ahead, obs_shape[0]), np.uint32)
        super().__init__(size, {**fields, **dict.fromkeys(STACKS, slots), _BEGUN: ((), np.int64)})
        self.window, self._per_row = window, int(np.prod(ahead, dtype=np.int64))
        self._slots_bytes = self.row_bytes
        frames = self._frames_for(size)
        self.frames = Frames(frames, {"frame": (obs_shape[1:], dtype)})
        # what a row takes when it is sampled
        self.row_bytes += 2 * self._per_row * obs_shape[0] * self.frames.row_bytes
        self.first = 0  # number of the oldest row whose frames are all there
        self._numbers: dict[bytes, int] = {}  # numbers of the newest frames, and of some older ones
        self._warned = False

    def _frames_for(self, rows: int) -> int:
        return int(rows * self._per_row * FRAMES_PER_TRANSITION) + 2 * self.window

    def bytes_for(self, rows: int) -> int:
        """Return the memory in bytes that the first `rows` rows need."""
        return self._slots_bytes * rows + self.frames.row_bytes * self._frames_for(rows)

    @property
    def size(self) -> int:
        """Number of rows that can be sampled now."""
        return self.total - self.first

    def nth(self, n: np.ndarray) -> np.ndarray:
        """Convert numbers from 0 to `size` - 1 to indices of rows."""
        if self.first == max(0, self.total - self.max_size):
            return n
        return (self.first + n) % self.max_size

    def take(self, index: np.ndarray, entry: np.ndarray | None = None) -> dict[str, np.ndarray]:
        """Return the rows at the given indices, or one entry of each, fields as new arrays."""
        where: Any = index if entry is None else (index, entry)
        rows = {name: x[where] for name, x in self.data.items() if name != _BEGUN}
        slots = np.stack([rows[name] for name in STACKS])  # all frames in one call
        rows.update(zip(STACKS, self.frames.data["frame"].take(slots, axis=0), strict=True))
        return rows

    def store(self, rows: Mapping[str, Any]) -> np.ndarray:
        """Append n rows, one array of length n per field; return the indices of the rows kept."""
        frame = self.frames.data["frame"]
        n = len(rows["obs"])
        stacks = [
            np.asarray(rows[name]).astype(frame.dtype, copy=False).reshape(n, -1, *frame.shape[1:])
            for name in STACKS
        ]
        slots = [np.empty(x.shape[:2], np.uint32) for x in stacks]
        begun = np.empty(n, np.int64)
        new: list[np.ndarray] = []
        for i in range(n):
            begun[i] = self.frames.total + len(new)
            for x, places in zip(stacks, slots, strict=True):
                places[i] = [self._slot(one, new) for one in x[i]]
        if new:
            self.frames.store({"frame": np.stack(new)})
        shape = self.data["obs"].shape[1:]
        found = {name: x.reshape(n, *shape) for name, x in zip(STACKS, slots, strict=True)}
        index = super().store({**rows, **found, _BEGUN: begun})
        self._leave_behind()
        return index

    def _slot(self, frame: np.ndarray, new: list[np.ndarray]) -> int:
        """Return a frame's slot; append it to `new` if it is not among the newest frames."""
        key, total = frame.tobytes(), self.frames.total + len(new)
        number = self._numbers.get(key, -1)
        if number < max(0, total - self.window):
            number = self._numbers[key] = total
            new.append(frame)
            if len(self._numbers) > 2 * self.window:
                newest = total - self.window
                self._numbers = {key: k for key, k in self._numbers.items() if k > newest}
        return number % self.frames.max_size

    def _leave_behind(self) -> None:
        """Find the oldest row whose frames are all there.

        A row refers to no frame older than the `window` newest ones of its time, so all the rows
        after it have their frames too.
        """
        oldest = self.frames.total - self.frames.max_size + self.window
        before = first = max(self.first, self.total - self.max_size)
        begun = self.data[_BEGUN]
        while first < self.total and begun[first % self.max_size] < oldest:
            first += 1
        self.first, self.lost = first, np.arange(before, first) % self.max_size
        if len(self.lost) and self.size < self.max_size // 2 and not self._warned:
            self._warned = True
            warnings.warn(
                f"the replay buffer has room for only {self.size} of its {self.max_size} "
                "transitions: episodes are very short, or observations share no frames",
                stacklevel=2,
            )

    def state_dict(self) -> dict[str, Any]:
        """Return the rows and the frames in pieces; see `Ring.state_dict`."""
        return {**super().state_dict(), "frames": self.frames.state_dict()}

    def load_state_dict(
        self, state: Mapping[str, Any], renamed: Mapping[str, str] | None = None
    ) -> None:
        """Restore a saved ring of the same size; see `Ring.load_state_dict`."""
        if "frames" not in state:
            raise SpinupError(
                "the saved buffer stores every stack of frames whole, as older versions did: "
                "continue the run with the version that saved it, or start a new one"
            )
        super().load_state_dict(state, renamed)
        self.frames.load_state_dict(state["frames"])
        frames, total = self.frames.data["frame"], self.frames.total
        newest = range(max(0, total - self.window), total)
        self._numbers = {frames[k % len(frames)].tobytes(): k for k in newest}
        self.first = 0
        self._leave_behind()


def frame_ring(run: Run) -> Any:
    """Return the function that creates a run's `FrameRing` from a size and fields."""
    num_envs = run.streams[0].num_envs
    obs_shape: tuple[int, ...] = run.observation_space.shape or ()
    k, n = obs_shape[0], run.config.get("n_step", 1)
    # A frame is looked up until its last stack is stored: k steps after it was new, and with n-step
    # transitions n steps later. Twice that, because new episodes bring more frames. As the ring has
    # room for two windows, a trajectory of `n_steps` steps fits even if it shares no frames.
    window = 2 * num_envs * max(k + n + 1, k * run.config.get("n_steps", 1))
    return partial(FrameRing, obs_shape=obs_shape, window=window)
