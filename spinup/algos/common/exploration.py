"""How off-policy algorithms explore and learn: sampled or noisy policies, and the learner."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from gymnasium.spaces import Box


def half_range(action_space: Box) -> np.ndarray:
    """Return half the width of every dimension of a Box, as float32."""
    return ((action_space.high - action_space.low) / 2).astype(np.float32)


class SampledPolicy:
    """Explores by sampling a stochastic policy; clips continuous actions to the bounds."""

    def __init__(self, policy: Any, action_space: Any):
        self.policy, self.space = policy, action_space if isinstance(action_space, Box) else None
        self.begin, self.renew = policy.begin, policy.renew

    def __call__(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Sample actions."""
        act, space = self.policy(obs, rng)[0], self.space
        return act if space is None else act.reshape(-1, *space.shape).clip(space.low, space.high)


class NoisyPolicy:
    """Adds Gaussian noise, in units of half each dimension's range, to a deterministic policy."""

    def __init__(self, policy: Any, action_space: Box, act_noise: float):
        self.policy = policy
        self.std = act_noise * half_range(action_space)
        self.low, self.high = action_space.low, action_space.high
        self.begin, self.renew = policy.begin, policy.renew

    def __call__(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return noisy actions within the bounds."""
        act = self.policy(obs, rng)[0].reshape(-1, *self.std.shape)
        noise = rng.standard_normal(act.shape, dtype="float32")
        noise *= self.std
        noise += act
        return noise.clip(self.low, self.high)


def linear_schedule(start: float, end: float, fraction: float) -> float:
    """Interpolate from `start` to `end` as `fraction` rises from 0 to 1; constant outside."""
    return start + (end - start) * min(max(fraction, 0.0), 1.0)


class Learner(NamedTuple):
    """How an off-policy algorithm explores and learns, bound to its networks."""

    policy: Any  # the exploring policy
    update: Callable[..., Any]  # (batch, gradient steps so far) -> measurements
    values: tuple[str, ...]  # names of the per-row measurements of an update
    losses: tuple[str, ...]  # names of the measurements taken once per update
    target: Callable[..., Any] | None = None  # batch -> what the critics learn to predict, (B,)
    begin_step: Callable[[int], None] = lambda t: None  # called with the steps taken so far
    columns: Callable[[int], dict[str, float]] = lambda t: {}  # additional columns for the log
    optimizers: tuple[Any, ...] = ()  # optimizers whose learning rates a schedule may change
