"""Which details make PPO strong on the MuJoCo tasks? One change at a time, for a million steps.

    python benchmarks/ppo_study.py --workers 16 --runs data/ppo_study     # again: continues
    python benchmarks/ppo_study.py --only 'reference|raw' --env Hopper-v5
    python benchmarks/ppo_study.py --steps 300000 --env Hopper-v5         # shorter runs
    python benchmarks/ppo_study.py --table                                # print what is known

Every variant differs from the preset `spinup/presets/ppo-MuJoCo.json` in one detail, a few
in several, and the last two are whole recipes. What bench.py changes for single environments
is left out. Seeds 10, 11 and 12: presets are chosen here, so these seeds are never reported as
results (bench.py reports seeds 100 and up). The final policies play 20 episodes deterministically.
`results/ppo_study.json` keeps returns, curves and settings, run by run.
"""

import argparse
import json
import re
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

import bench
import learn

RESULTS = bench.ROOT / "benchmarks" / "results" / "ppo_study.json"
SEEDS = (10, 11, 12)
ENVS = bench.MUJOCO[:4]  # Swimmer needs another gamma
# name -> what is different, changed arguments (entries of ac_kwargs after a colon)
VARIANTS = {
    "reference": ("the preset", {}),
    "raw": (
        "nothing is normalized",
        {"ac_kwargs:normalize_obs": False, "ac_kwargs:normalize_ret": False},
    ),
    "no-obs": ("observations are not normalized", {"ac_kwargs:normalize_obs": False}),
    "no-ret": ("returns are not normalized", {"ac_kwargs:normalize_ret": False}),
    "usual-init": ("PyTorch's own initialization", {"ac_kwargs:orthogonal_init": False}),
    "more-noise": ("actions start with the usual noise (-0.5)", {"ac_kwargs:log_std_init": -0.5}),
    "lam-0.95": ("lam 0.95 instead of 0.97", {"lam": 0.95}),
    "kl-0.02": ("the policy may move twice as far", {"target_kl": 0.02}),
    "slow-policy": ("smaller steps of the policy (pi_lr 1e-4)", {"pi_lr": 1e-4}),
    "small-steps": (
        "the policy may move twice as far, in smaller steps (pi_lr 1e-4)",
        {"target_kl": 0.02, "pi_lr": 1e-4},
    ),
    "no-stop": ("no early stop, 10 passes", {"target_kl": None, "train_pi_iters": 10}),
    "batch-4000": ("4,000 steps per epoch", {"steps_per_epoch": 4000}),
    "annealed": ("learning rates fall to 0", {"anneal_lr": True}),
    "fast-then-slow": (
        "the policy may move twice as far, and learning rates fall to 0",
        {"target_kl": 0.02, "anneal_lr": True},
    ),
    "eight-envs": ("2,000 steps of 8 environments instead of one", {"num_envs": 8}),
    "eight-fast": (
        "8 environments, the policy may move twice as far, and learning rates fall to 0",
        {"num_envs": 8, "target_kl": 0.02, "anneal_lr": True},
    ),
    "clip-norm": ("gradients are clipped to norm 0.5", {"max_grad_norm": 0.5}),
    "clip-vf": ("values are clipped to 0.2", {"clip_vf": 0.2}),
    "slow-value": ("vf_lr 3e-4 instead of 1e-3", {"vf_lr": 3e-4}),
    "whole-batch": (
        "80 passes over the whole batch instead of 20 over minibatches",
        {"minibatch_size": None, "train_pi_iters": 80, "train_v_iters": 80},
    ),
    "original": (
        "the whole batch and more noise, as in the original",
        {
            "minibatch_size": None,
            "train_pi_iters": 80,
            "train_v_iters": 80,
            "ac_kwargs:log_std_init": -0.5,
        },
    ),
    "usual": (
        "ten passes over minibatches of 50 and more noise, as in most implementations",
        {
            "minibatch_size": 50,
            "train_pi_iters": 10,
            "train_v_iters": 10,
            "vf_lr": 3e-4,
            "lam": 0.95,
            "target_kl": None,
            "max_grad_norm": 0.5,
            "anneal_lr": True,
            "ac_kwargs:log_std_init": -0.5,
        },
    ),
}


def changed(name, steps):
    """Return the arguments of a variant."""
    preset = json.loads(bench.preset("ppo").read_text())
    return learn.of_length(bench.changed(preset, VARIANTS[name][1]), steps)


def full(config):
    """Return arguments with the two defaults that some variants name and others do not."""
    ac_kwargs = {"log_std_init": -0.5, **config["ac_kwargs"]}
    return {"minibatch_size": None, **config, "ac_kwargs": ac_kwargs}


def current(path):
    """Return the kept runs whose variant still means the arguments that they were trained with."""
    return [
        run
        for run in read(path)["runs"]
        if run["variant"] in VARIANTS
        and full(run["settings"]) == full(changed(run["variant"], run["steps"]))
    ]


def train(name, env, seed, steps, folder):
    """Train and play one run, in a process of its own; continue it if it was stopped."""
    import torch

    from spinup import ppo_pytorch

    torch.set_num_threads(1)
    folder = Path(folder, f"{name}-{env}-{steps}-s{seed}")
    config = changed(name, steps)
    if not (folder / ".finished").exists():
        resume = (folder / "progress.txt").exists()
        place = {"output_dir": str(folder), "quiet": True}
        ppo_pytorch(env, seed=seed, num_threads=1, resume=resume, logger_kwargs=place, **config)
    return {"variant": name, "env": env, "settings": config, **bench.play(folder, env, seed)}


def read(path):
    return json.loads(path.read_text()) if path.exists() else {"runs": []}


def table(runs):
    """Return the lines of a table for each length: the median return of each variant."""
    lines = []
    for steps in sorted({run["steps"] for run in runs}):
        shown = [run for run in runs if run["steps"] == steps]
        lines += [*["", f"After {steps:,} steps:", ""], *table_of(shown)]
    return lines


def table_of(runs):
    """Return the lines of a table of runs of the same length."""
    envs = [env for env in ENVS if any(run["env"] == env for run in runs)]
    lines = [f"| | | {' | '.join(envs)} |", "|---" * (2 + len(envs)) + "|"]
    for name, (what, _) in VARIANTS.items():
        cells = []
        for env in envs:
            found = [r["return"] for r in runs if (r["variant"], r["env"]) == (name, env)]
            shown = ", ".join(f"{value:,.0f}" for value in sorted(found))
            middle = f"**{statistics.median(found):,.0f}** ({shown})" if len(found) > 1 else shown
            cells.append(middle)
        if any(cells):
            lines.append(f"| {name} | {what} | {' | '.join(cells)} |")
    return lines


def main(argv=None):
    """Train what is missing, keep the results, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression for the names of variants")
    parser.add_argument("--env", action="append", choices=ENVS, help="may be repeated")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--steps", type=int, default=bench.STEPS)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runs", type=Path, default=bench.ROOT / "data" / "ppo_study")
    parser.add_argument("--out", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true", help="train nothing")
    args = parser.parse_args(argv)
    names = [name for name in VARIANTS if re.search(args.only, name)]
    if not names:
        parser.error(f"no variant matches '{args.only}': there are {', '.join(VARIANTS)}")
    if not args.table:
        wanted = [
            (name, env, seed, args.steps)
            for seed in args.seeds
            for name in names
            for env in args.env or ENVS
        ]
        done = {(r["variant"], r["env"], r["seed"], r["steps"]) for r in current(args.out)}
        with ProcessPoolExecutor(args.workers, get_context("spawn")) as pool:
            jobs = [pool.submit(train, *row, args.runs) for row in wanted if row not in done]
            for job in as_completed(jobs):
                keep(job.result(), args.out)
    print("\n".join(table(current(args.out))))


def keep(run, path):
    """Add a run to the results."""
    data = read(path)
    data |= {"versions": learn.versions(), "hardware": bench.hardware("cpu")}
    data["runs"].append(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(json.dumps(data, indent=1) + "\n")
    path.with_suffix(".new").replace(path)
    print(
        f"{run['variant']:18} {run['env']:15} seed {run['seed']}: {run['return']:8.0f}", flush=True
    )


if __name__ == "__main__":
    sys.exit(main())
