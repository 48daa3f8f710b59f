"""Details and their effect: what does one changed detail do to a run?

    python benchmarks/details.py                    # what has not been measured yet, cheapest first
    python benchmarks/details.py --only '^ppo' --workers 2
    python benchmarks/details.py --until 17:45      # start nothing after this time (UTC)
    python benchmarks/details.py --table ppo        # print what is known

For each algorithm, a short task is learned with reference settings, and again with one detail
changed: an argument, or a line of our own code (a mutant of the bug zoo). Three seeds each, one
process and one thread per run. `results/details.json` keeps every learning curve, the settings and
the machine, and is saved after each run. The tables in the algorithms' READMEs are written from it
by `make figures`.

Three seeds show large effects only. An effect counts as seen if all three runs are on the same side
of all three reference runs, which chance alone brings about in one case of ten.
"""

import argparse
import contextlib
import datetime
import json
import os
import platform
import re
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "details.json"
SEEDS = (0, 1, 2)
REFERENCE = "reference"

ON_CARTPOLE = {
    "env": "CartPole-v1",
    "ac_kwargs": {"hidden_sizes": [64, 64]},
    "num_threads": 1,
    "save_freq": 1000,
}
ON_PENDULUM = {
    **ON_CARTPOLE,
    "env": "Pendulum-v1",
    "steps_per_epoch": 500,
    "epochs": 10,
    "start_steps": 500,
    "update_after": 500,
    "batch_size": 64,
    "num_test_episodes": 3,
}
# algorithm -> the reference settings, and about how many seconds one run takes
BASES = {
    "reinforce": ({**ON_CARTPOLE, "steps_per_epoch": 1000, "epochs": 100, "pi_lr": 0.01}, 5),
    "vpg": (
        {
            **ON_CARTPOLE,
            "steps_per_epoch": 1000,
            "epochs": 60,
            "pi_lr": 0.01,
            "vf_lr": 0.003,
            "train_v_iters": 40,
        },
        6,
    ),
    "trpo": ({**ON_CARTPOLE, "steps_per_epoch": 1000, "epochs": 40, "vf_lr": 0.003}, 7),
    "ppo": (
        {
            **ON_CARTPOLE,
            "ac_kwargs": {"hidden_sizes": [64, 64], "orthogonal_init": True},
            "steps_per_epoch": 2000,
            "epochs": 25,
            "lam": 0.95,
            "pi_lr": 0.001,
            "minibatch_size": 250,
            "train_pi_iters": 10,
            "train_v_iters": 10,
            "target_kl": None,
            "anneal_lr": True,
            "max_grad_norm": 0.5,
        },
        5,
    ),
    "ddpg": (ON_PENDULUM, 14),
    "td3": (ON_PENDULUM, 15),
    "sac": (ON_PENDULUM, 22),
    "dqn": (
        {
            **ON_CARTPOLE,
            "steps_per_epoch": 1000,
            "epochs": 12,
            "q_lr": 0.001,
            "polyak": 0.99,
            "updates_per_step": 0.5,
            "eps_steps": 4000,
            "num_test_episodes": 3,
        },
        16,
    ),
    "acer": (
        {**ON_CARTPOLE, "steps_per_epoch": 2000, "epochs": 10, "num_test_episodes": 3},
        16,
    ),
    "her": (
        {
            **ON_CARTPOLE,
            "env": "spinup/BitFlip-v0",
            "env_kwargs": {"n": 10},
            "steps_per_epoch": 1000,
            "epochs": 8,
            "update_every": 4,
            "updates_per_step": 0.5,
            "num_test_episodes": 30,
        },
        16,
    ),
}


@dataclass(frozen=True)
class Detail:
    """One change: new values of arguments, or a mutant of the zoo."""

    algo: str
    name: str
    title: str
    change: dict = field(default_factory=dict)
    mutant: str = ""

    @property
    def id(self):
        return f"{self.algo}/{self.name}"


DETAILS = [
    Detail(
        "reinforce",
        "whole-return",
        "Credit actions with the whole return, not the rewards to go",
        {},
        "reinforce-not-to-go",
    ),
    Detail(
        "reinforce", "stale-baseline", "Keep the baseline of the first epoch", {}, "baseline-stale"
    ),
    Detail(
        "reinforce",
        "fewer-updates",
        "Collect four times as much data per update",
        {"steps_per_epoch": 4000, "epochs": 25},
    ),
    Detail("vpg", "no-value-function", "Never fit the value function", {"train_v_iters": 0}),
    Detail(
        "vpg",
        "few-value-steps",
        "Fit the value function with 5 steps instead of 40",
        {"train_v_iters": 5},
    ),
    Detail("vpg", "lambda-0", "Trust the value function fully", {"lam": 0.0}),
    Detail("vpg", "not-normalized", "Do not normalize the advantages", {}, "adv-not-normalised"),
    Detail(
        "trpo",
        "no-line-search",
        "Take the full step, without a line search (natural policy gradient)",
        {"algo": "npg"},
    ),
    Detail(
        "trpo", "one-cg-step", "One iteration of conjugate gradient instead of 10", {"cg_iters": 1}
    ),
    Detail("trpo", "small-region", "A trust region ten times smaller", {"delta": 0.001}),
    Detail("trpo", "large-region", "A trust region ten times larger", {"delta": 0.1}),
    Detail("ppo", "not-normalized", "Do not normalize the advantages", {}, "adv-not-normalised"),
    Detail(
        "ppo",
        "whole-batch",
        "Gradient steps on the whole batch instead of minibatches",
        {"minibatch_size": None},
    ),
    Detail(
        "ppo",
        "default-init",
        "PyTorch's initialization instead of the orthogonal one",
        {"ac_kwargs": {"hidden_sizes": [64, 64], "orthogonal_init": False}},
    ),
    Detail("ppo", "no-clip", "No clipping of the ratio", {"clip_ratio": 1000.0}),
    Detail("ppo", "narrow-clip", "Clip ten times closer to 1", {"clip_ratio": 0.02}),
    Detail("ppo", "constant-lr", "Do not decrease the learning rates", {"anneal_lr": False}),
    Detail("ddpg", "no-noise", "No exploration noise", {"act_noise": 0.0}),
    Detail("ddpg", "much-noise", "Five times as much exploration noise", {"act_noise": 0.5}),
    Detail("ddpg", "no-target", "No target network: copy it after every step", {"polyak": 0.0}),
    Detail("td3", "no-min", "The first critic instead of the smaller of two", {}, "td3-no-min"),
    Detail(
        "td3", "no-delay", "Update the policy with every step of the critics", {"policy_delay": 1}
    ),
    Detail("td3", "no-smoothing", "No noise on the target's actions", {"target_noise": 0.0}),
    Detail("sac", "learned-alpha", "Learn the temperature", {"alpha": "auto"}),
    Detail("sac", "large-alpha", "A temperature of 2 instead of 0.2", {"alpha": 2.0}),
    Detail(
        "sac",
        "no-entropy-in-target",
        "Leave the entropy out of the critics' target",
        {},
        "sac-no-entropy-in-target",
    ),
    Detail("sac", "max", "The larger of the two critics instead of the smaller", {}, "sac-max"),
    Detail(
        "dqn", "not-double", "The target network both chooses and evaluates", {"double_q": False}
    ),
    Detail("dqn", "one-step", "One-step returns instead of three-step", {"n_step": 1}),
    Detail("dqn", "no-target", "No target network: copy it after every step", {"polyak": 0.0}),
    Detail(
        "dqn",
        "rare-copies",
        "Copy the target network every 500 steps instead of averaging",
        {"polyak": 0.0, "target_update_every": 500},
    ),
    Detail("acer", "no-replay", "No replayed updates", {"replay_ratio": 0.0}),
    Detail("acer", "small-c", "Truncate ratios at 1 instead of 10", {"c": 1.0}),
    Detail(
        "acer",
        "no-correction",
        "Truncate at 1 and drop the correction",
        {"c": 1.0},
        "acer-no-correction",
    ),
    Detail("acer", "no-trust-region", "No trust region", {"delta": 1e6}),
    Detail("her", "no-hindsight", "No relabeled goals", {"k": 0}),
    Detail("her", "final", "Goals from the end of the episode only", {"strategy": "final"}),
    Detail(
        "her", "stale-reward", "Relabel the goals, but keep the rewards", {}, "her-reward-stale"
    ),
]


def arms():
    """Return all arms, the reference of each algorithm before its details, the cheapest first."""
    found = []
    for algo, (_, seconds) in BASES.items():
        changed = [detail for detail in DETAILS if detail.algo == algo]
        group = [Detail(algo, REFERENCE, "As it is"), *changed]
        found += [(i, seconds, detail) for i, detail in enumerate(group)]
    # references and first details of all algorithms, then the next ones: if time runs out, every
    # algorithm has some
    found.sort(key=lambda item: (max(1, item[0]), item[1]))
    return [detail for _, _, detail in found]


def settings(detail):
    """Return all arguments of an arm."""
    return {**BASES[detail.algo][0], **detail.change}


def measure(detail, seed):
    """Train once, in this process; return the learning curve and the time."""
    from spinup.envs.make import env_maker
    from spinup_lab import bugs as zoo
    from spinup_lab.exercises.exercise import resolve

    arguments = settings(detail)
    env_fn = env_maker(arguments.pop("env"), arguments.pop("env_kwargs", None))
    train = resolve(f"spinup.algos.pytorch.{detail.algo}.{detail.algo}:{detail.algo}")
    started = time.monotonic()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="details-"))
        if detail.mutant:
            stack.enter_context(zoo.applied(detail.mutant))
        logger = {"output_dir": folder, "quiet": True}
        train(env_fn, seed=seed, logger_kwargs=logger, **arguments)
        header, *rows = (
            line.split("\t") for line in Path(folder, "progress.txt").read_text().splitlines()
        )
    names = ("TestSuccessRate", "AverageTestEpRet", "AverageEpRet")
    column = next(name for name in names if name in header)
    curve = [round(float(row[header.index(column)]), 4) for row in rows]
    steps = [int(float(row[header.index("TotalEnvInteracts")])) for row in rows]
    return {
        "column": column,
        "steps": steps[-1],
        "curve": [value if value == value else None for value in curve],
        "seconds": round(time.monotonic() - started, 1),
    }


# ------------------------------------------------------------------------------------------ results


def load():
    """Return what was measured: id of the arm -> entry."""
    if RESULTS.exists():
        return json.loads(RESULTS.read_text(encoding="utf-8"))["arms"]
    return {}


def save(found):
    """Write the results, with what they were made with, in the order of the tables."""
    from benchmarks import learn

    order = [f"{algo}/{REFERENCE}" for algo in BASES] + [detail.id for detail in DETAILS]
    document = {
        "command": "python benchmarks/details.py",
        "hardware": {
            "machine": platform.machine(),
            "cpu": learn.processor(),
            "cores": os.cpu_count(),
        },
        "versions": learn.versions(),
        "arms": {key: found[key] for key in sorted(found, key=order.index)},
    }
    new = RESULTS.with_suffix(".new")
    text = json.dumps(document, indent=1)
    text = re.sub(r"\[\s+([^\[\]{}]*?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)
    new.write_text(text + "\n", encoding="utf-8")
    new.replace(RESULTS)


def mean(values):
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if known else float("nan")


def score(entry):
    """Return (mean over the whole run, mean over its last fifth) of each seed."""
    curves = [entry["runs"][seed]["curve"] for seed in sorted(entry["runs"])]
    return [mean(c) for c in curves], [mean(c[-max(1, len(c) // 5) :]) for c in curves]


def effect(reference, changed):
    """Return what three runs show: "better", "worse", "not seen", or "none" if nothing changed."""
    if changed == reference:
        return "none"
    if min(changed) > max(reference):
        return "better"
    return "worse" if max(changed) < min(reference) else "not seen"


def complete(entry):
    return set(entry["runs"]) == {str(seed) for seed in SEEDS}


def rows(algo, found=None):
    """Return (detail, scores of the whole run, of its end, effect on both) of complete arms."""
    found = load() if found is None else found
    key = f"{algo}/{REFERENCE}"
    if key not in found or not complete(found[key]):
        return []
    whole, end = score(found[key])
    table = [(Detail(algo, REFERENCE, "As it is"), whole, end, "", "")]
    for detail in DETAILS:
        if detail.algo == algo and detail.id in found and complete(found[detail.id]):
            w, e = score(found[detail.id])
            table.append((detail, w, e, effect(whole, w), effect(end, e)))
    return table


# --------------------------------------------------------------------------------------------- main


def main():
    """Measure what is missing, or print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="regular expression for ids such as ppo/no-clip")
    parser.add_argument("--workers", type=int, default=1, help="runs trained at the same time")
    parser.add_argument("--until", help="HH:MM in UTC: start no run after this time")
    parser.add_argument("--again", action="store_true", help="also what has been measured")
    parser.add_argument("--table", metavar="ALGO", help="print what is known; train nothing")
    args = parser.parse_args()
    if args.table:
        for detail, whole, end, *seen in rows(args.table):
            numbers = ["  ".join(f"{v:8.4g}" for v in values) for values in (whole, end)]
            print(f"{detail.name:22} {numbers[0]}  |  {numbers[1]}  {' / '.join(seen)}")
        return 0
    found = load()
    waiting = []
    for detail in arms():
        entry = found.get(detail.id)
        wanted = {"settings": settings(detail), "mutant": detail.mutant}
        if entry and {key: entry[key] for key in wanted} != json.loads(json.dumps(wanted)):
            entry = None  # of other settings
        if args.again or not entry:
            entry = {**wanted, "runs": {}}
        todo = [seed for seed in SEEDS if str(seed) not in entry["runs"]]
        if re.search(args.only, detail.id) and todo:
            found[detail.id] = entry
            waiting += [(detail, seed) for seed in todo]
    if args.until:
        hour, minute = map(int, args.until.split(":"))
        now = datetime.datetime.now(datetime.timezone.utc)
        stop = now.replace(hour=hour, minute=minute, second=0)
    waiting.reverse()
    with ProcessPoolExecutor(args.workers, get_context("spawn")) as pool:
        running = {}
        while waiting or running:
            late = args.until and datetime.datetime.now(datetime.timezone.utc) >= stop
            while waiting and not late and len(running) < args.workers:
                detail, seed = waiting.pop()
                running[pool.submit(measure, detail, seed)] = (detail, seed)
            if not running:
                break
            done = next(as_completed(running))
            detail, seed = running.pop(done)
            entry = found[detail.id]
            entry["runs"] = dict(sorted({**entry["runs"], str(seed): done.result()}.items()))
            save({key: value for key, value in found.items() if value["runs"]})
            run = entry["runs"][str(seed)]
            last = mean(run["curve"][-max(1, len(run["curve"]) // 5) :])
            print(f"{detail.id} seed {seed}: {last:.4g}, {run['seconds']} s", flush=True)
    print(f"{len(waiting)} runs are left")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.setdefault("MKL_NUM_THREADS", "1")
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    sys.exit(main())
