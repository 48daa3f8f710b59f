"""Environments that run side by side, each an endless stream of episodes.

An algorithm sees `num_envs` current observations, hands in `num_envs` actions and gets the
transitions back. Episodes that end start again at once, and the observation an episode really ended
in (`next_obs`) is never mixed up with the first one of the next (`obs`).

Each stream draws a fresh seed for every episode from its own generator. Reset seed plus the actions
since then are enough to bring a deterministic environment back to where it was, bit for bit, which
is how a stopped run continues in the middle of an episode.
"""

import multiprocessing
import multiprocessing.util
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import cloudpickle
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv, VectorEnv

from spinup.envs.adapter import adapt_env
from spinup.envs.make import env_record
from spinup.utils.errors import SpinupError


def make_streams(
    env_fn: Callable[[], Any],
    num_envs: int,
    seeds: Callable[[int], np.random.SeedSequence],
    max_ep_len: int,
    vector: str = "sync",
) -> "Streams | VectorStreams":
    """`num_envs` streams of episodes of the environments that `env_fn` makes.

    `seeds(i)` is the seed sequence of environment i. `vector='async'` puts each environment into a
    process of its own. `env_fn` may return a Gymnasium `VectorEnv`; its size then replaces
    `num_envs`, and Gymnasium's own synchronous and asynchronous ones are taken apart so that each
    of their environments can be seeded, restarted and restored alone.
    """
    if isinstance(num_envs, bool) or not isinstance(num_envs, (int, np.integer)) or num_envs < 1:
        raise SpinupError(f"num_envs={num_envs!r} must be a whole number, one or more")
    if vector not in ("sync", "async"):
        raise SpinupError(f"vector={vector!r} must be 'sync' or 'async'")
    if max_ep_len < 1:
        raise SpinupError(f"max_ep_len={max_ep_len} must be at least 1")
    first = env_fn()
    if isinstance(first, VectorEnv):
        if num_envs not in (1, first.num_envs):
            raise SpinupError(
                f"env_fn returned a vector environment of {first.num_envs}, which contradicts "
                f"num_envs={num_envs}: leave num_envs at 1"
            )
        if type(first) is SyncVectorEnv:
            envs = [adapt_env(env) for env in first.envs]
            return Streams(envs, [seeds(i) for i in range(len(envs))], max_ep_len)
        if type(first) is AsyncVectorEnv:
            env_fns = list(first.env_fns)
            first.close()
            envs = start_workers(env_fns)
            return Streams(envs, [seeds(i) for i in range(len(envs))], max_ep_len)
        return VectorStreams(first, seeds(0), max_ep_len)
    if vector == "async":
        envs = start_workers([env_fn] * num_envs)
    else:
        envs = [adapt_env(env) for env in (first, *(env_fn() for _ in range(num_envs - 1)))]
        if len({id(getattr(env, "unwrapped", env)) for env in envs}) < num_envs:
            raise SpinupError(
                "env_fn returned the same environment object twice, so num_envs must be 1: "
                "make a new one each time, for example lambda: gymnasium.make('CartPole-v1')"
            )
    return Streams(envs, [seeds(i) for i in range(num_envs)], max_ep_len)


def stored_dtype(space: Any) -> np.dtype[Any]:
    """The type observations are kept in: floats as float32, anything else (images) as it is."""
    return np.dtype(np.float32) if np.issubdtype(space.dtype, np.floating) else space.dtype


class Streams:
    """Environments stepped one after the other here, or at the same time in worker processes."""

    def __init__(
        self,
        envs: Sequence[Any],
        seeds: Sequence[np.random.SeedSequence],
        max_ep_len: int,
    ):
        self.envs = list(envs)
        self.num_envs = n = len(self.envs)
        self.max_ep_len = max_ep_len
        self.observation_space = self.envs[0].observation_space
        self.action_space = self.envs[0].action_space
        self._rngs = [np.random.default_rng(s) for s in seeds]
        for env, seed in zip(self.envs, seeds, strict=True):
            action_seed, observation_seed = seed.generate_state(2)
            env.action_space.seed(int(action_seed))
            env.observation_space.seed(int(observation_seed))
        shape = (n, *self.observation_space.shape)
        dtype = stored_dtype(self.observation_space)
        self.obs = np.zeros(shape, dtype)  # what the next actions are chosen from
        self.next_obs = np.zeros(shape, dtype)  # what the last actions led to
        self.rew = np.zeros(n)
        self.terminated = np.zeros(n, dtype=bool)
        self.truncated = np.zeros(n, dtype=bool)
        self.valid: np.ndarray | None = None  # every transition counts
        self.ended: list[int] = []  # streams whose episode ended in the last step
        self.finished: list[tuple[float, int]] = []  # return and length of finished episodes
        self._ep_seed = [0] * n
        self._ep_act: list[list[Any]] = [[] for _ in range(n)]
        self._ep_ret = [0.0] * n
        self._parallel = isinstance(self.envs[0], WorkerEnv)
        self._started = False

    def start(self) -> None:
        """Begin the first episode of every stream, once."""
        if not self._started:
            for i in range(self.num_envs):
                self._reset(i)
            self._started = True

    def _reset(self, i: int) -> None:
        """Start a new episode of stream i from a fresh seed."""
        seed = int(self._rngs[i].integers(2**31 - 1))
        self.obs[i] = self.envs[i].reset(seed=seed)[0]
        self._ep_seed[i], self._ep_act[i], self._ep_ret[i] = seed, [], 0.0

    def step(self, act: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Take one step everywhere: `next_obs, rew, terminated, truncated`, one row an environment.

        The arrays are written anew by the next step: copy what must stay.
        """
        if self.ended:
            self.terminated[:] = False
            self.truncated[:] = False
            self.ended = []
        next_obs = self.next_obs
        kept = np.array(act)  # an environment may change the array that it is given
        if self._parallel:
            for env, a in zip(self.envs, act, strict=True):
                env.send("step", a)
        for i, env in enumerate(self.envs):
            o2, r, terminated, truncated, _ = env.receive() if self._parallel else env.step(act[i])
            next_obs[i] = o2
            self.rew[i] = r
            episode = self._ep_act[i]
            episode.append(kept[i])
            self._ep_ret[i] += float(r)
            if terminated or truncated or len(episode) >= self.max_ep_len:
                # A state that is terminal stays so when a time limit strikes in the same step.
                self.terminated[i] = bool(terminated)
                self.truncated[i] = not terminated
                self.ended.append(i)
        if not self.ended:
            self.obs, self.next_obs = next_obs, self.obs
            return self.obs, self.rew, self.terminated, self.truncated
        self.obs[:] = next_obs
        for i in self.ended:
            self.finished.append((self._ep_ret[i], len(self._ep_act[i])))
            self._reset(i)
        return next_obs, self.rew, self.terminated, self.truncated

    def stepping(self) -> np.ndarray:
        """The streams that the next actions will be a step of: all of them."""
        return np.arange(self.num_envs)

    def pop_finished(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns and lengths of the episodes that finished since the last call."""
        return _pop(self.finished)

    def state_dict(self) -> dict[str, Any]:
        """Everything needed to continue every episode where it is."""
        return {
            "started": self._started,
            "finished": [list(pair) for pair in self.finished],
            "rngs": [rng.bit_generator.state for rng in self._rngs],
            "obs": self.obs.copy(),
            "seeds": list(self._ep_seed),
            "rets": list(self._ep_ret),
            "actions": [np.array(actions) for actions in self._ep_act],
        }

    def load_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Bring every environment back by replaying its episode; returns those that differ.

        A stream whose environment does not come back to the same observation (it draws from a
        generator that no seed reaches, or keeps state between episodes) starts a fresh episode.
        """
        self.finished = [(float(ret), int(length)) for ret, length in state["finished"]]
        self._started = bool(state["started"])
        for rng, rng_state in zip(self._rngs, state["rngs"], strict=True):
            rng.bit_generator.state = rng_state
        self.ended = []
        self.terminated[:] = False
        self.truncated[:] = False
        if not self._started:
            return []
        different = []
        for i, env in enumerate(self.envs):
            actions = list(state["actions"][i])
            obs = env.reset(seed=state["seeds"][i])[0]
            ended = False
            for a in actions:
                if ended:
                    break
                obs, _, terminated, truncated, _ = env.step(a)
                ended = terminated or truncated
            self.obs[i] = obs
            if ended or not np.array_equal(self.obs[i], state["obs"][i], equal_nan=_inexact(obs)):
                different.append(i)
                self._reset(i)
            else:
                self._ep_seed[i], self._ep_act[i] = state["seeds"][i], actions
                self._ep_ret[i] = state["rets"][i]
        if different:
            warnings.warn(
                f"environments {different} did not come back to the observation they were saved "
                "in (not deterministic given seed and actions): fresh episodes start there",
                stacklevel=2,
            )
        return different

    def close(self) -> None:
        """Stop worker processes; environments made by `env_fn` in this process stay the user's."""
        for env in self.envs:
            if isinstance(env, WorkerEnv):
                env.close()


def _pop(finished: list[tuple[float, int]]) -> tuple[np.ndarray, np.ndarray]:
    rets = np.array([ret for ret, _ in finished])
    lens = np.array([length for _, length in finished], dtype=np.int64)
    finished.clear()
    return rets, lens


def _inexact(obs: Any) -> bool:
    return bool(np.issubdtype(np.asarray(obs).dtype, np.inexact))


class VectorStreams:
    """A vector environment of the user's own, whose episodes restart by its own rule.

    Its environments cannot be restored one by one: a resumed run starts fresh episodes and says so.
    """

    def __init__(self, env: VectorEnv, seed: np.random.SeedSequence, max_ep_len: int):
        self.env = env
        self.num_envs = n = env.num_envs
        self.max_ep_len = max_ep_len
        self.action_space = env.single_action_space
        self.observation_space = env.single_observation_space
        if not isinstance(self.observation_space, spaces.Box):
            raise SpinupError(
                f"a vector environment must have Box observations, not {self.observation_space}: "
                "let env_fn return one environment and use num_envs"
            )
        mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._mode = AutoresetMode(mode) if isinstance(mode, str) else mode
        self._rng = np.random.default_rng(seed)
        shape = (n, *self.observation_space.shape)
        dtype = stored_dtype(self.observation_space)
        self.obs, self.next_obs = np.zeros(shape, dtype), np.zeros(shape, dtype)
        self.valid: np.ndarray | None = np.ones(n, dtype=bool)
        self.ended: list[int] = []
        self.finished: list[tuple[float, int]] = []
        self._ep_ret = np.zeros(n)
        self._ep_len = np.zeros(n, dtype=np.int64)
        self._resetting = np.zeros(n, dtype=bool)
        self._started = False

    def start(self) -> None:
        """Begin the first episodes, once."""
        if not self._started:
            self.obs[:] = self.env.reset(seed=int(self._rng.integers(2**31 - 1)))[0]
            self._started = True

    def step(self, act: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """As `Streams.step`; rows where `valid` is False are resets, not transitions."""
        o2, rew, terminated, truncated, info = self.env.step(np.asarray(act))
        terminated, truncated = np.array(terminated), np.array(truncated)
        self.valid = ~self._resetting
        self._ep_ret += np.where(self.valid, rew, 0.0)
        self._ep_len += self.valid
        too_long = self.valid & (self._ep_len >= self.max_ep_len) & ~(terminated | truncated)
        if too_long.any() and self._mode != AutoresetMode.DISABLED:
            raise SpinupError(
                f"an episode of the vector environment outlasted max_ep_len={self.max_ep_len} and "
                "it restarts episodes by itself: raise max_ep_len or use num_envs"
            )
        truncated = (truncated | too_long) & ~terminated
        ended = self.valid & (terminated | truncated)
        self.next_obs[:] = o2
        self.obs[:] = o2
        self._resetting = np.zeros(self.num_envs, dtype=bool)
        self.ended = np.flatnonzero(ended).tolist()
        for i in self.ended:
            self.finished.append((float(self._ep_ret[i]), int(self._ep_len[i])))
            self._ep_ret[i], self._ep_len[i] = 0.0, 0
            if self._mode == AutoresetMode.SAME_STEP:
                self.next_obs[i] = info["final_obs"][i]
        if self.ended and self._mode == AutoresetMode.NEXT_STEP:
            self._resetting = ended
        if self.ended and self._mode == AutoresetMode.DISABLED:
            first = self.env.reset(
                seed=int(self._rng.integers(2**31 - 1)), options={"reset_mask": ended}
            )[0]
            self.obs[ended] = np.asarray(first)[ended]
        return (
            self.next_obs,
            np.asarray(rew, dtype=np.float64),
            terminated & ended,
            truncated & ended,
        )

    def stepping(self) -> np.ndarray:
        """The streams that the next actions will be a step of; the others will be reset."""
        return np.flatnonzero(~self._resetting)

    def pop_finished(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns and lengths of the episodes that finished since the last call."""
        return _pop(self.finished)

    def state_dict(self) -> dict[str, Any]:
        """The generator and what has finished; the episodes themselves cannot be saved."""
        return {
            "started": self._started,
            "finished": [list(pair) for pair in self.finished],
            "rng": self._rng.bit_generator.state,
            "obs": self.obs.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Continue with fresh episodes in every environment, and say so."""
        self.finished = [(float(ret), int(length)) for ret, length in state["finished"]]
        self._rng.bit_generator.state = state["rng"]
        self._started = False
        self._ep_ret[:], self._ep_len[:], self._resetting[:] = 0.0, 0, False
        if not state["started"]:
            return []
        warnings.warn(
            "a vector environment made by env_fn cannot be restored: fresh episodes start in all "
            "of its environments, so this run differs from an uninterrupted one (num_envs resumes "
            "exactly)",
            stacklevel=2,
        )
        return list(range(self.num_envs))

    def close(self) -> None:
        """The environment stays the user's."""


class WorkerEnv:
    """An environment in a process of its own, driven through a pipe."""

    _DIED = "the worker process of an environment died"

    def __init__(self, env_fn: Callable[[], Any], context: Any, siblings: Sequence[Any]):
        self._pipe, child = context.Pipe()
        payload = cloudpickle.dumps(env_fn)
        # A forked child inherits our ends of the other pipes and must close them, or a killed
        # parent would never be noticed.
        inherited = [self._pipe, *siblings] if context.get_start_method() == "fork" else []
        self._process = context.Process(target=_work, args=(child, payload, inherited), daemon=True)
        self._process.start()
        child.close()
        # At exit the pipe must be closed before multiprocessing waits for its processes.
        multiprocessing.util.Finalize(self, self._pipe.close, exitpriority=10)
        self.observation_space, self.action_space, self.record = self.receive()

    def send(self, command: str, argument: Any) -> None:
        """Ask for something without waiting for the answer."""
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
        """As Gymnasium's `reset`."""
        self.send("reset", seed)
        return self.receive()

    def step(self, action: Any) -> Any:
        """As Gymnasium's `step`."""
        self.send("step", action)
        return self.receive()

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()


def start_workers(env_fns: Sequence[Callable[[], Any]]) -> list[WorkerEnv]:
    """One worker process an environment."""
    # fork needs no `if __name__ == "__main__"` guard in the user's script; elsewhere it is unsafe.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    workers: list[WorkerEnv] = []
    for env_fn in env_fns:
        workers.append(WorkerEnv(env_fn, context, [w._pipe for w in workers]))
    return workers


def _work(pipe: Any, payload: bytes, inherited: Sequence[Any]) -> None:
    """Serve one environment until the parent closes its end of the pipe (or dies)."""
    # Ctrl-C and `timeout` signal the whole process group: the parent decides, after this step.
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
    except BaseException:  # whatever it was, the parent must hear of it
        pipe.send((False, traceback.format_exc()))
