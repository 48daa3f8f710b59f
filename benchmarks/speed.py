"""How fast the on-policy algorithms train, as a fraction of the environment's own speed.

    python benchmarks/speed.py            # measure and print
    python benchmarks/speed.py --save     # also write benchmarks/results/speed.json
    python benchmarks/speed.py --backends # TensorFlow beside PyTorch (results/backends.json)

Raw stepping, collecting and training take turns in one process, several rounds of each. A figure is
the median over rounds of (steps/s of that round) / (raw env.step/s of the same round), so that a
busy machine slows both sides alike. Collecting is PPO's training loop as it is, timed from its
first step of an epoch to its last: acting, stepping, storing and finishing paths.

`--backends` trains both versions of an algorithm with one thread, in turns: on-policy, epochs of
default runs; off-policy, slices of the work in `peers.py`, compiled torch and, if it is installed,
SBX beside them. A figure is the median over rounds of (TensorFlow's steps/s) / (the other's).
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
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np
import torch
from torch import nn

import spinup
from spinup.algos.common.loop import Loop
from spinup.algos.pytorch.common import acting
from spinup.algos.pytorch.common.nets import MLPActorCritic, make_actor
from spinup.algos.pytorch.common.user_acting import StepPolicy
from spinup.algos.pytorch.ppo import ppo as ppo_module
from spinup.utils.memory import keep_freed_memory

TARGETS = {
    "HalfCheetah-v5 collect": 0.58,
    "HalfCheetah-v5 vpg": 0.35,
    "HalfCheetah-v5 ppo": 0.20,
    "HalfCheetah-v5 vpg, 2 threads": None,  # for information: the default is one thread
    "HalfCheetah-v5 ppo, 2 threads": None,
    "CartPole-v1 collect 16 envs vs 1": 1.0,
    "CartPole-v1 own actor-critic 16 envs vs 1": 4.0,
}


# TensorFlow's speed relative to its twin's; (algorithm, other side) -> target
TWINS = {(algo, "torch"): 0.8 for algo in ("vpg", "ppo")}
for _algo in ("sac", "td3", "ddpg"):
    TWINS |= {(_algo, "torch"): 1.3, (_algo, "torch, compiled"): 1.0, (_algo, "SBX"): None}


def raw_rate(env_id, steps=8000):
    """env.step calls per second with actions drawn beforehand, resets included."""
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
        obs_dim = observation_space.shape[0]
        self.v = nn.Sequential(nn.Linear(obs_dim, 64), nn.Tanh(), nn.Linear(64, 1), nn.Flatten(0))

    def step(self, obs):
        with torch.no_grad():
            pi, _ = self.pi(obs)
            a = pi.sample()
            return a.numpy(), self.v(obs).numpy(), pi.log_prob(a).numpy()


class TimedLoop(Loop):
    """The loop of a run, which adds up how long the steps of each epoch take."""

    seconds: list[float]  # one number per epoch; `collect_rate` empties it

    def steps(self):
        """As `Loop.steps`, and timed with everything that the algorithm does between steps."""
        start = time.perf_counter()
        yield from super().steps()
        self.seconds.append(time.perf_counter() - start)


def collect_rate(env_id, num_envs=1, epochs=3, own=False):
    """Environment steps per second of collecting alone, with the default network or a user's own.

    PPO trains as always, but without gradient steps; its first epoch only warms up.
    """
    TimedLoop.seconds, policies = [], []

    def make_policy(*args, **kwargs):
        policies.append(acting.make_policy(*args, **kwargs))
        return policies[-1]

    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.redirect_stdout(io.StringIO()),
        mock.patch.multiple(ppo_module, Loop=TimedLoop, make_policy=make_policy),
    ):
        ppo_module.ppo(
            lambda: gym.make(env_id),
            actor_critic=OwnActorCritic if own else MLPActorCritic,
            epochs=epochs,
            train_pi_iters=0,
            train_v_iters=0,
            num_envs=num_envs,
            num_threads=1,
            logger_kwargs={"output_dir": folder, "quiet": True},
        )
    assert isinstance(policies[0], StepPolicy if own else acting.NetPolicy)
    return 4000 * (epochs - 1) / sum(TimedLoop.seconds[1:])


def train_rate(algo, env_id, epochs=4, num_threads=1, backend="pytorch"):
    """Environment steps per second of training with the defaults, after the first epoch."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        getattr(spinup, f"{algo}_{backend}")(
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
    """One dict per figure: the median ratio and the ratio of every round."""
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


def measure_backends(rounds):
    """The same of TensorFlow's algorithms relative to PyTorch's and SBX."""
    from benchmarks import peers

    rates: dict[str, dict[str, list[float]]] = {}
    for algo in ("vpg", "ppo"):
        found = rates[algo] = {"torch": [], "tf1": []}
        for i in range(rounds + 1):
            for side in list(found)[:: -1 if i % 2 else 1]:
                backend = "pytorch" if side == "torch" else side
                rate = train_rate(algo, "HalfCheetah-v5", backend=backend)
                if i:  # the first round warms up
                    found[side].append(rate)
    sides = dict(peers.BACKENDS)
    if peers.PEERS_PYTHON.exists():
        sides["SBX"] = ("sbx", None)
    for algo in ("sac", "td3", "ddpg"):
        reports = peers.measure(algo, rounds, sides)
        steps = peers.SETTINGS[algo]["slice"]
        rates[algo] = {
            side: [steps / row["seconds"] for row in rows] for side, rows in reports.items()
        }
    ratios = {}
    for (algo, other), target in TWINS.items():
        if other in rates[algo]:
            pairs = zip(rates[algo]["tf1"], rates[algo][other], strict=True)
            x = [ours / theirs for ours, theirs in pairs]
            name = f"HalfCheetah-v5 {algo}, tf1 vs {other}"
            ratios[name] = {"median": statistics.median(x), "target": target, "rounds": x}
    medians = {
        f"HalfCheetah-v5 {algo}, {side}": statistics.median(x)
        for algo, found in rates.items()
        for side, x in found.items()
    }
    return {"ratios": ratios, "steps_per_second": medians}


def main():
    """Measure, print a table, exit with 1 when a figure misses its target."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--save", action="store_true")
    parser.add_argument("--backends", action="store_true", help="TensorFlow beside PyTorch")
    args = parser.parse_args()
    torch.set_num_threads(1)
    keep_freed_memory()
    load = os.getloadavg()[0]
    result = measure_backends(args.rounds) if args.backends else measure(args.rounds)
    result.update(
        command="python benchmarks/speed.py " + " ".join(sys.argv[1:]),
        cores=os.cpu_count(),
        load=load,
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
        name = "backends.json" if args.backends else "speed.json"
        path = Path(__file__).parent / "results" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(json.dumps(result, indent=2) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main())
