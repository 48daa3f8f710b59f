"""What `get_action` of a loaded policy costs, in microseconds.

    python benchmarks/get_action.py            # measure and print
    python benchmarks/get_action.py --save     # also write benchmarks/results/get_action.json

Policies with two hidden layers of 64 are saved, opened with `load_policy_and_env` and asked for
actions one observation at a time. A figure is the median over repeats of the mean of 500 calls; the
goal is 40.
"""

import argparse
import inspect
import json
import os
import platform
import statistics
import sys
import tempfile
import timeit
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np
import torch

from spinup import registry
from spinup.envs import make_env
from spinup.policies.loading import load_policy_and_env

GOAL = 40.0
CALLS = 500
CASES = {
    "ppo CartPole-v1": {},
    "ppo Pendulum-v1": {},
    "ppo Hopper-v5": {},
    "ppo Hopper-v5, normalised": {"normalize_obs": True},
    "sac Hopper-v5": {},
    "td3 Hopper-v5": {},
    "dqn CartPole-v1": {},
    "her spinup/BitFlip-v0": {},
}


def saved_policy(case, folder):
    """The directory of a run that was trained for a moment."""
    algo, env_id = case.split(",")[0].split()
    function = registry.load(algo, "pytorch")
    short = {"start_steps": 10, "update_after": 10, "num_test_episodes": 0, "replay_size": 1000}
    known = inspect.signature(function).parameters
    function(
        lambda: make_env(env_id),
        ac_kwargs={"hidden_sizes": (64, 64), **CASES[case]},
        steps_per_epoch=40,
        epochs=1,
        logger_kwargs={"output_dir": str(folder), "quiet": True},
        **{name: value for name, value in short.items() if name in known},
    )
    return folder


def measure(repeats):
    """Case -> the median and all repeats, sampled and deterministic."""
    results = {}
    with tempfile.TemporaryDirectory() as root:
        for i, case in enumerate(CASES):
            run = saved_policy(case, Path(root, str(i)))
            for deterministic in (False, True):
                env, get_action = load_policy_and_env(run, deterministic=deterministic)
                o, _ = env.reset(seed=0)
                times = timeit.repeat(lambda: get_action(o), number=CALLS, repeat=repeats)  # noqa: B023
                micros = [round(seconds / CALLS * 1e6, 2) for seconds in times]
                name = f"{case}{', deterministic' if deterministic else ''}"
                results[name] = {"median": statistics.median(micros), "repeats": micros}
                env.close()
    return results


def main():
    """Measure, print a table, exit with 1 when a figure misses the goal."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    results = measure(args.repeats)
    missed = False
    for name, row in results.items():
        missed |= row["median"] > GOAL
        spread = f"{min(row['repeats']):.1f} to {max(row['repeats']):.1f}"
        print(f"{name:45s} {row['median']:6.1f} us ({spread})")
    if args.save:
        result = {
            "microseconds": results,
            "goal": GOAL,
            "command": "python benchmarks/get_action.py " + " ".join(sys.argv[1:]),
            "cores": os.cpu_count(),
            "versions": {
                "python": platform.python_version(),
                "numpy": np.__version__,
                "torch": torch.__version__,
                "gymnasium": gym.__version__,
            },
        }
        path = Path(__file__).parent / "results" / "get_action.json"
        path.write_text(json.dumps(result, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
