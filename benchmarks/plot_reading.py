"""How long reading and plotting many runs takes.

    python benchmarks/plot_reading.py            # 1,000 runs of 1,000 rows, about 400 MB, and print
    python benchmarks/plot_reading.py --save     # write benchmarks/results/plot_reading.json too
    python benchmarks/plot_reading.py --runs 50  # less

The runs are made in a temporary folder: the twenty columns of PPO, ten experiments, digits as the
logger writes them. Each figure is the median of three, with the files in the page cache: reading
through `spinup.analysis.curves` (what `spinup plot` does), reading every column as DataFrames
(`plot.get_all_datasets`, what scripts do), and whole `spinup plot` commands, start-up included.
"""

import argparse
import importlib.metadata
import json
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from spinup.analysis import curves, plot

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "plot_reading.json"
EXPERIMENTS = 10
# fmt: off
COLUMNS = (
    "Epoch", "AverageEpRet", "StdEpRet", "MaxEpRet", "MinEpRet",
    "EpLen", "AverageVVals", "StdVVals", "MaxVVals", "MinVVals",
    "TotalEnvInteracts", "LossPi", "LossV", "DeltaLossPi", "DeltaLossV",
    "KL", "Entropy", "ClipFrac", "StopIter", "Time",
)
# fmt: on


def make_runs(folder, runs, rows):
    """Writes the runs; returns the bytes of their `progress.txt`."""
    rng = np.random.default_rng(0)
    size = 0
    numbers = rng.normal(size=(rows, len(COLUMNS)))
    for i in range(runs):
        name = f"exp{i % EXPERIMENTS}"
        run = Path(folder) / name / f"{name}_s{i // EXPERIMENTS}"
        run.mkdir(parents=True)
        table = numbers + rng.normal(size=len(COLUMNS))  # as many digits, other numbers
        lines = ["\t".join(COLUMNS)]
        for epoch, row in enumerate(table.tolist()):
            row[0], row[COLUMNS.index("TotalEnvInteracts")] = epoch, 4000 * (epoch + 1)
            lines.append("\t".join(map(str, row)))
        text = "\n".join(lines) + "\n"
        (run / "progress.txt").write_text(text)
        (run / "config.json").write_text(json.dumps({"exp_name": name, "seed": i}))
        size += len(text)
    return size


def seconds(function, times=3):
    """The median time of a call."""
    measured = []
    for _ in range(times):
        start = time.perf_counter()
        function()
        measured.append(time.perf_counter() - start)
    return round(statistics.median(measured), 2)


def command(*words):
    """Runs a command of ours to its end."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "spinup.run", *words],
        env=env,
        check=True,
        capture_output=True,
        text=True,
    )
    assert not done.stderr, done.stderr


def measure(runs, rows):
    """Makes the runs and times everything."""
    with tempfile.TemporaryDirectory() as folder:
        size = make_runs(folder, runs, rows)
        wanted = ["TotalEnvInteracts", "Performance"]
        read = curves.read_runs([folder], wanted)
        assert len(read) == runs
        assert all(len(run.columns["Performance"]) == rows and not run.problems for run in read)
        data, out = f"{folder}/", f"{folder}/out.png"
        return {
            "bytes": size,
            "read_seconds": seconds(lambda: curves.read_runs([folder], wanted)),
            "get_all_datasets_seconds": seconds(lambda: plot.get_all_datasets([data]), 1),
            "plot_seconds": seconds(lambda: command("plot", data, "--save", out)),
            "plot_ci_seconds": seconds(
                lambda: command("plot", data, "--band", "ci", "--save", out), 1
            ),
            "plot_iqm_ci_seconds": seconds(
                lambda: command("plot", data, "--est", "iqm", "--band", "ci", "--save", out), 1
            ),
        }


def main():
    """Measure, print, and keep the figures if asked to."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--rows", type=int, default=1000)
    parser.add_argument("--save", action="store_true")
    args = parser.parse_args()
    result = {
        "command": shlex.join(["python", "benchmarks/plot_reading.py", *sys.argv[1:]]),
        "runs": args.runs,
        "rows": args.rows,
        "columns": len(COLUMNS),
        **measure(args.runs, args.rows),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "versions": {
            name: importlib.metadata.version(name) for name in ("numpy", "matplotlib", "pandas")
        },
    }
    text = json.dumps(result, indent=4)
    print(text)
    if args.save:
        RESULT.write_text(text + "\n")


if __name__ == "__main__":
    main()
