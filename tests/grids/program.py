"""A user's script that runs a grid: what the tests of this folder start, signal and kill.

    python program.py DATA_DIR '{"num_workers": 2, ...}'

The keys are arguments of `ExperimentGrid.run`, and `seeds`, `overwrite` and `threads` (that the
launcher has beside its own). While the file `hold` is in DATA_DIR, every process waits in the
environment step whose number the file holds, after it has made a file with its id in the name, and
notes the signals that arrive: so a test can act in the middle of a run, however fast the machine
is.

The launcher imports no framework; its workers do.
"""

import json
import os
import sys
import threading
import time
from pathlib import Path

from spinup import SpinupError
from spinup.grids import workers
from spinup.grids.experiments import ExperimentGrid
from tests.helpers.signals import noted_signals


def train(env_fn, seed, logger_kwargs, resume=False, overwrite=False, num_threads=None, **kwargs):
    """A function of the user's own around an algorithm."""
    from spinup import vpg_pytorch

    vpg_pytorch(
        env_fn,
        seed=seed,
        logger_kwargs=logger_kwargs,
        resume=resume,
        overwrite=overwrite,
        num_threads=num_threads,
        **kwargs,
    )


def make(folder):
    """An environment that waits in one step for as long as a file is there."""
    import gymnasium as gym

    from spinup.envs import make_env

    class Gate(gym.Wrapper):
        steps = 0

        def step(self, action):
            self.steps += 1
            hold = Path(folder) / "hold"
            if hold.exists() and self.steps == int(hold.read_text()):
                with noted_signals(hold.parent / f"signals-{os.getpid()}"):
                    (hold.parent / f"reached-{os.getpid()}").touch()
                    while hold.exists():
                        time.sleep(0.02)
            return self.env.step(action)

    return Gate(make_env("CartPole-v1"))


def main():
    folder, options = sys.argv[1], json.loads(sys.argv[2])
    workers._GRACE = 300.0  # a worker has time to save, however busy the machine is
    for _ in range(options.pop("threads", 0)):
        threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()
    eg = ExperimentGrid("kill")
    eg.add("env_fn", [lambda: make(folder)])
    eg.add("seed", options.pop("seeds", [0, 1, 2]))
    eg.add("ac_kwargs:hidden_sizes", [(8,)])
    eg.add("steps_per_epoch", 60)
    eg.add("epochs", 6)
    eg.add("save_freq", 2)
    eg.add("train_v_iters", 5)
    if options.pop("overwrite", False):
        eg.add("overwrite", True)
    try:
        eg.run(train, data_dir=folder, **options)
    except SpinupError as error:
        print(f"spinup: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
