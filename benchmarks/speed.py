"""How fast the on-policy algorithms train, as a fraction of the environment's own speed.

    python benchmarks/speed.py            # measure and print
    python benchmarks/speed.py --save     # also write benchmarks/results/speed.json

Raw stepping, collecting and training take turns in one process, several rounds of each. A figure is
the median over rounds of (steps/s of that round) / (raw env.step/s of the same round), so that a
busy machine slows both sides alike.
"""

import argparse
import contextlib
import io
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import spinup
from spinup.algos.common.collect import Rollout, collect
from spinup.algos.pytorch.common.acting import NetPolicy, StepPolicy, make_policy
from spinup.algos.pytorch.common.nets import MLPActorCritic, make_actor
from spinup.envs.streams import make_streams
from spinup.utils.memory import keep_freed_memory

TARGETS = {
    "HalfCheetah-v5 collect": 0.60,
    "HalfCheetah-v5 vpg": 0.35,
    "HalfCheetah-v5 ppo": 0.20,
    "HalfCheetah-v5 vpg, 2 threads": None,  # for information: the default is one thread
    "HalfCheetah-v5 ppo, 2 threads": None,
    "CartPole-v1 collect 16 envs vs 1": 1.0,
    "CartPole-v1 own actor-critic 16 envs vs 1": 4.0,
}


def raw_rate(env_id, steps=8000):
    """env.step calls a second with actions drawn beforehand, resets included."""
    env = gym.make(env_id)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(steps)]
    env.reset(seed=0)
    start = time.perf_counter()
    for a in actions:
        _, _, terminated, truncated, _ = env.step(a)
        if terminated or truncated:
            env.reset()
    return steps / (time.perf_counter() - start)


class OwnActorCritic(nn.Module):
    """A user's own class: only what the algorithms call, no fast path."""

    def __init__(self, observation_space, action_space):
        super().__init__()
        self.pi = make_actor(observation_space, action_space, (64, 64), nn.Tanh)
        self.v_net = nn.Sequential(
            nn.Linear(observation_space.shape[0], 64), nn.Tanh(), nn.Linear(64, 1)
        )

    def v(self, obs):
        return self.v_net(obs).squeeze(-1)

    def step(self, obs):
        with torch.no_grad():
            pi, _ = self.pi(obs)
            a = pi.sample()
            return a.numpy(), self.v(obs).numpy(), pi.log_prob(a).numpy()


def collect_rate(env_id, num_envs=1, steps=8000, own=False):
    """Environment steps a second of collecting alone, with the default network or a user's own."""
    streams = make_streams(
        lambda: gym.make(env_id), num_envs, lambda i: np.random.SeedSequence(i), 1000
    )
    torch.manual_seed(0)
    cls = OwnActorCritic if own else MLPActorCritic
    policy = make_policy(cls(streams.observation_space, streams.action_space))
    assert isinstance(policy, StepPolicy if own else NetPolicy)
    rollout = Rollout(streams, 512 // num_envs)
    rng = np.random.default_rng(0)
    collect(rollout, streams, policy, rng)  # warm up
    rollout = Rollout(streams, steps // num_envs)
    start = time.perf_counter()
    collect(rollout, streams, policy, rng)
    return steps / (time.perf_counter() - start)


def train_rate(algo, env_id, epochs=4, num_threads=1):
    """Environment steps a second of training with the defaults, after the first epoch."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        getattr(spinup, f"{algo}_pytorch")(
            lambda: gym.make(env_id),
            epochs=epochs,
            num_threads=num_threads,
            logger_kwargs={"output_dir": folder, "quiet": True},
        )
        rows = [line.split("\t") for line in Path(folder, "progress.txt").read_text().splitlines()]
    column = rows[0].index("Time"), rows[0].index("TotalEnvInteracts")
    first, last = rows[1], rows[-1]
    steps = float(last[column[1]]) - float(first[column[1]])
    return steps / (float(last[column[0]]) - float(first[column[0]]))


def measure(rounds):
    """One dict a figure: the median ratio and the ratio of every round."""
    ratios: dict[str, list[float]] = {name: [] for name in TARGETS}
    rates: dict[str, list[float]] = {}

    def note(name, rate):
        rates.setdefault(name, []).append(rate)
        return rate

    for _ in range(rounds):
        env = "HalfCheetah-v5"
        before = note(f"{env} raw", raw_rate(env))
        collecting = note(f"{env} collect", collect_rate(env))
        training = {a: note(f"{env} {a}", train_rate(a, env)) for a in ("vpg", "ppo")}
        threads = {a: note(f"{env} {a}, 2 threads", train_rate(a, env, 4, 2)) for a in training}
        raw = (before + note(f"{env} raw", raw_rate(env))) / 2
        ratios[f"{env} collect"].append(collecting / raw)
        for algo, rate in training.items():
            ratios[f"{env} {algo}"].append(rate / raw)
            ratios[f"{env} {algo}, 2 threads"].append(threads[algo] / raw)
        env = "CartPole-v1"
        for own, name in ((False, "collect"), (True, "own actor-critic")):
            one = note(f"{env} {name} 1 env", collect_rate(env, 1, own=own))
            many = note(f"{env} {name} 16 envs", collect_rate(env, 16, own=own))
            ratios[f"{env} {name} 16 envs vs 1"].append(many / one)
    return {
        "ratios": {
            name: {"median": statistics.median(x), "target": TARGETS[name], "rounds": x}
            for name, x in ratios.items()
        },
        "steps_per_second": {name: statistics.median(x) for name, x in rates.items()},
    }


def main():
    """Measure, print a table, exit with 1 when a figure misses its target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    result = measure(args.rounds)
    result.update(
        command="python benchmarks/speed.py " + " ".join(sys.argv[1:]),
        cores=os.cpu_count(),
        versions={
            "python": platform.python_version(),
            "numpy": np.__version__,
            "torch": torch.__version__,
            "gymnasium": gym.__version__,
        },
    )
    for name, rate in result["steps_per_second"].items():
        print(f"{name:45s} {rate:10.0f} steps/s")
    missed = False
    for name, row in result["ratios"].items():
        spread = f"{min(row['rounds']):.3f} to {max(row['rounds']):.3f}"
        verdict = ""
        if row["target"] is not None:
            ok = row["median"] >= row["target"]
            missed |= not ok
            verdict = f", target {row['target']:.2f}: {'ok' if ok else 'MISSED'}"
        print(f"{name:45s} {row['median']:.3f} ({spread}){verdict}")
    if args.save:
        path = Path(__file__).parent / "results" / "speed.json"
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
