"""Streams of a user-defined vector environment returned by `env_fn`."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv

from spinup.envs.keeping import Kept
from spinup.envs.record import env_record
from spinup.envs.spaces import stored_dtype
from spinup.envs.stacks import frame_stack
from spinup.envs.streams import pop
from spinup.utils.errors import SpinupError

__all__ = ["VectorStreams"]


class VectorStreams:
    """A user's vector environment, which restarts its episodes by its own rule.

    Its environments cannot be restored individually: a resumed run starts new episodes and warns.
    The statistics of Gymnasium's wrappers around it are restored.
    """

    has_single_envs = False
    local_env: Any = None

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
        self._kept = Kept(env)

    @property
    def frame_stack(self) -> int:
        """How many frames make up one observation; 1 if it is not a stack of frames."""
        return frame_stack(self.env)

    def start(self) -> None:
        """Begin the first episodes, once."""
        if not self._started:
            self.obs[:] = self.env.reset(seed=int(self._rng.integers(2**31 - 1)))[0]
            self._started = True

    def step(self, act: Sequence[Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Like `Streams.step`, but rows where `valid` is False are resets, not transitions."""
        o2, rew, terminated, truncated, info = self.env.step(np.asarray(act))
        terminated, truncated = np.array(terminated), np.array(truncated)
        self.valid = ~self._resetting
        self._ep_ret += np.where(self.valid, rew, 0.0)
        self._ep_len += self.valid
        too_long = self.valid & (self._ep_len >= self.max_ep_len) & ~(terminated | truncated)
        if too_long.any() and self._mode != AutoresetMode.DISABLED:
            raise SpinupError(
                f"an episode of the vector environment outlasted max_ep_len={self.max_ep_len}, and "
                "only the environment itself can restart it: raise max_ep_len or use num_envs"
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
        """Return the streams that will step with the next actions; the others will be reset."""
        return np.flatnonzero(~self._resetting)

    def pop_finished(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the returns and lengths of the episodes that finished since the last call."""
        return pop(self.finished)

    def state_dict(self) -> dict[str, Any]:
        """Return the RNG and the finished episodes; running episodes cannot be saved."""
        self._kept.mark()
        return {
            "started": self._started,
            "finished": [list(pair) for pair in self.finished],
            "rng": self._rng.bit_generator.state,
            "obs": self.obs.copy(),
            "kept": self._kept.state(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> list[int]:
        """Start new episodes in every environment, with a warning."""
        self.finished = [(float(ret), int(length)) for ret, length in state["finished"]]
        self._rng.bit_generator.state = state["rng"]
        self._started = False
        self._ep_ret[:], self._ep_len[:], self._resetting[:] = 0.0, 0, False
        if not state["started"]:
            return []
        fault = self._kept.restore(state.get("kept"), seed=0)
        warnings.warn(
            "a vector environment made by env_fn cannot be restored: fresh episodes start in all "
            "of its environments, so this run differs from an uninterrupted one (use num_envs to "
            f"resume exactly){fault and f'; {fault}'}",
            stacklevel=2,
        )
        return list(range(self.num_envs))

    def record(self) -> dict[str, Any]:
        """Return how to create the environment again; see `env_record`."""
        return env_record(self.env)

    def stop_soon(self) -> None:
        """Prepare for a stop; environments in this process need nothing."""

    def close(self) -> None:
        """Do nothing: the environment belongs to the user."""
