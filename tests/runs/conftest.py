"""Runs to start, kill, resume and compare, each in a process of its own."""

import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch

from spinup import registry
from spinup.envs import make_env
from spinup.runs.storage.arrays import Piece
from spinup.runs.storage.checkpoints import load_checkpoint

CHILD = Path(__file__).with_name("child.py")
SECONDS = 120  # longer than any run here takes on a busy machine

# What a small run of an algorithm that learns from replay is made of: the buffer is full in the
# second epoch of seven, and gradient steps come in rounds of two and three.
_REPLAY = {"replay_size": 100, "save_freq": 2, "num_test_episodes": 1, "num_threads": 1}
_UPDATES = {
    "batch_size": 8,
    "start_steps": 50,
    "update_after": 40,
    "update_every": 10,
    "updates_per_step": 0.25,
}
_DQN = {
    "anneal_lr": False,
    "n_step": 3,
    "prioritized": True,
    "eps_steps": 200,
    "target_update_every": 7,
}
# Each of them, where it is tried, and with what.
OFF_POLICY = {
    "ddpg": ("HalfCheetah-v5", {**_REPLAY, **_UPDATES}),
    "td3": ("Hopper-v5", {**_REPLAY, **_UPDATES}),
    "sac": ("Hopper-v5", {**_REPLAY, **_UPDATES, "alpha": "auto"}),
    "dqn": ("CartPole-v1", {**_REPLAY, **_UPDATES, **_DQN}),
    "acer": ("CartPole-v1", {**_REPLAY, "n_steps": 10, "replay_ratio": 1.0}),
    "her": ("bits", {**_REPLAY, **_UPDATES}),
}


class Process:
    """A training process: its id, its output, its end."""

    def __init__(self, server, pid, log):
        self.server, self.pid, self.log = server, pid, log

    def kill(self, number=signal.SIGKILL):
        """Send a signal; a process that has ended already is left alone (it is a zombie still)."""
        os.kill(self.pid, number)

    def wait(self):
        """The exit code as `subprocess` has it: negative for a signal."""
        status = self.server.ask({"wait": self.pid, "seconds": SECONDS})
        assert status is not None, f"took longer than {SECONDS} s:\n{self.output()}"
        return os.waitstatus_to_exitcode(status)

    def output(self):
        """Everything it printed."""
        return self.log.read_text(errors="replace")


class Runs:
    """Starts runs described as `child.py` says.

    A child is forked from a server that has everything imported, so that a run costs what it
    computes and not what importing torch costs. `fresh` starts a new interpreter instead.
    """

    def __init__(self, folder):
        self.folder, self.count, self.references = folder, 0, {}
        self.server = subprocess.Popen(
            [sys.executable, str(CHILD), "--serve"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
        )

    def ask(self, request):
        """One request to the server and its answer."""
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())

    def close(self):
        """End the server."""
        self.server.stdin.close()
        self.server.wait(timeout=30)

    def new_dir(self):
        """A path for a run directory that does not exist yet."""
        self.count += 1
        return self.folder / f"run{self.count}"

    def start(self, spec, out, **changes):
        """Start a run and do not wait."""
        self.count += 1
        log = self.folder / f"log{self.count}.txt"
        request = {"start": described(spec, out, **changes), "log": str(log)}
        return Process(self, self.ask(request), log)

    def train(self, spec, out, expect=0, **changes):
        """A run from start to end; returns what it printed."""
        process = self.start(spec, out, **changes)
        code = process.wait()
        assert code == expect, f"exit code {code}, not {expect}:\n{process.output()}"
        return process.output()

    def resume(self, spec, out, **changes):
        """Continue a run to its end; returns what it printed."""
        return self.train(spec, out, resume=True, **changes)

    def fresh(self, spec, out, **changes):
        """A run in a new interpreter, as (exit code, standard output, standard error)."""
        text = json.dumps(described(spec, out, **changes))
        done = subprocess.run(
            [sys.executable, str(CHILD), text],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=SECONDS,
        )
        return done.returncode, done.stdout, done.stderr

    def fresh_all(self, specs, **changes):
        """All of `specs`, one after the other, in one new interpreter: their directories."""
        outs = [self.new_dir() for _ in specs]
        self._fresh([described(s, out, **changes) for s, out in zip(specs, outs, strict=True)])
        return outs

    def fresh_twice(self, specs, **changes):
        """All of `specs` in one new interpreter, each two times: [(directory, directory), ...]."""
        pairs = [(self.new_dir(), self.new_dir()) for _ in specs]
        self._fresh(
            described(spec, first, again=str(second), **changes)
            for spec, (first, second) in zip(specs, pairs, strict=True)
        )
        return pairs

    def _fresh(self, described_all):
        done = subprocess.run(
            [sys.executable, str(CHILD), json.dumps(list(described_all))],
            capture_output=True,
            text=True,
            cwd=self.folder,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stderr

    def reference(self, spec):
        """The directory of the same run without any trouble, made once."""
        quiet = {k: v for k, v in spec.items() if k in ("algo", "env", "kwargs", "actor_critic")}
        key = json.dumps(quiet, sort_keys=True)
        if key not in self.references:
            out = self.new_dir()
            self.train(quiet, out)
            self.references[key] = out
        return self.references[key]

    def assert_same(self, spec, out):
        """The run in `out` ended exactly as one that was never interrupted."""
        assert_same_run(self.reference(spec), out)

    # What tests need beside processes; pytest gives them no other way to import it.
    small = staticmethod(lambda *args, **kwargs: small(*args, **kwargs))
    table = staticmethod(lambda out: table(out))
    state = staticmethod(lambda out: final_state(out))
    policy_files = staticmethod(lambda out: policy_files(out))
    assert_same_run = staticmethod(lambda a, b: assert_same_run(a, b))
    assert_whole_table = staticmethod(lambda *args: assert_whole_table(*args))
    differences = staticmethod(lambda a, b: differences(a, b))
    off_policy = tuple(OFF_POLICY)


def described(spec, out, **changes):
    """`spec` with its run directory; `changes` go to the algorithm unless child.py knows them."""
    own = ("at_step", "at_call", "disturb", "again", "thread", "dump", "patience", "file_limit")
    own += ("env", "algo")
    outer = {k: changes.pop(k) for k in own if k in changes}
    return {**spec, **outer, "out": str(out), "kwargs": {**spec["kwargs"], **changes}}


def small(algo, env=None, actor_critic=None, **kwargs):
    """The description of a run that takes less than a second."""
    defaults = {"seed": 3, "steps_per_epoch": 60, "epochs": 7, "save_freq": 3, "max_ep_len": 45}
    if not registry.get(algo).on_policy:
        usual, more = OFF_POLICY[algo]
        env = env or usual
        defaults.update(more)
    elif algo != "reinforce":
        defaults["train_v_iters"] = 5
    if algo == "ppo":
        defaults["train_pi_iters"] = 5
    if actor_critic is None:
        defaults["ac_kwargs"] = {"hidden_sizes": [8]}
    spec = {"algo": algo, "env": env, "kwargs": {**defaults, **kwargs}}
    return spec if actor_critic is None else {**spec, "actor_critic": actor_critic}


def table(out, name="progress.txt", clock="Time"):
    """A table as a list of rows (dicts of text), the time aside."""
    lines = (Path(out) / name).read_text().split("\n")
    assert lines.pop() == "", f"{name} ends with half a line"
    headers = lines[0].split("\t")
    assert headers[-1] == clock
    rows = [dict(zip(headers, line.split("\t"), strict=True)) for line in lines[1:]]
    for row in rows:
        assert float(row.pop(clock)) >= 0
    return rows


def diagnostics(out):
    """`diagnostics.txt` as a list of rows, the speed aside; one for each row of `progress.txt`."""
    rows = table(out, "diagnostics.txt", "StepsPerSec")
    assert [row["Epoch"] for row in rows] == [row["Epoch"] for row in table(out)]
    return rows


def assert_whole_table(out, epochs, steps_per_epoch):
    """Every epoch has its row, once and in order, with the exact number of steps."""
    rows = table(out)
    assert [int(row["Epoch"]) for row in rows] == list(range(epochs))
    assert [int(row["TotalEnvInteracts"]) for row in rows] == [
        steps_per_epoch * (i + 1) for i in range(epochs)
    ]


def final_state(out):
    """The newest checkpoint, without what depends on the clock, with the arrays of its pieces."""
    state, _ = load_checkpoint(Path(out) / "checkpoints")
    del state["seconds"]
    del state["diagnostics"]["seconds"]
    for saved in (state["logger"], state["diagnostics"]["table"]):
        del saved["offset"]  # the Time column has more digits here and fewer there
        del saved["sha256"]
    return with_pieces(state)


def with_pieces(state):
    """A state with what its pieces hold in their place: their files have random names."""
    if isinstance(state, Piece):
        return state.load()
    if type(state) is dict:
        # Gymnasium's RecordEpisodeStatistics keeps how long episodes took
        return {name: with_pieces(value) for name, value in state.items() if name != "time_queue"}
    if type(state) in (list, tuple):
        return type(state)(with_pieces(value) for value in state)
    return state


def differences(a, b, path="state"):
    """Where two nested states differ, bit for bit."""
    if type(a) is not type(b):
        return [f"{path}: {type(a).__name__} and {type(b).__name__}"]
    if isinstance(a, dict):
        if list(a) != list(b):
            return [f"{path}: keys {list(a)} and {list(b)}"]
        return [d for k in a for d in differences(a[k], b[k], f"{path}.{k}")]
    if isinstance(a, (list, tuple)):
        if len(a) != len(b):
            return [f"{path}: {len(a)} and {len(b)} entries"]
        return [
            d
            for i, (x, y) in enumerate(zip(a, b, strict=True))
            for d in differences(x, y, f"{path}[{i}]")
        ]
    if isinstance(a, torch.Tensor):
        a, b = a.detach().numpy(), b.detach().numpy()
    if isinstance(a, np.ndarray):
        same = a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        return [] if same else [f"{path}: arrays differ"]
    return [] if a == b or (a != a and b != b) else [f"{path}: {a!r} and {b!r}"]


def policy_files(out):
    """The bytes of the saved policy."""
    folder = Path(out) / "pyt_save"
    return {p.name: p.read_bytes() for p in sorted(folder.glob("policy*"))}


def assert_same_run(a, b):
    """Equal tables (time aside), equal policies, and the same state of everything else."""
    assert table(a) == table(b)
    assert diagnostics(a) == diagnostics(b)
    assert policy_files(a) == policy_files(b)
    assert policy_files(a), "no policy was saved"
    assert differences(final_state(a), final_state(b)) == []
    for out in (a, b):
        assert (Path(out) / ".finished").exists()
        leftovers = [p.name for p in Path(out).rglob(".tmp-*")]
        assert leftovers == []
        assert stray_pieces(out) == set()


def stray_pieces(out):
    """Pieces on the disk that no checkpoint names."""
    folder = Path(out) / "checkpoints"
    manifests = [json.loads(path.read_text()) for path in folder.glob("*/manifest.json")]
    named = {name for manifest in manifests for name in manifest["pieces"]}
    return {path.name for path in folder.glob("pieces/*")} - named


@pytest.fixture(scope="session")
def runs(tmp_path_factory):
    """The `Runs` of this test process."""
    runs = Runs(tmp_path_factory.mktemp("resume"))
    yield runs
    runs.close()


class At(gymnasium.Wrapper):
    """CartPole that calls `trouble` before its n-th step."""

    def __init__(self, n, trouble):
        super().__init__(make_env("CartPole-v1"))
        self.left, self.trouble = n, trouble

    def step(self, action):
        self.left -= 1
        if self.left == 0:
            self.trouble()
        return super().step(action)


def _at(n, trouble):
    once = functools.cache(trouble)
    return lambda: At(n, once)


def _undisturbed():
    return At(0, None)


@pytest.fixture(scope="session")
def at():
    """at(n, trouble): a function that makes such environments; one of them has trouble, once."""
    return _at


@pytest.fixture(scope="session")
def undisturbed():
    """A function that makes such environments without trouble; always the same function."""
    return _undisturbed
