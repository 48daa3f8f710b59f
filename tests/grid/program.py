"""A user's script that runs a grid: what the tests of this folder start, signal and kill.

    python program.py DATA_DIR '{"num_workers": 2, ...}'

The keys are arguments of `ExperimentGrid.run`, and `seeds` and `overwrite`. While the file `hold`
is in DATA_DIR, every process waits in the environment step whose number the file holds, after it
has made a file with its id in the name: so a test can act in the middle of a run, however fast the
machine is.
"""

import json
import os
import sys
import time
from pathlib import Path

import gymnasium as gym

from spinup import SpinupError, vpg_pytorch
from spinup.envs import make_env
from spinup.utils.run_utils import ExperimentGrid


class Gate(gym.Wrapper):
    """An environment that waits in one step for as long as a file is there."""

    steps = 0

    def __init__(self, env, folder):
        super().__init__(env)
        self.folder = Path(folder)

    def step(self, action):
        self.steps += 1
        hold = self.folder / "hold"
        if hold.exists() and self.steps == int(hold.read_text()):
            (self.folder / f"reached-{os.getpid()}").touch()
            while hold.exists():
                time.sleep(0.02)
        return self.env.step(action)


def main():
    folder, options = sys.argv[1], json.loads(sys.argv[2])
    eg = ExperimentGrid("kill")
    eg.add("env_fn", [lambda: Gate(make_env("CartPole-v1"), folder)])
    eg.add("seed", options.pop("seeds", [0, 1, 2]))
    eg.add("ac_kwargs:hidden_sizes", [(8,)])
    eg.add("steps_per_epoch", 60)
    eg.add("epochs", 6)
    eg.add("save_freq", 2)
    eg.add("train_v_iters", 5)
    if options.pop("overwrite", False):
        eg.add("overwrite", True)
    try:
        eg.run(vpg_pytorch, data_dir=folder, **options)
    except SpinupError as error:
        print(f"spinup: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
