"""How fast the off-policy algorithms train, beside Stable-Baselines3 and SBX doing the same work.

    make peers                             # install the peers into .venv-peers, measure and print
    python benchmarks/peers.py sac dqn     # only these algorithms
    python benchmarks/peers.py --save      # also write benchmarks/results/peers.json and README.md
    python benchmarks/peers.py --sweep     # two runs of a library side by side, each on one core

The work: see SETTINGS. Every library trains in a process of its own, from its own virtual
environment, in an environment that counts steps. After the warm-up (random steps, then updates, in
which JAX compiles) the environment stops in `step` until it is told to go on, and then reports how
long the next slice of training took. So one library works at a time, the others sleep in a read,
and all are timed by the same lines of code. Slices take turns; figures are medians over rounds.
Evaluation episodes and checkpoints are part of no slice, on no side. The peers keep the number of
threads that they choose, which is two on two cores. Ours is measured with one thread, its default
on two cores, and with two (`num_threads=2`). The targets refer to the faster of the two: twice as
fast as Stable-Baselines3, DQN three times.

`--sweep` measures what counts for many runs at once, one per core: two processes of the same
library train at the same time, each pinned to a core of its own and limited to one thread, and the
figure is the steps per second of one of them. Targets: twice Stable-Baselines3, and SBX. One row
of it learns from images.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import gymnasium as gym

ROOT = Path(__file__).resolve().parents[1]
RESULT = ROOT / "benchmarks" / "results" / "peers.json"
PAGE = ROOT / "benchmarks" / "README.md"
BEGIN, END = "<!-- peers.json: begin -->", "<!-- peers.json: end -->"
PEERS_PYTHON = ROOT / ".venv-peers" / "bin" / "python"

CORES = 2
RANDOM_STEPS, WARM_UP, REST = 1000, 3000, 1.0  # steps, steps, seconds between slices
FOREVER = 10**8  # steps of a run that is stopped long before
REPLAY, LR, GAMMA, POLYAK = 1_000_000, 1e-3, 0.99, 0.995
ALPHA, NOISE, EPSILON, MAX_GRAD_NORM = 0.2, 0.1, 0.05, 10.0
CONTROL = {
    "env": "HalfCheetah-v5",
    "sizes": (17, 256, 256, 6),  # of the policy: observation, hidden layers, actions
    "batch": 100,
    "every": 50,  # environment steps between two rounds of updates
    "updates": 50,  # in a round
    "slice": 1000,  # environment steps that are timed together
    "target": 2.0,  # times as fast as Stable-Baselines3
}
SETTINGS = {
    "sac": CONTROL,
    "td3": CONTROL,
    "ddpg": CONTROL,
    "dqn": {
        "env": "CartPole-v1",
        "sizes": (4, 64, 64, 2),
        "batch": 64,
        "every": 4,
        "updates": 1,
        "slice": 10_000,
        "target": 3.0,
        "target_every": 500,  # environment steps between two copies into the target network
    },
    # Images of 10 x 10: a convolution of 16 filters, a layer of 128 units. Not with SBX.
    "dqn-MinAtar": {
        "algo": "dqn",
        "env": "MinAtar/Breakout-v1",
        "batch": 32,
        "every": 4,
        "updates": 1,
        "slice": 2000,
        "target_every": 500,
        "replay": 100_000,
    },
}
# name -> worker's library and threads (None: what it chooses)
SIDES = {
    "ours, 1 thread": ("ours", 1),
    "ours, 2 threads": ("ours", 2),
    "SB3": ("sb3", None),
    "SBX": ("sbx", None),
}
OURS = ("ours, 1 thread", "ours, 2 threads")
# The sides of `--sweep`, each with one thread
SWEEP = {"ours": ("ours", 1), "ours, eager": ("eager", 1), "SB3": ("sb3", 1), "SBX": ("sbx", 1)}
SWEEP_ALGOS = ("sac", "td3", "ddpg", "dqn-MinAtar")
ALONE_ALGOS = ("sac", "td3", "ddpg", "dqn")
SWEEP_TARGETS = {"SB3": 2.0, "SBX": 1.0}  # times as fast
ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",  # with taskset, JAX sees a single core
}
# The sides of `python benchmarks/speed.py --backends`, each with one thread; "ours" compiles.
BACKENDS = {"torch": ("eager", 1), "torch, compiled": ("ours", 1), "tf1": ("tf1", 1)}


# ------------------------------------------------------------------------------------- one library


class Turnstile(gym.Wrapper):
    """Lets the warm-up through, then a slice at a time, each when a line comes in on stdin."""

    def __init__(self, env, settings, report):
        super().__init__(env)
        self.settings, self.report = settings, report
        self.left, self.idle = WARM_UP, 0.0
        self.start, self.cpu = time.perf_counter(), time.process_time()

    def step(self, action):
        """Between two rounds of updates, whole rounds have been timed: here they are reported."""
        if self.left == 0:
            self._stop()
            self.left = self.settings["slice"]
        self.left -= 1
        return self.env.step(action)

    def _stop(self):
        seconds, cpu = time.perf_counter() - self.start, time.process_time()
        row = {"seconds": seconds, "cpu": cpu - self.cpu, "idle": self.idle}
        print(json.dumps(row), file=self.report, flush=True)
        if not sys.stdin.readline():
            sys.exit()
        # Threads that spin while they should sleep would disturb the others: count that too.
        self.start, self.cpu = time.perf_counter(), time.process_time()
        self.idle = self.cpu - cpu


def worker(library, algo, threads=None):
    """Train until stdin ends; whatever a library prints goes nowhere."""
    report = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    settings = SETTINGS[algo]

    peer = library in ("sb3", "sbx")

    def env_fn():
        make = minatar_for_sb3 if peer and "MinAtar" in settings["env"] else gym.make
        if not peer:
            from spinup.envs import make_env as make
        return Turnstile(make(settings["env"]), settings, report)

    train = train_peer if peer else train_ours
    train(library, settings.get("algo", algo), settings, env_fn, threads)


def minatar_for_sb3(env_id):
    """MinAtar as Stable-Baselines3 wants images: bytes, channels first."""
    import minatar.gym
    import numpy as np

    minatar.gym.register_envs()
    height, width, channels = gym.make(env_id).observation_space.shape
    return gym.wrappers.TransformObservation(
        gym.make(env_id),
        lambda o: 255 * o.transpose(2, 0, 1).astype(np.uint8),
        gym.spaces.Box(0, 255, (channels, height, width), np.uint8),
    )


def small_network():
    """The keyword arguments with which Stable-Baselines3 builds our network for small images."""
    import torch
    from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
    from torch import nn

    class Small(BaseFeaturesExtractor):
        def __init__(self, space):
            super().__init__(space, features_dim=128)
            channels, height, width = space.shape
            conv = nn.Sequential(nn.Conv2d(channels, 16, 3), nn.ReLU(), nn.Flatten())
            size = conv(torch.zeros(1, channels, height, width)).shape[1]
            self.net = nn.Sequential(*conv, nn.Linear(size, 128), nn.ReLU())

        def forward(self, x):
            return self.net(x)

    return {"features_extractor_class": Small, "net_arch": []}


def train_ours(library, algo, settings, env_fn, threads=None):
    """Our training function with the settings, in one endless epoch."""
    import spinup

    if algo == "sac":
        own = {"lr": LR, "polyak": POLYAK, "alpha": ALPHA}
    elif algo == "dqn":  # plain DQN with shortened gradients, as Stable-Baselines3 has it
        own = {"q_lr": LR, "polyak": 0.0, "n_step": 1}
        own |= {"double_q": False, "max_grad_norm": MAX_GRAD_NORM}
        own |= {"target_update_every": settings["target_every"] // settings["every"]}
        own |= {"eps_start": EPSILON, "eps_end": EPSILON}
    else:
        own = {"pi_lr": LR, "q_lr": LR, "polyak": POLYAK, "act_noise": NOISE}
    if library == "eager":
        own["compile"] = False
    backend = "tf1" if library == "tf1" else "pytorch"
    with tempfile.TemporaryDirectory() as folder:
        getattr(spinup, f"{algo}_{backend}")(
            env_fn,
            ac_kwargs={"hidden_sizes": settings["sizes"][1:-1]} if "sizes" in settings else {},
            steps_per_epoch=FOREVER,
            epochs=1,
            replay_size=settings.get("replay", REPLAY),
            gamma=GAMMA,
            batch_size=settings["batch"],
            start_steps=RANDOM_STEPS,
            update_after=RANDOM_STEPS,
            update_every=settings["every"],
            updates_per_step=settings["updates"] / settings["every"],
            num_threads=threads,
            logger_kwargs={"output_dir": folder, "quiet": True},
            **own,
        )


def train_peer(library, algo, settings, env_fn, threads=None):
    """The same of Stable-Baselines3, or of SBX, which takes the same arguments."""
    import numpy as np
    import torch
    from stable_baselines3.common.noise import NormalActionNoise

    if library == "sb3":
        import stable_baselines3 as peer
    else:
        import sbx as peer

    if threads is not None:
        torch.set_num_threads(threads)
    if algo == "sac":
        own = {"tau": 1 - POLYAK, "ent_coef": ALPHA}
    elif algo == "dqn":
        own = {"max_grad_norm": MAX_GRAD_NORM} if library == "sb3" else {}  # SBX shortens none
        own |= {"target_update_interval": settings["target_every"]}
        own |= {"exploration_initial_eps": EPSILON, "exploration_final_eps": EPSILON}
    else:
        n = settings["sizes"][-1]
        own = {"tau": 1 - POLYAK, "action_noise": NormalActionNoise(np.zeros(n), np.full(n, NOISE))}
    image = "sizes" not in settings
    sizes = small_network() if image else {"net_arch": list(settings["sizes"][1:-1])}
    model = getattr(peer, algo.upper())(
        "CnnPolicy" if image else "MlpPolicy",
        env_fn(),
        learning_rate=LR,
        buffer_size=settings.get("replay", REPLAY),
        gamma=GAMMA,
        batch_size=settings["batch"],
        learning_starts=RANDOM_STEPS,
        train_freq=settings["every"],
        gradient_steps=settings["updates"],
        policy_kwargs=sizes,
        seed=0,
        device="cpu",
        **own,
    )
    model.learn(FOREVER)


# ------------------------------------------------------------------------------------ side by side


def command(library, threads, algo):
    """The command line of a worker."""
    python = str(PEERS_PYTHON) if library in ("sb3", "sbx") else sys.executable
    words = [python, str(Path(__file__).resolve()), algo, "--worker", library]
    return words if threads is None else [*words, "--threads", str(threads)]


def default_environment(variables):
    """The variables without those that choose threads, so that every library does; on the CPU."""
    chosen = re.compile(r".*_NUM_THREADS|OMP_.*|GOMP_.*|KMP_.*|XLA_FLAGS|JAX_.*")
    kept = {name: value for name, value in variables.items() if not chosen.fullmatch(name)}
    return kept | {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}


class Worker:
    """One library's process, as its parent sees it: it has warmed up and waits."""

    def __init__(self, side, what, algo, folder, core=None):
        self.command, variables = command(*what, algo), default_environment(os.environ)
        self.errors = Path(folder, f"{algo}-{side}-{core}.txt")
        if core is not None:
            self.command = ["taskset", "-c", str(core), *self.command]
            variables |= ONE_THREAD
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                self.command,
                cwd=folder,  # MuJoCo leaves a log file
                env=variables,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        if core is None:
            self.read()

    def read(self):
        """The next report. Then a rest, in which its threads stop spinning and fall asleep."""
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"{shlex.join(self.command)} failed:\n{self.errors.read_text()[-4000:]}")
        time.sleep(REST)
        return json.loads(line)

    def go(self):
        """Let it start a slice."""
        self.process.stdin.write("go\n")
        self.process.stdin.flush()

    def slice(self):
        """Let it train for a slice."""
        self.go()
        return self.read()

    def end(self):
        """Close its stdin, which ends it."""
        self.process.communicate()


def measure(algo, rounds, sides=SIDES, kind=Worker):
    """What every side reported in each round, the first round left out."""
    reports = {side: [] for side in sides}
    workers = {}
    with tempfile.TemporaryDirectory() as folder:
        try:
            for side, what in sides.items():
                workers[side] = kind(side, what, algo, folder)
            for i in range(rounds + 1):
                # every other round backwards: what drifts does not favour the last
                for side in list(sides)[:: -1 if i % 2 else 1]:
                    reports[side].append(workers[side].slice())
        finally:
            for one in workers.values():
                one.end()
    return {side: rows[1:] for side, rows in reports.items()}


class Pair:
    """Two processes of one library, each on a core of its own, that train at the same time."""

    def __init__(self, side, what, algo, folder):
        cores = sorted(os.sched_getaffinity(0))[:CORES]
        self.workers = [Worker(side, what, algo, folder, core) for core in cores]
        for one in self.workers:
            one.read()

    def slice(self):
        """Let both train for a slice; report the seconds of each."""
        for one in self.workers:
            one.go()
        return [one.read()["seconds"] for one in self.workers]

    def end(self):
        """End both."""
        for one in self.workers:
            one.end()


def has(side, algo):
    """Return whether a library can do this work."""
    return side != "SBX" or "sizes" in SETTINGS[algo]


def sweep_summary(algo, reports):
    """Steps per second of one of two runs side by side: per round, and the medians."""
    steps = SETTINGS[algo]["slice"]
    rounds = {side: [steps / statistics.mean(x) for x in rows] for side, rows in reports.items()}
    medians = {side: statistics.median(x) for side, x in rounds.items()}
    return {"steps_per_second": medians, "rounds": rounds}


def times(row, peer):
    """How many times as fast as a peer ours is in a sweep: the ratios of the rounds."""
    return [a / b for a, b in zip(row["rounds"]["ours"], row["rounds"][peer], strict=True)]


def summary(algo, reports, gflops):
    """The figures of an algorithm: medians of the rounds, ratios, the floor of the arithmetic."""
    settings = SETTINGS[algo]
    seconds = {side: [row["seconds"] for row in rows] for side, rows in reports.items()}
    ms = {side: [1e3 * s / settings["slice"] for s in x] for side, x in seconds.items()}
    flops = update_flops(algo)
    per_step = flops * settings["updates"] / settings["every"]
    return {
        "settings": settings,
        "ms_per_step": {side: statistics.median(x) for side, x in ms.items()},
        "rounds": ms,
        "cores_busy": {
            side: statistics.median(row["cpu"] / row["seconds"] for row in rows)
            for side, rows in reports.items()
        },
        "idle_cpu_seconds": {side: max(r["idle"] for r in rows) for side, rows in reports.items()},
        "update_flops": flops,
        "floor_ms_per_step": {n: per_step / (x * 1e6) for n, x in gflops.items()},
    }


def faster_than(peer, row):
    """How many times as fast ours is, with the better number of threads: median and rounds."""
    best = min(OURS, key=lambda side: row["ms_per_step"][side])
    ratios = [a / b for a, b in zip(row["rounds"][peer], row["rounds"][best], strict=True)]
    return {"ours": best, "median": statistics.median(ratios), "rounds": ratios}


# ----------------------------------------------------------------------------------- the arithmetic


def forward(sizes, batch):
    """Operations of the matrix products of a network: a multiplication and an addition a weight."""
    return 2 * batch * sum(a * b for a, b in itertools.pairwise(sizes))


def backward_to(inputs, sizes, batch):
    """Of carrying gradients from the output to the hidden layers and to some of the inputs."""
    return forward(sizes, batch) - 2 * batch * sizes[1] * (sizes[0] - inputs)


def fit(sizes, batch):
    """Of a network's forward pass and of the gradients of its hidden layers and weights."""
    return 2 * forward(sizes, batch) + backward_to(0, sizes, batch)


def update_flops(algo):
    """Operations of the matrix products of one update; TD3's policy learns in every other one."""
    (obs, *hidden, act), batch = SETTINGS[algo]["sizes"], SETTINGS[algo]["batch"]
    if algo == "dqn":
        q = (obs, *hidden, act)
        return forward(q, batch) + fit(q, batch)
    pi = (obs, *hidden, 2 * act if algo == "sac" else act)
    q = (obs + act, *hidden, 1)
    critics, judges = {"sac": (2, 2), "td3": (2, 1), "ddpg": (1, 1)}[algo]
    loss_q = forward(pi, batch) + critics * (forward(q, batch) + fit(q, batch))
    loss_pi = fit(pi, batch) + judges * (forward(q, batch) + backward_to(act, q, batch))
    return loss_q + loss_pi / (2 if algo == "td3" else 1)


def matmul_gflops(threads, n=1536, repetitions=30):
    """The best this machine does on a large float32 matrix product."""
    import torch

    torch.set_num_threads(threads)
    a, b, best = torch.randn(n, n), torch.randn(n, n), float("inf")
    for _ in range(repetitions):
        start = time.perf_counter()
        a @ b
        best = min(best, time.perf_counter() - start)
    torch.set_num_threads(1)
    return 2e-9 * n**3 / best


# --------------------------------------------------------------------------------------- reporting


def origin(result):
    """The lines above a table: the commands and the versions that produced it."""
    return "\n".join(dict.fromkeys(_origin(result | row) for row in result["algorithms"].values()))


def _origin(source):
    versions = ", ".join(f"{k} {v}" for k, v in source["versions"].items())
    load = f"load average {source['load']:.1f} before"
    return f"`{source['command']}` on {source['cores']} cores ({load}), {versions}."


def sweep_table(result):
    """The figures of `--sweep` as Markdown."""
    head = "".join(f" times as fast as {peer} |" for peer in SWEEP_TARGETS)
    lines = [
        origin(result),
        "",
        f"| steps/s of one of two runs | {' | '.join(SWEEP)} |{head}",
        "|---" * (len(SWEEP) + len(SWEEP_TARGETS) + 1) + "|",
    ]
    for algo, row in result["algorithms"].items():
        found = row["steps_per_second"]
        cells = [f"{found[side]:.0f}" if side in found else "" for side in SWEEP]
        for peer, target in SWEEP_TARGETS.items():
            if peer not in found:
                cells.append("")
                continue
            x = times(row, peer)
            span = f"{min(x):.2f} to {max(x):.2f}"
            cells.append(f"{statistics.median(x):.2f} ({span}), target {target}")
        lines.append(f"| {algo} | {' | '.join(cells)} |")
    return "\n".join(lines)


def sweep_misses(result):
    """The targets of `--sweep` that were missed, as sentences."""
    found = []
    for algo, row in result["algorithms"].items():
        for peer, target in SWEEP_TARGETS.items():
            if peer not in row["rounds"]:
                continue
            ratio = statistics.median(times(row, peer))
            if ratio < target:
                found.append(f"{algo} (sweep): {ratio:.2f} times as fast as {peer} < {target}")
    return found


def tables(result):
    """The figures as Markdown, for the screen and for README.md."""
    lines = [
        origin(result),
        "",
        "| ms per step | " + " | ".join(SIDES) + " | our better one: faster than SB3 | than SBX |",
        "|---" * (len(SIDES) + 3) + "|",
    ]
    for algo, row in result["algorithms"].items():
        cells = [f"{row['ms_per_step'][s]:.3g} ({row['cores_busy'][s]:.1f})" for s in SIDES]
        for peer in ("SB3", "SBX"):
            x = faster_than(peer, row)
            cells.append(
                f"{x['median']:.2f} ({min(x['rounds']):.2f} to {max(x['rounds']):.2f})"
                + (f", target {row['settings']['target']}" if peer == "SB3" else "")
            )
        lines.append(f"| {algo} | {' | '.join(cells)} |")
    lines += [
        "",
        "| | MFLOP per update | floor, 1 thread | ours, 1 thread, to it | floor, 2 threads "
        "| ours, 2 threads, to it |",
        "|---|---|---|---|---|---|",
    ]
    for algo, row in result["algorithms"].items():
        cells = [f"{row['update_flops'] / 1e6:.4g}"]
        for n, side in zip(("1", "2"), OURS, strict=True):
            floor = row["floor_ms_per_step"][n]
            cells += [f"{floor:.3g} ms", f"{row['ms_per_step'][side] / floor:.2f}"]
        lines.append(f"| {algo} | {' | '.join(cells)} |")
    return "\n".join(lines)


def misses(result):
    """The targets that were missed, as sentences."""
    found = []
    for algo, row in result["algorithms"].items():
        x, target = faster_than("SB3", row), row["settings"]["target"]
        if x["median"] < target:
            ratio = f"{x['median']:.2f} times as fast as Stable-Baselines3"
            found.append(f"{algo} ({x['ours']}): {ratio} < {target}")
    return found


def merged(before, result):
    """Return `result` with the rows of `before` that were not measured again, and their origin."""
    rows = {}
    for source in (before, result):
        where = {key: source[key] for key in ("command", "cores", "load", "versions") if source}
        rows |= {algo: where | row for algo, row in source.get("algorithms", {}).items()}
    return {**result, "algorithms": rows}


def save(part, result):
    """Keep what was measured now, and everything that was not, as data and as tables."""
    kept = json.loads(RESULT.read_text(encoding="utf-8")) if RESULT.exists() else {}
    sweep = kept.pop("sweep", None) or {}
    if part == "sweep":
        sweep = merged(sweep, result)
    else:
        kept = merged(kept, result)
    kept["sweep"] = sweep
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(json.dumps(kept, indent=2) + "\n", encoding="utf-8")
    text = PAGE.read_text(encoding="utf-8")
    block = f"{BEGIN}\n{page(kept)}\n{END}"
    pattern = re.escape(BEGIN) + ".*?" + re.escape(END)
    PAGE.write_text(re.sub(pattern, lambda _: block, text, flags=re.S), encoding="utf-8")


def page(kept):
    """All tables of README.md."""
    sweep = kept.get("sweep")
    return (f"{sweep_table(sweep)}\n\n" if sweep else "") + tables(kept)


def peer_versions():
    """Versions of what only the peers use, asked of their interpreter."""
    code = "import importlib.metadata as m, sys, json; "
    code += "print(json.dumps({name: m.version(name) for name in sys.argv[1:]}))"
    names = ("stable_baselines3", "sbx-rl", "jax")
    done = subprocess.run(
        [PEERS_PYTHON, "-c", code, *names], check=True, capture_output=True, text=True
    )
    return json.loads(done.stdout)


def main():
    """Measure, print tables, exit with 1 when a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "algos", nargs="*", metavar="algo", help="default: " + " ".join(ALONE_ALGOS)
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sweep", action="store_true", help="two runs side by side, one per core")
    parser.add_argument("--save", action="store_true", help="keep the figures as data")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    known = SETTINGS if args.worker else SWEEP_ALGOS if args.sweep else ALONE_ALGOS
    algos = args.algos or list(known)
    unknown = sorted(set(algos) - set(known))
    if unknown:
        parser.error(f"unknown algorithm {unknown[0]}: use {', '.join(known)}")
    if args.worker:
        worker(args.worker, algos[0], args.threads)
        return 0
    if not PEERS_PYTHON.exists():
        sys.exit("the peers are not installed: `make peers` installs them and runs this script")
    # what is pinned to two cores sees no others when it chooses its threads
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    load = os.getloadavg()[0]
    if load > 0.5:
        print(f"load average {load:.1f}: another program on these cores spoils every figure")
    result = {
        "command": shlex.join(["python", "benchmarks/peers.py", *sys.argv[1:]]),
        "cores": len(os.sched_getaffinity(0)),
        "load": load,
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in ("torch", "gymnasium", "mujoco")},
            **peer_versions(),
        },
        "algorithms": {},
    }
    if args.sweep:
        for algo in algos:
            sides = {side: what for side, what in SWEEP.items() if has(side, algo)}
            reports = measure(algo, args.rounds, sides, Pair)
            result["algorithms"][algo] = sweep_summary(algo, reports)
        table, missed = sweep_table(result), sweep_misses(result)
    else:
        gflops = result["matmul_gflops"] = {str(n): matmul_gflops(n) for n in (1, 2)}
        for algo in algos:
            result["algorithms"][algo] = summary(algo, measure(algo, args.rounds), gflops)
        table, missed = tables(result), misses(result)
    print(table)
    print("\n" + ("\n".join(f"MISSED {line}" for line in missed) or "all targets met"))
    if args.save:
        save("sweep" if args.sweep else "alone", result)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
