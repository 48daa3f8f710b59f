"""Soak: kill training runs at random instants, resume them, and compare with undisturbed ones.

    python benchmarks/soak.py                       # 20 kills of each algorithm x environment
    python benchmarks/soak.py --kills 100           # longer
    python benchmarks/soak.py --only ppo Hopper-v5  # one combination
    python benchmarks/soak.py --algos sac sac_tf1   # both backends of one algorithm

Every attempt is an interpreter of its own, which SIGKILL ends at an instant drawn uniformly over
the time that an undisturbed run takes from the call of the algorithm to its end: while it collects,
updates, writes files or restores a checkpoint. An attempt that ends before its instant completes
its run; the next attempt begins another run in a new directory. Each completed run must have the
`progress.txt` (time aside), the weights and the rest of the state (target networks, optimizers,
replay buffer, generators, counters) of the undisturbed one, bit for bit. The result is
`benchmarks/results/soak.json`; the exit code is 1 if anything differs.
"""

import argparse
import hashlib
import json
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "soak.json"
ENVS = {
    **dict.fromkeys(("reinforce", "vpg", "trpo", "ppo"), ("CartPole-v1", "Hopper-v5")),
    **dict.fromkeys(("ddpg", "td3", "sac"), ("Hopper-v5", "HalfCheetah-v5")),
    "dqn": ("CartPole-v1",),
    "acer": ("CartPole-v1", "Hopper-v5"),
    "her": ("spinup/BitFlip-v0",),
    **dict.fromkeys(("vpg_tf1", "ppo_tf1"), ("CartPole-v1",)),
    **dict.fromkeys(("trpo_tf1", "ddpg_tf1", "td3_tf1", "sac_tf1"), ("Hopper-v5",)),
}
READY = "calling the algorithm\n"

# A few seconds each; several episodes an epoch, and episodes that go on from one to the next.
COMMON = {"seed": 7, "steps_per_epoch": 400, "save_freq": 3, "max_ep_len": 300, "num_envs": 2}
EPOCHS = {"reinforce": 25, "vpg": 16, "trpo": 10, "ppo": 10, "acer": 8}
EPOCHS |= dict.fromkeys(("ddpg", "td3", "sac", "dqn", "her"), 7)
ON_POLICY = {"ac_kwargs": {"hidden_sizes": [32, 32], "normalize_obs": True}}
# Replay buffers are full after a third of the run, and saved in several pieces.
OFF_POLICY = {
    "ac_kwargs": {"hidden_sizes": [32, 32]},
    "replay_size": 800,
    "num_test_episodes": 1,
    "num_threads": 1,
}
UPDATES = {
    "batch_size": 32,
    "start_steps": 200,
    "update_after": 100,
    "update_every": 10,
    "updates_per_step": 0.25,
}
CHUNK_BYTES = 1 << 14
EXTRA = {
    **dict.fromkeys(("reinforce", "vpg", "trpo"), ON_POLICY),
    "ppo": {
        **ON_POLICY,
        "minibatch_size": 100,
        "train_pi_iters": 4,
        "train_v_iters": 4,
        "anneal_lr": True,
    },
    **{algo: {**OFF_POLICY, **UPDATES} for algo in ("ddpg", "td3", "her")},
    "sac": {**OFF_POLICY, **UPDATES, "alpha": "auto"},
    "dqn": {**OFF_POLICY, **UPDATES, "n_step": 3, "prioritized": True, "eps_steps": 1000},
    "acer": OFF_POLICY,
}


def twin(algo):
    """The algorithm and the backend of a name in `ENVS`; the configuration is that of both."""
    name = algo.removesuffix("_tf1")
    return name, "pytorch" if name == algo else "tf1"


def train(algo, env_id, folder):
    """One attempt, in this process: start the run in `folder`, or resume it if it is there."""
    from spinup import registry
    from spinup.algos.common import replay
    from spinup.envs import make_env

    replay._CHUNK_BYTES = CHUNK_BYTES
    name, backend = twin(algo)
    function = registry.load(name, backend)
    config = {**COMMON, "epochs": EPOCHS[name], **EXTRA[name]}
    # not through Python's buffers, which the logger's lines share
    os.write(1, READY.encode())
    function(
        lambda: make_env(env_id),
        logger_kwargs={"output_dir": folder, "quiet": True},
        resume=True,
        **config,
    )


class Attempt:
    """A process that trains until it ends or is killed."""

    def __init__(self, algo, env_id, folder):
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--one", algo, env_id, str(folder)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=Path(folder).parent,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        line = self.process.stdout.readline()
        while line and line != READY:
            line = self.process.stdout.readline()
        self.begin = time.monotonic()

    def finish(self, kill_after=None):
        """Seconds until it ended; with `kill_after`, whether the kill came first too."""
        try:
            output, _ = self.process.communicate(timeout=kill_after)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGKILL)
            output, _ = self.process.communicate()
        if self.process.returncode not in (0, -signal.SIGKILL):
            raise RuntimeError(f"{' '.join(self.process.args)} failed:\n{output}")
        return time.monotonic() - self.begin, self.process.returncode == -signal.SIGKILL


def fingerprint(folder):
    """What must be equal of a completed run: its table without times, hashes of the rest."""
    lines = Path(folder, "progress.txt").read_text().split("\n")
    column = lines[0].split("\t").index("Time")
    rows = [line.split("\t") for line in lines[:-1]]
    table = [row[:column] + row[column + 1 :] for row in rows]
    if lines[-1] or not Path(folder, ".finished").exists():
        table.append(["this run is not complete"])
    (weights,) = (path.read_bytes() for path in Path(folder).glob("*_save/policy.safetensors"))
    return {
        "progress": table,
        "weights": hashlib.sha256(weights).hexdigest(),
        "state": state_hash(max(Path(folder, "checkpoints").glob("step-*"))),
    }


def state_hash(checkpoint):
    """Hash of everything in a checkpoint, the clock aside; pieces count by what they hold."""
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    text = (checkpoint / "state.json").read_text()
    for name, entry in manifest["pieces"].items():
        piece = (checkpoint.parent / "pieces" / name).read_bytes()
        if hashlib.sha256(piece).hexdigest() != entry["sha256"]:
            return f"{name} is damaged"
        text = text.replace(name, entry["sha256"])
    tree = json.loads(text)
    del tree["seconds"], tree["logger"]["offset"], tree["logger"]["sha256"]  # of the Time column
    arrays = (checkpoint / "state.safetensors").read_bytes()
    return hashlib.sha256(json.dumps(tree).encode() + arrays).hexdigest()


def soak(algo, env_id, kills, seed, workspace):
    """Kill runs of one combination until `kills` were killed; the entry of the result."""
    start = time.monotonic()
    rng = random.Random(f"{seed} {algo} {env_id}")
    base = Path(workspace, f"{algo}-{env_id.replace('/', '-')}")
    base.mkdir()
    length, _ = Attempt(algo, env_id, base / "undisturbed").finish()
    undisturbed = fingerprint(base / "undisturbed")

    instants, runs, in_this_run, folder = [], [], 0, base / "run1"
    while len(instants) < kills or in_this_run:
        enough = len(instants) >= kills
        attempt = Attempt(algo, env_id, folder)
        moment = None if enough else rng.uniform(0, length)
        _, killed = attempt.finish(moment)
        if killed:
            instants.append(round(moment, 3))
            in_this_run += 1
            continue
        got = fingerprint(folder)
        equal = {f"equal_{name}": got[name] == undisturbed[name] for name in got}
        runs.append({"kills": in_this_run, **equal})
        if got == undisturbed:
            shutil.rmtree(folder)
        in_this_run, folder = 0, base / f"run{len(runs) + 1}"
    entry = {
        "algo": algo,
        "env": env_id,
        "kills": len(instants),
        "instants": instants,
        "runs": runs,
        "rows": len(undisturbed["progress"]) - 1,
        **{name: all(run[name] for run in runs) for name in EQUAL},
        "undisturbed_seconds": round(length, 2),
        "seconds": round(time.monotonic() - start, 1),
    }
    verdict = "equal" if passes(entry) else "DIFFERENT"
    print(
        f"{algo:10s} {env_id:17s} {len(instants):3d} kills in {len(runs)} runs of "
        f"{length:.1f} s: {verdict}",
        flush=True,
    )
    return entry


EQUAL = ("equal_progress", "equal_weights", "equal_state")


def passes(entry):
    """Whether no run of a combination differed."""
    return all(entry[name] for name in EQUAL)


def versions(algos):
    """What the result was made with."""
    import gymnasium
    import mujoco
    import numpy
    import torch

    import spinup

    found = {}
    if any(twin(algo)[1] == "tf1" for algo in algos):
        from spinup.utils.tf import tf

        found["tensorflow"] = tf.__version__
    return {
        "python": platform.python_version(),
        "spinup": spinup.__version__,
        "torch": torch.__version__,
        **found,
        "numpy": numpy.__version__,
        "gymnasium": gymnasium.__version__,
        "mujoco": mujoco.__version__,
    }


def main():
    """Soak the chosen combinations; exit with 1 if a run differs from the undisturbed one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20, help="of each combination")
    parser.add_argument("--jobs", type=int, default=2, help="combinations at the same time")
    parser.add_argument("--seed", type=int, help="of the instants; by default another every time")
    parser.add_argument("--algos", nargs="+", default=list(ENVS), choices=list(ENVS))
    parser.add_argument("--only", nargs=2, metavar=("ALGO", "ENV"), help="one combination")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the result goes")
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        train(*args.one)
        return 0
    combinations = [(algo, env_id) for algo in args.algos for env_id in ENVS[algo]]
    if args.only:
        combinations = [c for c in combinations if list(c) == args.only]
        if not combinations:
            print(f"soak: nothing is called {' '.join(args.only)}", file=sys.stderr)
            return 2
    seed = time.time_ns() if args.seed is None else args.seed
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as workspace, ThreadPoolExecutor(args.jobs) as pool:
        futures = [pool.submit(soak, *c, args.kills, seed, workspace) for c in combinations]
        entries = [future.result() for future in futures]
        passed = all(passes(entry) for entry in entries)
        if not passed:
            kept = tempfile.mkdtemp(prefix="soak_different_")
            shutil.copytree(workspace, kept, dirs_exist_ok=True)
            print(f"soak: runs that differ are kept in {kept}", file=sys.stderr)
    result = {
        "pass": passed,
        "kills": sum(entry["kills"] for entry in entries),
        "seconds": round(time.monotonic() - start, 1),
        "command": " ".join(["python", "benchmarks/soak.py", *sys.argv[1:]]),
        "seed": seed,
        "config": {**COMMON, "epochs": EPOCHS, "extra": EXTRA, "chunk_bytes": CHUNK_BYTES},
        "versions": versions({algo for algo, _ in combinations}),
        "combinations": entries,
    }
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
