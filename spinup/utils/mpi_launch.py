"""Starting a program as several MPI processes, and watching over them.

The program that asks for n processes becomes the *launcher*: it starts itself again n times under
`mpirun`, waits, and ends with their result. It forwards Ctrl-C and SIGTERM as a request to save and
stop, prints the traceback of a process that failed last, names a process that hangs, and starts the
job again from its last checkpoint when a process was killed and restarts are allowed.

`mpi_job.py` says how the launcher and its processes talk to each other. This module is imported
only by a program that starts a job.
"""

import contextlib
import ctypes
import math
import os
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

import numpy as np

from spinup.utils.errors import SpinupError
from spinup.utils.mpi_job import (
    COLUMNS,
    ENTERED,
    ERROR,
    ID_VARIABLE,
    INSTALL,
    JOB_VARIABLE,
    LEFT,
    LOG_VARIABLE,
    LOST,
    RUNNING,
    TIME_VARIABLE,
)

# Seconds that mpirun gets to end all processes after one of them has failed.
_GRACE = 5.0

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


@dataclass(frozen=True)
class Launch:
    """How to start a job.

    Attributes:
        n: number of processes.
        bind_to_core: keep each process on a core of its own.
        hosts: names of the machines, `a,b` or `a:4,b:4` with the number of processes on each.
        hostfile: a file with one machine a line, as `mpirun` takes it.
        max_restarts: how often a job that lost a process is started again from its checkpoint.
        log_all_ranks: folder for what the other processes print; it is dropped otherwise.
        timeout: seconds without a sign of life after which a process counts as hanging.
    """

    n: int
    bind_to_core: bool = False
    hosts: str | None = None
    hostfile: str | None = None
    max_restarts: int = 0
    log_all_ranks: str | None = None
    timeout: float = 300.0


def find_mpirun() -> str:
    """The launcher beside the interpreter, else the one on PATH."""
    beside = Path(sys.executable).parent
    for name in ("mpirun", "mpiexec"):
        found = shutil.which(name, path=str(beside)) or shutil.which(name)
        if found:
            return found
    raise SpinupError(f"training over several processes needs MPI: {INSTALL}")


def mpirun_command(
    launch: Launch, program: Sequence[str], environment: Mapping[str, str]
) -> list[str]:
    """The command line that starts `program` in `environment` as `launch` says."""
    mpirun = find_mpirun()
    told = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    if "HYDRA" in told.stdout.upper():  # MPICH and Intel MPI
        command = [mpirun, "-n", str(launch.n)]
        command += ["-bind-to", "core"] if launch.bind_to_core else []
        command += ["-f", launch.hostfile] if launch.hostfile else []
        command += ["-hosts", launch.hosts] if launch.hosts else []
        # all variables reach the other machines by themselves
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
    """The words that started this program, `python -m package.module` kept in that form."""
    return [sys.executable, *sys.orig_argv[1:]]


def run_job(launch: Launch) -> int:
    """Start this program under MPI, wait for it, and return the exit status to end with."""
    restarts = 0
    environment = _environment(launch)
    while True:
        with tempfile.TemporaryDirectory(prefix="spinup-mpi-") as folder:
            status, restartable = _run_once(launch, Path(folder), environment)
        if status == 0 or not restartable or restarts >= launch.max_restarts:
            return status
        restarts += 1
        _say(
            "spinup: starting again from the last checkpoint "
            f"({restarts} of {launch.max_restarts})\n"
        )


def _environment(launch: Launch) -> dict[str, str]:
    """The environment of the processes, but for the folder of each start."""
    environment = {**os.environ, **dict.fromkeys(_THREADS, "1")}
    environment[TIME_VARIABLE] = repr(time.time())
    environment.setdefault("PYTHONUNBUFFERED", "1")  # what was printed before a kill is seen
    # Open MPI refuses to run as root (that is, in most containers) unless told twice.
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    environment.update(PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if launch.max_restarts:
        environment[ID_VARIABLE] = uuid.uuid4().hex
    if launch.log_all_ranks:
        environment[LOG_VARIABLE] = os.path.abspath(launch.log_all_ranks)
    return environment


def _run_once(launch: Launch, folder: Path, environment: Mapping[str, str]) -> tuple[int, bool]:
    """One attempt: its exit status, and whether starting again may help."""
    table = np.memmap(folder / "table", dtype=np.int64, mode="w+", shape=(launch.n, COLUMNS))
    environment = {**environment, JOB_VARIABLE: str(folder)}
    process = subprocess.Popen(
        mpirun_command(launch, this_program(), environment),
        env=environment,
        # A session of its own: Ctrl-C in the terminal reaches the launcher alone.
        start_new_session=True,
        preexec_fn=_ends_with_us(),
    )
    stopped_by = _Forwarder(process)
    try:
        hanging = _wait(process, launch, table, folder)
    finally:
        if process.poll() is None:
            _end(process)
        elif process.returncode:
            _kill_session(process.pid)  # mpirun may have been killed itself
        stopped_by.restore()
    errors = sorted(folder.glob(f"{ERROR}-*"), key=lambda path: path.stat().st_mtime_ns)
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
        for path in sorted(folder.glob(f"{LOST}-*")):
            _say(path.read_text())
        status = max(1, process.returncode)  # below zero: mpirun itself was killed, by us or others
        _say(f"spinup: a process of the job was lost (status {status})\n")
        return status, True
    return 0, False


class _Forwarder:
    """A signal to stop asks the processes to save and stop; a second one ends them at once."""

    def __init__(self, process: "subprocess.Popen[bytes]"):
        self.signal: int | None = None
        self._process = process
        stops = [signal.SIGINT, signal.SIGTERM]
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # as under nohup
            stops.append(signal.SIGHUP)
        self._before = {n: signal.getsignal(n) for n in stops}
        for number in self._before:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        if self.signal is None:
            self.signal = number
            # mpirun would end its processes on SIGINT or SIGTERM; it hands SIGUSR1 on to them.
            self._process.send_signal(signal.SIGUSR1)
        elif self._process.poll() is None:
            self._process.terminate()

    def restore(self) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """mpirun ends its processes when it is told to; if it does not, they are killed with it."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_GRACE)
    _kill_session(process.pid)
    process.wait()


def _kill_session(session: int) -> None:
    """Kill every process of a session: mpirun gives its processes groups of their own."""
    for pid in _members(session):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)


def _members(session: int) -> list[int]:
    """The living processes of a session (a zombie is dead)."""
    if os.path.isdir("/proc/self"):
        pids = [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    else:
        command = ["ps", "-A", "-o", "pid=,stat="]
        shown = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        pairs = [line.split() for line in shown.splitlines()]
        pids = [int(pid) for pid, state in pairs if not state.startswith("Z")]
    members = []
    for pid in pids:
        with contextlib.suppress(OSError):  # gone in the meantime, or not ours to ask about
            if os.getsid(pid) == session and not _is_zombie(pid):
                members.append(pid)
    return members


def _is_zombie(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    # the name, in brackets, may hold anything; the state is the next word
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def _ends_with_us() -> Callable[[], None] | None:
    """What a child does to get SIGTERM when this process is killed; None where there is no way."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)
    set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl.h
    return lambda: libc.prctl(set_parent_death_signal, signal.SIGTERM)


def _wait(
    process: "subprocess.Popen[bytes]", launch: Launch, table: np.ndarray, folder: Path
) -> str:
    """Wait for the end; what to say of processes that hang, '' if none does.

    Comes back with mpirun still there when it has no process left, or does not end those it should.
    """
    timeout = launch.timeout
    seen = np.array(table)
    changed = np.full(len(table), time.monotonic())
    failed = gone = math.inf  # when that was first seen
    ours = 0  # most processes seen in the session of mpirun, itself included
    interval = 0.1  # short at first: processes that fail at once should be seen
    while True:
        interval = min(1.0, 1.1 * interval)
        try:
            process.wait(min(interval, timeout / 4))
            return ""
        except subprocess.TimeoutExpired:
            pass
        clock, now = time.monotonic(), np.array(table)
        # Open MPI's mpirun can miss the end of processes that die while others still connect.
        here = len(_members(process.pid))
        ours = max(ours, here)
        gone = min(gone, clock) if here < 2 else math.inf
        failed = min(failed, clock) if any(folder.glob(f"{ERROR}-*")) else math.inf
        if clock - failed > _GRACE or clock - gone > (_GRACE if ours > 1 else 4 * _GRACE):
            return ""
        changed[(now != seen).any(axis=1)] = clock
        seen = now
        stuck = _hanging(now, clock - changed, timeout, not (launch.hosts or launch.hostfile))
        if stuck:
            return f"{stuck}: the job was ended"


def _hanging(table: np.ndarray, silence: np.ndarray, timeout: float, local: bool) -> str:
    """Which processes hang, from their rows and the seconds since each row changed; '' if none.

    A process inside a collective waits for others and is not to blame. One outside hangs when it is
    in a run, or when another waits for it. Before its first sign it may still be importing, so its
    silence counts from when the others began to wait; on another machine it cannot give a sign.
    """
    waiting, started = table[:, ENTERED] > table[:, LEFT], table.any(axis=1)
    waited = float(silence[waiting].max(initial=0.0))
    silence = np.where(started, silence, np.minimum(silence, waited) if local else 0.0)
    needed = (table[:, RUNNING] > 0) | (waited > timeout)
    hanging = ~waiting & needed & (silence > timeout)
    if hanging.any():
        names = ", ".join(str(rank) for rank in np.flatnonzero(hanging))
        return (
            f"rank {names} has given no sign of life for {timeout:.0f} s while "
            f"{int(waiting.sum())} of {len(table)} ranks wait"
        )
    if waiting.all() and float(silence.min()) > timeout:
        return f"all {len(table)} ranks have waited for one another for {timeout:.0f} s"
    return ""


def _say(message: str) -> None:
    """Print on a line of its own: mpirun ends its own words with a zero byte and no new line."""
    sys.stdout.flush()
    sys.stderr.write("\n" + message)
    sys.stderr.flush()


def physical_cores() -> int:
    """Physical cores that this process is allowed to use: affinity and container quota count."""
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
