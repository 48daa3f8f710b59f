"""An environment of any two spaces."""

import gymnasium as gym
import numpy as np


class Odd(gym.Env):
    """Samples its observations; the reward is the first number of the action."""

    def __init__(self, observation_space, action_space):
        self.observation_space, self.action_space = observation_space, action_space

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.observation_space.seed(seed)
        return self.observation_space.sample(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        return self.observation_space.sample(), float(np.ravel(action)[0]), False, False, {}
