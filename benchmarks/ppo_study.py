"""Which details make PPO strong on the MuJoCo tasks? One change at a time, for a million steps.

    python benchmarks/ppo_study.py --workers 16 --runs data/ppo_study     # again: continues
    python benchmarks/ppo_study.py --only 'reference|raw' --env Hopper-v5
    python benchmarks/ppo_study.py --steps 300000 --env Hopper-v5         # shorter runs
    python benchmarks/ppo_study.py --table                                # print what is known

Every variant differs from the preset `spinup/presets/ppo-MuJoCo.json` in one detail. The rows of
EARLIER are what was tried before this preset was found; they are trained only if `--only` names
them. What bench.py changes for single environments is left out. Seeds 10, 11 and 12: presets are
chosen here, so these seeds are never reported as results (bench.py reports seeds 100 and up). The
final policies play 20 episodes deterministically. `results/ppo_study.json` keeps returns, curves
and settings, run by run.
"""

import argparse
import json
import re
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks import bench, learn

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
    "less-noise": ("actions start with less noise (-1)", {"ac_kwargs:log_std_init": -1.0}),
    "one-env": ("2,000 steps of one environment instead of eight", {"num_envs": 1}),
    "large-minibatches": (
        "20 passes over minibatches of 250 instead of 10 over 64",
        {"minibatch_size": 250, "train_pi_iters": 20, "train_v_iters": 20},
    ),
    "whole-batch": (
        "80 passes over the whole batch",
        {"minibatch_size": None, "train_pi_iters": 80, "train_v_iters": 80},
    ),
    "constant": ("learning rates do not fall", {"anneal_lr": False}),
    "kl-0.01": ("the policy may move half as far (target_kl 0.01)", {"target_kl": 0.01}),
    "no-stop": ("no early stop", {"target_kl": None}),
    "lam-0.97": ("lam 0.97 instead of 0.95", {"lam": 0.97}),
    "slow-value": ("vf_lr 3e-4 instead of 1e-3", {"vf_lr": 3e-4}),
    "clip-norm": ("gradients are clipped to norm 0.5", {"max_grad_norm": 0.5}),
    "clip-vf": ("values are clipped to 0.2", {"clip_vf": 0.2}),
    "batch-4000": ("4,000 steps per epoch", {"steps_per_epoch": 4000}),
}
# What was tried before this preset was found: each row starts from the first preset.
FIRST = {
    "num_envs": 1,
    "minibatch_size": 250,
    "train_pi_iters": 20,
    "train_v_iters": 20,
    "lam": 0.97,
    "target_kl": 0.01,
    "anneal_lr": False,
    "ac_kwargs:log_std_init": -1.0,
}
# What differs between the first preset and today's, besides target_kl and the noise.
TODAY = {
    "num_envs": 8,
    "minibatch_size": 64,
    "train_pi_iters": 10,
    "train_v_iters": 10,
    "lam": 0.95,
    "anneal_lr": True,
}
EARLIER = {
    "first": (
        "one environment, minibatches of 250, constant rates, lam 0.97, target_kl 0.01, noise -1",
        {},
    ),
    "original": (
        "80 passes over the whole batch, and more noise, as in the original",
        {
            "minibatch_size": None,
            "train_pi_iters": 80,
            "train_v_iters": 80,
            "ac_kwargs:log_std_init": -0.5,
        },
    ),
    "usual": (
        "10 passes over minibatches of 50, no early stop, more noise, as in most implementations",
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
    "first-raw": (
        "nothing is normalized",
        {"ac_kwargs:normalize_obs": False, "ac_kwargs:normalize_ret": False},
    ),
    "first-more-noise": ("actions start with the usual noise", {"ac_kwargs:log_std_init": -0.5}),
    "first-whole-batch": (
        "80 passes over the whole batch",
        {"minibatch_size": None, "train_pi_iters": 80, "train_v_iters": 80},
    ),
    "first-slow-policy": ("smaller steps of the policy (pi_lr 1e-4)", {"pi_lr": 1e-4}),
    "first-kl-0.02": ("the policy may move twice as far", {"target_kl": 0.02}),
    "small-steps": (
        "the policy may move twice as far, in smaller steps (pi_lr 1e-4)",
        {"target_kl": 0.02, "pi_lr": 1e-4},
    ),
    "first-annealed": ("learning rates fall to 0", {"anneal_lr": True}),
    "fast-then-slow": (
        "the policy may move twice as far, and learning rates fall to 0",
        {"target_kl": 0.02, "anneal_lr": True},
    ),
    "eight-envs": ("8 environments", {"num_envs": 8}),
    "eight-small": (
        "8 environments, twice as far, pi_lr 1e-4",
        {"num_envs": 8, "target_kl": 0.02, "pi_lr": 1e-4},
    ),
    "eight-small-annealed": (
        "8 environments, twice as far, pi_lr 1e-4, learning rates fall to 0",
        {"num_envs": 8, "target_kl": 0.02, "pi_lr": 1e-4, "anneal_lr": True},
    ),
    "eight-fast": (
        "8 environments, twice as far, learning rates fall to 0",
        {"num_envs": 8, "target_kl": 0.02, "anneal_lr": True},
    ),
    "twenty-fast": (
        "20 environments, twice as far, learning rates fall to 0",
        {"num_envs": 20, "target_kl": 0.02, "anneal_lr": True},
    ),
    "eight-fast-noise": (
        "8 environments, twice as far, learning rates fall to 0, the usual noise",
        {"num_envs": 8, "target_kl": 0.02, "anneal_lr": True, "ac_kwargs:log_std_init": -0.5},
    ),
    "eight-fast-lam-0.95": (
        "8 environments, twice as far, learning rates fall to 0, lam 0.95",
        {"num_envs": 8, "target_kl": 0.02, "anneal_lr": True, "lam": 0.95},
    ),
    "less-noise-kl-0.01": (
        "the preset of today with less noise (-1) and target_kl 0.01",
        {**TODAY, "target_kl": 0.01},
    ),
    "less-noise-kl-0.03": (
        "the preset of today with less noise and target_kl 0.03",
        {**TODAY, "target_kl": 0.03},
    ),
    "less-noise-no-stop": (
        "the preset of today with less noise and no early stop",
        {**TODAY, "target_kl": None},
    ),
}
ALL = {**VARIANTS, **{name: (what, {**FIRST, **new}) for name, (what, new) in EARLIER.items()}}
# Arguments that some variants name and others leave at their defaults.
DEFAULTS = {"minibatch_size": None, "num_envs": 1, "anneal_lr": False, "max_grad_norm": None}
DEFAULTS |= {"clip_vf": None}


def changed(name, steps):
    """Return the arguments of a variant."""
    preset = json.loads(bench.preset("ppo").read_text())
    return learn.of_length(bench.changed(preset, ALL[name][1]), steps)


def full(config):
    """Return arguments with the defaults that some variants name and others do not."""
    ac_kwargs = {"log_std_init": -0.5, **config["ac_kwargs"]}
    return {**DEFAULTS, **config, "ac_kwargs": ac_kwargs}


def current(path):
    """Return the kept runs, each under the variant that has its arguments; leave out the others."""
    runs = read(path)["runs"]
    names = [(full(changed(name, n)), name) for n in {r["steps"] for r in runs} for name in ALL]
    found = [[name for config, name in names if config == full(r["settings"])] for r in runs]
    return [run | {"variant": same[0]} for run, same in zip(runs, found, strict=True) if same]


def train(name, env, seed, steps, folder):
    """Train and play one run, in a process of its own; continue it if it was stopped."""
    config = changed(name, steps)
    reached = bench.train_alone("ppo", env, config, seed, folder)
    return {"variant": name, "env": env, "settings": config, **reached}


def read(path):
    return json.loads(path.read_text()) if path.exists() else {"runs": []}


def tables(runs, variants):
    """Return the lines of a table for each length: the median return of each variant."""
    runs = [run for run in runs if run["variant"] in variants]
    lines = []
    for steps in sorted({run["steps"] for run in runs}):
        shown = [run for run in runs if run["steps"] == steps]
        lines += [*["", f"After {steps:,} steps:", ""], *table_of(shown, variants)]
    return lines


def table_of(runs, variants):
    """Return the lines of a table of runs of the same length."""
    envs = [env for env in ENVS if any(run["env"] == env for run in runs)]
    lines = [f"| | | {' | '.join(envs)} |", "|---" * (2 + len(envs)) + "|"]
    for name, (what, _) in variants.items():
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
    names = [name for name in (ALL if args.only else VARIANTS) if re.search(args.only, name)]
    if not names:
        parser.error(f"no variant matches '{args.only}': there are {', '.join(ALL)}")
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
                run = job.result()
                what = f"{run['variant']:18} {run['env']:15} seed {run['seed']}"
                print(f"{what}: {run['return']:8.0f}", flush=True)
                keep(run, args.out)
    runs = current(args.out)
    print("\n".join([*tables(runs, VARIANTS), *tables(runs, EARLIER)]))


def one_run_per_line(data):
    """Return results as JSON whose runs are one line each."""
    others = json.dumps({key: value for key, value in data.items() if key != "runs"}, indent=1)
    runs = ",\n".join(json.dumps(run) for run in data["runs"])
    return f'{others[:-2]},\n "runs": [\n{runs}\n]}}\n'


def keep(run, path):
    """Add a run to the results."""
    data = read(path)
    data |= {"versions": learn.versions(), "hardware": bench.hardware("cpu")}
    data["runs"].append(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".new").write_text(one_run_per_line(data))
    path.with_suffix(".new").replace(path)


if __name__ == "__main__":
    sys.exit(main())
