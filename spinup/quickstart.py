"""A first run (`make train`): PPO learns to balance a pole in about a minute.

    python -m spinup.quickstart

Prints the average return of the trained policy, and saves a learning curve and a clip in
`out/quickstart`.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
import time
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from spinup.analysis.plot import make_plots
from spinup.envs import make_env
from spinup.policies.display import prepare_headless_rendering
from spinup.policies.episodes import run_episodes
from spinup.policies.loading import load_policy_and_env
from spinup.policies.video import draw, record_episodes
from spinup.utils.errors import SpinupError, one_line

PRESET = "ppo-CartPole-v1.json"
# The return at which CartPole-v1 counts as solved; the maximum is 500.
TARGET = 475.0
EPISODES = 20
CLIP_STEPS = 250


def load_preset(name: str = PRESET) -> dict[str, Any]:
    """Read a file from `spinup/presets`: the algorithm's keyword arguments, and `env`."""
    text = resources.files("spinup.presets").joinpath(name).read_text(encoding="utf-8")
    preset: dict[str, Any] = json.loads(text)
    return preset


def train(run_dir: Path, preset: dict[str, Any], seed: int) -> float:
    """Train PPO with `preset` in `run_dir`, with a progress bar; return the seconds it took."""
    from spinup import ppo_pytorch

    arguments = {key: value for key, value in preset.items() if key != "env"}
    started = time.monotonic()
    ppo_pytorch(
        functools.partial(make_env, preset["env"]),
        **arguments,
        seed=seed,
        logger_kwargs={"output_dir": str(run_dir), "exp_name": "ppo", "quiet": True},
        overwrite=True,
        progress=True,
    )
    return time.monotonic() - started


def evaluate(run_dir: Path, episodes: int = EPISODES, seed: int = 0) -> np.ndarray:
    """Return the episode returns of the final, deterministic policy."""
    env, get_action = load_policy_and_env(run_dir, deterministic=True)
    try:
        # Use another seed than in training, whose first episodes the policy has already seen.
        return np.array(
            [r for r, _ in run_episodes(env, get_action, None, episodes, seed=10_000 + seed)]
        )
    finally:
        env.close()


def record(run_dir: Path, path: Path, seed: int = 0) -> int:
    """Record a clip of the final policy and return the number of frames."""
    env, get_action = load_policy_and_env(run_dir, deterministic=True, render_mode="rgb_array")
    try:
        return record_episodes(env, get_action, path, max_ep_len=CLIP_STEPS, seed=20_000 + seed)
    finally:
        env.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Train, evaluate, plot and record; return 0 if the pole stays up, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m spinup.quickstart", description=__doc__.split("\n")[0]
    )
    parser.add_argument(
        "--out", type=Path, default=Path("out/quickstart"), help="folder for the results"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args(argv)
    try:
        return _quickstart(args.out, args.seed)
    except SpinupError as error:
        print(f"spinup: {one_line(error)}", file=sys.stderr)
        return 2


def _quickstart(out: Path, seed: int) -> int:
    preset = load_preset()
    _check_that_it_can_be_drawn(preset["env"])
    run_dir, curve, clip = out / "run", out / "learning_curve.png", out / "agent.gif"
    steps = preset["steps_per_epoch"] * preset["epochs"]
    print(f"Training PPO on {preset['env']} for {steps} steps (about a minute).", flush=True)
    seconds = train(run_dir, preset, seed)
    returns = evaluate(run_dir, seed=seed)
    # The final slash selects only this folder, not all folders with this prefix.
    make_plots([f"{run_dir}/"], save=curve)
    record(run_dir, clip, seed)
    average = float(returns.mean())
    print(
        f"\nResult: average return {average:.1f} over {len(returns)} episodes "
        f"(worst {returns.min():.0f}, target {TARGET:.0f}) after {seconds:.0f} s of training.\n"
        f"Learning curve: {curve}\n"
        f"Trained agent:  {clip}\n"
        f"To see more:    python -m spinup.run test_policy {run_dir} -d",
        flush=True,
    )
    if average < TARGET:
        print(
            f"spinup: PPO reached an average return of {average:.1f} on {preset['env']}, below the "
            f"{TARGET:.0f} that counts as solved: try another --seed",
            file=sys.stderr,
        )
        return 1
    return 0


def _check_that_it_can_be_drawn(env_id: str) -> None:
    """Raise before training starts if the environment cannot be rendered."""
    prepare_headless_rendering()
    env = make_env(env_id, render_mode="rgb_array")
    try:
        env.reset(seed=0)
        draw(env)
    finally:
        env.close()


if __name__ == "__main__":
    sys.exit(main())
