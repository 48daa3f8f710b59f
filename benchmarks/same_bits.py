"""Check that a change leaves the arithmetic alone: compare this tree with an older commit.

    python benchmarks/same_bits.py                      # against the last commit
    python benchmarks/same_bits.py --old 90c8b06        # against another one
    python benchmarks/same_bits.py --only ppo tf1       # cases whose names start with these
    python benchmarks/same_bits.py --compiled           # also compiled updates
    python benchmarks/same_bits.py --allow-diagnostics td3:TargMean,TargStd

Every case trains the same few epochs with both trees, each in its own interpreter. Then this tree
resumes the older tree's run from the checkpoint before the last, which must end like a run that was
never interrupted. `progress.txt`, `diagnostics.txt`, the weights and `config.json` are compared
exactly, but for `TIMES` and `SETTINGS` below. The exit code is 1 if anything differs.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# What equal runs may differ in: columns of the tables, and keys of config.json (`logger_kwargs`
# contains the output directory).
TIMES = ("Time", "StepsPerSec")
SETTINGS = ("logger_kwargs", "resume", "spinup_version")

ON = {"steps_per_epoch": 400, "epochs": 3, "max_ep_len": 150, "save_freq": 1, "seed": 5}
OFF = {
    **ON,
    "steps_per_epoch": 200,
    "ac_kwargs": {"hidden_sizes": [32, 32]},
    "replay_size": 500,
    "num_test_episodes": 1,
    "num_threads": 1,
}
UPDATES = {
    "batch_size": 32,
    "start_steps": 60,
    "update_after": 50,
    "update_every": 10,
    "updates_per_step": 0.5,
    "compile": False,
}
PLAIN = {k: v for k, v in {**OFF, **UPDATES}.items() if k != "compile"}  # HER, tf1
NORMALIZED = {"ac_kwargs": {"normalize_obs": True, "normalize_ret": True, "orthogonal_init": True}}
FEW = {"train_pi_iters": 5, "train_v_iters": 5}
MINIBATCHES = {**FEW, "minibatch_size": 64, "ent_coef": 0.01, "clip_vf": 0.2, "max_grad_norm": 0.5}
BIT_FLIP = "spinup/BitFlip-v0"

# name -> algorithm (of PyTorch, unless its name says tf1), environment, arguments
CASES = {
    "reinforce": ("reinforce", "CartPole-v1", ON),
    "reinforce-box": ("reinforce", "Pendulum-v1", {**ON, "num_envs": 2}),
    "vpg": ("vpg", "CartPole-v1", {**ON, "train_v_iters": 5}),
    "vpg-shards": ("vpg", "Hopper-v5", {**ON, "train_v_iters": 5, "shards": 2, "num_envs": 2}),
    "trpo": ("trpo", "CartPole-v1", {**ON, "train_v_iters": 5}),
    "trpo-normalized": ("trpo", "Hopper-v5", {**ON, **NORMALIZED, "train_v_iters": 5, "shards": 2}),
    "trpo-npg": ("trpo", "Pendulum-v1", {**ON, "train_v_iters": 5, "algo": "npg"}),
    "ppo": ("ppo", "Hopper-v5", {**ON, **FEW}),
    "ppo-stops": ("ppo", "CartPole-v1", {**ON, "train_v_iters": 5, "target_kl": 0.001}),
    "ppo-options": (
        "ppo",
        "CartPole-v1",
        {**ON, **NORMALIZED, **MINIBATCHES, "anneal_lr": True, "num_envs": 4},
    ),
    "ppo-shards": ("ppo", "Hopper-v5", {**ON, **NORMALIZED, **MINIBATCHES, "shards": 4}),
    "ppo-shards-stop": ("ppo", "CartPole-v1", {**ON, "shards": 2, "target_kl": 0.002}),
    "ppo-async": ("ppo", "CartPole-v1", {**ON, **FEW, "num_envs": 2, "vector": "async"}),
    "ddpg": ("ddpg", "Pendulum-v1", {**OFF, **UPDATES}),
    "ddpg-envs": ("ddpg", "HalfCheetah-v5", {**OFF, **UPDATES, "num_envs": 2}),
    "td3": ("td3", "Pendulum-v1", {**OFF, **UPDATES}),
    "td3-delay": ("td3", "Hopper-v5", {**OFF, **UPDATES, "policy_delay": 3, "num_envs": 2}),
    "sac": ("sac", "Pendulum-v1", {**OFF, **UPDATES}),
    "sac-auto": ("sac", "Hopper-v5", {**OFF, **UPDATES, "alpha": "auto", "num_envs": 2}),
    "sac-discrete": ("sac", "CartPole-v1", {**OFF, **UPDATES, "alpha": "auto"}),
    "dqn": ("dqn", "CartPole-v1", {**OFF, **UPDATES, "anneal_lr": False, "target_update_every": 7}),
    "dqn-options": (
        "dqn",
        "CartPole-v1",
        {
            **OFF,
            **UPDATES,
            "n_step": 3,
            "prioritized": True,
            "max_grad_norm": 0.5,
            "anneal_lr": True,
            "num_envs": 2,
            "ac_kwargs": {"hidden_sizes": [32, 32], "dueling": True},
            "loss": "squared",
            "eps_steps": 300,
        },
    ),
    "acer": ("acer", "CartPole-v1", OFF),
    "acer-envs": ("acer", "CartPole-v1", {**OFF, "num_envs": 4, "anneal_lr": True}),
    "acer-box": ("acer", "Pendulum-v1", {**OFF, "num_envs": 2}),
    **{f"her-{base}": ("her", BIT_FLIP, {**PLAIN, "base": base}) for base in ("dqn", "sac")},
    "her-envs": ("her", BIT_FLIP, {**PLAIN, "num_envs": 2, "strategy": "random"}),
}
CASES |= {f"her-{base}": ("her", "reach", {**PLAIN, "base": base}) for base in ("ddpg", "td3")}
CASES |= {
    "tf1-vpg": ("vpg_tf1", "Hopper-v5", {**ON, "train_v_iters": 5, "shards": 2, "num_envs": 2}),
    "tf1-trpo": ("trpo_tf1", "Pendulum-v1", {**ON, **NORMALIZED, "train_v_iters": 5}),
    "tf1-trpo-npg": ("trpo_tf1", "CartPole-v1", {**ON, "train_v_iters": 5, "algo": "npg"}),
    "tf1-ppo": ("ppo_tf1", "CartPole-v1", {**ON, **FEW}),
    "tf1-ppo-options": (
        "ppo_tf1",
        "Hopper-v5",
        {**ON, **NORMALIZED, **MINIBATCHES, "anneal_lr": True, "shards": 2},
    ),
    "tf1-ddpg": ("ddpg_tf1", "Pendulum-v1", PLAIN),
    "tf1-td3": ("td3_tf1", "Pendulum-v1", {**PLAIN, "num_envs": 2}),
    "tf1-sac": ("sac_tf1", "Pendulum-v1", {**PLAIN, "alpha": "auto"}),
    "tf1-sac-discrete": ("sac_tf1", "CartPole-v1", PLAIN),
}
FAST = {**OFF, **UPDATES, "compile": True}
COMPILED = {
    "compiled-ddpg": ("ddpg", "Pendulum-v1", FAST),
    "compiled-td3": ("td3", "Pendulum-v1", FAST),
    "compiled-sac": ("sac", "Pendulum-v1", {**FAST, "alpha": "auto"}),
    "compiled-dqn": ("dqn", "CartPole-v1", {**FAST, "anneal_lr": False, "max_grad_norm": 0.5}),
}

CHILD = """
import json, sys
import gymnasium as gym
import numpy as np
import spinup
from spinup.envs import make_env

class Reach(gym.Env):  # a point in a square that moves toward a goal
    def __init__(self):
        box = gym.spaces.Box(-1, 1, (2,), np.float32)
        names = ("observation", "achieved_goal", "desired_goal")
        self.observation_space = gym.spaces.Dict({name: box for name in names})
        self.action_space = gym.spaces.Box(-0.2, 0.1, (2,), np.float32)

    def _seen(self):
        return {"observation": self.x, "achieved_goal": self.x, "desired_goal": self.goal}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.x, self.goal = self.np_random.uniform(-1, 1, (2, 2)).astype(np.float32)
        self.t = 0
        return self._seen(), {}

    def step(self, action):
        self.x, self.t = np.clip(self.x + action, -1, 1).astype(np.float32), self.t + 1
        return self._seen(), self.compute_reward(self.x, self.goal, {}), False, self.t >= 25, {}

    def compute_reward(self, achieved, desired, info):
        return -(np.linalg.norm(achieved - desired, axis=-1) > 0.2).astype(np.float32)

tree, algo, env_id, folder, arguments = json.loads(sys.argv[1])
assert spinup.__file__.startswith(tree), spinup.__file__
getattr(spinup, algo if algo.endswith("_tf1") else f"{algo}_pytorch")(
    Reach if env_id == "reach" else lambda: make_env(env_id),
    logger_kwargs={"output_dir": folder, "quiet": True},
    **arguments,
)
"""


def train(tree, folder, algo, env_id, arguments):
    """Train with the package in `tree`, in a separate interpreter."""
    given = json.dumps([str(tree), algo, env_id, str(folder), arguments])
    subprocess.run(
        [sys.executable, "-c", CHILD, given],
        cwd=folder.parent,
        env={**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )


def undo_last_checkpoint(folder):
    """Make a finished run look as if it had been killed just before its last checkpoint."""
    shutil.rmtree(max(folder.glob("checkpoints/step-*")))
    (folder / ".finished").unlink()


def table(path):
    """The columns of a table, by name."""
    header, *rows = [line.split("\t") for line in path.read_text().splitlines()]
    return dict(zip(header, zip(*rows, strict=True), strict=True))


def contents(folder):
    """What is compared: file -> name -> value."""
    (weights,) = folder.glob("*_save/policy.safetensors")  # in pyt_save/ or tf1_save/
    return {
        "progress.txt": table(folder / "progress.txt"),
        "diagnostics.txt": table(folder / "diagnostics.txt"),
        "policy.safetensors": {"weights": hashlib.sha256(weights.read_bytes()).hexdigest()},
        "config.json": json.loads((folder / "config.json").read_text()),
    }


def different(old, new, allowed):
    """The names under which two dictionaries differ, other than the allowed ones."""
    old, new = ({k: v for k, v in d.items() if k not in allowed} for d in (old, new))
    names = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    return names or (["the order"] if list(old) != list(new) else [])


def compare(name, old, new, allow_diagnostics):
    """Messages about what differs between two run directories."""
    allowed = {"progress.txt": TIMES, "config.json": SETTINGS}
    allowed["diagnostics.txt"] = (*TIMES, *allow_diagnostics)
    old, new = contents(old), contents(new)
    found = []
    for file in old:
        names = different(old[file], new[file], allowed.get(file, ()))
        if names:
            more = f" and {len(names) - 6} more" if len(names) > 6 else ""
            found.append(f"{name}: {file} differs: {', '.join(names[:6])}{more}")
    return found


def differences(name, case, old_tree, folder, allow_diagnostics):
    """Messages about what differs between the two trees in one case."""
    algo, env_id, arguments = case
    old, new, resumed = (folder / run for run in ("old", "new", "resumed"))
    try:
        train(old_tree, old, algo, env_id, arguments)
        train(ROOT, new, algo, env_id, arguments)
        shutil.copytree(old, resumed)
        undo_last_checkpoint(resumed)
        train(ROOT, resumed, algo, env_id, {**arguments, "resume": True})
    except subprocess.CalledProcessError as error:
        return [f"{name}: failed\n{error.stderr[-2000:]}"]
    return [
        *compare(name, old, new, allow_diagnostics),
        *compare(f"{name}, the old tree's run resumed", old, resumed, allow_diagnostics),
    ]


def main():
    """Compare all cases, several at a time; the exit code is 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", default="HEAD", help="commit to compare this tree with")
    parser.add_argument("--only", nargs="+", default=[], help="name prefixes of the cases to run")
    parser.add_argument("--compiled", action="store_true", help="also compiled updates")
    parser.add_argument("--jobs", type=int, default=2, help="cases to run at a time")
    parser.add_argument(
        "--allow-diagnostics",
        nargs="+",
        default=[],
        metavar="CASE:COLUMN,...",
        help="columns of diagnostics.txt that may differ in cases whose names contain CASE",
    )
    args = parser.parse_args()
    cases = {**CASES, **(COMPILED if args.compiled else {})}
    if args.only:
        cases = {n: c for n, c in {**CASES, **COMPILED}.items() if n.startswith(tuple(args.only))}
    allowances = [allowed.split(":") for allowed in args.allow_diagnostics]
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        old_tree = Path(temporary, "tree")
        git = ["git", "-C", str(ROOT)]
        subprocess.run(
            [*git, "worktree", "add", "-f", "--detach", str(old_tree), args.old], check=True
        )
        try:
            with ThreadPoolExecutor(args.jobs) as pool:
                jobs = {}
                for name, case in cases.items():
                    folder = Path(temporary, "runs", name)
                    folder.mkdir(parents=True)
                    allowed = [c for part, cs in allowances if part in name for c in cs.split(",")]
                    jobs[name] = pool.submit(differences, name, case, old_tree, folder, allowed)
                for name, job in jobs.items():
                    found = job.result()
                    failed += bool(found)
                    print("\n".join(found) if found else f"{name}: the same", flush=True)
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(old_tree)], check=True)
    print(f"{len(cases) - failed} of {len(cases)} cases are the same.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
