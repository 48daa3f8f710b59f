"""Watch and evaluate trained policies: run episodes, and print what they reached.

env, get_action = load_policy_and_env("data/ppo/ppo_s0", deterministic=True)
run_policy(env, get_action, num_episodes=20)
"""

from __future__ import annotations

import copy
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium
import numpy as np

from spinup.envs import adapt_env
from spinup.envs.space_adapter import SpaceAdapter
from spinup.policies.display import has_display
from spinup.policies.episodes import run_episodes
from spinup.policies.loading import GetAction
from spinup.utils.errors import SpinupError, one_line

# Without this, pytest would collect this module under its old name, `test_policy`.
__test__ = False


def run_policy(
    env: Any,
    get_action: GetAction,
    max_ep_len: int | None = None,
    num_episodes: int = 100,
    render: bool = True,
    *,
    seed: int | None = None,
) -> dict[str, list[float]]:
    """Run episodes; print each one's return and length, then a table of statistics.

    Args:
        env: The environment. With `render`, it is recreated with a window if it has none.
        get_action: Function that returns the action for an observation.
        max_ep_len: Maximum episode length in steps; None or 0 means no limit.
        num_episodes: Number of episodes.
        render: Show the episodes if there is a display.
        seed: Seed for the first reset; None picks a random seed.

    Returns:
        A dict with the lists `EpRet` and `EpLen`, one entry per episode.
    """
    if env is None:
        raise SpinupError(
            "there is no environment to run the policy in: pass one with "
            "load_policy_and_env(fpath, env=...), or with --env on the command line"
        )
    shown, draw = _with_window(env) if render else (env, None)
    returns: list[float] = []
    lengths: list[float] = []
    try:
        episodes = run_episodes(shown, get_action, max_ep_len, num_episodes, seed=seed, draw=draw)
        for i, (ep_ret, ep_len) in enumerate(episodes):
            returns.append(ep_ret)
            lengths.append(ep_len)
            print(f"Episode {i} \t EpRet {ep_ret:.3f} \t EpLen {ep_len}", flush=True)
    finally:
        if shown is not env:
            shown.close()
    print_table(returns, lengths)
    return {"EpRet": returns, "EpLen": lengths}


def _with_window(env: Any) -> tuple[Any, Callable[[], Any] | None]:
    """Return the environment to run, and a function to call before each step, or None."""
    mode = getattr(env, "render_mode", None)
    if mode == "human":
        return env, None
    if not has_display():
        print(
            "No display: running without a window (--video FILE records a clip).", file=sys.stderr
        )
        return env, None
    # Gymnasium opens a window for an environment that only returns pictures.
    if mode is None and {"human", "rgb_array"} & set(_render_modes(env)):
        shown = _made_again(env)
        return (env if shown is None else shown), None
    if mode is None and callable(getattr(env, "render", None)):
        return env, env.render
    return env, None


def _made_again(env: Any) -> Any:
    """Recreate the environment with a window; return None if its spec does not allow it.

    In Gymnasium, the render mode is fixed when an environment is created.
    """
    inside = env.env if isinstance(env, SpaceAdapter) else env
    spec = getattr(inside, "spec", None)
    if spec is None:
        return None
    spec = copy.copy(spec)  # `preprocessing` is an argument of `make_env`, and only in the record
    spec.kwargs = {k: v for k, v in spec.kwargs.items() if k != "preprocessing"}
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", r".*HumanRendering wrapper is being applied")
            return adapt_env(gymnasium.make(spec, render_mode="human"))
    except (gymnasium.error.Error, ValueError, TypeError, AttributeError) as error:
        print(
            f"Running without a window, because it cannot be opened ({one_line(error)}).",
            file=sys.stderr,
        )
        return None


def _render_modes(env: Any) -> Sequence[str]:
    return (getattr(env, "metadata", None) or {}).get("render_modes") or ()


def print_table(returns: Sequence[float], lengths: Sequence[float]) -> None:
    """Print episode statistics in the format of the training table."""
    rows = {
        "AverageEpRet": np.mean(returns),
        "StdEpRet": np.std(returns),
        "MaxEpRet": np.max(returns),
        "MinEpRet": np.min(returns),
        "EpLen": np.mean(lengths),
    }
    width = max(15, *(len(key) for key in rows))
    line = "-" * (width + 22)
    print(line)
    for key, value in rows.items():
        print(f"| {key:>{width}} | {f'{float(value):8.3g}':>15} |")
    print(line, flush=True)
