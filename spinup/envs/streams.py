"""Environments that run side by side, each as an endless stream of episodes.

An algorithm sees `num_envs` current observations, passes `num_envs` actions and receives the
transitions. When an episode ends, the next one starts at once. An episode's last observation
(`next_obs`) is kept separate from the next episode's first observation (`obs`).

Each stream draws a new seed for every episode from its own RNG. The reset seed and the subsequent
actions are enough to restore a deterministic environment bit for bit, so a stopped run can continue
in the middle of an episode. `spinup.envs.keeping` saves what survives a reset.

`spinup.envs.make_streams` creates the streams of a run.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from spinup.envs.spaces import number, stored_dtype

__all__ = ["BaseStreams", "Streams"]


class BaseStreams:
    """What all streams have in common; `example` is the environment that is recorded."""

    has_single_envs = True  # test episodes can run in an environment that `env_fn` creates
    local_env: Any = None  # an environment in this process whose attributes can be read, or None
    valid: np.ndarray | None = None  # None: every transition is valid

    def __init__(self, example: Any, spaces: tuple[Any, Any], num_envs: int, max_ep_len: int):
        self.example, self.num_envs, self.max_ep_len = example, num_envs, max_ep_len
        self.observation_space, self.action_space = spaces
        shape = (num_envs, *self.observation_space.shape)
        dtype = stored_dtype(self.observation_space)
        self.obs = np.zeros(shape, dtype)  # the observations from which actions are chosen
        self.next_obs = np.zeros(shape, dtype)  # the observations after the last actions
        self.ended: list[int] = []  # streams whose episode ended in the last step
        self.finished: list[tuple[float, int]] = []  # return and length of finished episodes
        self._started = False

    @property
    def frame_stack(self) -> int:
        """How many frames make up one observation; 1 if it is not a stack of frames."""
        from spinup.envs.stacks import frame_stack

        return frame_stack(self.example)

    def record(self) -> dict[str, Any]:
        """Return how to create the environment again; see `env_record`."""
        from spinup.envs.record import env_record

        return env_record(self.example)

    def stepping(self) -> np.ndarray:
        """Return the streams that will take a step with the next actions: all of them."""
        return np.arange(self.num_envs)

    def pop_finished(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the returns and lengths of the episodes that finished since the last call."""
        return pop(self.finished)

    def state_dict(self) -> dict[str, Any]:
        """Return all the state needed to continue every episode."""
        return {
            "started": self._started,
            "finished": [list(pair) for pair in self.finished],
            "obs": self.obs.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Restore the episodes; return the indices of those that start afresh, with a warning."""
        self.finished = [(float(ret), int(length)) for ret, length in state["finished"]]
        self._started, self.ended = bool(state["started"]), []
        return []

    def stop_soon(self) -> None:
        """Prepare for a stop; environments in this process need nothing."""

    def close(self) -> None:
        """Do nothing: environments that `env_fn` created in this process belong to the user."""


class Streams(BaseStreams):
    """Environments in this process, stepped one after another."""

    def __init__(
        self,
        envs: Sequence[Any],
        seeds: Sequence[np.random.SeedSequence],
        max_ep_len: int,
        kept: Sequence[Any] | None = None,
    ):
        self.envs = list(envs)
        self.local_env = env = self.envs[0]
        n = len(self.envs)
        super().__init__(env, (env.observation_space, env.action_space), n, max_ep_len)
        self._rngs = [np.random.default_rng(s) for s in seeds]
        for env, seed in zip(self.envs, seeds, strict=True):
            action_seed, observation_seed = seed.generate_state(2)
            env.action_space.seed(int(action_seed))
            env.observation_space.seed(int(observation_seed))
        self.rew = np.zeros(n)
        self.terminated = np.zeros(n, dtype=bool)
        self.truncated = np.zeros(n, dtype=bool)
        self._ep_seed = [0] * n
        self._ep_act: list[list[Any]] = [[] for _ in range(n)]
        self._ep_rew: list[list[float]] = [[] for _ in range(n)]
        self._ep_ret = [0.0] * n
        if kept is None:
            from spinup.envs.keeping import Kept

            kept = [Kept(env, watch_globals=n == 1) for env in self.envs]
        self._kept = list(kept)

    def start(self) -> None:
        """Begin every stream's first episode, once."""
        if not self._started:
            for i in range(self.num_envs):
                self.new_episode(i)
            self._started = True

    def new_episode(self, i: int) -> None:
        """Start a new episode of stream i with a new seed."""
        seed = int(self._rngs[i].integers(2**31 - 1))
        self._kept[i].mark()
        self.obs[i] = self.envs[i].reset(seed=seed)[0]
        self._ep_seed[i], self._ep_act[i], self._ep_rew[i], self._ep_ret[i] = seed, [], [], 0.0

    def step(self, act: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Step every environment; return `next_obs, rew, terminated, truncated`, one row for each.

        The next step overwrites these arrays: copy any data that you keep.
        """
        if self.ended:
            self.terminated[:] = False
            self.truncated[:] = False
            self.ended = []
        next_obs = self.next_obs
        kept = np.array(act)  # an environment may modify the array that it receives
        for i, env in enumerate(self.envs):
            o2, r, terminated, truncated, _ = env.step(act[i])
            next_obs[i] = o2
            self.rew[i] = r = number(r)
            episode = self._ep_act[i]
            episode.append(kept[i])
            self._ep_rew[i].append(r)
            self._ep_ret[i] += r
            if terminated or truncated or len(episode) >= self.max_ep_len:
                # A terminal state stays terminal even if a time limit is reached in the same step.
                self.terminated[i] = bool(terminated)
                self.truncated[i] = not terminated
                self.ended.append(i)
        if not self.ended:
            self.obs, self.next_obs = next_obs, self.obs
            return self.obs, self.rew, self.terminated, self.truncated
        self.obs[:] = next_obs
        for i in self.ended:
            self.finished.append((self._ep_ret[i], len(self._ep_act[i])))
            self.new_episode(i)
        return next_obs, self.rew, self.terminated, self.truncated

    def state_dict(self) -> dict[str, Any]:
        return {
            **super().state_dict(),
            "rngs": [rng.bit_generator.state for rng in self._rngs],
            "seeds": list(self._ep_seed),
            "rets": list(self._ep_ret),
            "actions": [np.array(actions) for actions in self._ep_act],
            "rewards": [np.array(rewards) for rewards in self._ep_rew],
            "kept": [kept.state() for kept in self._kept],
        }

    def load_state_dict(self, state: dict[str, Any]) -> list[int]:
        from spinup.envs.replaying import restore_streams  # few runs need it

        super().load_state_dict(state)
        return restore_streams(self, state)


def pop(finished: list[tuple[float, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Return the returns and lengths of finished episodes, and clear the list."""
    rets = np.array([ret for ret, _ in finished])
    lens = np.array([length for _, length in finished], dtype=np.int64)
    finished.clear()
    return rets, lens
