"""Check that a change leaves the arithmetic alone: compare this tree with an older commit.

    python benchmarks/same_bits.py                      # against the last commit
    python benchmarks/same_bits.py --old 90c8b06        # against another one
    python benchmarks/same_bits.py --only ppo sac       # cases whose names start with these
    python benchmarks/same_bits.py --compiled           # also compiled updates (minutes)

Every case trains the same few epochs with both trees, each in its own interpreter, and compares
`progress.txt` (without the Time column) and the weights, byte for byte. Then this tree resumes a
run that the older tree started, which must end like a run that was never interrupted. The exit code
is 1 if anything differs.
"""

import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

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
HER = {k: v for k, v in {**OFF, **UPDATES}.items() if k != "compile"}
NORMALIZED = {"ac_kwargs": {"normalize_obs": True, "normalize_ret": True, "orthogonal_init": True}}
FEW = {"train_pi_iters": 5, "train_v_iters": 5}
MINIBATCHES = {**FEW, "minibatch_size": 64, "ent_coef": 0.01, "clip_vf": 0.2, "max_grad_norm": 0.5}
BIT_FLIP = "spinup/BitFlip-v0"

# name -> algorithm, environment, arguments
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
    "dqn": ("dqn", "CartPole-v1", {**OFF, **UPDATES, "target_update_every": 7}),
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
    **{f"her-{base}": ("her", BIT_FLIP, {**HER, "base": base}) for base in ("dqn", "sac")},
    "her-envs": ("her", BIT_FLIP, {**HER, "num_envs": 2, "strategy": "random"}),
}
CASES |= {f"her-{base}": ("her", "reach", {**HER, "base": base}) for base in ("ddpg", "td3")}
FAST = {**OFF, **UPDATES, "compile": True}
COMPILED = {
    "compiled-ddpg": ("ddpg", "Pendulum-v1", FAST),
    "compiled-td3": ("td3", "Pendulum-v1", FAST),
    "compiled-sac": ("sac", "Pendulum-v1", {**FAST, "alpha": "auto"}),
    "compiled-dqn": ("dqn", "CartPole-v1", {**FAST, "max_grad_norm": 0.5}),
}

CHILD = """
import json, sys
import gymnasium as gym
import numpy as np
from spinup import registry
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

algo, env_id, folder, arguments = json.loads(sys.argv[1])
registry.load(algo, "pytorch")(
    Reach if env_id == "reach" else lambda: make_env(env_id),
    logger_kwargs={"output_dir": folder, "quiet": True},
    **arguments,
)
"""


def train(tree, folder, algo, env_id, arguments):
    """Train with the package in `tree`, in a separate interpreter."""
    subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps([algo, env_id, str(folder), arguments])],
        cwd=folder.parent,
        env={**os.environ, "PYTHONPATH": str(tree), "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"},
        check=True,
        capture_output=True,
        text=True,
        timeout=600,
    )


def fingerprint(folder):
    """The table without its Time column, and the hash of the weights."""
    rows = [line.split("\t") for line in (folder / "progress.txt").read_text().splitlines()]
    time = rows[0].index("Time")
    table = [[cell for i, cell in enumerate(row) if i != time] for row in rows]
    weights = (folder / "pyt_save" / "policy.safetensors").read_bytes()
    return table, hashlib.sha256(weights).hexdigest()


def differences(name, case, old_tree, folder):
    """Messages about what differs between the two trees in one case."""
    algo, env_id, arguments = case
    halfway = {**arguments, "epochs": arguments["epochs"] - 1}
    # a learning-rate schedule depends on the length of the run, so a shorter run differs
    resumable = not arguments.get("anneal_lr")
    try:
        train(old_tree, folder / "old", algo, env_id, arguments)
        train(ROOT, folder / "new", algo, env_id, arguments)
        if resumable:
            train(old_tree, folder / "both", algo, env_id, halfway)
            train(ROOT, folder / "both", algo, env_id, {**arguments, "resume": True})
    except subprocess.CalledProcessError as error:
        return [f"{name}: failed\n{error.stderr[-2000:]}"]
    found = []
    old, new = fingerprint(folder / "old"), fingerprint(folder / "new")
    if old[0] != new[0]:
        found.append(f"{name}: progress.txt differs")
    if old[1] != new[1]:
        found.append(f"{name}: the weights differ")
    if resumable and fingerprint(folder / "both") != new:
        found.append(f"{name}: resuming a run of the old tree gives a different result")
    return found


def main():
    """Compare all cases, two at a time; the exit code is 1 if anything differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--old", default="HEAD", help="commit to compare this tree with")
    parser.add_argument("--only", nargs="+", default=[], help="name prefixes of the cases to run")
    parser.add_argument("--compiled", action="store_true", help="also compiled updates")
    args = parser.parse_args()
    cases = {**CASES, **(COMPILED if args.compiled else {})}
    if args.only:
        cases = {n: c for n, c in {**CASES, **COMPILED}.items() if n.startswith(tuple(args.only))}
    failed = 0
    with tempfile.TemporaryDirectory() as temporary:
        old_tree = Path(temporary, "tree")
        git = ["git", "-C", str(ROOT)]
        subprocess.run(
            [*git, "worktree", "add", "-f", "--detach", str(old_tree), args.old], check=True
        )
        try:
            with ThreadPoolExecutor(2) as pool:
                jobs = {}
                for name, case in cases.items():
                    folder = Path(temporary, "runs", name)
                    folder.mkdir(parents=True)
                    jobs[name] = pool.submit(differences, name, case, old_tree, folder)
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
