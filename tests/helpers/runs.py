"""Training runs in processes of their own, to start, signal, kill, resume and compare."""

import json
import os
import signal
import subprocess
import sys

from spinup import registry
from tests.helpers.comparing import assert_same_run
from tests.helpers.processes import environment, run_python

SECONDS = 300  # longer than any run here takes on a busy machine

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
    """Starts runs described as `helpers.child` says.

    A child is forked from a server that has everything imported, so that a run costs what it
    computes and not what importing torch costs. `fresh` starts a new interpreter instead.
    """

    def __init__(self, folder):
        self.folder, self.count, self.references = folder, 0, {}
        self.server = subprocess.Popen(
            [sys.executable, "-m", "tests.helpers.child_server"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            env=environment(),
        )

    def ask(self, request):
        """One request to the server and its answer."""
        self.server.stdin.write(json.dumps(request) + "\n")
        self.server.stdin.flush()
        return json.loads(self.server.stdout.readline())

    def close(self):
        """End the server."""
        self.server.stdin.close()
        self.server.wait(timeout=SECONDS)

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

    def new(self, spec, expect=0, **changes):
        """A run from start to end in a new directory, which is returned."""
        out = self.new_dir()
        self.train(spec, out, expect, **changes)
        return out

    def resume(self, spec, out, **changes):
        """Continue a run to its end; returns what it printed."""
        return self.train(spec, out, resume=True, **changes)

    def assert_resumes(self, spec, out, **changes):
        """Continue a run; it ends exactly as one that was never interrupted."""
        self.resume(spec, out, **changes)
        self.assert_same(spec, out)

    def fresh(self, spec, out, **changes):
        """A run in a new interpreter, as (exit code, standard output, standard error)."""
        text = json.dumps(described(spec, out, **changes))
        done = run_python("-m", "tests.helpers.child", text, expect=None, cwd=self.folder)
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
        text = json.dumps(list(described_all))
        run_python("-m", "tests.helpers.child", text, cwd=self.folder)

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


def described(spec, out, **changes):
    """`spec` with its run directory; `changes` go to the algorithm unless `child` knows them."""
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
