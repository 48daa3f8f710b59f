"""Watch, evaluate and record trained policies.

    python -m spinup.run test_policy data/ppo/ppo_s0                    # 100 episodes, on screen
    python -m spinup.run test_policy data/ppo/ppo_s0 -d -nr -n 20       # no noise, no window
    python -m spinup.run test_policy data/ppo/ppo_s0 -d --video a.mp4   # a clip, no display needed

`spinup.policies.loading` reads the run directory.
"""

from __future__ import annotations

import argparse
import copy
import math
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from spinup.envs.spaces import number
from spinup.policies.loading import (
    GetAction,
    NoEnvironment,
    check_seed,
    folder_of_save,
    load_policy_and_env,
    metadata_of,
    save_argument,
)
from spinup.policies.video import check_clip, has_display, record_episodes
from spinup.utils.argparsing import Parser, whole
from spinup.utils.errors import SpinupError, one_line
from spinup.utils.importing import import_from_here

# Without this, pytest would collect this module under its old name, `test_policy`.
__test__ = False

# Matches the start of a new flag on the command line; -5, -.5 and -inf are values.
_FLAG = re.compile(r"--|-(?!inf$)[A-Za-z]")


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
    from spinup.envs import adapt_env

    if num_episodes < 1:
        raise SpinupError(f"the number of episodes must be at least 1, not {num_episodes}")
    if max_ep_len is not None and max_ep_len < 0:
        raise SpinupError(f"max_ep_len must be a number of steps or 0, not {max_ep_len}")
    check_seed(seed)
    limit = max_ep_len or math.inf
    env = adapt_env(env)
    for episode in range(num_episodes):
        o, _ = env.reset(seed=seed if episode == 0 else None)
        ep_ret, ep_len, over = 0.0, 0, False
        while not over:
            if draw is not None:
                draw()
            o, r, terminated, truncated, _ = env.step(get_action(o))
            ep_ret += number(r)
            ep_len += 1
            over = terminated or truncated or ep_len >= limit
        yield ep_ret, ep_len


# -------------------------------------------------------------------------------------- showing it


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
    import gymnasium

    from spinup.envs import adapt_env
    from spinup.envs.space_adapter import SpaceAdapter

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


# ------------------------------------------------------------------------------------ command line


def _take_env_kwargs(argv: Sequence[str] | None) -> tuple[list[str], dict[str, Any]]:
    """Separate `--env_kwargs:name value` (values are literals) from the other words."""
    from spinup.utils.argparsing import parse_value

    words = list(sys.argv[1:] if argv is None else argv)
    rest: list[str] = []
    found: dict[str, Any] = {}
    while words:
        word = words.pop(0)
        if not word.startswith("--env_kwargs"):
            rest.append(word)
            continue
        key, equals, value = word.partition("=")
        name = key.partition(":")[2]
        if not name.isidentifier():
            raise SpinupError(
                f"'{key}' does not name an argument of the environment: write "
                "--env_kwargs:name VALUE"
            )
        if not equals:
            value = "True" if not words or _FLAG.match(words[0]) else words.pop(0)
        found[name] = value == "true" if value in ("true", "false") else parse_value(value)
    return rest, found


def main(argv: Sequence[str] | None = None) -> int:
    """Run `python -m spinup.run test_policy ...` and return the exit status."""
    parser = Parser(
        "spinup test_policy",
        description="Run a trained policy and report its returns.",
        allow_abbrev=False,
    )
    parser.add_argument("fpath", metavar="RUN", help="run directory")
    parser.add_argument(
        "-l",
        "--len",
        type=whole(0),
        help="maximum episode length in steps (0: no limit; default: no limit, or the one used in "
        "training if the environment names no time limit)",
    )
    parser.add_argument(
        "-n",
        "--episodes",
        type=whole(1),
        help="number of episodes (default: 100, or 1 with --video)",
    )
    parser.add_argument("-nr", "--norender", action="store_true", help="do not open a window")
    parser.add_argument(
        "-i",
        "--itr",
        type=save_argument,
        default="last",
        help="number of the save (-1: the last), or best (of a run with --save_best)",
    )
    parser.add_argument(
        "-d",
        "--deterministic",
        action="store_true",
        help="take the most likely action instead of a sample",
    )
    parser.add_argument("--env", help="id of the environment, instead of the saved one")
    parser.add_argument(
        "--env_kwargs:NAME",
        metavar="VALUE",
        dest="_",
        help="argument of the environment, instead of the saved one",
    )
    parser.add_argument("--video", metavar="FILE", help="record the episodes to a .mp4 or .gif")
    parser.add_argument(
        "--seed", type=whole(0), help="seed for the environment and for sampling actions"
    )
    parser.add_argument(
        "--trust-pickle",
        "--trust_pickle",
        action="store_true",
        help="open pickles and import modules that the file names; this can run any program",
    )
    try:
        words, env_kwargs = _take_env_kwargs(argv)
        args = parser.parse_args(words)
        if args.trust_pickle or ":" in (args.env or ""):
            import_from_here()  # as `spinup ppo --env module:id` did
        _play(args, env_kwargs)
    except SpinupError as error:
        print(f"spinup: {one_line(error)}", file=sys.stderr)
        return 2
    return 0


def _play(args: argparse.Namespace, env_kwargs: dict[str, Any]) -> None:
    episodes = args.episodes if args.episodes is not None else (1 if args.video else 100)
    if args.video:
        check_clip(args.video)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoEnvironment)  # a command cannot continue without one
        env, get_action = load_policy_and_env(
            args.fpath,
            args.itr,
            args.deterministic,
            env=args.env,
            env_kwargs=env_kwargs,
            trust_pickle=args.trust_pickle,
            render_mode="rgb_array" if args.video else None,
            seed=args.seed,
        )
    try:
        longest = _longest(args.fpath, args.itr, env) if args.len is None else args.len
        if args.video:
            played: list[tuple[float, int]] = []
            frames = record_episodes(
                env,
                get_action,
                args.video,
                episodes,
                longest or None,
                seed=args.seed,
                played=played,
            )
            for i, (ep_ret, ep_len) in enumerate(played):
                print(f"Episode {i} \t EpRet {ep_ret:.3f} \t EpLen {ep_len}")
            if played:
                print_table(*zip(*played, strict=True))
            print(f"wrote {args.video} ({frames} frames)")
        else:
            run_policy(env, get_action, longest, episodes, not args.norender, seed=args.seed)
    finally:
        env.close()


def _longest(fpath: str, itr: int | str, env: Any) -> int:
    """Return the training's time limit if the environment has none, else 0 (no limit)."""
    from spinup.envs.layers import layers
    from spinup.envs.record import env_record

    folder, number = folder_of_save(fpath, itr)
    if any(type(layer).__name__ == "TimeLimit" for layer in layers(env)):
        return 0
    if "max_ep_len" in env_record(env):  # a game that ends by itself
        return 0
    steps = metadata_of(folder, number).get("max_ep_len")
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        return 0
    print(
        f"The environment names no time limit: episodes end after at most {steps} steps, as in "
        "training (-l 0 removes the limit).",
        file=sys.stderr,
    )
    return steps


if __name__ == "__main__":
    sys.exit(main())
