"""How fast runs train on a GPU: one operation after another, as CUDA graphs, and compiled.

    python benchmarks/gpu.py                     # print a table for this machine
    python benchmarks/gpu.py sac dqn --save      # only these; add to benchmarks/results/gpu.json
    python benchmarks/gpu.py --profile sac       # kernels and microseconds of one update
    python benchmarks/gpu.py --check             # same seed, same bits, and exact resume

Each figure is the median over epochs of environment steps per second, end to end (acting, the
environment, storing, sampling, updates, the log), with the algorithm's default hyperparameters but
without test episodes and checkpoints. The first epoch, which records and compiles, is not counted.
Every measurement has a process of its own, and nothing else should run on the machine.
"""

import argparse
import itertools
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "gpu.json"
CONTROL = {"steps_per_epoch": 2000, "start_steps": 500, "update_after": 500}
# name -> algorithm, environment, arguments
ROWS = {
    "sac": ("sac", "HalfCheetah-v5", CONTROL),
    "td3": ("td3", "HalfCheetah-v5", CONTROL),
    "ddpg": ("ddpg", "HalfCheetah-v5", CONTROL),
    "sac-1024": ("sac", "HalfCheetah-v5", {**CONTROL, "ac_kwargs": {"hidden_sizes": [1024, 1024]}}),
    "sac-batch-1024": ("sac", "HalfCheetah-v5", {**CONTROL, "batch_size": 1024}),
    "dqn": ("dqn", "CartPole-v1", {"steps_per_epoch": 8000}),
    "vpg": ("vpg", "HalfCheetah-v5", {}),
    "ppo": ("ppo", "HalfCheetah-v5", {}),
    "ppo-256": ("ppo", "HalfCheetah-v5", {"ac_kwargs": {"hidden_sizes": [256, 256]}}),
    "trpo": ("trpo", "HalfCheetah-v5", {}),
    "dqn-MinAtar": ("dqn", "MinAtar/Breakout-v1", {"steps_per_epoch": 2000}),
    "dqn-Atari": ("dqn", "ALE/Pong-v5", {"steps_per_epoch": 1000, "replay_size": 5000}),
    "ppo-MinAtar": ("ppo", "MinAtar/Breakout-v1", {"preset": "ppo-Breakout-v1"}),
    "ppo-Atari": ("ppo", "ALE/Pong-v5", {"preset": "ppo-Pong-v5"}),
}
WAYS = {
    "cpu": {"device": "cpu", "compile": True, "num_threads": 1},
    "eager": {"device": "cuda", "compile": False, "steps_per_epoch": 500},
    "graph": {"device": "cuda", "compile": "graph"},
    "compiled": {"device": "cuda", "compile": True},
}
TARGETS = {"sac": 2000, "td3": 2500, "ddpg": 2500, "dqn": 4000}
OFF_POLICY = ("sac", "td3", "ddpg", "dqn")
EPOCHS = 12


def train(algo, env, **settings):
    """Run a training function quietly; return its networks and the epochs' end times."""
    import spinup

    ends = []
    with tempfile.TemporaryDirectory() as folder:
        settings = {"logger_kwargs": {"output_dir": folder, "quiet": True}, **settings}
        on_epoch = settings.pop("on_epoch", lambda row, ac: ends.append(time.perf_counter()))
        ac = getattr(spinup, f"{algo}_pytorch")(env, on_epoch=on_epoch, **settings)
    return ac, ends


def speed(row, way):
    """Measure one figure, in this process."""
    algo, env, settings = ROWS[row]
    epochs = 5 if way in ("cpu", "eager") else EPOCHS
    settings = {**settings, "epochs": epochs, "save_freq": epochs}
    if "preset" in settings:
        preset = ROOT / "spinup" / "presets" / f"{settings.pop('preset')}.json"
        settings = {**json.loads(preset.read_text()), **settings}
        settings.pop("env")
    if algo in OFF_POLICY:
        settings |= {**WAYS[way], "num_test_episodes": 0}
        if way in ("cpu", "eager") and env.startswith("ALE"):  # slow, so that few steps suffice
            settings["steps_per_epoch"] = 300
    else:
        settings["device"] = WAYS[way]["device"]
    _, ends = train(algo, env, **settings)
    steps = settings.get("steps_per_epoch", 4000)
    return statistics.median(steps / (b - a) for a, b in itertools.pairwise(ends))


def ways_of(row):
    """Return the ways that make sense for a row."""
    return WAYS if ROWS[row][0] in OFF_POLICY else ("cpu", "eager")


def measure(row, way):
    """Measure one figure in a new process."""
    command = [sys.executable, __file__, "--worker", row, way]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{row} {way} failed:\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def machine():
    """Return what the figures depend on."""
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    versions = {"python": platform.python_version(), "torch": torch.__version__}
    return {"gpu": name, "cores": os.cpu_count(), **versions}


# ------------------------------------------------------------------------------------ one update


def profile(row):
    """Print the kernels of one update of a row, by way of a short run that is profiled."""
    import torch
    from torch.profiler import ProfilerActivity

    algo, env, settings = ROWS[row]
    for way in ways_of(row):
        if way == "cpu":
            continue
        found = {}

        def after(log, ac, found=found):
            if "profiler" not in found:  # the next epoch is profiled
                found["profiler"] = torch.profiler.profile(
                    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], acc_events=True
                )
                found["profiler"].start()
            elif "seconds" not in found:
                torch.cuda.synchronize()
                found["profiler"].stop()
                found["seconds"] = 1

        short = {"steps_per_epoch": 200, "start_steps": 50, "update_after": 50, "epochs": 3}
        settings = {**settings, **short, **WAYS[way], "num_test_episodes": 0, "save_freq": 9}
        train(algo, env, on_epoch=after, **settings)
        events = [
            e for e in found["profiler"].events() if e.device_type == torch.autograd.DeviceType.CUDA
        ]
        updates = 200 * (0.25 if algo == "dqn" else 1)
        total = sum(e.device_time for e in events)
        print(f"\n{row}, {way}: per update {len(events) / updates:.0f} kernels and copies, "
              f"{total / updates:.0f} us on the GPU")  # fmt: skip
        kinds = {}
        for e in events:
            count, us = kinds.get(e.name[:70], (0, 0.0))
            kinds[e.name[:70]] = (count + 1, us + e.device_time)
        for name, (count, us) in sorted(kinds.items(), key=lambda k: -k[1][1])[:14]:
            print(f"  {us / updates:6.1f} us {count / updates:5.1f} x {name}")


# --------------------------------------------------------------------------------------- the bits

FEW = {"steps_per_epoch": 200, "epochs": 3, "device": "cuda", "seed": 1}
SOON = {"start_steps": 50, "update_after": 50, "num_test_episodes": 2}
CHECKS = {
    "vpg": ("vpg", "Pendulum-v1", {}),
    "ppo": ("ppo", "Pendulum-v1", {}),
    "trpo": ("trpo", "Pendulum-v1", {}),
    "reinforce": ("reinforce", "CartPole-v1", {}),
    "ddpg": ("ddpg", "Pendulum-v1", SOON),
    "td3": ("td3", "Pendulum-v1", SOON),
    "sac": ("sac", "Pendulum-v1", SOON),
    "sac, learned temperature": ("sac", "Pendulum-v1", {**SOON, "alpha": "auto"}),
    "sac, discrete": ("sac", "CartPole-v1", SOON),
    "dqn": ("dqn", "CartPole-v1", {**SOON, "update_every": 2}),
    "dqn, annealed": ("dqn", "CartPole-v1", {**SOON, "anneal_lr": True, "max_grad_norm": 1.0}),
    "dqn, prioritized": ("dqn", "CartPole-v1", {**SOON, "prioritized": True}),
    "acer": ("acer", "CartPole-v1", {}),
    "acer, continuous": ("acer", "Pendulum-v1", {}),
    "her": ("her", "BitFlip", SOON),
    "ppo, images": ("ppo", "MinAtar/Breakout-v1", {"train_pi_iters": 4, "train_v_iters": 4}),
    "dqn, images": ("dqn", "MinAtar/Breakout-v1", SOON),
    "sac, images": ("sac", "MinAtar/Breakout-v1", SOON),
}


def check(only, compiled):
    """Train twice, and once in two halves; fail unless all weights and tables are equal."""
    import torch

    failed = 0
    for name, (algo, env, settings) in CHECKS.items():
        if only and algo not in only:
            continue
        settings = {**FEW, **settings}
        if algo == "her":
            from spinup.envs.bitflip import BitFlip as env
        off = algo in OFF_POLICY
        for way in (None, *((True,) if off and compiled else ())):
            chosen = {"compile": way} if off else {}
            with tempfile.TemporaryDirectory() as folder:
                results = []
                for run in ("first", "second", "halves"):
                    out = Path(folder, run)
                    given = {**settings, **chosen}
                    given["logger_kwargs"] = {"output_dir": str(out), "quiet": True}
                    if run == "halves":
                        train(algo, env, **given, save_freq=1, on_epoch=lambda row, ac: True)
                        given["resume"] = True
                    ac, _ = train(algo, env, **given, save_freq=1)
                    table = [
                        line.split("\t")[:-1]  # without the time
                        for line in (out / "progress.txt").read_text().splitlines()
                    ]
                    results.append((table, [p.detach().cpu() for p in ac.state_dict().values()]))
                how = json.loads((out / "config.json").read_text()).get("compile")
            (table, weights), *others = results
            same = [table == t and all(map(torch.equal, weights, w)) for t, w in others]
            failed += not all(same)
            print(f"{name:26} compile={how!r:8} twice {same[0]}, resumed {same[1]}", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("rows", nargs="*", metavar="row", help=f"of {', '.join(ROWS)}")
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    parser.add_argument("--save", action="store_true", help=f"add to {RESULT.name}")
    parser.add_argument("--profile", action="store_true", help="show the kernels of an update")
    parser.add_argument("--check", action="store_true", help="compare bits instead of timing")
    parser.add_argument("--compiled", action="store_true", help="with --check: compile as well")
    parser.add_argument("--out", type=Path, default=RESULT, help="the file of --save")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        print(json.dumps(speed(*args.worker)))
        return
    if args.check:
        sys.exit(bool(check(args.rows, args.compiled)))
    if args.profile:
        for row in args.rows:
            profile(row)
        return
    found = json.loads(args.out.read_text()) if args.out.exists() else {"rows": {}}
    for row in args.rows or ROWS:
        for way in (w for w in ways_of(row) if w in args.ways):
            figure = round(measure(row, way), 1)
            found["rows"].setdefault(row, {})[way] = figure
            goal = f" (target {TARGETS[row]})" if row in TARGETS and way == "compiled" else ""
            print(f"{row:16} {way:9} {figure:9.1f} steps/s{goal}", flush=True)
    found["machine"] = machine()
    found["command"] = "python benchmarks/gpu.py --save"
    if args.save:
        args.out.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
