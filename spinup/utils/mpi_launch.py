"""Starting a program as several MPI processes, and watching over them.

The program that asks for n processes becomes the *launcher*: it starts itself again n times under
`mpirun`, waits, and ends with their result. It forwards Ctrl-C and SIGTERM as a request to save and
stop, prints the traceback of a process that failed last, names a process that hangs, and starts the
job again from its last checkpoint when a process was killed and restarts are allowed.

Launcher and processes share a folder, named by an environment variable, for two things: a small
table in which every process counts its steps and collective operations, and the error that ended
one.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from spinup.utils.errors import SpinupError

JOB_VARIABLE = "SPINUP_MPI_JOB"
RESTART_VARIABLE = "SPINUP_MPI_RESTART"
LOG_VARIABLE = "SPINUP_MPI_LOG_ALL_RANKS"
INSTALL = "pip install 'spinup[mpi]'"

# Columns of the table: collectives entered, collectives left, steps taken.
ENTERED, LEFT, STEPS = range(3)

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


def mpirun_command(launch: Launch, program: Sequence[str]) -> list[str]:
    """The command line that starts `program` as `launch` says."""
    mpirun = find_mpirun()
    told = subprocess.run([mpirun, "--version"], capture_output=True, text=True, check=False)
    exported = [JOB_VARIABLE, RESTART_VARIABLE, LOG_VARIABLE, "PYTHONPATH", *_THREADS]
    remote = bool(launch.hosts or launch.hostfile)
    if "HYDRA" in told.stdout.upper():  # MPICH and Intel MPI
        command = [mpirun, "-n", str(launch.n)]
        command += ["-bind-to", "core"] if launch.bind_to_core else []
        command += ["-f", launch.hostfile] if launch.hostfile else []
        command += ["-hosts", launch.hosts] if launch.hosts else []
        command += ["-genvlist", ",".join(exported)] if remote else []
    else:  # Open MPI
        command = [mpirun, "-np", str(launch.n), "--oversubscribe"]
        command += ["--bind-to", "core" if launch.bind_to_core else "none"]
        command += ["--hostfile", launch.hostfile] if launch.hostfile else []
        command += ["--host", launch.hosts] if launch.hosts else []
        for name in exported if remote else ():
            command += (
                ["-x", name] if name in os.environ or name in (JOB_VARIABLE, *_THREADS) else []
            )
    return [*command, *program]


def this_program() -> list[str]:
    """The words that started this program, `python -m package.module` kept in that form."""
    return [sys.executable, *sys.orig_argv[1:]]


def run_job(launch: Launch) -> int:
    """Start this program under MPI, wait for it, and return the exit status to end with."""
    restarts = 0
    while True:
        with tempfile.TemporaryDirectory(prefix="spinup-mpi-") as folder:
            status, restartable = _run_once(launch, Path(folder), restarts)
        if status == 0 or not restartable or restarts >= launch.max_restarts:
            return status
        restarts += 1
        _say(f"starting again from the last checkpoint ({restarts} of {launch.max_restarts})")


def _run_once(launch: Launch, folder: Path, restarts: int) -> tuple[int, bool]:
    """One attempt: its exit status, and whether starting again may help."""
    table = np.memmap(folder / "table", dtype=np.int64, mode="w+", shape=(launch.n, 3))
    environment = {**os.environ, JOB_VARIABLE: str(folder), **dict.fromkeys(_THREADS, "1")}
    # Open MPI refuses to run as root (that is, in most containers) unless told twice.
    environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    environment.update(PRTE_ALLOW_RUN_AS_ROOT="1", PRTE_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    if restarts:
        environment[RESTART_VARIABLE] = str(restarts)
    if launch.log_all_ranks:
        environment[LOG_VARIABLE] = os.path.abspath(launch.log_all_ranks)
    # A session of its own: Ctrl-C in the terminal reaches the launcher alone.
    process = subprocess.Popen(
        mpirun_command(launch, this_program()), env=environment, start_new_session=True
    )
    stopped_by = _Forwarder(process)
    try:
        hanging = _wait(process, table, launch.timeout)
    finally:
        stopped_by.restore()
        if process.poll() is None:
            _end(process)
    errors = sorted(folder.glob("error-*"), key=lambda path: path.stat().st_mtime_ns)
    if stopped_by.signal is not None:
        return 128 + stopped_by.signal, False
    if hanging:
        _say(hanging)
        return 124, True
    if errors:
        first = errors[0].read_text()
        sys.stdout.flush()
        sys.stderr.write(first if first.endswith("\n") else first + "\n")
        sys.stderr.flush()
        return process.returncode or 1, False
    if process.returncode:
        status = process.returncode if process.returncode > 0 else 128 - process.returncode
        _say(f"a process of the job ended with status {status} and no word of its own")
        return status, True
    return 0, False


class _Forwarder:
    """SIGINT and SIGTERM ask the processes to save and stop; a second one ends them at once."""

    def __init__(self, process: "subprocess.Popen[bytes]"):
        self.signal: int | None = None
        self._process = process
        self._before = {n: signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)}
        for number in self._before:
            signal.signal(number, self._handle)

    def _handle(self, number: int, frame: object) -> None:
        if self.signal is None:
            self.signal = number
            # mpirun would end its processes on SIGINT or SIGTERM; it hands SIGUSR1 on to them.
            self._process.send_signal(signal.SIGUSR1)
        else:
            _end(self._process)

    def restore(self) -> None:
        """Give the signals back."""
        for number, handler in self._before.items():
            signal.signal(number, handler)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _wait(process: "subprocess.Popen[bytes]", table: np.ndarray, timeout: float) -> str:
    """Wait for the end; what to say of processes that hang, '' if none does."""
    seen = np.array(table)
    changed = np.full(len(table), time.monotonic())
    while True:
        try:
            process.wait(min(1.0, timeout / 4))
            return ""
        except subprocess.TimeoutExpired:
            pass
        now = np.array(table)
        changed[(now != seen).any(axis=1)] = time.monotonic()
        seen = now
        # A process that is inside a collective waits for others; one that never reached its first
        # (it is still importing, or has no training to do) is not judged.
        started, waiting = now[:, ENTERED] > 0, now[:, ENTERED] > now[:, LEFT]
        silent = started & ~waiting & (time.monotonic() - changed > timeout)
        if silent.any():
            names = ", ".join(str(rank) for rank in np.flatnonzero(silent))
            return (
                f"rank {names} has given no sign of life for {timeout:.0f} s while "
                f"{int(waiting.sum())} of {len(table)} ranks wait: the job was ended"
            )


def _say(message: str) -> None:
    print(f"spinup: {message}", file=sys.stderr, flush=True)


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
