"""Environments in the wild: one shared object, the old interface, no gymnasium.Env at all."""

import gymnasium as gym
import numpy as np

from spinup import ddpg_pytorch, vpg_pytorch


class Old:
    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self):
        self.t = 0
        return np.zeros(2, np.float32)

    def step(self, a):
        self.t += 1
        return np.full(2, self.t / 10, np.float32), float(a), self.t == 9, {}


vpg_pytorch(Old, steps_per_epoch=90, epochs=1, logger_kwargs=dict(output_dir="data/old"))

env = gym.make("Pendulum-v1")
ddpg_pytorch(
    lambda: env,
    None or __import__("spinup.algos.pytorch.ddpg.core", fromlist=["x"]).MLPActorCritic,
    dict(hidden_sizes=[8]),
    0,
    50,
    1,
    int(1e4),
    start_steps=10,
    update_after=20,
    update_every=10,
    batch_size=8,
    num_test_episodes=1,
    max_ep_len=20,
    logger_kwargs=dict(output_dir="data/shared"),
)
