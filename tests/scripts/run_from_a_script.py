"""Running an algorithm from a script, with a logger directory and keyword arguments."""

import gymnasium as gym
import torch

from spinup import ppo_pytorch as ppo

env_fn = lambda: gym.make("CartPole-v1")  # noqa: E731

ac_kwargs = dict(hidden_sizes=[64, 64], activation=torch.nn.ReLU)

logger_kwargs = dict(output_dir="path/to/output_dir", exp_name="experiment_name")

ppo(
    env_fn=env_fn,
    ac_kwargs=ac_kwargs,
    steps_per_epoch=200,
    epochs=2,
    logger_kwargs=logger_kwargs,
)

with open("path/to/output_dir/progress.txt") as file:
    assert len(file.readlines()) == 3
