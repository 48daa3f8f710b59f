"""Search for default hyperparameters with which DQN keeps what it has learned.

    python benchmarks/dqn_defaults.py CartPole-v1 --candidates copy-250 n3 --seeds 10 11 --save

A candidate is good if the test return of the last epochs stays at the environment's maximum, on
every seed. Each run is a default run with a candidate's changes. Results are added to
`benchmarks/results/dqn_defaults.json`, one entry per run: the mean and the lowest test return of
the last 20 epochs, and the last one. `--summary` prints what the file contains.
"""

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import statistics
import tempfile
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "dqn_defaults.json"
OLD = {"polyak": 0.0, "target_update_every": 250, "q_lr": 1e-3, "n_step": 1}
SLOW = {"polyak": 0.995, "target_update_every": 1, "n_step": 1}  # the target network moves slowly
CANDIDATES = {
    "copy-250": OLD,
    "copy-250-replay-1e6": {**OLD, "replay_size": 1e6},
    "slow": {**SLOW, "q_lr": 1e-3},
    "slow-5e-4": {**SLOW, "q_lr": 5e-4},
    "slow-3e-4": {**SLOW, "q_lr": 3e-4},
    "copy-1000": {**OLD, "target_update_every": 1000, "q_lr": 5e-4, "replay_size": 1e6},
    "copy-500": {**OLD, "target_update_every": 500, "q_lr": 3e-4, "replay_size": 1e6},
    "slow-3e-4-replay-1e6": {**SLOW, "q_lr": 3e-4, "replay_size": 1e6},
    "slow-1e-4-replay-1e6": {**SLOW, "q_lr": 1e-4, "replay_size": 1e6},
    "slow-3e-4-squared": {
        **SLOW, "q_lr": 3e-4, "replay_size": 1e6, "loss": "squared", "max_grad_norm": 10.0
    },
    "n3": {**SLOW, "q_lr": 3e-4, "n_step": 3},
    "n3-replay-1e6": {**SLOW, "q_lr": 3e-4, "n_step": 3, "replay_size": 1e6},
    "n3-replay-5e4": {**SLOW, "q_lr": 3e-4, "n_step": 3, "replay_size": 5e4},
    "n3-2e-4": {**SLOW, "q_lr": 2e-4, "n_step": 3},
    "n3-1e-4": {**SLOW, "q_lr": 1e-4, "n_step": 3},
    "n3-polyak-0.999": {**SLOW, "polyak": 0.999, "q_lr": 3e-4, "n_step": 3},
    "n3-batch-128": {**SLOW, "q_lr": 3e-4, "n_step": 3, "batch_size": 128, "eps_steps": 40000},
    "n3-batch-128-5e-4": {
        **SLOW, "q_lr": 5e-4, "n_step": 3, "batch_size": 128, "eps_steps": 40000
    },
    "anneal": {**SLOW, "q_lr": 1e-3, "anneal_lr": True},
    "n3-anneal": {**SLOW, "q_lr": 1e-3, "n_step": 3, "anneal_lr": True},
    "n3-anneal-3e-4": {**SLOW, "q_lr": 3e-4, "n_step": 3, "anneal_lr": True},
    "n3-anneal-5e-4": {**SLOW, "q_lr": 5e-4, "n_step": 3, "anneal_lr": True},
    "n3-anneal-5e-4-squared": {
        **SLOW, "q_lr": 5e-4, "n_step": 3, "anneal_lr": True, "loss": "squared",
        "max_grad_norm": 10.0,
    },
}  # fmt: skip


def train(candidate, env, seed, epochs):
    """Train one policy in this process; return its entry of the results."""
    from spinup import dqn_pytorch

    with tempfile.TemporaryDirectory() as folder:
        logger = {"output_dir": folder, "quiet": True}
        changes = {"num_threads": 1, "save_freq": epochs, **CANDIDATES[candidate]}
        dqn_pytorch(env, seed=seed, epochs=epochs, logger_kwargs=logger, **changes)
        head, *rows = Path(folder, "progress.txt").read_text().splitlines()
    column = head.split("\t").index("AverageTestEpRet")
    returns = [float(row.split("\t")[column]) for row in rows]
    return entry(candidate, env, seed, returns)


def entry(candidate, env, seed, returns):
    """Summarize the test returns of a run."""
    late = returns[-20:]
    return {
        "candidate": candidate, "env": env, "seed": seed, "epochs": len(returns),
        "late_mean": round(statistics.fmean(late), 1), "late_min": round(min(late), 1),
        "last": round(returns[-1], 1),
    }  # fmt: skip


def summary(runs):
    """Return one line per environment and candidate."""
    groups = {}
    for run in runs:
        groups.setdefault((run["env"], run["candidate"]), []).append(run)
    lines = []
    for (env, candidate), group in sorted(groups.items()):
        late = statistics.fmean(run["late_mean"] for run in group)
        last = " ".join(f"{run['last']:.0f}" for run in sorted(group, key=lambda r: r["seed"]))
        lines.append(f"{env:15} {candidate:24} last 20 epochs {late:7.1f}   last: {last}")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("env", nargs="?", default="CartPole-v1")
    parser.add_argument("--candidates", nargs="+", choices=CANDIDATES, default=["n3"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12, 13])
    parser.add_argument("--epochs", type=int, default=100)
    parser.add_argument("--workers", type=int, default=os.cpu_count())
    parser.add_argument("--save", action="store_true", help=f"add to {RESULTS.name}")
    parser.add_argument("--summary", action="store_true", help="only print what was saved")
    args = parser.parse_args()
    saved = json.loads(RESULTS.read_text()) if RESULTS.exists() else {"runs": []}
    runs = saved["runs"] if args.summary else []
    if not args.summary:
        os.environ["OMP_NUM_THREADS"] = "1"
        with concurrent.futures.ProcessPoolExecutor(
            args.workers, mp_context=multiprocessing.get_context("spawn")
        ) as pool:
            jobs = [
                pool.submit(train, candidate, args.env, seed, args.epochs)
                for seed in args.seeds
                for candidate in args.candidates
            ]
            for job in concurrent.futures.as_completed(jobs):
                runs.append(job.result())
                print(runs[-1], flush=True)
                if args.save:
                    saved["runs"].append(runs[-1])
                    RESULTS.write_text(json.dumps(saved, indent=1) + "\n")
    print("\n".join(summary(runs)))


if __name__ == "__main__":
    main()
