"""What the attacks share: counting outcomes, tiny runs, and trials in forked processes."""

import contextlib
import inspect
import os
import pickle
import resource
import shutil
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

ENVS = {
    "her": "spinup/BitFlip-v0",
    "ddpg": "Pendulum-v1",
    "td3": "Pendulum-v1",
    "sac": "Pendulum-v1",
}
# Two environment steps are enough for a file to change; a run takes a fraction of a second.
TINY = {
    "seed": 3,
    "steps_per_epoch": 24,
    "epochs": 3,
    "max_ep_len": 15,
    "save_freq": 1,
    "ac_kwargs": {"hidden_sizes": (4,)},
    "train_pi_iters": 2,
    "train_v_iters": 2,
    "replay_size": 30,
    "batch_size": 4,
    "start_steps": 6,
    "update_after": 6,
    "update_every": 6,
    "updates_per_step": 0.5,
    "num_test_episodes": 1,
}


class Tally:
    """The outcomes of one attack.

    held: nothing was lost and the result is the same; said: nothing was lost, and one sentence
    says what is wrong; broken: anything else.
    """

    def __init__(self, name, scale=1.0):
        self.name, self.scale = name, scale
        self.held = self.said = self.broken = 0
        self.what = ""  # one sentence for the table in the documentation
        self.details = Counter()  # figures that are worth keeping besides the outcomes
        self.examples = []

    @property
    def attempts(self):
        return self.held + self.said + self.broken

    def times(self, number):
        """Scale a number of random attempts."""
        return max(1, round(number * self.scale))

    def hold(self, kind=None):
        self.held += 1
        self._count(kind, "held")

    def say(self, kind=None):
        self.said += 1
        self._count(kind, "said")

    def breaks(self, where, why, kind=None):
        self.broken += 1
        self._count(kind, "broken")
        text = f"{where}: {why}"
        if len(self.examples) < 40:
            self.examples.append(text[:1000])
        print(f"BROKEN {self.name}: {text}", flush=True)

    def _count(self, kind, outcome):
        if kind is not None:
            self.details[f"{kind}: {outcome}"] += 1

    def entry(self):
        return {
            "name": self.name,
            "what": self.what,
            "attempts": self.attempts,
            "held": self.held,
            "said": self.said,
            "broken": self.broken,
            "details": dict(sorted(self.details.items())),
            "examples": self.examples,
        }


def train(algo, folder, **changes):
    """Train `algo` for three tiny epochs in `folder`, or as `changes` say."""
    from spinup import registry
    from spinup.envs import make_env

    function = registry.load(algo, "pytorch")
    known = inspect.signature(function).parameters
    env = ENVS.get(algo, "CartPole-v1")
    config = {k: v for k, v in {**TINY, **changes}.items() if k in known}
    return function(
        lambda: make_env(env), logger_kwargs={"output_dir": str(folder), "quiet": True}, **config
    )


def result(folder):
    """What must be equal of two completed runs: the table without times, and the weights."""
    from spinup.policies.saved import load_policy

    lines = Path(folder, "progress.txt").read_text().split("\n")
    time_column = lines[0].split("\t").index("Time")
    table = [tuple(c for i, c in enumerate(line.split("\t")) if i != time_column) for line in lines]
    _, tensors = load_policy(folder)
    weights = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in sorted(tensors.items())}
    return table, weights, Path(folder, ".finished").is_file()


def fresh_copy(source, target):
    """Replace `target` by a copy of `source`, links kept as links."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, symlinks=True)
    return Path(target)


@contextlib.contextmanager
def without_fsync():
    """Do not wait for the disk where durability is not what is tried."""
    fsync, os.fsync = os.fsync, lambda fd: None
    try:
        yield
    finally:
        os.fsync = fsync


class Outcome(NamedTuple):
    """How a trial ended: ok, said (one sentence), traceback, hang, died or memory."""

    kind: str
    value: Any  # what the function returned, if ok
    text: str  # the sentence, the traceback, or what was printed
    seconds: float
    printed: str


def trial(function, *args, seconds=20.0, memory=2 << 30):
    """Call a function in a forked process with limited time and memory; return the `Outcome`.

    An integer other than 0 is an exit code: then, standard error must end in one sentence, after
    at most three notices.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    read, write = os.pipe()
    out, err = (os.memfd_create(name) for name in ("out", "err"))
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        os.close(read)
        os.setsid()
        os.dup2(out, 1)
        os.dup2(err, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        _child(function, args, write, memory)
    os.close(write)
    waiting = start + seconds
    status = None
    os.set_blocking(read, False)
    data = b""
    while time.monotonic() < waiting:
        with contextlib.suppress(BlockingIOError):
            data += os.read(read, 1 << 20)
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        status = None
        time.sleep(0.002)
    if status is None:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    with contextlib.suppress(BlockingIOError):
        while block := os.read(read, 1 << 20):
            data += block
    took = time.monotonic() - start
    printed, errors = (os.pread(fd, 1 << 20, 0).decode("utf-8", "replace") for fd in (out, err))
    for fd in (read, out, err):
        os.close(fd)
    if status is None:
        return Outcome("hang", None, f"not done after {seconds} s", took, printed + errors)
    if not data:
        return Outcome("died", None, f"status {status}", took, printed + errors)
    kind, value, text = pickle.loads(data)  # written by our own child
    if kind == "ok" and type(value) is int and value != 0:
        *notices, last = errors.strip().splitlines() or [""]
        fine = last.startswith("spinup: ") and len(notices) < 4 and "Traceback" not in errors
        kind, text = ("said", last) if fine else ("traceback", errors)
    if kind == "ok" and "Traceback (most recent call last)" in errors:
        kind, text = "traceback", errors
    return Outcome(kind, value, text, took, printed + errors)


def _child(function, args, write, memory):
    from spinup.utils.errors import SpinupError

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * resource.getpagesize() + memory
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warnings.simplefilter("always")
    try:
        try:
            found = ("ok", function(*args), "")
        except SpinupError as error:
            found = ("said", None, str(error))
        except SystemExit as error:
            found = ("ok", error.code, "")
        except MemoryError:
            found = ("memory", None, traceback.format_exc())
        except BaseException:
            found = ("traceback", None, traceback.format_exc())
        sys.stdout.flush()
        sys.stderr.flush()
        data = memoryview(pickle.dumps(found))
        while data:
            data = data[os.write(write, data) :]
    finally:
        os._exit(0)
