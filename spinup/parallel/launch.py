"""Starting a program as several MPI processes, and supervising them.

A program that asks for n processes becomes the *launcher*. It starts itself n times under `mpirun`,
waits, and exits with their status. On Ctrl-C and SIGTERM, it asks the processes to save and stop.
If a process fails, the launcher prints its traceback last; if a process hangs, the launcher reports
its rank. If a process was killed and restarts are allowed, the launcher restarts the job from the
last checkpoint.

`job.py` defines how the launcher and the processes communicate. Only a program that starts a
job imports this module.
"""

import contextlib
import ctypes
import importlib.util
import math
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from spinup.parallel import job
from spinup.utils.errors import SpinupError

# After a process fails, mpirun must end all the others within this many seconds.
_GRACE = 5.0

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Launch:
    """How to start a job.

    Attributes:
        n: the number of processes.
        bind_to_core: pin each process to its own core.
        hosts: the machines, `a,b`, or `a:4,b:4` with the number of processes on each.
        hostfile: a file for `mpirun` with one machine per line.
        max_restarts: how many times a job that lost a process restarts from its checkpoint.
        log_all_ranks: a folder for the other ranks' output, which is discarded by default.
        timeout: seconds without progress after which a process is considered hung.
    """

    n: int
    bind_to_core: bool = False
    hosts: str | None = None
    hostfile: str | None = None
    max_restarts: int = 0
    log_all_ranks: str | None = None
    timeout: float = 300.0


def start_again(n: int, bind_to_core: bool, **options: Any) -> NoReturn:
    """Run this program as `n` processes, wait for it, and exit with its status."""
    if hasattr(sys, "ps1") or Path(sys.argv[0]).name == "ipykernel_launcher.py":
        raise SpinupError(
            f"training on {n} processes starts the program again, which does not work in an "
            "interactive session: put the code into a file and run that"
        )
    if os.name == "nt":  # there are no sessions and signals with which to end a job's processes
        raise SpinupError(
            f"training on {n} processes does not work on Windows: use num_cpu=1 with shards={n}, "
            "which computes the same run"
        )
    if importlib.util.find_spec("mpi4py") is None:
        raise SpinupError(f"training on {n} processes needs mpi4py and MPI: run {job.INSTALL}")
    launch = Launch(n, bind_to_core, **options)
    sys.stdout.flush()
    sys.exit(run_job(launch))


def find_mpirun() -> str:
    """Find the `mpirun` next to the interpreter, otherwise the one on PATH."""
    beside = Path(sys.executable).parent
    for name in ("mpirun", "mpiexec"):
        found = shutil.which(name, path=str(beside)) or shutil.which(name)
        if found:
            return found
    raise SpinupError(f"training on several processes needs MPI: run {job.INSTALL}")


def mpirun_command(
    launch: Launch, program: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """Return the command line that starts `program` in `environment` with `launch`'s settings."""
    mpirun = find_mpirun()
    told = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    if "HYDRA" in told.stdout.upper():  # MPICH and Intel MPI
        command = [mpirun, "-n", str(launch.n)]
        command += ["-bind-to", "core"] if launch.bind_to_core else []
        command += ["-f", launch.hostfile] if launch.hostfile else []
        command += ["-hosts", launch.hosts] if launch.hosts else []
        # these launchers pass all variables on to the other machines
    else:  # Open MPI
        command = [mpirun, "-np", str(launch.n), "--oversubscribe"]
        command += ["--bind-to", "core" if launch.bind_to_core else "none"]
        command += ["--hostfile", launch.hostfile] if launch.hostfile else []
        command += ["--host", launch.hosts] if launch.hosts else []
        if launch.hosts or launch.hostfile:
            ours = {"PYTHONPATH", "PYTHONUNBUFFERED", "MUJOCO_GL", *_THREADS}
            for name in sorted(environment):
                command += ["-x", name] if name in ours or name.startswith("SPINUP_") else []
    return [*command, *program]


def this_program() -> list[str]:
    """Return this program's command line; `python -m package.module` keeps that form."""
    return [sys.executable, *sys.orig_argv[1:]]


def run_job(launch: Launch) -> int:
    """Start this program under MPI, wait for it, and return its exit status."""
    restarts = 0
    environment = _environment(launch)
    while True:
        with tempfile.TemporaryDirectory(prefix="spinup-mpi-") as folder:
            status, restartable = _run_once(launch, Path(folder), environment)
        if status == 0 or not restartable or restarts >= launch.max_restarts:
            return status
        restarts += 1
        _say(
            "spinup: restarting from the last checkpoint "
            f"(restart {restarts} of {launch.max_restarts})\n"
        )


def _environment(launch: Launch) -> dict[str, str]:
    """Return the processes' environment variables, except the folder, which differs by launch."""
    environment = {**os.environ, **dict.fromkeys(_THREADS, "1")}
    environment[job.TIME_VARIABLE] = repr(time.time())
    environment.setdefault("PYTHONUNBUFFERED", "1")  # show output printed before a kill
    # Open MPI refuses to run as root (as in most containers) unless two variables allow it.
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    environment.update(PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if launch.max_restarts:
        environment[job.ID_VARIABLE] = uuid.uuid4().hex
    if launch.log_all_ranks:
        environment[job.LOG_VARIABLE] = os.path.abspath(launch.log_all_ranks)
    return environment


def _run_once(launch: Launch, folder: Path, environment: Mapping[str, str]) -> tuple[int, bool]:
    """Run the job once; return its exit status and whether a restart may help."""
    table = np.memmap(folder / "table", dtype=np.int64, mode="w+", shape=(launch.n, job.COLUMNS))
    environment = {**environment, job.JOB_VARIABLE: str(folder)}
    process = subprocess.Popen(
        mpirun_command(launch, this_program(), environment),
        env=environment,
        # Use a separate session, so that Ctrl-C in the terminal reaches only the launcher.
        start_new_session=True,
        preexec_fn=_ends_with_us(),
    )
    stopped_by = _Forwarder(process)
    ranks = _Ranks(process, table, local=not (launch.hosts or launch.hostfile))
    try:
        hanging = _wait(process, launch, table, folder, ranks)
    finally:
        if process.poll() is None:
            _end(process)
        elif process.returncode:
            _kill_session(process.pid)  # mpirun itself may have been killed
        stopped_by.restore()
        ranks.close()
    errors = sorted(folder.glob(f"{job.ERROR}-*"), key=lambda path: path.stat().st_mtime_ns)
    if errors:
        _say(errors[0].read_text())
    if stopped_by.signal is not None:
        return 128 + stopped_by.signal, False
    if errors:
        return process.returncode if process.returncode > 0 else 1, False
    if hanging:
        _say(f"spinup: {hanging}\n")
        return 124, True
    if process.returncode:
        for path in sorted(folder.glob(f"{job.LOST}-*")):
            _say(path.read_text())
        status = max(1, process.returncode)  # negative: mpirun itself was killed
        lost = ", ".join(f"rank {rank}" for rank in ranks.first_to_end) or "a process"
        _say(f"spinup: the job lost {lost} (status {status})\n")
        return status, True
    return 0, False


class _Forwarder:
    """Asks the processes to save and stop on the first stop signal, and ends them on the second."""

    def __init__(self, process: "subprocess.Popen[bytes]"):
        self.signal: int | None = None
        self._process = process
        stops = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # nohup ignores SIGHUP
            stops.append(signal.SIGHUP)
        self._before = {n: signal.getsignal(n) for n in stops}
        for number in self._before:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        if self.signal is None:
            self.signal = number
            # mpirun would end its processes on SIGINT or SIGTERM, but forwards SIGUSR1 to them.
            self._process.send_signal(signal.SIGUSR1)
        # When a terminal closes, the kernel and the shell both send SIGHUP.
        elif number != signal.SIGHUP and self._process.poll() is None:
            self._process.terminate()

    def restore(self) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Ask mpirun to end its processes; if it does not, kill them all."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    _kill_session(process.pid)
    process.wait()


def _kill_session(session: int) -> None:
    """Kill every process in a session, because mpirun puts its processes into separate groups."""
    for pid in _members(session):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _members(session: int) -> list[int]:
    """Return the live processes in a session, without zombies."""
    if os.path.isdir("/proc/self"):
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    else:
        command = ["ps", "-A", "-o", "pid=,stat="]
        shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        pairs = [line.split() for line in shown.splitlines()]
        pids = [int(pid) for pid, state in pairs if not state.startswith("Z")]
    members = []
    for pid in pids:
        with contextlib.suppress(OSError):  # it has ended, or we may not query it
            if os.getsid(pid) == session and _state(pid) not in ("Z", "X"):
                members.append(pid)
    return members


def _state(pid: int) -> str:
    """Return a process's state in one letter, as `ps` shows it; '' if it is unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # the name, in parentheses, may contain any characters; the state follows it
    return text.rpartition(")")[2].split()[0]


def _ends_with_us() -> Callable[[], None] | None:
    """Return what a child calls to get SIGTERM when this process dies; None if unsupported."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl.h
    return lambda: libc.prctl(set_parent_death_signal, signal.SIGTERM)


class _Ranks:
    """The processes of a job on this machine: which of them ended first, and which are stopped.

    When a process dies, mpirun ends the others within milliseconds. Only Linux can say in which
    order processes ended.
    """

    def __init__(self, process: "subprocess.Popen[bytes]", table: np.ndarray, local: bool):
        self.first_to_end: list[int] = []
        self._process, self._table, self._local = process, table, local
        self._ranks: dict[int, int] = {}  # file descriptor of a process -> its rank; mpirun is -1
        self._known: set[int] = set()
        self._watch(process.pid, -1)

    def _watch(self, pid: int, rank: int) -> None:
        self._known.add(rank)
        if self._local and hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):  # it has ended, or the kernel is too old
                self._ranks[os.pidfd_open(pid)] = rank

    def wait(self, seconds: float) -> bool:
        """Wait until a process ends, at most for some seconds; return whether mpirun has ended."""
        for rank, pid in enumerate(self._table[:, job.PID]):
            if pid and rank not in self._known:
                self._watch(int(pid), rank)
        if not self._ranks:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds)
            return self._process.returncode is not None
        poll = select.poll()
        for fd in self._ranks:
            poll.register(fd, select.POLLIN)
        ended = []
        for fd, _ in poll.poll(1000 * seconds):
            os.close(fd)
            ended.append(self._ranks.pop(fd))
        if not self.first_to_end:
            self.first_to_end = sorted(rank for rank in ended if rank >= 0)
        if -1 in ended:
            self._process.wait()
        return self._process.poll() is not None

    def stopped(self) -> np.ndarray:
        """Return for each rank whether a signal such as SIGSTOP has stopped it."""
        pids = self._table[:, job.PID] if self._local else np.zeros(len(self._table))
        return np.array([bool(pid) and _state(int(pid)) == "T" for pid in pids])

    def close(self) -> None:
        """Stop watching."""
        for fd in self._ranks:
            os.close(fd)
        self._ranks.clear()


def _wait(
    process: "subprocess.Popen[bytes]",
    launch: Launch,
    table: np.ndarray,
    folder: Path,
    ranks: _Ranks,
) -> str:
    """Wait for the job to end; return a report of the hung processes, or '' if there are none.

    Returns while mpirun is still running if all its processes have ended, or if one has failed and
    mpirun does not end the others.
    """
    timeout = launch.timeout
    seen = np.array(table)
    changed = np.full(len(table), time.monotonic())
    failed = gone = math.inf  # the time when each condition was first seen
    ours = 0  # the largest number of processes seen in mpirun's session, including mpirun
    interval = 0.1  # short at first, to catch processes that fail immediately
    clock = time.monotonic()
    while True:
        interval = min(1.0, 1.1 * interval)
        if ranks.wait(min(interval, timeout / 4)):
            return ""
        before, clock, now = clock, time.monotonic(), np.array(table)
        if clock - before > interval + _GRACE:  # the launcher itself was stopped, as by Ctrl-Z
            changed[:] = clock
        # Open MPI's mpirun can miss processes that die while others are still connecting.
        here = len(_members(process.pid))
        ours = max(ours, here)
        gone = min(gone, clock) if here < 2 else math.inf
        failed = min(failed, clock) if any(folder.glob(f"{job.ERROR}-*")) else math.inf
        if clock - failed > _GRACE or clock - gone > (_GRACE if ours > 1 else 4 * _GRACE):
            return ""
        changed[(now != seen).any(axis=1)] = clock
        seen = now
        local = not (launch.hosts or launch.hostfile)
        stuck = _hanging(now, clock - changed, timeout, local, ranks.stopped)
        if stuck:
            return f"{stuck}; the job was stopped"


def _hanging(
    table: np.ndarray,
    silence: np.ndarray,
    timeout: float,
    local: bool,
    stopped: Callable[[], np.ndarray] = lambda: np.array([False]),
) -> str:
    """Report the hung processes, or return ''; `silence` is the seconds since each row changed.

    `stopped` returns which processes a signal has stopped, even inside a collective.

    A process inside a collective is waiting for others and is not to blame. A silent process
    outside a collective is hung if it is in a run or if another process is waiting for it. Before
    its first sign of life, it may still be importing, so its silence is measured from when the
    others began to wait. Processes on other machines cannot write to the table.
    """
    waiting, started = table[:, job.ENTERED] > table[:, job.LEFT], table.any(axis=1)
    waited = float(silence[waiting].max(initial=0.0))
    silence = np.where(started, silence, np.minimum(silence, waited) if local else 0.0)
    needed = (table[:, job.RUNNING] > 0) | (waited > timeout)
    hanging = ~waiting & needed & (silence > timeout)
    if (silence > timeout).any():
        signaled = stopped() & (silence > timeout)
        if signaled.any():
            names = ", ".join(
                f"{rank} (pid {table[rank, job.PID]})" for rank in np.flatnonzero(signaled)
            )
            return f"rank {names} was stopped by a signal and has not continued for {timeout:.0f} s"
    if hanging.any():
        names = ", ".join(str(rank) for rank in np.flatnonzero(hanging))
        return (
            f"rank {names} has given no sign of life for {timeout:.0f} s while "
            f"{int(waiting.sum())} of {len(table)} ranks are waiting"
        )
    if waiting.all() and float(silence.min()) > timeout:
        return f"all {len(table)} ranks have waited for each other for {timeout:.0f} s"
    return ""


def _say(message: str) -> None:
    """Print on a new line, because mpirun ends its messages with a zero byte and no newline."""
    sys.stdout.flush()
    sys.stderr.write("\n" + message)
    sys.stderr.flush()


def physical_cores() -> int:
    """Count the physical cores that this process's affinity and container quota allow."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cores = set()
    for cpu in os.sched_getaffinity(0):
        siblings = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")
        cores.add(siblings.read_text().strip() if siblings.exists() else str(cpu))
    count = len(cores)
    quota = Path("/sys/fs/cgroup/cpu.max")
    if quota.exists():
        limit, period = quota.read_text().split()
        if limit != "max":
            count = min(count, max(1, int(limit) // int(period)))
    return max(1, count)
