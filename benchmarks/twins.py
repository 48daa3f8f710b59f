"""Do the PyTorch and the TensorFlow version of an algorithm learn alike?

    python benchmarks/twins.py                  # all six algorithms
    python benchmarks/twins.py ppo sac          # some of them

Each algorithm trains with its preset and the same seeds on both backends: VPG, TRPO and PPO on
CartPole-v1, DDPG, TD3 and SAC on Pendulum-v1. Random numbers differ, so the curves differ in
detail; `spinup compare` then says whether their scores differ by more than chance. Everything is
written to `benchmarks/results/twins/`: the curves, and what `compare` found. Runs that are already
there are not repeated.
"""

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import learn

RESULTS = Path(__file__).parent / "results" / "twins"
SEEDS = (100, 101, 102, 103, 104)  # no preset was chosen with them
ENVS = {"vpg": "CartPole-v1", "trpo": "CartPole-v1", "ppo": "CartPole-v1"}
ENVS |= {"ddpg": "Pendulum-v1", "td3": "Pendulum-v1", "sac": "Pendulum-v1"}


def train(algo, backend, seed, folder):
    """Train one policy in this process; its table is all that is needed."""
    from spinup import registry
    from spinup.policies.activations import activation

    env = ENVS[algo]
    steps = next(gate[2] for gate in learn.GATES if gate[:2] == (algo, env))
    config = json.loads(learn.preset_path(algo, env).read_text())
    config["epochs"] = steps // config.get("steps_per_epoch", 4000)
    ac_kwargs = dict(config.pop("ac_kwargs", {}))
    if "activation" in ac_kwargs:
        ac_kwargs["activation"] = activation(ac_kwargs["activation"], backend)
    logger = {"output_dir": folder, "exp_name": f"{algo}-{backend}", "quiet": True}
    registry.load(algo, backend)(
        config.pop("env", env), seed=seed, ac_kwargs=ac_kwargs, logger_kwargs=logger, **config
    )


def table_path(algo, backend, seed):
    """The kept table of a run."""
    return RESULTS / f"{algo}-{backend}" / f"s{seed}" / "progress.txt"


def run_one(algo, backend, seed):
    """Train one policy in a process of its own; keep its table and its configuration."""
    kept = table_path(algo, backend, seed)
    if kept.exists():
        return
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--one", algo, backend, str(seed), folder]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        config = json.loads(Path(folder, "config.json").read_text())
        config.pop("resume_with", None)
        config.pop("logger_kwargs")  # names a temporary folder
        kept.with_name("config.json").write_text(json.dumps(config, indent=1) + "\n")
        kept.write_text(few_columns(Path(folder, "progress.txt").read_text()))
    print(f"{algo} {backend} seed {seed}: {time.monotonic() - start:.0f} s", flush=True)


def few_columns(text):
    """Keep the columns that `compare` reads."""
    rows = [line.split("\t") for line in text.splitlines()]
    wanted = ("Epoch", "AverageEpRet", "AverageTestEpRet", "TotalEnvInteracts", "Time")
    columns = [rows[0].index(name) for name in wanted if name in rows[0]]
    return "".join("\t".join(row[i] for i in columns) + "\n" for row in rows)


def compare(algo):
    """Compare the two backends; return what `spinup compare` says, and its numbers."""
    from spinup.cli.compare import main as compare_main

    folders = [str(RESULTS / f"{algo}-{backend}") for backend in ("pytorch", "tf1")]
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as out:
        file, figure = Path(folder, "numbers.json"), Path(folder, "figure.png")
        words = ["--legend", "pytorch", "tf1", "--json", str(file), "--save", str(figure)]
        compare_main([*folders, *words])
        said = [line for line in out.getvalue().splitlines() if not line.startswith("wrote ")]
        return "\n".join(said), json.loads(file.read_text())


def main():
    """Train what is missing, compare, and write the summary."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("algos", nargs="*", metavar="algo", help="default: " + " ".join(ENVS))
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        algo, backend, seed, folder = args.one
        train(algo, backend, int(seed), folder)
        return
    algos = args.algos or list(ENVS)
    if unknown := sorted(set(algos) - set(ENVS)):
        parser.error(f"unknown algorithm {unknown[0]}: use {', '.join(ENVS)}")
    with ThreadPoolExecutor(args.jobs) as pool:
        runs = [(a, b, s) for a in algos for s in SEEDS for b in ("pytorch", "tf1")]
        list(pool.map(lambda run: run_one(*run), runs))
    for algo in algos:
        text, numbers = compare(algo)
        print(text)
        record = {"said": text.splitlines(), "numbers": numbers, "versions": learn.versions()}
        (RESULTS / f"{algo}.json").write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
