"""What can happen to a training process: a signal, a crash, a full disk, a lost write."""

import contextlib
import errno
import fcntl
import os
import random
import signal
import stat
import time

import gymnasium as gym
import numpy as np
import torch


class Trouble(gym.Wrapper):
    """Counts the steps of all environments of this process and makes trouble at the n-th.

    `do` is what happens: a value that goes bad ("nan", "inf_obs"), an exception ("raise"), a full
    disk ("fill"), an environment that dies or hangs ("die", "wait"), or signals to the process
    that trains, joined by "+" ("SIGINT+SIGTERM"), "GROUP" before one for its whole group
    ("SLOW" waits between two).
    `among` counts only those of "training" or of "test" episodes, which `plays` says.
    """

    steps = counted = 0

    def __init__(self, env, plays, trainer, n=0, do=None, path=None, once=None, among=None):
        super().__init__(env)
        self.n, self.do, self.path = n, do, path
        self.counts = among in (None, plays)
        self.once = once  # a file that only the first of several worker processes can make
        self.trainer = trainer  # its process: the environment may live in another

    def step(self, action):
        result = self.env.step(action)
        Trouble.steps += 1
        Trouble.counted += self.counts
        return self.trouble(*result) if self.counts and Trouble.counted == self.n else result

    def trouble(self, obs, rew, terminated, truncated, info):
        if self.once:
            try:
                os.close(os.open(self.once, os.O_CREAT | os.O_EXCL))
            except FileExistsError:
                return obs, rew, terminated, truncated, info
        if self.do == "nan":
            rew = float("nan")
        elif self.do == "inf_obs":
            obs = np.full_like(obs, np.inf)
        elif self.do == "raise":
            raise ArithmeticError("this environment fails on purpose")
        elif self.do == "fill":
            fill_disk(self.path)
        elif self.do == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        elif self.do == "wait":
            time.sleep(1000)
        else:
            for name in self.do.split("+"):
                if name == "SLOW":
                    time.sleep(2)
                elif name.startswith("GROUP"):
                    os.killpg(os.getpgid(self.trainer), getattr(signal, name[5:]))
                else:
                    os.kill(self.trainer, getattr(signal, name))
                time.sleep(0.01)  # signals of one kind that wait together arrive as one
        return obs, rew, terminated, truncated, info


def fill_disk(path):
    """Leave no free byte where `path` is."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as f:
        for size in (1 << 16, 1 << 10, 1):
            with contextlib.suppress(OSError):
                while f.write(b"x" * size):
                    pass


def die_at_call(name, n, torn=False, full=False):
    """Replace `os.<name>` by one that kills this process, or fails, before its n-th call."""
    original, calls, durable = getattr(os, name), [0], {}

    def counted(*args, **kwargs):
        calls[0] += 1
        if full and calls[0] == n:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if torn:
            file = os.fstat(args[0])
            if calls[0] == n and stat.S_ISREG(file.st_mode):
                # What an earlier fsync made durable cannot be lost; only a file that is appended
                # to has such a part (and new files may have the inodes of deleted ones).
                appended = fcntl.fcntl(args[0], fcntl.F_GETFL) & os.O_APPEND
                kept = durable.get(file.st_ino, 0) if appended else 0
                os.truncate(args[0], (kept + file.st_size) // 2)
            durable[file.st_ino] = file.st_size
        if calls[0] == n:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)

    setattr(os, name, counted)
    return calls


def disturb(seed):
    """Bring the global generators into a state that nothing of ours made."""
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)
    random.random(), np.random.rand(seed % 7), torch.rand(seed % 5)
