"""`spinup test_policy`: watch, measure or film a trained policy; see `spinup.policies`.

spinup test_policy data/ppo/ppo_s0                    # 100 episodes, on screen
spinup test_policy data/ppo/ppo_s0 -d -nr -n 20       # no noise, no window
spinup test_policy data/ppo/ppo_s0 -d --video a.mp4   # a clip, no display needed
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections.abc import Sequence
from typing import Any

from spinup.cli.sentences import command
from spinup.envs.layers import layers
from spinup.envs.record import env_record
from spinup.policies.loading import (
    NoEnvironment,
    folder_of_save,
    load_policy_and_env,
    metadata_of,
    save_argument,
)
from spinup.policies.play import print_table, run_policy
from spinup.policies.video import check_clip, record_episodes
from spinup.utils.argparsing import Parser, parse_value, whole
from spinup.utils.errors import SpinupError
from spinup.utils.importing import import_from_here

# Matches the start of a new flag on the command line; -5, -.5 and -inf are values.
_FLAG = re.compile(r"--|-(?!inf$)[A-Za-z]")


@command
def main(argv: Sequence[str] | None) -> None:
    """Run `spinup test_policy ...`."""
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
    words, env_kwargs = take_env_kwargs(argv)
    args = parser.parse_args(words)
    if args.trust_pickle or ":" in (args.env or ""):
        import_from_here()  # as `spinup ppo --env module:id` did
    play(args, env_kwargs)


def take_env_kwargs(argv: Sequence[str] | None) -> tuple[list[str], dict[str, Any]]:
    """Separate `--env_kwargs:name value` (values are literals) from the other words."""
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


def play(args: argparse.Namespace, env_kwargs: dict[str, Any]) -> None:
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
