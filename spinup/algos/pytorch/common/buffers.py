"""Buffers for algorithms that are written around `store` and `finish_path`."""

import numpy as np
import torch

from spinup.algos.common import replay
from spinup.algos.common.returns import gae
from spinup.algos.pytorch.common.nets import combined_shape
from spinup.envs.spaces import act_dtype, stored_dtype
from spinup.utils.memory import check_memory
from spinup.utils.mpi_tools import mpi_statistics_scalar


class PathBuffer:
    """Stores an agent's steps one by one and computes GAE-lambda advantages path by path.

    The library's own algorithms collect whole epochs at once; this is the same arithmetic for code
    that steps an environment itself.
    """

    def __init__(self, obs_dim, act_dim, size, gamma=0.99, lam=0.95):
        self.obs_buf = np.zeros(combined_shape(size, obs_dim), dtype=np.float32)
        self.act_buf = np.zeros(combined_shape(size, act_dim), dtype=np.float32)
        self.adv_buf = np.zeros(size, dtype=np.float32)
        self.rew_buf = np.zeros(size, dtype=np.float32)
        self.ret_buf = np.zeros(size, dtype=np.float32)
        self.val_buf = np.zeros(size, dtype=np.float32)
        self.logp_buf = np.zeros(size, dtype=np.float32)
        self.gamma, self.lam = gamma, lam
        self.ptr, self.path_start_idx, self.max_size = 0, 0, size

    def store(self, obs, act, rew, val, logp):
        """Append one step; size-1 arrays are taken as the numbers they hold."""
        if self.ptr >= self.max_size:
            raise IndexError(f"the buffer of {self.max_size} steps is full: call get() first")
        i = self.ptr
        self.obs_buf[i] = obs
        self.act_buf[i] = np.reshape(act, self.act_buf.shape[1:])
        self.rew_buf[i] = np.squeeze(rew)
        self.val_buf[i] = np.squeeze(val)
        self.logp_buf[i] = np.squeeze(logp)
        self.ptr += 1

    def finish_path(self, last_val=0):
        """The path stored last ends here.

        `last_val` is 0 if the episode terminated, and V(final observation) if the path was only cut
        (by a time limit or the end of the epoch), so that what would have followed is not counted
        as nothing.
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

    def get(self):
        """All of the buffer as float32 tensors, with `adv` normalised; empties the buffer."""
        if self.ptr != self.max_size:
            raise ValueError(
                f"the buffer holds {self.ptr} of {self.max_size} steps: fill it before get()"
            )
        self.ptr, self.path_start_idx = 0, 0
        mean, std = mpi_statistics_scalar(self.adv_buf)
        adv = (self.adv_buf - mean) / (std + 1e-8)
        data = {
            "obs": self.obs_buf,
            "act": self.act_buf,
            "ret": self.ret_buf,
            "adv": adv,
            "logp": self.logp_buf,
        }
        return {k: torch.tensor(v, dtype=torch.float32) for k, v in data.items()}


class ReplayBuffer(replay.ReplayBuffer):
    """The replay buffer of `spinup.algos.common.replay`, with batches of tensors.

    Floats and flags come as float32, integers (discrete actions) as int64. Images travel to the
    device as the bytes they are stored in and become numbers there.
    """

    def __init__(self, obs_dim, act_dim, size, *, device="cpu", **kwargs):
        super().__init__(obs_dim, act_dim, size, **kwargs)
        self.device = torch.device(device)

    def rows(self, index):
        """The transitions at some places, each field as a tensor."""
        found = super().rows(index)
        act = self.ring.data["act"].dtype
        return {
            name: torch.from_numpy(x)
            .to(self.device)
            .to(torch.int64 if name == "act" and act.kind in "iu" else torch.float32)
            for name, x in found.items()
        }


def make_replay_buffer(run, replay_size, **kwargs):
    """The replay buffer of a run: sized and typed by its spaces, and known to fit in memory."""
    space, act_space = run.observation_space, run.action_space
    size = replay.check_count("replay_size", replay_size)
    buffer = ReplayBuffer(
        space.shape,
        act_space.shape,
        size,
        obs_dtype=stored_dtype(space),
        act_dtype=act_dtype(act_space),
        rng=run.seeds.generator("replay"),
        device=run.device,
        **kwargs,
    )
    planned = min(size, run.planned_steps)
    check_memory(f"a replay buffer of {planned} transitions", planned * buffer.ring.row_bytes)
    run.track(buffer=buffer)
    return buffer
