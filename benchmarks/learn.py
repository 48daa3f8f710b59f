"""Learning gates: does each algorithm reach the return it should, with three seeds?

    python benchmarks/learn.py                      # every row of the table
    python benchmarks/learn.py ppo CartPole-v1      # one row
    python benchmarks/learn.py trpo                 # all rows of one algorithm
    python benchmarks/learn.py ppo_tf1              # the same presets on TensorFlow
    python benchmarks/learn.py --also fresh         # seeds 100, 101 and 102, for all rows
    python benchmarks/learn.py sac HalfCheetah-v5 --also compiled

Each row has one preset (`spinup/presets/<algo>-<env>.json`). A gate trains seeds 0, 1 and 2 for the
row's number of environment steps, then plays the FINAL policy deterministically in a fresh
environment. Pass: the median seed reaches the pass value and no seed is below 60 % of it (negative
returns: none more than 1.5 times worse). Stretch: the mean over seeds. Everything is written to
`benchmarks/results/learn/`: returns, command, versions, hyperparameters, wall time. In goal
environments an episode counts 1 when it ends at its goal and 0 when it does not (`is_success`), so
that the "return" is the success rate.

Some presets were chosen on the seeds 0, 1 and 2 (README.md says which), so their returns are
optimistic. `--also fresh` therefore adds the returns of three seeds that nobody chose by, and
`--also compiled` those of compiled runs (DDPG, TD3, SAC, DQN), by the same rules; a row's file then
has an entry of that name.

Rows with images take hours on a CPU: name them, `--device cuda`, and a folder for their runs with
`--keep`. The same command again resumes runs that were stopped.
"""

import argparse
import contextlib
import importlib.metadata
import json
import math
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "learn"
SEEDS = (0, 1, 2)
FRESH = (100, 101, 102)
# what can be added to a row -> seeds, arguments over the preset
ALSO = {"fresh": (FRESH, {}), "compiled": (FRESH, {"compile": True})}
COMPILED = ("ddpg", "td3", "sac", "dqn")  # the algorithms that can be compiled

# algorithm, environment, steps, pass value, stretch value (mean over the seeds)
GATES = [
    ("reinforce", "CartPole-v1", 200_000, 400, 480),
    ("vpg", "CartPole-v1", 100_000, 400, 475),
    ("vpg", "Hopper-v5", 300_000, 190, 400),
    ("trpo", "CartPole-v1", 50_000, 475, 500),
    ("trpo", "Acrobot-v1", 100_000, -100, -83),
    ("trpo", "InvertedPendulum-v5", 100_000, 800, 950),
    ("trpo", "Hopper-v5", 300_000, 900, 1800),
    ("ppo", "CartPole-v1", 100_000, 475, 500),
    ("ppo", "Acrobot-v1", 100_000, -95, -81),
    ("ppo", "Pendulum-v1", 100_000, -250, -170),
    ("ppo", "InvertedPendulum-v5", 100_000, 850, 1000),
    ("ppo", "HalfCheetah-v5", 300_000, 800, 3500),
    ("ppo", "Hopper-v5", 300_000, 700, 1850),
    ("ddpg", "Pendulum-v1", 20_000, -250, -160),
    ("ddpg", "HalfCheetah-v5", 100_000, 3300, 4800),
    ("td3", "Pendulum-v1", 15_000, -200, -155),
    ("td3", "InvertedPendulum-v5", 50_000, 950, 1000),
    ("td3", "HalfCheetah-v5", 100_000, 4500, 5500),
    ("td3", "Hopper-v5", 300_000, 900, 2400),
    ("sac", "Pendulum-v1", 10_000, -200, -150),
    ("sac", "InvertedPendulum-v5", 30_000, 950, 1000),
    ("sac", "HalfCheetah-v5", 100_000, 5000, 6200),
    ("sac", "Hopper-v5", 200_000, 1200, 2300),
    ("dqn", "CartPole-v1", 50_000, 450, 500),
    ("dqn", "Acrobot-v1", 100_000, -95, -75),
    ("acer", "CartPole-v1", 300_000, 450, 498),
    ("acer", "Acrobot-v1", 500_000, -100, -90),
    ("acer", "Pendulum-v1", 100_000, -250, -170),
    ("her", "spinup/BitFlip-v0", 40_000, 0.8, 0.95),
]
# The TensorFlow twins: the same presets, on the environments that need no minutes per seed.
SHORT = ("CartPole-v1", "Pendulum-v1", "InvertedPendulum-v5")
TWINS = ("vpg", "trpo", "ppo", "ddpg", "td3", "sac")
GATES += [
    (f"{algo}_tf1", env, *rest) for algo, env, *rest in GATES if algo in TWINS and env in SHORT
]
# Rows that need more than this project installs; they run only when they are named.
ON_DEMAND = [
    ("her", "FetchReach-v4", 10_000, 0.9, 1.0),  # gymnasium-robotics, which needs mujoco < 4
    ("ppo", "MinAtar/Breakout-v1", 1_000_000, 14, 28),
    ("ppo", "MinAtar/Asterix-v1", 10_000_000, 7.5, 15),
    ("ppo", "MinAtar/Freeway-v1", 10_000_000, 29, 58),
    ("ppo", "MinAtar/SpaceInvaders-v1", 10_000_000, 65.5, 131),
    ("dqn", "MinAtar/Breakout-v1", 1_000_000, 8, 15),
    ("ppo", "ALE/Pong-v5", 10_000_000, 18, 20),
    ("dqn", "ALE/Pong-v5", 10_000_000, 18, 20),
    ("ppo", "ALE/Breakout-v5", 10_000_000, 300, 400),
    ("dqn", "ALE/Breakout-v5", 10_000_000, 300, 400),
]


def file_name(algo, env):
    """The name of a row's preset and of its result; a namespace before the id is left out."""
    return f"{algo}-{env.rpartition('/')[2]}.json"


def preset_path(algo, env):
    """The hyperparameters of a row; both backends have the same."""
    name = file_name(algo.removesuffix("_tf1"), env)
    return Path(__file__).parents[1] / "spinup" / "presets" / name


def of_length(config, steps):
    """Return arguments with as many epochs as take this number of steps."""
    per_epoch = config.get("steps_per_epoch", 4000)
    epochs, rest = divmod(steps, per_epoch)
    assert rest == 0, f"{per_epoch} steps an epoch do not divide {steps}"
    return {**config, "epochs": epochs}


def train(algo, env_id, config, folder, **execution):
    """Train in this process, with the arguments of a preset."""
    from spinup import registry
    from spinup.envs import make_env
    from spinup.policies.activations import activation

    name, backend = registry.resolve(algo)
    ac_kwargs = dict(config.get("ac_kwargs", {}))
    if "activation" in ac_kwargs:
        ac_kwargs["activation"] = activation(ac_kwargs["activation"], backend)
    registry.load(name, backend)(
        lambda: make_env(env_id),
        logger_kwargs={"output_dir": str(folder), "quiet": True},
        **{**config, "ac_kwargs": ac_kwargs},
        **execution,
    )


def play(folder, env_id, episodes, longest=1000, goal_env=False):
    """Return what the final policy of a run reaches in a fresh environment, episode by episode."""
    from spinup.envs import adapt_env, make_env
    from spinup.policies.loading import load_policy_and_env

    _, get_action = load_policy_and_env(folder, None, deterministic=True)
    env, returns = adapt_env(make_env(env_id)), []
    longest = getattr(env.unwrapped, "max_ep_len", longest)
    for episode in range(episodes):
        o, ret = env.reset(seed=1_000_000 + episode)[0], 0.0
        for _ in range(longest):
            o, r, terminated, truncated, info = env.step(get_action(o))
            ret += float(r)
            if terminated or truncated:
                break
        returns.append(float(info["is_success"]) if goal_env else ret)
    env.close()
    return returns


def table(folder):
    """Return a run's log: column -> values."""
    header, *lines = Path(folder, "progress.txt").read_text().splitlines()
    columns = zip(*(line.split("\t") for line in lines), strict=True)
    names = header.split("\t")
    return {k: list(map(float, column)) for k, column in zip(names, columns, strict=True)}


def thinned(values, points, digits=1):
    """Return about `points` of a curve's values, rounded, with None for those that are unknown."""
    every = max(1, len(values) // points)
    return [None if math.isnan(x) else round(x, digits) for x in values[every - 1 :: every]]


def train_and_evaluate(algo, env_id, steps, seed, overrides, device="cpu", keep=None):
    """One seed, in this process: train for `steps`, play the final policy, return what happened."""
    from spinup import registry

    config = {**json.loads(preset_path(algo, env_id).read_text()), **overrides}
    assert config.pop("env", env_id) == env_id
    config = of_length(config, steps)
    kept = Path(keep, f"{file_name(algo, env_id)[:-5]}-s{seed}") if keep else None
    if kept and (kept / "progress.txt").exists():
        config["resume"] = True
    goal_env = registry.get(registry.resolve(algo)[0]).observation == "goal"
    episodes = 100 if env_id == "Pendulum-v1" or goal_env else 20
    with contextlib.ExitStack() as stack:
        folder = kept or stack.enter_context(tempfile.TemporaryDirectory())
        stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        train(algo, env_id, config, folder, seed=seed, device=device)
        returns = play(folder, env_id, episodes, config.get("max_ep_len", 1000), goal_env)
        log = table(folder)
    return {
        "seed": seed,
        "return": statistics.fmean(returns),
        "episodes": len(returns),
        "std": statistics.pstdev(returns),
        "steps": int(log["TotalEnvInteracts"][-1]),
        "train_seconds": round(log["Time"][-1], 1),
        "training_curve": thinned(log["AverageEpRet"], 25),
    }


def verdict(returns, goal, stretch):
    """Pass and stretch, by the rules at the top of this file."""
    floor = 0.6 * goal if goal >= 0 else 1.5 * goal
    passed = statistics.median(returns) >= goal and min(returns) >= floor
    return {"pass": passed, "stretch": statistics.mean(returns) >= stretch}


def run_gate(gate, pool, overrides, execution, also=None):
    """All seeds of a row, each in a process of its own with one thread; writes the result."""
    algo, env_id, steps, goal, stretch = gate
    seeds, more = ALSO[also] if also else (SEEDS, {})
    words = ["python benchmarks/learn.py", algo, env_id, *(["--also", also] if also else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    def one(seed):
        command = [sys.executable, __file__, "--one", algo, env_id, str(steps), str(seed)]
        done = subprocess.run(
            [*command, json.dumps({**overrides, **more}), json.dumps(execution)],
            capture_output=True,
            text=True,
            env=environment,
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
        return json.loads(done.stdout.splitlines()[-1])

    def gather(futures, start):
        runs = [future.result() for future in futures]
        returns = [run["return"] for run in runs]
        result = {
            "algo": algo,
            "env": env_id,
            "steps": steps,
            "pass_value": goal,
            "stretch_value": stretch,
            **verdict(returns, goal, stretch),
            "returns": returns,
            "median": statistics.median(returns),
            "mean": statistics.mean(returns),
            "runs": runs,
            "preset": f"spinup/presets/{preset_path(algo, env_id).name}",
            "hyperparameters": {
                **json.loads(preset_path(algo, env_id).read_text()),
                **overrides,
                **more,
            },
            "command": " ".join(words),
            "device": device_name(execution["device"]),
            "wall_seconds": round(time.monotonic() - start, 1),
            "versions": versions(),
        }
        shown = ", ".join(f"{r:.4g}" for r in returns)
        marks = f"pass {goal}: {result['pass']}, stretch {stretch}: {result['stretch']}"
        print(f"{algo:10s} {env_id:20s} {steps:7d} steps: {shown} ({marks})", flush=True)
        if not overrides:
            RESULTS.mkdir(parents=True, exist_ok=True)
            path = RESULTS / file_name(algo, env_id)
            old = json.loads(path.read_text()) if path.exists() else {}
            path.write_text(json.dumps(merged(old, result, also), indent=2) + "\n")
            write_reached()
        return result

    start = time.monotonic()
    futures = [pool.submit(one, seed) for seed in seeds]
    return lambda: gather(futures, start)


def merged(old, result, also):
    """Return a row's file with a new result in it; additions of another preset are dropped."""
    if also:
        return {**old, also: result}
    preset = result["hyperparameters"]
    added = {name: old[name] for name in ALSO if name in old}
    same = {k: x for k, x in added.items() if x["hyperparameters"] == {**preset, **ALSO[k][1]}}
    return {**result, **same}


def reached():
    """What each preset reached, as `spinup presets` shows it: a short copy of the results."""
    found = {}
    for path in sorted(RESULTS.glob("*.json")):
        result = json.loads(path.read_text())
        if result["algo"].endswith("_tf1"):
            continue  # the presets are the same
        found[path.stem] = {
            "steps": result["steps"],
            "of": "success rate" if result["algo"] == "her" else "return",
            "returns": [round(value, 2) for value in result["returns"]],
        }
    for path in sorted(RESULTS.with_name("bench").glob("*.json")):  # of bench.py: one preset each
        row = json.loads(path.read_text())
        if not row["algo"].endswith("_tf1"):
            entry = {"steps": row["steps"], "of": "return", "flags": {}, "environments": {}}
            known = found.setdefault(f"{row['algo']}-MuJoCo", entry)
            runs = {str(run["seed"]): run["return"] for run in row["runs"]}
            known["environments"][row["env"]] = runs
            preset = json.loads(preset_path(row["algo"], "MuJoCo").read_text())
            changes = differing(row["settings"], preset)
            known["flags"][row["env"]] = " ".join(f"--{key} {changes[key]}" for key in changes)
    return found


def differing(config, other):
    """Return the arguments of `config` that `other` has otherwise; None: it leaves one out."""
    mine, others = flat(config), flat(other)
    keys = sorted(mine | others)
    return {key: mine.get(key) for key in keys if mine.get(key) != others.get(key)}


def flat(config):
    """Return arguments as flags name them: `ac_kwargs:log_std_init` is an entry of a dict."""
    inner = {f"ac_kwargs:{key}": value for key, value in config.get("ac_kwargs", {}).items()}
    return {**{key: value for key, value in config.items() if key != "ac_kwargs"}, **inner}


def write_reached():
    """Write the table that is shipped with the presets."""
    text = json.dumps(reached(), indent=2) + "\n"
    preset_path("reached", "x").with_name("reached.json").write_text(text)


def processor():
    """The name of this machine's processor."""
    if Path("/proc/cpuinfo").exists():
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def device_name(device):
    """The CPU, or the name of the GPU."""
    import torch

    return torch.cuda.get_device_name() if device == "cuda" else device


def versions():
    """What the figures were made with."""
    import gymnasium
    import numpy
    import torch

    import spinup

    found = {
        "python": platform.python_version(),
        "spinup": spinup.__version__,
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "gymnasium": gymnasium.__version__,
    }
    packages = ("mujoco", "gymnasium-robotics", "ale-py", "minatar", "tensorflow-cpu", "tensorflow")
    for package in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[package] = importlib.metadata.version(package)
    return found


def main():
    """Run the chosen rows; exit with 1 when one does not pass."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("algo", nargs="?")
    parser.add_argument("env", nargs="?")
    parser.add_argument("--jobs", type=int, default=2, help="seeds trained at the same time")
    parser.add_argument(
        "--try",
        dest="overrides",
        type=json.loads,
        default={},
        metavar="JSON",
        help="hyperparameters to try over the preset; nothing is written",
    )
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--keep", help="folder for the runs, which are resumed if they are there")
    parser.add_argument("--also", choices=ALSO, help="add these runs to the rows")
    parser.add_argument("--one", nargs=6, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        algo, env_id, steps, seed, overrides, execution = args.one
        given = {**json.loads(execution), "overrides": json.loads(overrides)}
        result = train_and_evaluate(algo, env_id, int(steps), int(seed), **given)
        print(json.dumps(result))
        return 0
    gates = [
        gate
        for gate in GATES
        if args.algo in (None, "", gate[0]) and args.env in (None, "", gate[1])
    ]
    gates += [gate for gate in ON_DEMAND if (args.algo, args.env) == gate[:2]]
    if args.also == "compiled":
        gates = [gate for gate in gates if gate[0] in COMPILED]
    if args.also:
        gates = [gate for gate in gates if (RESULTS / file_name(*gate[:2])).exists()]
    if not gates:
        print(f"learn: no gate for {args.algo} {args.env}", file=sys.stderr)
        return 2
    execution = {"device": args.device, "keep": args.keep}
    with ThreadPoolExecutor(args.jobs) as pool:
        waiting = [run_gate(gate, pool, args.overrides, execution, args.also) for gate in gates]
        results = [wait() for wait in waiting]
    return 0 if all(result["pass"] for result in results) else 1


if __name__ == "__main__":
    sys.exit(main())
