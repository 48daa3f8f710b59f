"""Converting actions to the form that environments expect, and sampling random actions."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup.envs.spaces import action_shape


def env_actions(space: spaces.Space[Any]) -> Callable[[Any], Sequence[Any]]:
    """Return a function that converts a policy's batch of actions to the environments' format.

    Continuous actions are clipped to the bounds. An on-policy buffer stores the action as sampled,
    before clipping, because the policy can compute the probability only of the unclipped action.
    """
    if isinstance(space, spaces.Box):
        low, high, shape, dtype = space.low, space.high, space.shape, space.dtype

        def clip(act: np.ndarray) -> Any:
            if act.dtype != dtype:
                act = act.astype(dtype)
            if act.ndim != 2 or len(shape) != 1:
                act = act.reshape(-1, *shape)
            return act.clip(low, high)

        return clip
    start = np.asarray(getattr(space, "start", 0))
    if isinstance(space, spaces.Discrete):
        if not start:
            return lambda act: act
        return lambda act: act + start
    sizes, kind = action_shape(space), space.dtype
    return lambda act: (np.reshape(act, (-1, *sizes)) + start).astype(kind)


def random_actions(space: spaces.Space[Any], n: int, rng: np.random.Generator) -> np.ndarray:
    """Draw `n` actions uniformly from a Box or a Discrete space."""
    if isinstance(space, spaces.Box):
        return rng.uniform(space.low, space.high, (n, *space.shape)).astype(np.float32)
    return rng.integers(space.n, size=n)  # type: ignore[attr-defined]
