"""Averaging and broadcasting TensorFlow gradients and parameters over processes.

Everything here builds operations in the default graph. In a single process, they contain nothing
that communicates, and mpi4py is not needed. All processes must build the same graph.
"""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from spinup.parallel.mpi import Shards, broadcast, num_procs, proc_id
from spinup.utils.errors import SpinupError
from spinup.utils.tf import flat_concat as flat_concat
from spinup.utils.tf import split_like, tf


def assign_params_from_flat(x: Any, params: Sequence[Any]) -> Any:
    """Return an operation that copies the vector `x` into `params`; inverts `flat_concat`."""
    if not params:
        return tf.no_op()
    pairs = zip(split_like(x, params), params, strict=True)
    return tf.group([p.assign(tf.cast(piece, p.dtype.base_dtype)) for piece, p in pairs])


def sync_params(params: Sequence[Any]) -> Any:
    """Return an operation that copies process 0's values of the variables `params` everywhere."""
    params = list(params)
    if num_procs() == 1 or not params:
        return tf.no_op()
    for p in params:
        if not p.dtype.is_numpy_compatible or p.dtype.base_dtype == tf.string:
            kind = p.dtype.base_dtype.name
            raise SpinupError(
                f"variable {p.name} contains values of type {kind}, which cannot be sent to other "
                "processes: synchronize a list of variables without it"
            )
    # `read_value`, because the cached value of a variable ignores control dependencies.
    synced = _message(of_process_0, [p.read_value() for p in params])
    return tf.group([p.assign(value) for p, value in zip(params, synced, strict=True)])


def sync_all_params() -> Any:
    """Return an operation that copies process 0's values of all global variables everywhere."""
    return sync_params(tf.global_variables())


class MpiAdamOptimizer(tf.train.AdamOptimizer):
    """Adam that averages gradients over processes and keeps their parameters equal.

    It takes the arguments of `tf.train.AdamOptimizer`, and in a single process it is the same.
    """

    def compute_gradients(self, *args: Any, **kwargs: Any) -> list[tuple[Any, Any]]:
        """Return (gradient, variable) pairs; the gradients are averages, sent in one message.

        A variable that does not affect the loss has None, as in a single process.
        """
        pairs: list[tuple[Any, Any]] = super().compute_gradients(*args, **kwargs)
        if num_procs() == 1:
            return pairs
        # Dense, because processes may have looked up different rows of an embedding.
        grads = [tf.convert_to_tensor(g) for g, _ in pairs if g is not None]
        averages = iter(_message(_average, grads) if grads else [])
        return [(g if g is None else next(averages), v) for g, v in pairs]

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """Return an operation that takes the step and then copies process 0's parameters."""
        pairs = list(grads_and_vars)
        applied = super().apply_gradients(pairs, *args, **kwargs)
        if num_procs() == 1:
            return applied
        with tf.control_dependencies([applied]):
            return sync_params([v for g, v in pairs if g is not None])


def _average(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Average arrays over processes, summing in the order of their ranks."""
    # MPI has no half-width floats; with several types, use the widest.
    dtype = np.result_type(np.float32, *arrays)
    mean = Shards().mean([np.concatenate([a.ravel().astype(dtype) for a in arrays])])
    cuts = np.cumsum([a.size for a in arrays])[:-1]
    pieces = zip(np.split(mean, cuts), arrays, strict=True)
    return [piece.astype(a.dtype).reshape(a.shape) for piece, a in pieces]


def of_process_0(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return process 0's arrays. They travel as bytes, so that every type arrives unchanged."""
    flat = np.frombuffer(bytearray(b"".join(a.tobytes() for a in arrays)), np.uint8)
    broadcast(flat)
    cuts = np.cumsum([a.nbytes for a in arrays])[:-1]
    pieces = zip(np.split(flat, cuts), arrays, strict=True)
    return [piece.copy().view(a.dtype).reshape(a.shape) for piece, a in pieces]


def _message(
    function: Callable[[Sequence[np.ndarray]], list[np.ndarray]], tensors: Sequence[Any]
) -> list[Any]:
    """Return the tensors that `function`, which communicates once, computes when they are read.

    One `session.run` can contain several messages, for example if it trains with two optimizers.
    TensorFlow runs them in any order, and MPI would then match one process's first message with
    another's second. Control dependencies between them are no solution: fetching one would also run
    the others. Instead, process 0 announces the number of each message before it sends it. In the
    other processes, a message tries again and again until it is its turn. It must not wait inside
    the function, because that would block a thread, perhaps the only one that TensorFlow has.
    """
    numbers = tf.get_default_graph().get_collection_ref("spinup/messages")
    number = len(numbers)  # the same in all processes, which build the same graph
    numbers.append(number)
    start = [tf.constant(False), *tensors]
    mutex = tf.raw_ops.MutexV2()

    def attempt(sent: bool, *arrays: np.ndarray) -> list[Any]:
        with _turns().turn(number) as ours:
            return [ours, *(function(arrays) if ours else arrays)]

    def body(*state: Any) -> list[Any]:
        # Locking takes a thread of its own, so that the next attempt starts at the end of the queue
        # of operations; an attempt that starts at its head would keep the others from running.
        with tf.control_dependencies([tf.raw_ops.MutexLock(mutex=mutex)]):
            after: list[Any] = tf.numpy_function(attempt, state, [x.dtype for x in state])
        for new, old in zip(after, state, strict=True):
            new.set_shape(old.shape)
        return after

    return list(tf.while_loop(lambda sent, *_: ~sent, body, start, back_prop=False)[1:])


class _Turns:
    """Which message is next: process 0 decides."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next: int | None = None  # what process 0 has announced and this process has not sent

    @contextlib.contextmanager
    def turn(self, number: int) -> Iterator[bool]:
        """Return whether message `number` is next; no other message can be sent in the block."""
        with self._lock:
            if proc_id() == 0 or self._next is None:
                announced = np.array([number])
                broadcast(announced)
                self._next = int(announced[0])
            ours = self._next == number
            try:
                yield ours
            finally:
                if ours:
                    self._next = None


@functools.cache
def _turns() -> _Turns:
    return _Turns()
