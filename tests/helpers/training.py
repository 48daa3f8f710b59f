"""Tiny runs of any algorithm: their settings, their environments, their tables."""

import csv
import math

from spinup import registry

TINY = {"steps_per_epoch": 40, "epochs": 1, "max_ep_len": 20, "save_freq": 1000}
PASSES = {
    "ppo": {"train_pi_iters": 3, "train_v_iters": 3},
    "vpg": {"train_v_iters": 3},
    "trpo": {"train_v_iters": 3},
}
# Those of them that an algorithm has are what its tiny run uses.
OFF_POLICY = {
    "replay_size": 1000,
    "batch_size": 8,
    "start_steps": 10,
    "update_after": 10,
    "update_every": 5,
    "num_test_episodes": 1,
}


def env_of(name):
    """The id of an environment that an algorithm learns in."""
    row = registry.get(name)
    if row.observation == "goal":
        return "spinup/BitFlip-v0"
    discrete = row.on_policy or row.action_spaces[0] == "Discrete"
    return "CartPole-v1" if discrete else "Pendulum-v1"


def read_rows(folder):
    with open(folder / "progress.txt", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    return [{k: _number(v) for k, v in row.items() if k != "Time"} for row in rows]


def _number(text):
    """Like `float`, with one NaN for all, so that two rows with a NaN can be equal."""
    return math.nan if math.isnan(float(text)) else float(text)
