"""Run as `python program_exact.py N MODE...`: tiny runs of every data-parallel algorithm, 4 shards.

MODE `whole` runs them from beginning to end in a folder of this name, `stop` asks one process to
stop in the middle of the second epoch, in the folder `stopped`, and `resume` continues those. Each
process notes a hash of its parameters at every epoch.
"""

import contextlib
import hashlib
import os
import signal
import sys

from spinup.parallel.mpi import mpi_fork

if __name__ == "__main__":
    mpi_fork(int(sys.argv[1]))

import gymnasium as gym

from spinup import ppo_pytorch, reinforce_pytorch, trpo_pytorch, vpg_pytorch
from spinup.algos.common.loop import Loop
from spinup.parallel.mpi import num_procs, proc_id

STEPS, EPOCHS = 240, 4
RUNS = {
    "reinforce": (reinforce_pytorch, {}),
    "vpg": (vpg_pytorch, {"train_v_iters": 3, "num_envs": 2}),
    "trpo": (trpo_pytorch, {"train_v_iters": 3}),
    "ppo": (ppo_pytorch, {"train_pi_iters": 3, "train_v_iters": 3}),
    "ppo-extras": (
        ppo_pytorch,
        {
            "train_pi_iters": 2,
            "train_v_iters": 2,
            "minibatch_size": 40,
            "ac_kwargs": {"hidden_sizes": (8,), "normalize_obs": True, "normalize_ret": True},
        },
    ),
}


class Stopping(gym.Wrapper):
    """CartPole that sends its process a signal to stop at its n-th step."""

    def __init__(self, env, n):
        super().__init__(env)
        self.left = n

    def step(self, action):
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGUSR1)
        return self.env.step(action)


def note_parameters(name):
    """Have every process write down what its parameters are after every epoch."""
    log = Loop.log

    def noting(self, *args, **kwargs):
        digest = hashlib.sha256()
        for tensor in self.run.ac.state_dict().values():
            digest.update(tensor.numpy().tobytes())
        with open(f"parameters-{name}-{proc_id()}.txt", "a") as file:
            file.write(f"{self.run.epoch} {digest.hexdigest()}\n")
        return log(self, *args, **kwargs)

    Loop.log = noting
    return lambda: setattr(Loop, "log", log)


def train_all(mode):
    folder = "whole" if mode == "whole" else "stopped"
    os.makedirs(folder, exist_ok=True)
    os.chdir(folder)
    for name, (algo, extras) in RUNS.items():
        # the last process alone gets the signal: all must stop
        n = STEPS // 4 // extras.get("num_envs", 1) + 8
        stops = mode == "stop" and proc_id() == num_procs() - 1

        def env_fn(stops=stops, n=n):
            env = gym.make("CartPole-v1")
            return Stopping(env, n) if stops else env

        undo = note_parameters(name)
        with contextlib.suppress(SystemExit) if mode == "stop" else contextlib.nullcontext():
            algo(
                env_fn,
                **{"ac_kwargs": {"hidden_sizes": (8,)}, **extras},
                seed=7,
                steps_per_epoch=STEPS,
                epochs=EPOCHS,
                save_freq=2,
                shards=4,
                resume=mode == "resume",
                logger_kwargs={"output_dir": f"run-{name}", "quiet": True},
            )
        undo()
    os.chdir("..")


if __name__ == "__main__":
    assert num_procs() == int(sys.argv[1])
    for mode in sys.argv[2:]:
        train_all(mode)
