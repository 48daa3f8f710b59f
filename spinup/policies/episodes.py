"""Run episodes with a policy: the loop that playing, measuring and filming share."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from spinup.envs import adapt_env
from spinup.envs.spaces import number
from spinup.policies.loading import GetAction, check_seed
from spinup.utils.errors import SpinupError


def run_episodes(
    env: Any,
    get_action: GetAction,
    max_ep_len: int | None = None,
    num_episodes: int = 100,
    *,
    seed: int | None = None,
    draw: Callable[[], Any] | None = None,
) -> Iterator[tuple[float, int]]:
    """Run episodes and yield the return and length of each, without printing.

    The arguments are as for `run_policy`; `draw` is called before every step.
    """
    if num_episodes < 1:
        raise SpinupError(f"the number of episodes must be at least 1, not {num_episodes}")
    if max_ep_len is not None and max_ep_len < 0:
        raise SpinupError(f"max_ep_len must be a number of steps or 0, not {max_ep_len}")
    check_seed(seed)
    for ep_ret, ep_len, over in steps(
        adapt_env(env), get_action, max_ep_len or math.inf, num_episodes, seed
    ):
        if over:
            yield ep_ret, ep_len
        elif draw is not None:
            draw()


def steps(
    env: Any, get_action: GetAction, limit: float, num_episodes: int, seed: int | None
) -> Iterator[tuple[float, int, bool]]:
    """Run episodes; after every reset and step, yield the return, the length and whether it ended.

    An episode ends after `limit` steps at the latest; `seed` is for the first reset.
    """
    for episode in range(num_episodes):
        o, _ = env.reset(seed=seed if episode == 0 else None)
        ep_ret, ep_len, over = 0.0, 0, False
        yield ep_ret, ep_len, over
        while not over:
            o, r, terminated, truncated, _ = env.step(get_action(o))
            ep_ret += number(r)
            ep_len += 1
            over = terminated or truncated or ep_len >= limit
            yield ep_ret, ep_len, over
