"""The buffer for user-written algorithms that step an environment themselves."""

from typing import Any

import numpy as np

from spinup.algos.common.returns import combined_shape, gae
from spinup.parallel.mpi import mpi_statistics_scalar


class PathBuffer:
    """Stores an agent's steps one by one and computes GAE-lambda advantages path by path.

    The library's own algorithms use `EpochBuffer`; this class does the same arithmetic for code
    that steps an environment itself.
    """

    def __init__(
        self, obs_dim: Any, act_dim: Any, size: int, gamma: float = 0.99, lam: float = 0.95
    ):
        self.obs_buf = np.zeros(combined_shape(size, obs_dim), dtype=np.float32)
        self.act_buf = np.zeros(combined_shape(size, act_dim), dtype=np.float32)
        self.adv_buf = np.zeros(size, dtype=np.float32)
        self.rew_buf = np.zeros(size, dtype=np.float32)
        self.ret_buf = np.zeros(size, dtype=np.float32)
        self.val_buf = np.zeros(size, dtype=np.float32)
        self.logp_buf = np.zeros(size, dtype=np.float32)
        self.gamma, self.lam = gamma, lam
        self.ptr, self.path_start_idx, self.max_size = 0, 0, size

    def store(self, obs: Any, act: Any, rew: Any, val: Any, logp: Any) -> None:
        """Append one step; size-1 arrays are treated as scalars."""
        if self.ptr >= self.max_size:
            raise IndexError(f"the buffer of {self.max_size} steps is full: call get() first")
        i = self.ptr
        self.obs_buf[i] = obs
        self.act_buf[i] = np.reshape(act, self.act_buf.shape[1:])
        self.rew_buf[i] = np.squeeze(rew)
        self.val_buf[i] = np.squeeze(val)
        self.logp_buf[i] = np.squeeze(logp)
        self.ptr += 1

    def finish_path(self, last_val: Any = 0) -> None:
        """End the current path at the last stored step.

        `last_val` is 0 if the episode terminated. If the path was truncated by a time limit or the
        end of the epoch, it is V(final observation), from which the return bootstraps.
        """
        path = slice(self.path_start_idx, self.ptr)
        self.adv_buf[path], self.ret_buf[path] = gae(
            self.rew_buf[path],
            self.val_buf[path],
            float(np.squeeze(last_val)),
            self.gamma,
            self.lam,
        )
        self.path_start_idx = self.ptr

    def take(self) -> dict[str, np.ndarray]:
        """Return copies of the whole buffer, with `adv` normalized; empty the buffer."""
        if self.ptr != self.max_size:
            raise ValueError(
                f"the buffer contains {self.ptr} of {self.max_size} steps: fill it before get()"
            )
        self.ptr, self.path_start_idx = 0, 0
        mean, std = mpi_statistics_scalar(self.adv_buf)
        return {
            "obs": self.obs_buf.copy(),
            "act": self.act_buf.copy(),
            "ret": self.ret_buf.copy(),
            "adv": (self.adv_buf - mean) / (std + np.float32(1e-8)),
            "logp": self.logp_buf.copy(),
        }
