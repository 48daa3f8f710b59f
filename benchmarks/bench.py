"""The benchmark: every algorithm on the MuJoCo tasks, for one million steps.

    python benchmarks/bench.py                           # everything that has not been trained yet
    python benchmarks/bench.py ppo trpo --env Hopper-v5 --workers 2
    python benchmarks/bench.py sac --device cuda --workers 6      # several runs on one GPU
    python benchmarks/bench.py --executor ray            # or slurm; the options of a grid
    python benchmarks/bench.py --page                    # train nothing; write docs/benchmarks.md

Each algorithm has one preset for all environments, `spinup/presets/<algo>-MuJoCo.json`; EXCEPTIONS
lists what differs. Seeds 100 and up are reported, and presets were chosen on other seeds. A run is
a cell of a grid, so the same command again continues wherever it was stopped, and it trains nothing
whose result is kept already. When the runs are finished, their FINAL policies play 20 episodes
deterministically in a fresh environment. The small files that remain are
`benchmarks/results/bench/<algo>-<env>.json` (returns, curves, time, hardware, versions, command)
and, for the first seed of a PyTorch row, a policy in `zoo/` that `spinup test_policy` plays.
"""

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import statistics
import sys
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import learn  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results" / "bench"
ZOO = ROOT / "zoo"
STEPS = 1_000_000
EPISODES = 20
POINTS = 50  # of a learning curve that are kept
FIRST_SEED = 100
MUJOCO = ("HalfCheetah-v5", "Hopper-v5", "Walker2d-v5", "Ant-v5", "Swimmer-v5")
# algorithm -> environments, number of seeds
TABLE = {
    "vpg": (MUJOCO, 5),
    "trpo": (MUJOCO, 5),
    "ppo": (MUJOCO, 5),
    "ddpg": ((*MUJOCO, "Humanoid-v5"), 3),
    "td3": ((*MUJOCO, "Humanoid-v5"), 3),
    "sac": ((*MUJOCO, "Humanoid-v5"), 3),
    "vpg_tf1": (MUJOCO[:2], 5),
    "trpo_tf1": (MUJOCO[:2], 5),
    "ppo_tf1": (MUJOCO[:2], 5),
}
# environment -> (algorithms, what differs from their presets, why); a colon leads into a dict
EXCEPTIONS = {
    "Ant-v5": (
        ("trpo",),
        {"ac_kwargs:log_std_init": -1.5, "steps_per_epoch": 1000, "train_v_iters": 20},
        "with the usual noise, moving its joints costs it more than staying upright earns, and it "
        "learns faster from more updates, each from fewer steps",
    ),
    "Walker2d-v5": (
        ("trpo", "ppo"),
        {"gamma": 0.995},
        "with 0.99, many seeds learn to leap and to fall after 200 steps",
    ),
    "Swimmer-v5": (
        ("vpg", "trpo", "ppo", "ddpg", "td3", "sac"),
        {"gamma": 0.999},
        "its reward lies further ahead than the 100 steps of gamma = 0.99",
    ),
}

# ---- training: a grid ----------------------------------------------------------------------------


def preset(algo):
    """Return the path of an algorithm's preset; both backends have the same."""
    return ROOT / "spinup" / "presets" / f"{algo.removesuffix('_tf1')}-MuJoCo.json"


def settings(algo, env, steps):
    """Return the arguments of a row."""
    config = json.loads(preset(algo).read_text())
    algos, changes, _ = EXCEPTIONS.get(env, ((), {}, ""))
    return learn.of_length(
        changed(config, changes if algo.removesuffix("_tf1") in algos else {}), steps
    )


def changed(config, changes):
    """Return arguments with some of them changed; `ac_kwargs:encoder` is an entry of a dict."""
    config = {k: dict(v) if isinstance(v, dict) else v for k, v in config.items()}
    for key, value in changes.items():
        where, _, entry = key.rpartition(":")
        (config[where] if where else config)[entry] = value
    return config


def digest(algo, env, steps):
    """Return a short name of a row's arguments: with others, it is trained anew."""
    return fingerprint(settings(algo, env, steps))


def fingerprint(config):
    return hashlib.sha256(json.dumps(config, sort_keys=True).encode()).hexdigest()[:8]


def train(row, seed, device, steps, logger_kwargs, num_threads=None, resume=False):
    """Train one cell of the grid; `row` is 'algo/env/digest'."""
    algo, env, _ = row.split("/")
    given = {"seed": seed, "device": device, "num_threads": num_threads, "resume": resume}
    learn.train(algo, env, settings(algo, env, steps), logger_kwargs["output_dir"], **given)


def train_alone(algo, env, config, seed, folder, on_epoch=None):
    """Train a run outside the grid, on one thread, or continue it; return what it reached."""
    import torch

    torch.set_num_threads(1)
    folder = Path(folder, f"{algo}-{env}-{fingerprint(config)}-s{seed}")
    if not (folder / ".finished").exists():
        given = {"seed": seed, "num_threads": 1, "on_epoch": on_epoch}
        learn.train(algo, env, config, folder, resume=(folder / "progress.txt").exists(), **given)
    return play(folder, env, seed)


def grid(rows, seeds, args):
    """Return the grid of some rows and seeds, and the folder of each run."""
    from spinup.utils.run_utils import ExperimentGrid, setup_logger_kwargs

    eg = ExperimentGrid(name="bench")
    keys = [f"{algo}/{env}/{digest(algo, env, args.steps)}" for algo, env in rows]
    eg.add("row", keys, "", in_name=True)
    eg.add("seed", list(seeds))
    eg.add("device", args.device)
    eg.add("steps", args.steps)
    folders = {}
    for cell in eg.cells(train):
        algo, env, _ = cell.kwargs["row"].split("/")
        place = setup_logger_kwargs(cell.exp_name, cell.seed, args.data_dir)
        folders[algo, env, cell.seed] = Path(place["output_dir"])
    return eg, folders


# ---- results -------------------------------------------------------------------------------------


def play(folder, env, seed):
    """Return what a finished run reached: returns of its final policy, its curve and its time."""
    returns, log = learn.play(folder, env, EPISODES), learn.table(folder)
    return {
        "seed": seed,
        "return": round(statistics.fmean(returns), 2),
        "std": round(statistics.pstdev(returns), 2),
        "episodes": EPISODES,
        "steps": int(log["TotalEnvInteracts"][-1]),
        "train_seconds": round(log["Time"][-1]),
        "curve": {
            "steps": learn.thinned(log["TotalEnvInteracts"], POINTS, None),
            "returns": learn.thinned(log["AverageEpRet"], POINTS),
        },
    }


def hardware(device):
    """Return the machine's processor, its cores, and the GPU if one was used."""
    gpu = {"gpu": learn.device_name(device)} if device == "cuda" else {}
    return {"cpu": learn.processor(), "cores": os.cpu_count(), **gpu}


def place_of(args):
    """Return the folder of the results: a shorter try keeps its own beside its runs."""
    return RESULTS if args.steps == STEPS else args.data_dir / "results"


def open_seeds(algo, env, args):
    """Return the seeds of a row that have no result yet."""
    row = read(algo, env, place_of(args))
    same = row.get("digest") == digest(algo, env, args.steps)
    done = {run["seed"] for run in row["runs"]} if same else set()
    count = args.seeds or TABLE[algo][1]
    return tuple(seed for seed in range(FIRST_SEED, FIRST_SEED + count) if seed not in done)


def collect(folders, args):
    """Evaluate the finished ones of these runs, and write the files of their rows."""
    place = place_of(args)
    place.mkdir(parents=True, exist_ok=True)
    pool_of = partial(ProcessPoolExecutor, mp_context=get_context("spawn"))
    with (pool_of if args.workers > 1 else ThreadPoolExecutor)(args.workers) as pool:
        waiting = []
        for (algo, env, seed), folder in folders.items():
            if (folder / ".finished").exists():
                waiting.append((algo, env, seed, folder, pool.submit(play, folder, env, seed)))
        for algo, env, seed, folder, future in waiting:
            row, mark = read(algo, env, place), digest(algo, env, args.steps)
            if row.get("digest") != mark:
                row = {"algo": algo, "env": env, "steps": args.steps, "digest": mark, "runs": []}
            runs = {run["seed"]: run for run in [*row["runs"], future.result()]}
            row |= {
                "runs": [runs[seed] for seed in sorted(runs)],
                "preset": f"spinup/presets/{preset(algo).name}",
                "settings": settings(algo, env, args.steps),
                "command": f"python benchmarks/bench.py {algo} --env {env}",
                "hardware": hardware(args.device),
                "workers": args.workers,
                "versions": learn.versions(),
            }
            path = place / f"{algo}-{env}.json"
            path.with_suffix(".new").write_text(json.dumps(row, indent=1) + "\n")
            path.with_suffix(".new").replace(path)
            print(f"{algo:9} {env:15} seed {seed}: {runs[seed]['return']:8.0f}", flush=True)
            if seed == FIRST_SEED and args.steps == STEPS and not algo.endswith("_tf1"):
                keep(folder, ZOO / f"{algo}-{env}")
    if args.steps == STEPS:
        learn.write_reached()


def keep(folder, target):
    """Copy the files that `spinup test_policy` needs, without folders of this machine."""
    shutil.rmtree(target, ignore_errors=True)
    (target / "pyt_save").mkdir(parents=True)
    for path in (folder / "pyt_save").iterdir():
        if path.suffix in (".safetensors", ".json"):
            shutil.copy(path, target / "pyt_save" / path.name)
    config = json.loads((folder / "config.json").read_text())
    config["logger_kwargs"] = {"output_dir": target.name}
    config.pop("resume_with", None)
    (target / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def read(algo, env, place=RESULTS):
    """Return a row's result; empty if there is none."""
    path = place / f"{algo}-{env}.json"
    return json.loads(path.read_text()) if path.exists() else {}


# ---- the command ---------------------------------------------------------------------------------


def main(argv=None):
    """Train, evaluate, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("algos", nargs="*", metavar="algo", help=f"of {', '.join(TABLE)}")
    parser.add_argument("--env", action="append", help="only this environment; may be repeated")
    parser.add_argument("--seeds", type=int, help="number of seeds; the table has a default")
    parser.add_argument("--steps", type=int, default=STEPS, help="a shorter run, for a try")
    parser.add_argument("--workers", type=int, default=2, help="runs at the same time")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--executor", choices=("local", "ray", "slurm"), default="local")
    parser.add_argument("--data_dir", type=Path, default=ROOT / "data" / "bench")
    parser.add_argument("--evaluate", action="store_true", help="train nothing; play what is there")
    parser.add_argument("--page", action="store_true", help="only write the page")
    args = parser.parse_args(argv)
    unknown = set(args.algos) - set(TABLE)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))} (there are {', '.join(TABLE)})")
    failed = False
    if not args.page:
        chosen = args.algos or [a for a in TABLE if a.endswith("_tf1") <= has_tensorflow()]
        together = defaultdict(list)  # seeds -> the rows that miss them: a grid is a product
        for algo in chosen:
            for env in TABLE[algo][0]:
                if args.env is None or env in args.env:
                    together[open_seeds(algo, env, args)].append((algo, env))
        together.pop((), None)
        for seeds, rows in together.items():
            failed |= run(rows, seeds, args)
    if args.steps == STEPS:
        from benchmarks.bench_page import write

        write()
    return int(failed)


def run(rows, seeds, args):
    """Train some rows and collect what is finished; return whether a run failed."""
    from spinup.grids.experiments import CellsFailed

    eg, folders = grid(rows, seeds, args)
    failed = False
    if not args.evaluate:
        try:
            eg.run(train, num_workers=args.workers, data_dir=args.data_dir, executor=args.executor)
        except CellsFailed as error:
            print(error, file=sys.stderr)
            failed = True
    collect(folders, args)
    return failed


def has_tensorflow():
    return importlib.util.find_spec("tensorflow") is not None


if __name__ == "__main__":
    sys.exit(main())
