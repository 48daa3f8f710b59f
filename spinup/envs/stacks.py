"""Whether observations are stacks of frames, and what a transition takes in a replay buffer."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium.wrappers import FrameStackObservation

from spinup.envs.layers import layers
from spinup.envs.spaces import act_dtype, action_shape, stored_dtype

__all__ = ["FRAMES_PER_TRANSITION", "frame_stack", "transition_bytes"]

# Frames that a replay buffer has room for, per transition whose observations are stacks of them:
# one, and some more for the beginnings and ends of episodes.
FRAMES_PER_TRANSITION = 33 / 32


def frame_stack(env: Any) -> int:
    """Return how many frames along the first axis make up one observation; 1 if it is no stack.

    Gymnasium's `FrameStackObservation` says so, and so does any environment or wrapper with an
    attribute `frame_stack`. Wrappers around it may change anything but the observations. Only
    frames with two or more axes count: for others, storing each once saves next to nothing.

    Args:
        env: an environment, or a vector environment.
    """
    space = getattr(env, "single_observation_space", env.observation_space)
    for layer in layers(env):
        stacks = isinstance(layer, FrameStackObservation)
        count = layer.stack_size if stacks else getattr(layer, "frame_stack", None)
        if count is not None:
            shape: tuple[int, ...] = getattr(space, "shape", None) or ()
            return int(count) if len(shape) > 2 and shape[0] == count else 1
        inner = getattr(getattr(layer, "env", None), "observation_space", None)
        if isinstance(layer, gymnasium.ObservationWrapper) or inner != layer.observation_space:
            break
    return 1


def transition_bytes(observation_space: Any, action_space: Any, frame_stack: int = 1) -> int:
    """Return the size in bytes of one transition `obs, act, rew, obs2, done` in a replay buffer.

    If an observation is a stack of frames, each frame is stored once, and a transition refers to
    the frames of `obs` and `obs2`.
    """
    obs = math.prod(observation_space.shape) * stored_dtype(observation_space).itemsize
    act = math.prod(action_shape(action_space)) * np.dtype(act_dtype(action_space)).itemsize
    both = 2 * obs
    if frame_stack > 1:
        both = int(obs // frame_stack * FRAMES_PER_TRANSITION) + 8 * frame_stack + 8
    return both + act + 4 + 1  # rew is a float32, done a bool
