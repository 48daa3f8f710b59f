"""Environments in worker processes (`vector='async'`)."""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import numpy as np

from spinup.envs.adapter import adapt_env
from spinup.envs.record import env_record
from spinup.envs.streams import Streams

__all__ = ["WorkerEnv", "WorkerStreams", "start_workers"]


class WorkerStreams(Streams):
    """Environments that step at the same time, one process each."""

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Any]],
        seeds: Sequence[np.random.SeedSequence],
        max_ep_len: int,
    ):
        super().__init__(start_workers(env_fns), seeds, max_ep_len)
        self.local_env = None

    def step(self, act: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Like `Streams.step`, but all environments step at the same time."""
        for env, a in zip(self.envs, act, strict=True):
            env.begin_step(a)
        return super().step(act)

    def record(self) -> dict[str, Any]:
        """Return how to create the environment again, as recorded by its worker process."""
        return self.envs[0].record

    def close(self) -> None:
        """Stop the worker processes."""
        for env in self.envs:
            env.close()


class WorkerEnv:
    """An environment in its own process, driven through a pipe."""

    _DIED = "the worker process of an environment died: see its output above"

    def __init__(self, env_fn: Callable[[], Any], context: Any, siblings: Sequence[Any]):
        self._stepping = False  # True while a step is running or its result is not yet fetched
        self._pipe, child = context.Pipe()
        payload = cloudpickle.dumps(env_fn)
        # A forked child inherits our ends of the other pipes and must close them. Otherwise, the
        # workers would not notice that their parent was killed.
        inherited = [self._pipe, *siblings] if context.get_start_method() == "fork" else []
        self._process = context.Process(target=_work, args=(child, payload, inherited), daemon=True)
        self._process.start()
        child.close()
        # At exit, the pipe must be closed before multiprocessing waits for its processes.
        multiprocessing.util.Finalize(self, self._pipe.close, exitpriority=10)
        self.observation_space, self.action_space, self.record = self.receive()

    def send(self, command: str, argument: Any) -> None:
        """Send a request without waiting for the answer."""
        try:
            self._pipe.send((command, argument))
        except BrokenPipeError:
            raise RuntimeError(self._DIED) from None

    def receive(self) -> Any:
        """Wait for the answer to the oldest request."""
        try:
            ok, value = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise RuntimeError(self._DIED) from None
        if not ok:
            raise RuntimeError(f"an environment failed in its worker process:\n{value}")
        return value

    def reset(self, seed: int | None = None) -> Any:
        """Like Gymnasium's `reset`."""
        self.send("reset", seed)
        return self.receive()

    def begin_step(self, action: Any) -> None:
        """Start a step without waiting; the next call to `step` returns its result."""
        self.send("step", action)
        self._stepping = True

    def step(self, action: Any) -> Any:
        """Like Gymnasium's `step`."""
        if not self._stepping:
            self.send("step", action)
        self._stepping = False
        return self.receive()

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()


def start_workers(env_fns: Sequence[Callable[[], Any]]) -> list[WorkerEnv]:
    """Start one worker process per environment."""
    # fork needs no `__main__` guard in the user's script, but it is safe only on Linux.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    workers: list[WorkerEnv] = []
    for env_fn in env_fns:
        workers.append(WorkerEnv(env_fn, context, [w._pipe for w in workers]))
    return workers


def _work(pipe: Any, payload: bytes, inherited: Sequence[Any]) -> None:
    """Serve one environment until the parent closes its end of the pipe (or dies)."""
    # Ctrl-C and `timeout` signal the whole process group; the parent decides when to stop.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for connection in inherited:
        connection.close()
    try:
        env = adapt_env(cloudpickle.loads(payload)())
        pipe.send((True, (env.observation_space, env.action_space, env_record(env))))
        while True:
            command, argument = pipe.recv()
            answer = env.reset(seed=argument) if command == "reset" else env.step(argument)[:4]
            pipe.send((True, answer if command == "reset" else (*answer, {})))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except BaseException:  # any failure must be reported to the parent
        pipe.send((False, traceback.format_exc()))
