"""Notebook style: everything at the top level, star imports, results read back with pandas."""

import json
from types import SimpleNamespace

import gymnasium as gym
import pandas as pd

import spinup
from spinup import *  # noqa: F403
from spinup.utils.run_utils import *  # noqa: F403

args = SimpleNamespace(env="CartPole-v1", hid=8, l=2, seed=3, exp_name="nb")
logger_kwargs = setup_logger_kwargs(args.exp_name, args.seed)  # noqa: F405
ac = spinup.ppo(
    lambda: gym.make(args.env),
    ac_kwargs=dict(hidden_sizes=[args.hid] * args.l),
    gamma=0.98,
    seed=args.seed,
    steps_per_epoch=100,
    epochs=2,
    logger_kwargs=logger_kwargs,
)
frame = pd.read_csv(logger_kwargs["output_dir"] + "/progress.txt", sep="\t")
assert list(frame.TotalEnvInteracts) == [100, 200]
with open(logger_kwargs["output_dir"] + "/config.json") as file:
    config = json.load(file)
assert config["gamma"] == 0.98 and config["exp_name"] == "nb" and config["seed"] == 3
