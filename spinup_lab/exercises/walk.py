"""The environment of problem set 11: a walk on a line, to a goal."""

import gymnasium
import numpy as np
from gymnasium import spaces


class Walk(gymnasium.Env):
    """Walk left or right on the line from -1 to 1 until the goal is reached.

    Observations are (position, goal). The actions 0, 1 and 2 move by -0.1, 0 and 0.1.
    """

    LIMIT = 50  # steps after which an episode is cut

    def __init__(self):
        self.observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
        self.action_space = spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        """Start an episode; return the first observation and an empty dict."""
        super().reset(seed=seed)
        self.position = self.np_random.uniform(-1.0, 1.0)
        self.goal = self.np_random.uniform(-1.0, 1.0)
        self.steps = 0
        return self.observation(), {}

    def step(self, action):
        """Move; return (observation, reward, terminated, truncated, {})."""
        self.position = float(np.clip(self.position + 0.1 * (int(action) - 1), -1.0, 1.0))
        self.steps += 1
        distance = abs(self.position - self.goal)
        reward = -distance
        terminated = distance < 0.05
        truncated = self.steps >= self.LIMIT
        return self.observation(), reward, terminated, truncated, {}

    def observation(self):
        """Return (position, goal)."""
        return np.array([self.position, self.goal], np.float32)
