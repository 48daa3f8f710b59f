"""Record the runs that are shipped with the exercises, in spinup_lab/exercises/recorded_runs.

    python benchmarks/record_exercises.py                      # those that are missing
    python benchmarks/record_exercises.py vpg.exp_train_v_iters bug-pi-sign --again

Experiments are recorded with all their arms and seeds, with the compared column and a few others;
bugs with three healthy and three faulty runs and all columns. One process, one thread: the whole of
it takes about an hour on a slow machine.
"""

import argparse
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from spinup.envs.make import env_maker
from spinup_lab import bugs as zoo
from spinup_lab.exercises import recorded
from spinup_lab.exercises.exercise import resolve
from spinup_lab.exercises.experiments import Experiment
from spinup_lab.exercises.tasks import load

# healthy runs -> algorithm, arguments, and the faults that are recorded with the same arguments
CARTPOLE = {
    "env_name": "CartPole-v1",
    "ac_kwargs": {"hidden_sizes": [32, 32]},
    "steps_per_epoch": 1000,
    "num_threads": 1,
    "save_freq": 1000,
}
PENDULUM = {
    **CARTPOLE,
    "env_name": "Pendulum-v1",
    "epochs": 4,
    "start_steps": 500,
    "update_after": 500,
    "batch_size": 64,
    "num_test_episodes": 3,
}
BUGS = {
    "healthy-vpg": ("vpg", {**CARTPOLE, "epochs": 12, "pi_lr": 0.01}, ("pg-sign",)),
    "healthy-ppo": (
        "ppo",
        {**CARTPOLE, "epochs": 10},
        ("policy-detached", "value-fits-advantage", "ppo-clip-without-adv", "ppo-ratio-inverted"),
    ),
    "healthy-ppo-entropy": (
        "ppo",
        {**CARTPOLE, "epochs": 10, "ent_coef": 0.1},
        ("ppo-entropy-sign",),
    ),
    "healthy-ppo-gamma": (
        "ppo",
        {**CARTPOLE, "epochs": 10, "gamma": 0.9},
        ("returns-undiscounted",),
    ),
    "healthy-dqn": (
        "dqn",
        {
            **CARTPOLE,
            "epochs": 8,
            "start_steps": 500,
            "update_after": 500,
            "eps_steps": 3000,
            "q_lr": 1e-3,
            "polyak": 0.98,
            "num_test_episodes": 3,
        },
        ("no-done-mask", "dqn-nstep-gamma", "dqn-target-clipped"),
    ),
    "healthy-ddpg": ("ddpg", PENDULUM, ("pi-sign", "column-critic")),
    "healthy-sac": (
        "sac",
        {**PENDULUM, "alpha": "auto"},
        ("sac-alpha-sign", "sac-target-entropy-sign"),
    ),
    "healthy-her": (
        "her",
        {
            **CARTPOLE,
            "env_name": "spinup/BitFlip-v0",
            "env_kwargs": {"n": 6},
            "epochs": 4,
            "start_steps": 300,
            "update_after": 300,
            "update_every": 4,
            "updates_per_step": 0.5,
            "num_test_episodes": 20,
        },
        ("her-reward-stale",),
    ),
}
SEEDS = 3
NOT_SHIPPED = ("Time", "EpochTime")

FEW = ("Epoch", "AverageEpRet", "AverageTestEpRet", "TestSuccessRate", "TotalEnvInteracts", "KL")


def record_experiment(task):
    """Make the runs of an experiment, and keep the columns that matter."""
    folder = Path(tempfile.mkdtemp(prefix="record-"))
    task.make_runs(folder)
    runs = []
    for arm in task.arms:
        for place in sorted(folder.joinpath(recorded.slug(arm.name)).glob("*/progress.txt")):
            header, *rows = (line.split("\t") for line in place.read_text().splitlines())
            keep = [
                i for i, name in enumerate(header) if task.measure or name in (*FEW, task.value)
            ]
            seed = json.loads(place.with_name("config.json").read_text())["seed"]
            config = {"env": _env(task), **_plain({**task.settings, **arm.settings})}
            columns = tuple(header[i] for i in keep)
            table = tuple(tuple(float(row[i]) for i in keep) for row in rows)
            runs.append(recorded.RecordedRun(arm.name, seed, config, columns, table))
    shutil.rmtree(folder)
    return recorded.save(task.id, runs)


def record_bug(healthy, mutant=None):
    """Make three runs, with a fault or without, and keep all columns."""
    algo, settings, _ = BUGS[healthy]
    arguments = dict(settings)
    arguments["env_fn"] = env_maker(arguments.pop("env_name"), arguments.pop("env_kwargs", None))
    train = resolve(f"spinup.algos.pytorch.{algo}.{algo}:{algo}")
    runs = []
    for seed in range(SEEDS):
        folder = Path(tempfile.mkdtemp(prefix="record-"))
        fault = zoo.applied(mutant) if mutant else contextlib.nullcontext()
        with fault:
            train(**arguments, seed=seed, logger_kwargs={"output_dir": str(folder)}, overwrite=True)
        header, *rows = (
            line.split("\t") for line in folder.joinpath("progress.txt").read_text().splitlines()
        )
        shutil.rmtree(folder)
        keep = [i for i, name in enumerate(header) if name not in NOT_SHIPPED]
        columns = tuple(header[i] for i in keep)
        table = tuple(tuple(float(row[i]) for i in keep) for row in rows)
        config = {"env": settings["env_name"], **_plain(settings)}
        group = "faulty" if mutant else "healthy"
        runs.append(recorded.RecordedRun(group, seed, config, columns, table))
    return recorded.save(f"bug-{mutant}" if mutant else healthy, runs)


def _env(task):
    return task.settings.get("env_name") or task.measure.partition(":")[2]


def _plain(settings):
    return {key: value for key, value in settings.items() if key not in ("env_fn", "env_name")}


def main():
    """Record what the command line names, or what is missing."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="experiments and bugs (default: all)")
    parser.add_argument("--again", action="store_true", help="also those that are recorded already")
    args = parser.parse_args()
    jobs = {
        task.id: partial(record_experiment, task)
        for task in load().values()
        if isinstance(task, Experiment)
    }
    for healthy, (_, _, mutants) in BUGS.items():
        jobs[healthy] = partial(record_bug, healthy)
        for mutant in mutants:
            jobs[f"bug-{mutant}"] = partial(record_bug, healthy, mutant)
    for name, job in jobs.items():
        if args.names and name not in args.names:
            continue
        if recorded.exists(name) and not args.again:
            continue
        started = time.time()
        with open(os.devnull, "w") as nowhere:
            sys.stdout = nowhere
            try:
                path = job()
            finally:
                sys.stdout = sys.__stdout__
        print(f"{name}: {path.stat().st_size} bytes, {time.time() - started:.0f} s", flush=True)


if __name__ == "__main__":
    main()
