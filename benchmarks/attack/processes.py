"""Processes that are signaled, killed, stopped, lost, or hang, at random instants.

Single runs are forked from this process, which has imported everything, so that an attempt takes
less than a second. Grids, MPI jobs and Ray clusters are started as a user starts them.
"""

import contextlib
import importlib.util
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import uuid
from pathlib import Path

from benchmarks.attack.common import result, train, without_fsync

ROOT = Path(__file__).parents[2]
MARK = "SPINUP_ATTACK"  # in the environment of everything that an attack starts
SECONDS = 180.0  # longer than anything here takes on a busy machine


# --------------------------------------------------------------------------- one run, forked


class Forked:
    """A function in a forked process with its own session, where a signal can reach it."""

    def __init__(self, function, *args, **kwargs):
        self._out = os.memfd_create("out")
        sys.stdout.flush()
        sys.stderr.flush()
        self.start = time.monotonic()
        self.pid = os.fork()
        if self.pid == 0:
            self._call(function, args, kwargs)

    def _call(self, function, args, kwargs):
        os.setsid()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        os.dup2(self._out, 1)
        os.dup2(self._out, 2)
        code = 0
        try:
            with without_fsync():
                function(*args, **kwargs)
        except KeyboardInterrupt:  # as the interpreter does
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 1
        except BaseException as error:
            from spinup.utils.errors import SpinupError

            code = 2 if isinstance(error, SpinupError) else 1
            print(f"spinup: {error}" if code == 2 else traceback.format_exc(), flush=True)
        finally:
            os._exit(code)

    def signal(self, number):
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def wait(self, seconds=SECONDS):
        """Return the exit status (negative: by signal); None if it had to be killed."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.005)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None

    def output(self):
        return os.pread(self._out, 1 << 20, 0).decode("utf-8", "replace")

    def members(self):
        """Return the processes that are left of its session."""
        found = []
        for pid in pids():
            with contextlib.suppress(OSError):
                if os.getsid(pid) == self.pid and is_alive(pid):
                    found.append(pid)
        return found

    def end(self):
        """Close the output; return the processes that outlive the run by seconds."""
        limit = time.monotonic() + 8
        while (left := self.members()) and time.monotonic() < limit:
            time.sleep(0.05)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.close(self._out)
        return left


def pids():
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal()]


def is_alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def children(pid):
    try:
        tasks = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [int(word) for word in tasks]


# Long enough for an instant to fall into training, saving or testing.
RUNS = {
    "ppo": ("ppo", {"epochs": 8}),
    "dqn": ("dqn", {"epochs": 8}),
    "ppo, async": ("ppo", {"epochs": 6, "vector": "async", "num_envs": 2}),
}


def reference(name, folder):
    """Train without trouble; return the result and the seconds that it took."""
    import gymnasium.envs.classic_control  # noqa: F401  # here, so that no fork imports anything
    import torch

    from spinup import registry
    from spinup.runs import resuming  # noqa: F401

    algo, changes = RUNS[name]
    registry.load(algo, "pytorch")
    torch.set_num_threads(1)
    took = 0.0
    for i in range(2):  # the first one also warms up caches
        out = folder / f"reference{i}"
        run = Forked(train, algo, out, **changes)
        status = run.wait()
        took = time.monotonic() - run.start
        printed = run.output()
        run.end()
        if status != 0:
            raise RuntimeError(f"{name} ended with status {status}:\n{printed}")
    return result(out), took


def resumed(tally, kind, where, out, expected, algo, changes):
    """Continue an interrupted run to its end and compare; count the outcome."""
    run = Forked(train, algo, out, resume=True, **changes)
    status, printed = run.wait(), run.output()
    left = run.end()
    if status != 0 or left:
        tally.breaks(where, f"resuming: status {status}, left {left}: {printed[-600:]}", kind)
    elif result(out) != expected:
        tally.breaks(where, "the resumed run differs", kind)
    else:
        tally.hold(kind)


SIGNALS = {
    "SIGINT": [signal.SIGINT],
    "SIGTERM": [signal.SIGTERM],
    "SIGHUP": [signal.SIGHUP],
    "SIGUSR1": [signal.SIGUSR1],
    "SIGKILL": [signal.SIGKILL],
    "SIGINT twice": [signal.SIGINT, signal.SIGINT],
    "SIGHUP, SIGTERM, SIGINT": [signal.SIGHUP, signal.SIGTERM, signal.SIGINT],
}


def signals(tally, folder):
    tally.what = "signals at random instants; the run is resumed and compared"
    rng = random.Random(0)
    for name, (algo, changes) in RUNS.items():
        expected, took = reference(name, folder / name.replace(", ", "-"))
        for label, numbers in SIGNALS.items():
            for i in range(tally.times(6)):
                out = folder / "run"
                shutil.rmtree(out, ignore_errors=True)
                kind, instant = f"{name}, {label}", rng.uniform(0, took)
                where = f"{kind}, attempt {i}, after {instant:.3f} s"
                run = Forked(train, algo, out, **changes)
                time.sleep(instant)
                for number in numbers:
                    run.signal(number)
                    time.sleep(rng.uniform(0, 0.02))
                status, printed = run.wait(30), run.output()
                left = run.end()
                ends = {0, *(-n for n in numbers), *(128 + n for n in numbers)}
                saved = "Stopped and saved" in printed
                # Python's own note of signals that arrive together; nothing is lost by it
                noted = "ignored due to race condition" in printed
                tally.details["with a note of Python that a signal was ignored"] += noted
                if status not in ends or left or ("Traceback" in printed and not noted):
                    why = f"status {status}, left {left}: {printed[-600:]}"
                    tally.breaks(where, why, kind)
                elif saved and status not in (-signal.SIGINT, *(128 + n for n in numbers)):
                    tally.breaks(where, f"it saved, but ended with status {status}", kind)
                else:
                    tally.details["stopped and saved"] += saved
                    resumed(tally, kind, where, out, expected, algo, changes)


def worker_killed(tally, folder):
    tally.what = "a worker process of vector='async' killed at a random instant"
    rng = random.Random(1)
    name = "ppo, async"
    algo, changes = RUNS[name]
    expected, took = reference(name, folder)
    for i in range(tally.times(20)):
        out = folder / "run"
        shutil.rmtree(out, ignore_errors=True)
        where = f"attempt {i}"
        run = Forked(train, algo, out, **changes)
        time.sleep(rng.uniform(0, took))
        found = children(run.pid)
        if found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(rng.choice(found), signal.SIGKILL)
        status, printed = run.wait(30), run.output()
        left = run.end()
        said = [line for line in printed.splitlines() if line.startswith("spinup: the worker")]
        if status not in (0, 2) or left or "Traceback" in printed or (status == 2) != bool(said):
            tally.breaks(where, f"status {status}, left {left}: {printed[-600:]}")
            continue
        tally.details["said which environment died"] += bool(said)
        resumed(tally, None, where, out, expected, algo, changes)


def same_instant(tally, folder):
    tally.what = "two runs started at the same instant in one directory: exactly one trains"
    expected, _ = reference("ppo", folder)
    algo, changes = RUNS["ppo"]

    def wait_and_train(gate, out, resume):
        os.read(gate, 1)
        train(algo, out, resume=resume, **changes)

    for i in range(tally.times(20)):
        out = folder / f"run{i}"
        read, write = os.pipe()
        pair = [Forked(wait_and_train, read, out, i % 2 == 1) for _ in range(2)]
        os.write(write, b"go")
        ends = [(run.wait(), run.output()) for run in pair]
        left = [pid for run in pair for pid in run.end()]
        os.close(read)
        os.close(write)
        codes = sorted(str(status) for status, _ in ends)
        said = "".join(text for status, text in ends if status == 2)
        if codes != ["0", "2"] or "is writing to" not in said or left:
            tally.breaks(f"attempt {i}", f"{ends}, left {left}")
        elif result(out) != expected or (out / ".old").exists():
            tally.breaks(f"attempt {i}", "the run that trained differs")
        else:
            tally.say()


def clock_set_back(tally, folder):
    tally.what = "the wall clock jumps while a run trains, stops and resumes: no duration is odd"

    def jumping(algo, out, seed, **changes):
        rng, real = random.Random(seed), time.time
        time.time = lambda: real() + rng.choice((-1e9, -86400.0, -3600.0, 0.0, 3600.0, 1e9))
        train(algo, out, **changes)

    rng = random.Random(2)
    for i in range(tally.times(12)):
        name = rng.choice(("ppo", "dqn"))
        algo, changes = RUNS[name]
        out = folder / f"run{i}"
        begin = time.monotonic()
        run = Forked(jumping, algo, out, i, **changes)
        time.sleep(rng.uniform(0, 0.5))
        run.signal(signal.SIGTERM)
        run.wait()
        run.end()
        run = Forked(jumping, algo, out, i + 1000, resume=True, **changes)
        status, printed = run.wait(), run.output()
        run.end()
        most = time.monotonic() - begin
        if status != 0:
            tally.breaks(f"attempt {i}", f"status {status}: {printed[-600:]}")
            continue
        rows = [line.split("\t") for line in (out / "progress.txt").read_text().splitlines()]
        times = [float(row[rows[0].index("Time")]) for row in rows[1:]]
        if times != sorted(times) or not all(0 <= t <= most for t in times):
            tally.breaks(f"attempt {i}", f"the column Time is {times}")
        else:
            tally.hold()


# ------------------------------------------------------------------- programs as users start them


class Job:
    """A program and everything that it starts, which is found by a mark in the environment."""

    def __init__(self, command, folder, **variables):
        self.mark = uuid.uuid4().hex
        self.start = time.monotonic()
        folder.mkdir(parents=True, exist_ok=True)
        self._out = tempfile.TemporaryFile()  # noqa: SIM115
        inherited = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMI"))}
        tools = os.path.dirname(sys.executable)
        self.process = subprocess.Popen(
            [sys.executable, *map(str, command)],
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={
                **inherited,
                "PYTHONPATH": str(ROOT),
                "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
                MARK: self.mark,
                **variables,
            },
            start_new_session=True,
            preexec_fn=_default_signals,
        )

    @property
    def output(self):
        self._out.seek(0)
        return self._out.read().decode("utf-8", "replace")

    def members(self, *words):
        """Return the running processes that this job started, with `words` in their variables."""
        found = []
        for pid in pids():
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{pid}/environ").read_bytes()
                if all(w in environment for w in (self.mark.encode(), *words)) and is_alive(pid):
                    found.append(pid)
        return found

    def ranks(self):
        """Return the MPI processes."""
        return [p for p in self.members(b"OMPI_COMM_WORLD_RANK=") if "mpirun" not in _command(p)]

    def until(self, condition, seconds=SECONDS):
        """Return the first true value of `condition()`; None if the job ends first."""
        limit = time.monotonic() + seconds
        while time.monotonic() < limit:
            value = condition()
            if value:
                return value
            if self.process.poll() is not None:
                return None
            time.sleep(0.02)
        return None

    def wait(self, seconds=SECONDS):
        """Return the exit status; None if it did not end."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self, seconds=10.0):
        """Return the processes that outlive the program by this time, and kill them."""
        limit = time.monotonic() + seconds
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        while (left := self.members()) and time.monotonic() < limit:
            time.sleep(0.05)
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return left


def _default_signals():
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)


def _command(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


# ------------------------------------------------------------------------------------ MPI jobs

MPI = "ppo --env CartPole-v1 --cpu 2 --hid 4 --l 1 --steps 200 --epochs 30 --save_freq 1 --seed 3"
MPI += " --train_pi_iters 2 --train_v_iters 2 --exp_name mpi --data_dir data"


def mpi_job(folder, *more):
    return Job(["-m", "spinup.run", *MPI.split(), *more], folder)


def mpi_folder(folder):
    return folder / "data" / "mpi" / "mpi_s3"


def mpi_reference(folder):
    job = mpi_job(folder)
    status, took = job.wait(), time.monotonic() - job.start
    if status != 0 or job.end():
        raise RuntimeError(f"the reference ended with status {status}:\n{job.output[-2000:]}")
    return result(mpi_folder(folder)), took


def lacks(tally, module, extra):
    """Return whether a module is missing, which the record then says."""
    missing = importlib.util.find_spec(module) is None
    tally.details[f"not tried, because it needs the extra '{extra}'"] += missing
    return missing


def launcher_killed(tally, folder):
    tally.what = "spinup ppo --cpu 2: the launcher, or mpirun, killed at a random instant"
    if lacks(tally, "mpi4py", "mpi"):
        return
    rng = random.Random(3)
    expected, took = mpi_reference(folder / "reference")
    for i in range(tally.times(6)):
        where, whom = folder / f"run{i}", ("launcher", "mpirun")[i % 2]
        job = mpi_job(where)
        job.until((mpi_folder(where) / "progress.txt").exists)
        time.sleep(rng.uniform(0, took / 3))
        if whom == "launcher":
            job.process.kill()
        else:
            for pid in [p for p in job.members() if "mpirun" in _command(p).split("\0")[0]]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        job.wait()
        left = job.end()
        if left:
            tally.breaks(f"attempt {i}", f"processes left: {left}\n{job.output[-600:]}", whom)
            continue
        again = mpi_job(where, "--resume")
        status = again.wait()
        left = again.end()
        if status != 0 or left:
            why = f"resuming: status {status}, left {left}: {again.output[-600:]}"
            tally.breaks(f"attempt {i}", why, whom)
        elif result(mpi_folder(where)) != expected:
            tally.breaks(f"attempt {i}", "the resumed run differs", whom)
        else:
            tally.hold(whom)


def rank_killed(tally, folder):
    tally.what = "--max_restarts: MPI processes killed at random instants, three times per run"
    if lacks(tally, "mpi4py", "mpi"):
        return
    rng = random.Random(4)
    expected, took = mpi_reference(folder / "reference")
    for i in range(tally.times(3)):
        where, kills = folder / f"run{i}", 0
        job = mpi_job(where, "--max_restarts", "9")
        while kills < 3 and job.until((mpi_folder(where) / "progress.txt").exists):
            time.sleep(rng.uniform(0, took / 4))
            found = job.ranks()
            if found and job.process.poll() is None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(found), signal.SIGKILL)
                    kills += 1
                    job.until(lambda n=kills, job=job: job.output.count("restarting from") >= n)
            elif job.process.poll() is not None:
                break
        status = job.wait()
        left = job.end()
        tally.details["kills"] += kills
        tally.details["restarts"] += job.output.count("restarting from")
        if status != 0 or left:
            tally.breaks(f"attempt {i}", f"status {status}, left {left}: {job.output[-1500:]}")
        elif result(mpi_folder(where)) != expected:
            tally.breaks(f"attempt {i}", "the restarted run differs")
        else:
            tally.hold()


def rank_stopped(tally, folder):
    tally.what = "an MPI process stopped with SIGSTOP: it continues after SIGCONT, or it is named"
    if lacks(tally, "mpi4py", "mpi"):
        return
    expected, _ = mpi_reference(folder / "reference")
    for i, kind in enumerate(("SIGCONT", "never")):
        where = folder / f"run{i}"
        job = mpi_job(where, *(["--mpi_timeout", "20"] if kind == "never" else []))
        job.until((mpi_folder(where) / "checkpoints").exists)
        ranks = job.ranks()
        if len(ranks) != 2:
            tally.breaks(kind, f"{len(ranks)} processes to stop: {job.output[-600:]}", kind)
            job.end()
            continue
        os.kill(ranks[1], signal.SIGSTOP)
        if kind == "SIGCONT":
            time.sleep(4)
            os.kill(ranks[1], signal.SIGCONT)
        status = job.wait()
        left = job.end()
        named = f"(pid {ranks[1]}) was stopped by a signal" in job.output
        if left or status != (0 if kind == "SIGCONT" else 124) or named != (kind == "never"):
            tally.breaks(kind, f"status {status}, left {left}: {job.output[-1500:]}", kind)
            continue
        if kind == "never":
            again = mpi_job(where, "--resume")
            status = again.wait()
            again.end()
        if status != 0 or result(mpi_folder(where)) != expected:
            tally.breaks(kind, f"status {status}, or the run differs", kind)
        elif named:
            tally.say(kind)
        else:
            tally.hold(kind)


# ---------------------------------------------------------------------------------------- grids

FAULTS = {
    "exit_0": "sys.exit(0)",
    "exit_3": "sys.exit(3)",
    "exit_word": "sys.exit('a word')",
    "exit_143": "sys.exit(143)",
    "_exit_0": "os._exit(0)",
    "_exit_3": "os._exit(3)",
    "_exit_75": "os._exit(75)",
    "memory": "bytearray(1 << 60)",
    "recursion": "(f := lambda: f())()",
    "segfault": "ctypes.string_at(0)",
    "abort": "os.abort()",
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "real_time": "os.kill(os.getpid(), 40)",
    "interrupt": "_raise(KeyboardInterrupt())",
    "base": "_raise(asyncio.CancelledError())",
    "generator": "_raise(GeneratorExit())",
    "surrogate": "_raise(ValueError('\\udc80 \\x00 \\x1b[31m'))",
    "long": "_raise(ValueError('x' * 5_000_000))",
    "no_text": "_raise(NoText())",
    "closed": "(os.close(1), os.close(2), _raise(ValueError('closed')))",
    "no_output": "(setattr(sys, 'stdout', None), setattr(sys, 'stderr', None), 1 / 0)",
    "moved": "(os.chdir('/'), 1 / 0)",
    "stack": "threading.Thread(target=os.abort).start()",
}
# These end their process: in a grid that runs its cells in its own process, they end the grid.
FATAL = {"_exit_0", "_exit_3", "_exit_75", "segfault", "abort", "killed", "real_time", "stack"}
FATAL |= {"interrupt", "exit_143"}  # what Ctrl-C and SIGTERM look like
FATAL |= {"closed", "no_output"}  # the grid has no output of its own then


def failing_cells(tally, folder):
    tally.what = "a grid with cells that exit, crash, and raise what is no Exception"
    for workers in (1, 2):
        faults = [name for name in FAULTS if workers > 1 or name not in FATAL]
        where = folder / f"grid{workers}"
        options = {"faults": [*faults, "good"], "num_workers": workers}
        job = Job(["-m", "benchmarks.attack.processes", "fail", json.dumps(options)], where)
        status, printed = job.wait(), job.output
        left = job.end()
        done = {path.name for path in where.glob("good-*")}
        if status != 1 or left or len(done) != 1:
            tally.breaks(f"{workers} workers", f"{status}, {left}, {done}: {printed[-3000:]}")
            continue
        for name in faults:
            states = {p: json.loads(p.read_text()) for p in where.rglob("state.json")}
            (state,) = (s["state"] for p, s in states.items() if p.parent.name == f"fail_{name}_s0")
            named = any(f"fail_{name}_s0 failed" in line for line in printed.splitlines())
            if state == "done" or not named:
                tally.breaks(f"{name}, {workers} workers", f"is {state}, named: {named}")
            else:
                tally.say(f"{workers} workers")


def hanging_cell(tally, folder):
    tally.what = "a cell that hangs: the others finish, and a signal ends the grid"
    trials = [(how, number) for how in ("env", "loop", "deaf") for number in (2, 15, 9)]
    for how, number in trials:
        where = folder / f"{how}{number}"
        options = {"hang": how, "num_workers": 2}
        job = Job(["-m", "benchmarks.attack.processes", "hang", json.dumps(options)], where)
        others = job.until(
            lambda where=where: len(list(where.glob("good-*"))) == 3 and (where / "hangs").exists(),
            60,
        )
        kind = signal.Signals(number).name
        if not others:
            tally.breaks(how, f"the others did not finish: {job.output[-1000:]}", kind)
            job.end()
            continue
        time.sleep(0.5)
        os.kill(job.process.pid, number)
        status = job.wait(30)
        left = job.end(75.0)  # a worker gives itself a minute
        # a function that does not catch SIGTERM ends at once
        named = how == "loop" or "hang_s0 did not save and stop when asked" in job.output
        if left or status != {2: 130, 15: 143, 9: -9}[number]:
            tally.breaks(how, f"status {status}, left {left}: {job.output[-1500:]}", kind)
        elif number != 9 and not named:
            tally.breaks(how, f"nothing says which cell hung: {job.output[-1500:]}", kind)
        elif number == 9:
            tally.hold(kind)
        else:
            tally.say(kind)


def ray_lost(tally, folder):
    tally.what = "a node, or a worker, of a Ray cluster lost at a random instant of a grid"
    if lacks(tally, "ray", "cluster"):
        return
    from ray.cluster_utils import Cluster

    def table(where):
        return [result(where / "ray" / f"ray_s{seed}") for seed in range(3)]

    rng = random.Random(5)
    first = Job(["-m", "benchmarks.attack.processes", "ray", "{}"], folder / "reference")
    if first.wait() != 0 or first.end():
        raise RuntimeError(first.output[-2000:])
    expected = table(folder / "reference")
    for i in range(tally.times(4)):
        kind = ("node", "worker")[i % 2]
        where = folder / f"run{i}"
        config = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
        small = {"object_store_memory": 80 << 20, "include_dashboard": False}
        with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as short:
            os.environ["RAY_TMPDIR"] = short
            head = {"num_cpus": 0, "_system_config": config, **small}
            cluster = Cluster(initialize_head=True, head_node_args=head)
            try:
                nodes = [cluster.add_node(num_cpus=1, **small) for _ in range(2)]
                options = json.dumps({"executor": "ray", "ray_address": cluster.address})
                job = Job(["-m", "benchmarks.attack.processes", "ray", options], where)
                job.until(lambda where=where: list(where.rglob("progress.txt")))
                time.sleep(rng.uniform(0, 3))
                if kind == "node":
                    lost = {p.process.pid for v in nodes[0].all_processes.values() for p in v}
                    doomed = [pid for pid in pids() if is_below(pid, lost)]
                else:
                    running = [p for p in pids() if "spinup.grids.workers" in _command(p)]
                    ours = [p for p in running if is_below(p, node_pids(nodes))]
                    doomed = [parent(rng.choice(ours))] if ours else []
                for pid in doomed:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                status = job.wait()
                left = job.end()
            finally:
                cluster.shutdown()
        logs = "".join(p.read_text(errors="replace") for p in where.rglob("log.txt"))
        tally.details["cells that were started again"] += logs.count("--- 2") - 3
        if status != 0 or left:
            tally.breaks(
                f"attempt {i}", f"status {status}, left {left}: {job.output[-1500:]}", kind
            )
        elif table(where) != expected:
            tally.breaks(f"attempt {i}", "a cell differs", kind)
        else:
            tally.hold(kind)


def node_pids(nodes):
    return {p.process.pid for node in nodes for v in node.all_processes.values() for p in v}


def parent(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def is_below(pid, ancestors):
    """Return whether a process is, or descends from, one of `ancestors`."""
    while pid > 1 and pid not in ancestors:
        pid = parent(pid)
    return pid in ancestors


ATTACKS = {
    "signals": signals,
    "worker_killed": worker_killed,
    "same_instant": same_instant,
    "clock_set_back": clock_set_back,
    "launcher_killed": launcher_killed,
    "rank_killed": rank_killed,
    "rank_stopped": rank_stopped,
    "failing_cells": failing_cells,
    "hanging_cell": hanging_cell,
    "ray_lost": ray_lost,
}


# ------------------------------------------------------------------------- the programs themselves


def _grid(kind, options):
    """Run a grid in the working directory, as a user's script does."""
    from spinup.grids import workers
    from spinup.grids.experiments import ExperimentGrid
    from spinup.utils.errors import SpinupError

    workers._GRACE = 3.0  # a hanging process has less time than a minute
    here = os.getcwd()
    code = dict(FAULTS)

    class NoText(Exception):
        def __str__(self):
            raise ValueError

    def _raise(error):
        raise error

    def fail(fault, seed, logger_kwargs):
        import asyncio
        import ctypes
        import threading
        import time

        names = {"os": os, "sys": sys, "signal": signal, "ctypes": ctypes, "asyncio": asyncio}
        names |= {"_raise": _raise, "NoText": NoText, "threading": threading}
        if fault == "good":
            open(f"{here}/good-{seed}", "w").close()
            return
        exec(code[fault], names)
        time.sleep(5)

    def hang(seed, logger_kwargs):
        import time

        import gymnasium

        class Hangs(gymnasium.Wrapper):
            steps = 0

            def __init__(self):
                super().__init__(gymnasium.make("CartPole-v1"))

            def step(self, action):
                self.steps += 1
                if self.steps == 150:
                    open(f"{here}/hangs", "w").close()
                    time.sleep(1000)
                return self.env.step(action)

        if seed == 0:
            if options["hang"] == "deaf":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            if options["hang"] == "env":
                small(seed, logger_kwargs, env=Hangs, steps_per_epoch=100, epochs=9)
            open(f"{here}/hangs", "w").close()
            while options["hang"] == "loop":
                pass
            time.sleep(1000)
        open(f"{here}/good-{seed}", "w").close()

    def small(seed, logger_kwargs, resume=False, env="CartPole-v1", **kwargs):
        from spinup import vpg_pytorch

        vpg_pytorch(env, seed=seed, logger_kwargs=logger_kwargs, resume=resume, **kwargs)

    eg = ExperimentGrid(kind)
    if kind == "fail":
        eg.add("fault", options.pop("faults"), "", True)
        thunk = fail
    elif kind == "hang":
        eg.add("seed", [0, 1, 2, 3])
        thunk = hang
    else:
        eg.add("seed", [0, 1, 2])
        settings = {"steps_per_epoch": 100, "epochs": 60, "save_freq": 5, "train_v_iters": 5}
        for key, value in settings.items():
            eg.add(key, value)
        eg.add("ac_kwargs:hidden_sizes", [(4,)])
        thunk = small
    run = {k: v for k, v in options.items() if k != "hang"}
    try:
        eg.run(thunk, data_dir=here, **run)
    except SpinupError as error:
        print(f"spinup: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_code", 2))
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    _grid(sys.argv[1], json.loads(sys.argv[2]))
