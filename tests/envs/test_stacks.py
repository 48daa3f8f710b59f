"""Which observations are stacks of frames."""

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from gymnasium.wrappers import (
    ClipReward,
    FrameStackObservation,
    RescaleObservation,
    ReshapeObservation,
    TimeLimit,
    TransformObservation,
)

from spinup.envs.adapter import adapt_env
from spinup.envs.make_streams import make_streams
from spinup.envs.stacks import frame_stack


class Screen(gymnasium.Env):
    """Frames of bytes, which say nothing."""

    action_space = spaces.Discrete(2)

    def __init__(self, shape=(5, 6), start=0, **attributes):
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(2, start=start)
        vars(self).update(attributes)

    def reset(self, *, seed=None, options=None):
        return self.observation_space.sample(), {}

    def step(self, action):
        return self.observation_space.sample(), 0.0, False, False, {}


class ScreenVector(VectorEnv):
    """A user's own vector environment of stacks."""

    def __init__(self, num_envs=2, frame_stack=4):
        self.num_envs, self.frame_stack = num_envs, frame_stack
        self.single_observation_space = spaces.Box(0, 255, (4, 5, 6), np.uint8)
        self.observation_space = spaces.Box(0, 255, (num_envs, 4, 5, 6), np.uint8)
        self.single_action_space, self.action_space = spaces.Discrete(2), spaces.MultiDiscrete([2])
        self.metadata = {"autoreset_mode": AutoresetMode.DISABLED}


def stacked(k=4, **kwargs):
    return FrameStackObservation(Screen(**kwargs), k)


@pytest.mark.parametrize(
    ("env", "frames"),
    [
        (Screen(), 1),
        (Screen((4, 5, 6)), 1),  # it may be a stack, but nothing says so
        (stacked(4), 4),
        (stacked(1), 1),
        (stacked(3, shape=(5, 6, 3)), 3),
        (stacked(4, shape=(6,)), 1),  # vectors
        (TimeLimit(ClipReward(stacked(4), -1, 1), 10), 4),
        (stacked(4, start=1), 4),  # the actions need an adapter
        (ReshapeObservation(stacked(4), (6, 5, 4)), 1),
        (RescaleObservation(stacked(4), np.uint8(0), np.uint8(1)), 1),
        (TransformObservation(stacked(4), lambda o: 255 - o, None), 1),
        (Screen((4, 5, 6), frame_stack=4), 4),
        (TimeLimit(Screen((4, 5, 6), frame_stack=4), 10), 4),
        (Screen((5, 6, 4), frame_stack=4), 1),  # not along the first axis
        (Screen((4, 5, 6), frame_stack=None), 1),
    ],
)
def test_a_stack_is_what_is_stacked_last(env, frames):
    assert frame_stack(adapt_env(env)) == frames


def test_streams_know_their_stack_wherever_the_environments_run():
    def seeds(i):
        return np.random.SeedSequence(i)

    for env_fn, vector in (
        (stacked, "sync"),
        (stacked, "async"),
        (lambda: SyncVectorEnv([stacked]), "sync"),
        (ScreenVector, "sync"),
    ):
        streams = make_streams(env_fn, 1, seeds, 10, vector)
        try:
            assert streams.frame_stack == 4
        finally:
            streams.close()
    assert make_streams(Screen, 1, seeds, 10).frame_stack == 1
