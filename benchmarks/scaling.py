"""What a second process brings, and what averaging gradients over processes costs.

    python benchmarks/scaling.py            # measure and print, about five minutes
    python benchmarks/scaling.py --quick    # the same with little data, about a minute
    python benchmarks/scaling.py --save     # write benchmarks/results/scaling.json, docs/mpi.md too
    python benchmarks/scaling.py --doc      # only bring docs/mpi.md up to date with that file

Training: `spinup.run` on Hopper-v5 with default hyperparameters, steps a second after the first
epoch. Early stopping makes the work of an epoch depend on the seed, so that one process is measured
twice: as a user would start it (one shard), and with the two shards of the two-process run, which
is the same work bit for bit (checked). Averaging: `Shards.mean` of one float32 gradient a process
against a bare `Allreduce` and against a floor, the bytes that have to move at the speed of a memory
copy, plus the latency of a small message. Everything that is compared takes turns; figures are
medians. Targets: two processes at least 1.7 times one, averaging at most twice the bare Allreduce.
"""

import argparse
import importlib.metadata
import itertools
import json
import math
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium as gym
import numpy as np

from spinup.parallel.launch import physical_cores
from spinup.parallel.mpi import Shards, mpi_fork
from spinup.utils.memory import keep_freed_memory

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "scaling.json"
PAGE = ROOT / "docs" / "mpi.md"
BEGIN, END = "<!-- scaling.json: begin -->", "<!-- scaling.json: end -->"

ENV = "Hopper-v5"
TARGET_SPEEDUP, TARGET_AVERAGE = 1.7, 2.0
# name -> flags: the second is the work of the third, done by one process
SETUPS = {
    "1 process": ("--cpu", "1"),
    "1 process, 2 shards": ("--cpu", "1", "--shards", "2"),
    "2 processes": ("--cpu", "2"),
}
SIZES = {10_000: 200, 1_000_000: 40, 10_000_000: 8}  # numbers in a gradient -> repetitions
SMALL_PATH = 1 << 16  # as in spinup.parallel.world: so many numbers go to everybody at once
NETWORKS = {"policy": 5126, "value function": 4993}  # parameters for Hopper-v5, 64 x 64
SMALL_MESSAGES = 20  # of an epoch: losses, statistics, agreement to save or stop
BEST = 0.1
ETHERNET = {"alpha": 20e-6, "beta": 1.2e9}  # assumed, not measured: 10 Gbit/s over TCP


# ---------------------------------------------------------------------------------------- training


def train(algo, setup, seed, epochs, folder):
    """(steps/s after the first epoch, policy steps an epoch, rows without the time)."""
    name = f"{algo}-{seed}-{setup}".replace(" ", "").replace(",", "-")
    command = [sys.executable, "-m", "spinup.run", algo, "--env", ENV, "--seed", str(seed)]
    command += ["--epochs", str(epochs), "--exp_name", name, "--data_dir", folder, *SETUPS[setup]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{shlex.join(command)} failed:\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    text = Path(folder, name, f"{name}_s{seed}", "progress.txt").read_text()
    header, *rows = [line.split("\t") for line in text.splitlines()]
    clock, steps = header.index("Time"), header.index("TotalEnvInteracts")
    first, last = rows[0], rows[-1]
    rate = (float(last[steps]) - float(first[steps])) / (float(last[clock]) - float(first[clock]))
    stops = [float(row[header.index("StopIter")]) if "StopIter" in header else 1 for row in rows]
    return rate, statistics.mean(stops[1:]), [row[:clock] + row[clock + 1 :] for row in rows]


def measure_training(rounds, epochs):
    """Steps a second of every setup and the speedups, for PPO and TRPO."""
    result = {}
    with tempfile.TemporaryDirectory() as folder:
        for algo in ("ppo", "trpo"):
            rates = {setup: [] for setup in SETUPS}
            policy_steps = []
            for seed in range(rounds):
                rows = {}
                # every other round backwards: what drifts does not favour the last
                for setup in list(SETUPS)[:: -1 if seed % 2 else 1]:
                    rate, stops, rows[setup] = train(algo, setup, seed, epochs, folder)
                    rates[setup].append(rate)
                    policy_steps.append(stops)
                if rows["2 processes"] != rows["1 process, 2 shards"]:
                    sys.exit(f"{algo}: two processes computed something else than one")
            result[algo] = {
                "steps_per_second": {s: statistics.median(x) for s, x in rates.items()},
                "policy_steps": statistics.mean(policy_steps),
                "speedup": summary(rates["2 processes"], rates["1 process"]),
                "speedup_same_work": summary(rates["2 processes"], rates["1 process, 2 shards"]),
            }
    return result


def summary(above, below):
    """Median and rounds of a ratio of two lists."""
    ratios = [a / b for a, b in zip(above, below, strict=True)]
    return {"median": statistics.median(ratios), "rounds": ratios}


# -------------------------------------------------------------------------------- gradient average


def worker(procs, path, scale):
    """One of `procs` processes that measure averaging; the first one writes `path`."""
    mpi_fork(procs)
    from mpi4py import MPI

    comm, shards = MPI.COMM_WORLD, Shards()
    keep_freed_memory()  # as a training run does

    def seconds(functions, repetitions, quantile=0.5):
        """Median over repetitions of the slowest process's time, for each function in turn."""
        times = np.zeros((max(3, int(repetitions * scale)) + 1, len(functions)))
        for row in times:
            for i, function in enumerate(functions):
                comm.Barrier()
                start = time.perf_counter()
                function()
                row[i] = time.perf_counter() - start
        slowest = np.empty_like(times)
        comm.Allreduce(times, slowest, MPI.MAX)
        return np.quantile(slowest[1:], quantile, axis=0).tolist()  # the first only warms up

    few = np.zeros(16, np.float32)
    # the model's figures are undisturbed ones: the best tenth, where others are medians
    (fixed,) = seconds([lambda: shards.mean([few])], 400, BEST)
    result = {
        "procs": procs,
        "mpi": MPI.Get_library_version().split(",")[0].strip(),
        "fixed": fixed,
        "alpha": one_way(comm, 1, int(2000 * scale)),
        "sizes": [],
    }
    result["beta"] = 2**22 / (one_way(comm, 2**22, int(100 * scale)) - result["alpha"])
    for n, repetitions in SIZES.items():
        x = np.random.default_rng(comm.Get_rank()).standard_normal(n).astype(np.float32)
        bare, copy = np.empty_like(x), np.empty_like(x)
        averaging, reducing, copying = seconds(
            [
                lambda x=x: shards.mean([x]),
                lambda x=x, bare=bare: comm.Allreduce(x, bare),
                lambda x=x, copy=copy: np.copyto(copy, x),
            ],
            repetitions,
        )
        if not np.allclose(shards.mean([x]) * procs, bare, atol=1e-4):
            raise AssertionError("Shards.mean and Allreduce disagree")
        # what any algorithm has to send and receive: parts of a sum, then sums
        floor = result["alpha"] + 2 * (procs - 1) / procs * copying
        row = {"n": n, "average": averaging, "allreduce": reducing, "floor": floor}
        row |= {"copy_bytes_per_second": 4 * n / copying}
        row |= {"to_allreduce": averaging / reducing, "to_floor": averaging / floor}
        result["sizes"].append(row)
    if comm.Get_rank() == 0:
        Path(path).write_text(json.dumps(result))


def one_way(comm, size, repetitions):
    """Seconds that `size` bytes take from the first process to the second; half a round trip."""
    rank, data = comm.Get_rank(), np.zeros(size, np.uint8)
    times = []
    for _ in range(max(repetitions, 20)):
        start = time.perf_counter()
        if rank == 0:
            comm.Send(data, 1)
            comm.Recv(data, 1)
        elif rank == 1:
            comm.Recv(data, 0)
            comm.Send(data, 0)
        times.append((time.perf_counter() - start) / 2)
    return comm.bcast(float(np.quantile(times, BEST)))


def measure_averages(scale):
    """The results of `worker` on 2 and on 4 processes."""
    results = []
    for procs in (2, 4):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "result.json")
            command = [sys.executable, __file__, "--worker", str(procs), str(path)]
            subprocess.run([*command, "--scale", str(scale)], check=True)
            results.append(json.loads(path.read_text()))
    return results


# ------------------------------------------------------------------------------- model on paper


def measure_work():
    """Seconds of an environment step, and of a gradient step as `fixed + per_row * rows`."""
    import torch

    from benchmarks.speed import collect_rate
    from spinup.algos.pytorch.common.gradients import Adam
    from spinup.algos.pytorch.ppo import core
    from spinup.algos.pytorch.ppo.ppo import ppo_update

    torch.set_num_threads(1)
    keep_freed_memory()
    env, shards = gym.make(ENV), Shards(1)
    ac = core.MLPActorCritic(env.observation_space, env.action_space)
    counts = {"policy": ac.pi, "value function": ac.v}
    for name, module in counts.items():
        if sum(p.numel() for p in module.parameters()) != NETWORKS[name]:
            raise AssertionError(f"the {name} has another number of parameters: mend NETWORKS")
    step = 1 / collect_rate(ENV)
    obs = torch.randn(4000, *env.observation_space.shape)
    act, val, logp = (torch.as_tensor(x) for x in ac.step(obs))
    data = {"obs": obs, "act": act, "val": val, "logp": logp}
    data |= {"adv": torch.randn(4000), "ret": torch.randn(4000)}
    optimizers = [Adam(m.parameters(), lr=1e-6) for m in (ac.pi, ac.v)]

    def update(rows, steps):
        batch = {name: x[:rows] for name, x in data.items()}
        start = time.perf_counter()
        ppo_update(
            ac,
            *optimizers,
            [batch],
            shards,
            train_pi_iters=steps,
            train_v_iters=steps,
            target_kl=None,
        )
        return time.perf_counter() - start

    def gradient(rows):
        return statistics.median((update(rows, 15) - update(rows, 5)) / 20 for _ in range(7))

    few, many = gradient(64), gradient(4000)
    per_row = (many - few) / (4000 - 64)
    few_added, many_added = adding(16), adding(16_384)
    add = (many_added - few_added) / (16_384 - 16)
    return {
        "env_step": step,
        "gradient_fixed": few - 64 * per_row,
        "gradient_per_row": per_row,
        "row_fixed": few_added - 16 * add,
        "add": add,
    }


def adding(n, repetitions=5000):
    """Seconds of adding n numbers of one process to the sum."""
    received = np.zeros((2, n), np.float32)
    start = time.perf_counter()
    for row in itertools.repeat(received[1], repetitions):
        received[0] += row
    return (time.perf_counter() - start) / repetitions


def average_seconds(m, procs, n):
    """The model's time of one gradient average of n numbers, one shard a process."""
    if procs == 1:
        return 0.0
    size, phases = 4 * n, math.ceil(math.log2(procs))
    if procs > 2 and procs * n <= SMALL_PATH:  # all parts to everybody, who adds them all
        moving = phases * m["alpha"] + (procs - 1) * size / m["beta"]
        adding = procs * (m["row_fixed"] + n * m["add"])
    else:  # a piece to each, then the sums to everybody; an Allreduce of two costs the same
        moving = 2 * (procs - 1) * m["alpha"] + 2 * (procs - 1) / procs * size / m["beta"]
        adding = procs * (m["row_fixed"] + n / procs * m["add"])
    return m["fixed"] + moving + adding


def epoch_seconds(m, procs, steps, policy_steps):
    """The model's time of an epoch of PPO with `steps` environment steps over all processes."""
    rows = steps / procs
    gradients = {"policy": policy_steps, "value function": 80}
    updating = sum(
        count * (m["gradient_fixed"] + rows * m["gradient_per_row"])
        + count * average_seconds(m, procs, NETWORKS[name])
        for name, count in gradients.items()
    )
    small = 0.0
    if procs > 1:
        small = SMALL_MESSAGES * (m["fixed"] + math.ceil(math.log2(procs)) * m["alpha"])
    return rows * m["env_step"] + updating + small


def predict(result):
    """Speedups of PPO over one process by the model, for the measured link and an assumed one."""
    measured, steps = result["model"]["measured"], result["training"]["ppo"]["policy_steps"]
    rows = []
    for procs in (2, 4, 16, 64, 256, 1024):
        row = {"procs": procs}
        for name, link in (("measured", {}), ("ethernet", ETHERNET)):
            m = measured | link
            one, all_of = epoch_seconds(m, 1, 4096, steps), epoch_seconds(m, procs, 4096, steps)
            larger = epoch_seconds(m, procs, 4096 * procs, steps)
            row[name] = {
                "average": average_seconds(m, procs, NETWORKS["policy"]),
                "same_epoch": one / all_of,
                "larger_epoch": procs * one / larger,
            }
        rows.append(row)
    return rows


# ------------------------------------------------------------------------------------- reporting


def tables(result):
    """The figures as Markdown, for the screen and for docs/mpi.md."""
    lines = [
        f"`{result['command']}` on {result['cores']} cores "
        f"(load average {result['load']:.1f} before), "
        + ", ".join(f"{k} {v}" for k, v in result["versions"].items())
        + ".",
        "",
        f"| {ENV}, steps/s | " + " | ".join(SETUPS) + " | speedup | speedup, same work |",
        "|---" * (len(SETUPS) + 3) + "|",
    ]
    for algo, row in result["training"].items():
        rates = " | ".join(f"{row['steps_per_second'][setup]:.0f}" for setup in SETUPS)
        ratios = " | ".join(
            f"{row[k]['median']:.2f} ({min(row[k]['rounds']):.2f} to {max(row[k]['rounds']):.2f})"
            for k in ("speedup", "speedup_same_work")
        )
        lines.append(f"| {algo} | {rates} | {ratios} |")
    lines += [
        "",
        "| processes | numbers | average | bare Allreduce | ratio | floor | ratio to floor |",
        "|---|---|---|---|---|---|---|",
    ]
    for part in result["averages"]:
        for row in part["sizes"]:
            lines.append(
                f"| {part['procs']} | {row['n']:,} | {spell(row['average'])} "
                f"| {spell(row['allreduce'])} | {row['to_allreduce']:.2f} | {spell(row['floor'])} "
                f"| {row['to_floor']:.1f} |"
            )
    m = result["model"]["measured"]
    lines += [
        "",
        "| measured for the model | |",
        "|---|---|",
        f"| latency α of a small message | {spell(m['alpha'])} |",
        f"| bandwidth β of a large message | {m['beta'] / 1e9:.1f} GB/s |",
        f"| fixed cost o of an average | {spell(m['fixed'])} |",
        f"| adding up: r a process, a number | {spell(m['row_fixed'])}, {m['add'] * 1e9:.2f} ns |",
        f"| environment step s | {spell(m['env_step'])} |",
        f"| gradient step: g, h a row | {spell(m['gradient_fixed'])}, "
        f"{m['gradient_per_row'] * 1e9:.0f} ns |",
        f"| policy steps of PPO an epoch | {result['training']['ppo']['policy_steps']:.0f} |",
        "",
        "| processes | average, measured α β | speedup, 4096 steps an epoch | 4096 steps a process "
        "| average, 10 Gbit/s | speedup, 4096 steps an epoch | 4096 steps a process |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in result["model"]["predicted"]:
        cells = [
            f"{spell(x['average'])} | {x['same_epoch']:.1f} | {x['larger_epoch']:.1f}"
            for x in (row["measured"], row["ethernet"])
        ]
        lines.append(f"| {row['procs']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def spell(seconds):
    """Seconds in the unit that reads best."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"


def misses(result):
    """The targets that were missed, as sentences."""
    found = []
    for algo, row in result["training"].items():
        if row["speedup"]["median"] < TARGET_SPEEDUP:
            found.append(f"{algo}: speedup {row['speedup']['median']:.2f} < {TARGET_SPEEDUP}")
    for part in result["averages"]:
        for row in part["sizes"]:
            if row["to_allreduce"] > TARGET_AVERAGE:
                found.append(
                    f"average of {row['n']:,} numbers on {part['procs']} processes: "
                    f"{row['to_allreduce']:.2f} times an Allreduce > {TARGET_AVERAGE}"
                )
    return found


def write_page(result):
    """Put the tables between the markers of docs/mpi.md."""
    text = PAGE.read_text(encoding="utf-8")
    block = f"{BEGIN}\n{tables(result)}\n{END}"
    pattern = re.escape(BEGIN) + ".*?" + re.escape(END)
    PAGE.write_text(re.sub(pattern, lambda _: block, text, flags=re.S), encoding="utf-8")


def main():
    """Measure, print tables, exit with 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--quick", action="store_true", help="one round, little data")
    parser.add_argument("--save", action="store_true", help="keep the figures as data")
    parser.add_argument("--doc", action="store_true", help="only bring docs/mpi.md up to date")
    parser.add_argument("--worker", nargs=2, metavar=("N", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--scale", type=float, default=1.0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        worker(int(args.worker[0]), args.worker[1], args.scale)
        return 0
    if args.doc:
        write_page(json.loads(RESULT.read_text(encoding="utf-8")))
        return 0
    if args.quick:
        args.rounds, args.epochs, args.scale = 1, 3, 0.25
    load = os.getloadavg()[0]  # another program on these cores spoils every figure
    averages = measure_averages(args.scale)
    measured = {k: averages[0][k] for k in ("alpha", "beta")} | measure_work()
    measured["fixed"] = max(0.0, averages[0]["fixed"] - measured["alpha"])
    result = {
        "command": shlex.join(["python", "benchmarks/scaling.py", *sys.argv[1:]]),
        "cores": physical_cores(),
        "load": load,
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("numpy", "torch", "mpi4py")},
            "MPI": averages[0]["mpi"],
        },
        "targets": {"speedup": TARGET_SPEEDUP, "to_allreduce": TARGET_AVERAGE},
        "training": measure_training(args.rounds, args.epochs),
        "averages": averages,
        "model": {"measured": measured, "assumed": {"ethernet": ETHERNET}},
    }
    result["model"]["predicted"] = predict(result)
    print(tables(result))
    missed = misses(result)
    print("\n" + ("\n".join(f"MISSED {line}" for line in missed) or "all targets met"))
    if args.save:
        RESULT.parent.mkdir(exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
        write_page(result)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
