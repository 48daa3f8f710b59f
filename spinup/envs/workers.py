"""Environments in worker processes (`vector='async'`).

Each worker's global RNGs are seeded from the run's seed, saved, and restored, because some
environments draw from them.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.util
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import numpy as np

from spinup.envs.adapter import adapt_env
from spinup.envs.keeping import Kept
from spinup.envs.record import env_record
from spinup.envs.stacks import frame_stack
from spinup.envs.streams import Streams
from spinup.utils.errors import SpinupError
from spinup.utils.seeding import seed_globals

__all__ = ["WorkerEnv", "WorkerStreams", "start_workers"]


_PATIENCE = 10.0  # seconds that a stop waits for a worker's answer; Slurm kills a job after 30


class WorkerStreams(Streams):
    """Environments that step at the same time, one process each."""

    envs: list[WorkerEnv]

    def __init__(
        self,
        env_fns: Sequence[Callable[[], Any]],
        seeds: Sequence[np.random.SeedSequence],
        max_ep_len: int,
    ):
        workers = start_workers(env_fns, seeds)
        super().__init__(workers, seeds, max_ep_len, kept=workers)
        self.local_env = None

    def step(self, act: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Like `Streams.step`, but all environments step at the same time."""
        for env, a in zip(self.envs, act, strict=True):
            env.begin_step(a)
        return super().step(act)

    def record(self) -> dict[str, Any]:
        """Return how to create the environment again, as recorded by its worker process."""
        return self.envs[0].record

    def stop_soon(self) -> None:
        """Do not let a worker that hangs delay a stop: end it if its answer does not come."""
        waiting = [(env, env.requests) for env in self.envs]

        def end_those_that_hang() -> None:
            for env, requests in waiting:
                env.give_up(requests)

        timer = threading.Timer(_PATIENCE, end_those_that_hang)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Stop the worker processes."""
        for env in self.envs:
            env.hang_up()
        deadline = time.monotonic() + 5
        for env in self.envs:
            env.end(deadline)


class WorkerEnv:
    """An environment in its own process, driven through a pipe."""

    def __init__(
        self,
        env_fn: Callable[[], Any],
        index: int,
        seed: int,
        context: Any,
        siblings: Sequence[Any],
    ):
        self.index = index
        self.requests = 0
        self._answers = 0
        self._gave_up = False
        self._stepping = False  # True while a step is running or its result is not yet fetched
        self._pipe, child = context.Pipe()
        payload = cloudpickle.dumps(env_fn)
        # A forked child inherits our ends of the other pipes and must close them. Otherwise, the
        # workers would not notice that their parent was killed.
        inherited = [self._pipe, *siblings] if context.get_start_method() == "fork" else []
        self._process = context.Process(
            target=_work, args=(child, payload, seed, inherited), daemon=True
        )
        self._process.start()
        child.close()
        # At exit, the pipe must be closed before multiprocessing waits for its processes.
        multiprocessing.util.Finalize(self, self._pipe.close, exitpriority=10)
        self.requests = 1
        (self.observation_space, self.action_space), self.frame_stack, self.record = self.receive()

    def send(self, command: str, argument: Any) -> None:
        """Send a request without waiting for the answer."""
        self.requests += 1
        try:
            self._pipe.send((command, argument))
        except (BrokenPipeError, ConnectionResetError):
            raise self._died() from None

    def receive(self) -> Any:
        """Wait for the answer to the oldest request."""
        try:
            ok, value = self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise self._died() from None
        self._answers += 1
        if ok is None:
            raise RuntimeError(f"environment {self.index} failed in its worker process:\n{value}")
        if not ok:
            raise SpinupError(value)
        return value

    def ask(self, command: str, argument: Any = None) -> Any:
        """Send a request and wait for its answer."""
        self.send(command, argument)
        return self.receive()

    def _died(self) -> SpinupError:
        """Return an error that says why the process is gone."""
        kept = "the last checkpoint is kept, and resume=True (--resume) continues from it"
        if self._gave_up:
            return SpinupError(
                f"environment {self.index} did not answer within {_PATIENCE:g} seconds after the "
                f"signal to stop, so nothing could be saved: {kept}"
            )
        self._process.join(timeout=5)
        code = self._process.exitcode
        if code is None:
            cause = "closed its connection"
        elif code >= 0:
            cause = f"exited with status {code}"
        else:
            name = {s.value: s.name for s in signal.Signals}.get(-code, f"signal {-code}")
            cause = f"was killed by {name}" + " (perhaps out of memory)" * (name == "SIGKILL")
        return SpinupError(f"the worker process of environment {self.index} {cause}: {kept}")

    def reset(self, seed: int | None = None) -> Any:
        """Like Gymnasium's `reset`."""
        return self.ask("reset", seed)

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

    def mark(self) -> None:
        """Do nothing: the worker process marks the state before every reset."""

    def state(self) -> dict[str, Any] | None:
        """Like `Kept.state`: what the environment keeps between episodes."""
        state: dict[str, Any] | None = self.ask("kept")
        return state

    def restore(self, state: dict[str, Any] | None, seed: int = 0) -> str:
        """Like `Kept.restore`."""
        return str(self.ask("restore", (state, seed)))

    def give_up(self, requests: int) -> None:
        """End the process if it still owes the answer to request number `requests`."""
        if self._answers < requests:
            self._gave_up = True
            self._process.kill()

    def hang_up(self) -> None:
        """Close the pipe, which ends the process once it is idle."""
        self._pipe.close()

    def end(self, deadline: float) -> None:
        """Wait for the end of the process; kill it if it has not ended at the deadline."""
        self._process.join(timeout=max(0.0, deadline - time.monotonic()))
        if self._process.is_alive():
            self._process.kill()


def start_workers(
    env_fns: Sequence[Callable[[], Any]], seeds: Sequence[np.random.SeedSequence]
) -> list[WorkerEnv]:
    """Start one worker process per environment."""
    # fork needs no `__main__` guard in the user's script, but it is safe only on Linux.
    fork = sys.platform == "linux" and "fork" in multiprocessing.get_all_start_methods()
    context = multiprocessing.get_context("fork" if fork else "spawn")
    workers: list[WorkerEnv] = []
    for i, (env_fn, sequence) in enumerate(zip(env_fns, seeds, strict=True)):
        # A child of the environment's own sequence, whose other draws it leaves unchanged.
        child = np.random.SeedSequence(sequence.entropy, spawn_key=(*sequence.spawn_key, 0))
        seed = int(child.generate_state(1)[0])
        workers.append(WorkerEnv(env_fn, i, seed, context, [w._pipe for w in workers]))
    return workers


def _work(pipe: Any, payload: bytes, seed: int, inherited: Sequence[Any]) -> None:
    """Serve one environment until the parent closes its end of the pipe (or dies)."""
    # Ctrl-C and `timeout` signal the whole process group; the parent decides when to stop.
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    for connection in inherited:
        connection.close()
    try:
        seed_globals(seed)
        torch = sys.modules.get("torch")
        if torch is not None:
            torch.default_generator.manual_seed(seed)
        env = adapt_env(cloudpickle.loads(payload)())
        kept = Kept(env, watch_globals=True, watch_torch=True)
        spaces = env.observation_space, env.action_space
        pipe.send((True, (spaces, frame_stack(env), env_record(env))))
        while True:
            command, argument = pipe.recv()
            answer: Any
            if command == "step":
                answer = (*env.step(argument)[:4], {})
            elif command == "reset":
                kept.mark()
                answer = env.reset(seed=argument)
            else:
                answer = kept.state() if command == "kept" else kept.restore(*argument)
            pipe.send((True, answer))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except SpinupError as error:
        pipe.send((False, str(error)))
    except BaseException:  # any failure must be reported to the parent
        pipe.send((None, traceback.format_exc()))
