"""The parts of an implementation that a fault can be in, as zoo, doctor and probe name them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

PARTS: Mapping[str, str] = MappingProxyType(
    {
        "returns": "discounting, rewards-to-go and advantages",
        "episode-ends": "death, time limits, bootstrapping, and what leaks across episodes",
        "policy-loss": "the policy's loss: sign, ratio, log-probability, entropy, gradient flow",
        "policy-step": "how far the policy moves: trust region, early stop, line search, delay",
        "value-loss": "the target, the shape and the loss of V or Q",
        "targets": "target networks: copies and how they follow",
        "exploration": "noise, epsilon, temperature",
        "action-bounds": "scale, center, clipping and density of bounded actions",
        "replay": "storing, sampling, n-step returns, priorities, relabeling",
        "loop": "the order of act, step and store; stale weights, stale observations",
        "normalizer": "statistics of observations or returns",
        "seeding": "random number generators",
        "logging-saving": "what is logged and what is saved",
        "environment": "the environment itself",
        "hyperparameters": "settings under which a right implementation does not learn",
    }
)
