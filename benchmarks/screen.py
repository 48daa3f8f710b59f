"""Compare settings on many seeds: the first part of runs of a million steps.

    python benchmarks/screen.py trpo Walker2d-v5                                 # the preset
    python benchmarks/screen.py trpo Walker2d-v5 --change '{"gamma": 0.995}'
    python benchmarks/screen.py ppo Hopper-v5 --change '{"ac_kwargs:log_std_init": -1}'
    python benchmarks/screen.py --table                                          # what is known

Runs of one seed start from the same weights and draw the same noise, so that ten variants on three
seeds are nearer to three samples than to thirty. Two variants on six seeds cost less and say more.
Schedules are those of the whole run, which is stopped after `--stop` steps; the policy then plays
20 episodes deterministically. The seeds are for choosing, so bench.py reports none of them.
`results/screen.json` keeps returns, curves and settings, run by run. The same command continues
runs that were stopped.
"""

import argparse
import json
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import bench, learn, ppo_study

RESULTS = bench.ROOT / "benchmarks" / "results" / "screen.json"
SEEDS = (20, 21, 22, 23, 24, 25)


def settings(algo, changes):
    """Return the arguments of a run of a million steps."""
    preset = json.loads(bench.preset(algo).read_text())
    return learn.of_length(bench.changed(preset, changes), bench.STEPS)


def label(algo, config):
    """Return in which arguments a run differs from today's preset."""
    changes = learn.differing(config, settings(algo, {}))
    return ", ".join(f"{key} {value}" for key, value in changes.items()) or "the preset"


def train(algo, env, changes, seed, stop, folder):
    """Train a run up to `stop` steps and play it, in a process of its own."""
    config, folder = settings(algo, changes), Path(folder, str(stop))
    reached = bench.train_alone(algo, env, config, seed, folder, on_epoch=until(stop))
    return {"algo": algo, "env": env, "settings": config, **reached}


def until(stop):
    """Return what ends a run after this number of steps."""
    return lambda row, ac: row["TotalEnvInteracts"] >= stop


def table(runs):
    """Return the lines of a table: the returns of each variant, the median first."""
    rows = {}
    for run in runs:
        key = (run["algo"], run["env"], label(run["algo"], run["settings"]), run["steps"])
        rows.setdefault(key, []).append(run["return"])
    lines = ["| | | steps | returns of the final policies, the median first |", "|---" * 4 + "|"]
    for (algo, env, variant, steps), found in sorted(rows.items()):
        shown = ", ".join(f"{value:,.0f}" for value in sorted(found))
        middle = f"**{statistics.median(found):,.0f}** ({shown})"
        lines.append(f"| {algo}, {env} | {variant} | {steps:,} | {middle} |")
    return lines


def main(argv=None):
    """Train what is missing, keep the results, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("algo", nargs="?", choices=("vpg", "trpo", "ppo"))
    parser.add_argument("env", nargs="?", choices=bench.MUJOCO)
    parser.add_argument("--change", type=json.loads, default={}, help="arguments, as JSON")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--stop", type=int, default=400_000, help="steps after which runs end")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=bench.ROOT / "data" / "screen")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="train nothing")
    args = parser.parse_args(argv)
    if not args.table:
        if args.env is None:
            parser.error("name an algorithm and an environment, or --table")
        known = ppo_study.read(args.out)["runs"]
        mine = (args.algo, args.env, settings(args.algo, args.change), args.stop)
        same = [r for r in known if (r["algo"], r["env"], r["settings"], r["steps"]) == mine]
        seeds = [seed for seed in args.seeds if seed not in {run["seed"] for run in same}]
        with ProcessPoolExecutor(args.workers, get_context("spawn")) as pool:
            row = (args.algo, args.env, args.change)
            jobs = [pool.submit(train, *row, seed, args.stop, args.runs) for seed in seeds]
            for job in as_completed(jobs):
                run = job.result()
                print(f"seed {run['seed']}: {run['return']:.0f}", flush=True)
                ppo_study.keep(run, args.out)
    print("\n".join(table(ppo_study.read(args.out)["runs"])))


if __name__ == "__main__":
    sys.exit(main())
