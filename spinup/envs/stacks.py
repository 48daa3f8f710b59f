"""Whether observations are stacks of frames, which a replay buffer can store one by one."""

from __future__ import annotations

from typing import Any

import gymnasium
from gymnasium.wrappers import FrameStackObservation

from spinup.envs.adapter import layers

__all__ = ["frame_stack"]


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
        if _changes_observations(layer):
            break
    return 1


def _changes_observations(layer: Any) -> bool:
    if isinstance(layer, gymnasium.ObservationWrapper):
        return True
    inner = getattr(layer, "env", None)
    return getattr(inner, "observation_space", None) != layer.observation_space
