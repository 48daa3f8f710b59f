"""Run as `python program_train.py JSON`: a tiny PPO run over processes that something happens to.

The keys of JSON: `n` processes, `fault` and the `rank` that it happens to, at step `at` of its
first environment; `launch`, options of the launcher; `train`, arguments of the run.
"""

import json
import os
import signal
import sys
import time

import numpy as np

from spinup.parallel import launch as mpi_launch
from spinup.parallel.job import ENTERED, LEFT
from spinup.parallel.mpi import mpi_fork

ASKED = {
    "n": 2,
    "fault": "",
    "rank": 1,
    "at": 70,
    "launch": {},
    "train": {},
    **json.loads(sys.argv[1]),
}

_judge = mpi_launch._hanging


def once_it_has_happened(table, silence, timeout, local, stopped):
    """The launcher's verdict, once one process hangs and all the others wait for it.

    Until then, a busy machine may hold up any of them for longer than the timeout.
    """
    waiting = table[:, ENTERED] > table[:, LEFT]
    blamed = np.arange(len(table)) == ASKED["rank"]
    happened = os.path.exists("here") and (waiting != blamed).all()
    if ASKED["fault"] == "stop":
        happened = happened and (stopped() == blamed).all()
    return _judge(table, silence, timeout, local, stopped) if happened else ""


if __name__ == "__main__":
    if ASKED["fault"] == "import" and os.environ.get("OMPI_COMM_WORLD_RANK") == str(ASKED["rank"]):
        raise RuntimeError("the fault that was asked for")
    if ASKED["fault"] in ("hang", "stop"):
        mpi_launch._hanging = once_it_has_happened
    mpi_fork(ASKED["n"], **ASKED["launch"])

import gymnasium as gym  # noqa: E402

from spinup import ppo_pytorch  # noqa: E402
from spinup.cli.main import fail  # noqa: E402
from spinup.parallel.mpi import proc_id  # noqa: E402
from spinup.utils.errors import SpinupError  # noqa: E402
from tests.helpers.signals import noted_signals  # noqa: E402


class Faulty(gym.Wrapper):
    """CartPole with the fault that was asked for, on one process, once."""

    def __init__(self):
        super().__init__(gym.make("CartPole-v1"))
        self.steps = 0

    def step(self, action):
        self.steps += 1
        if self.steps == ASKED["at"] and proc_id() == ASKED["rank"]:
            self.fail(ASKED["fault"])
        return self.env.step(action)

    def fail(self, fault):
        if fault == "raise":
            raise RuntimeError("the fault that was asked for")
        if fault == "refuse":
            raise SpinupError("the input that was asked for is wrong")
        if fault == "exit":
            sys.exit(0)
        if fault in ("hang", "stop"):
            open("here", "w").close()
        if fault == "hang":
            time.sleep(1000)
        if fault == "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        if fault == "kill" and not os.path.exists("killed"):
            with open("killed", "w"):
                pass
            os.kill(os.getpid(), signal.SIGKILL)
        if fault == "wait":  # for the test to do something to the job
            with noted_signals("signals"):
                open("here", "w").close()
                while not os.path.exists("go"):
                    time.sleep(0.01)


def main():
    print(f"printed by {proc_id()}", flush=True)
    ppo_pytorch(
        Faulty,
        **{
            "ac_kwargs": {"hidden_sizes": (8,)},
            "seed": 3,
            "steps_per_epoch": 100,
            "epochs": 4,
            "train_pi_iters": 2,
            "train_v_iters": 2,
            "save_freq": 1,
            "logger_kwargs": {"output_dir": "run", "quiet": True},
            **ASKED["train"],
        },
    )
    print(f"finished by {proc_id()}", flush=True)


if __name__ == "__main__":
    try:
        main()
    except SpinupError as error:
        sys.exit(fail(error))  # as the command line does
