"""Run cells in parallel on this machine, each in a new process.

A worker is `python -m spinup.grids.workers`, started with a pipe as its standard input. The
launcher (the process that started the worker) sends it the pickled cell through that pipe: nothing
is passed in argv, and no file is opened. The pipe stays open as long as the launcher lives. When it
closes (on Linux, as soon as the launcher dies), the worker saves its run, as on SIGTERM, and exits.
The worker holds the cell's lock until then, so killing the launcher never causes a cell to run
twice at the same time.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import struct
import subprocess
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spinup.grids.board import Board
from spinup.grids.cells import CellBusy, CellFailed, Job, read_state, run_cell
from spinup.utils.errors import SpinupError
from spinup.utils.files import DiskError, open_own
from spinup.utils.reading import open_regular

BUSY = 75  # exit status: another process is running this cell
ATTEMPTS = 2  # number of processes to try before a cell counts as failed
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")
_GRACE = 60.0  # seconds that a worker has to save its run
_HEADER = struct.Struct("<QQ")


# ------------------------------------------------------------------------------------ the worker


def main() -> int:
    """Read one cell from standard input and run it."""
    # A shell may start background processes with these signals ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    asked = threading.Lock()  # acquired once this worker is asked to end
    if sys.platform == "linux":
        # Do not use SIGTERM itself: the kernel sends the signal for each thread of the launcher
        # that dies, and a second SIGTERM would end the run before it is saved.
        signal.signal(signal.SIGUSR2, lambda number, frame: _ask_to_end(asked))
        set_parent_death_signal = 1  # PR_SET_PDEATHSIG of prctl.h
        ctypes.CDLL(None).prctl(set_parent_death_signal, signal.SIGUSR2)
    try:
        size, header_size = _HEADER.unpack(_read(_HEADER.size))
        header = json.loads(_read(header_size))
        payload = _read(size)
    except EOFError:
        return 1  # the launcher is gone already
    threading.Thread(target=_end_with_launcher, args=(asked,), daemon=True).start()
    # import the user's modules from the folders where the launcher found them
    sys.path += [folder for folder in header["sys_path"] if folder not in sys.path]
    if os.path.isdir(header["cwd"]):
        os.chdir(header["cwd"])
    import cloudpickle

    job: Job = cloudpickle.loads(payload)
    try:
        run_cell(job)
    except CellFailed:
        traceback.print_exc()
        return 1
    except CellBusy as error:
        print(error, file=sys.stderr)
        return BUSY
    except KeyboardInterrupt:
        return 130
    return 0


def _read(size: int) -> bytes:
    """Read exactly `size` bytes from the pipe.

    This avoids `sys.stdin`, whose lock the watching thread would still hold at interpreter exit.
    """
    data = bytearray()
    while len(data) < size:
        piece = os.read(0, min(size - len(data), 1 << 20))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def _ask_to_end(asked: threading.Lock) -> None:
    """Send SIGTERM to this process, but only once."""
    if not asked.acquire(blocking=False):
        return
    if os.name == "nt":
        signal.raise_signal(signal.SIGTERM)  # there, os.kill ends the process without a handler
    else:
        os.kill(os.getpid(), signal.SIGTERM)


def _end_with_launcher(asked: threading.Lock) -> None:
    """Save and stop when the launcher's end of the pipe closes, whatever the reason."""
    with contextlib.suppress(EOFError):
        _read(1)
    _ask_to_end(asked)
    time.sleep(_GRACE)
    os._exit(1)


# ---------------------------------------------------------------------------------- the launcher


def pack(job: Job) -> bytes:
    """Serialize a job to the bytes for a worker's standard input."""
    import cloudpickle

    try:
        payload = cloudpickle.dumps(job)
    except Exception as error:  # pickling custom objects may raise anything
        raise SpinupError(
            f"{job.name} cannot be sent to another process ({type(error).__name__}: {error}): "
            "inside the function, create whatever cannot be pickled, or run with num_workers=1"
        ) from error
    here = {"sys_path": [os.path.abspath(p or ".") for p in sys.path], "cwd": os.getcwd()}
    header = json.dumps(here).encode()
    return _HEADER.pack(len(payload), len(header)) + header + payload


def start(job: Job, packed: bytes) -> subprocess.Popen[bytes]:
    """Start a worker for a job; its output goes to the job's log."""
    job.make_folder()
    threads = {name: str(job.threads or 1) for name in _THREADS}
    with open(job.log, "ab", buffering=0, opener=open_own) as log:
        try:
            log.write(f"--- {time.strftime('%Y-%m-%d %H:%M:%S')} {job.name}\n".encode())
        except OSError as error:
            raise DiskError(error, job.log) from error
        process = subprocess.Popen(
            [sys.executable, "-m", "spinup.grids.workers"],
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **threads, "NO_COLOR": "1", "PYTHONUNBUFFERED": "1"},
            # Ctrl-C in the terminal reaches only the launcher.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # on Windows
        )
    assert process.stdin is not None
    try:
        process.stdin.write(packed)
        process.stdin.flush()
    except BrokenPipeError:
        pass  # the worker has already exited; its exit status shows why
    return process


@dataclass(frozen=True)
class Outcome:
    """How a cell's process ended ('done', 'failed', 'stopped', 'lost' or 'busy'), and why."""

    state: str
    detail: str = ""


def outcome(job: Job, process: subprocess.Popen[bytes]) -> Outcome:
    """Return the outcome of a cell whose worker has exited."""
    status, state = process.returncode, read_state(job)
    # The cell may end its own process with any status, so the status alone proves nothing.
    if status == 0 and (state.get("state"), state.get("hash")) == ("done", job.hash):
        return Outcome("done")
    if status == BUSY and state.get("pid") != process.pid:
        return Outcome("busy", log_tail(job, 1))
    ours = state.get("launch") == job.launch
    if ours and state["state"] == "failed":
        return Outcome("failed", state.get("error", ""))
    if status < 0:
        names = {s.value: s.name for s in signal.Signals}  # some real-time signals have none
        name = names.get(-status, f"signal {-status}")
        return Outcome("lost", f"its process was killed by {name}")
    if ours and state["state"] == "stopped":
        return Outcome("stopped", f"its process was stopped (status {status})")
    how = "before the cell was done" if status == 0 else f"with status {status}"
    return Outcome("failed", f"its process ended {how}; its last output:\n{log_tail(job)}")


def log_tail(job: Job, lines: int = 15) -> str:
    """Return the last lines of a cell's log."""
    try:
        with open_regular(job.log) as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
            text = file.read().decode("utf-8", "replace")
    except (OSError, SpinupError):
        return ""
    return "\n".join(text.rstrip().splitlines()[-lines:])


def run_local(
    given: Sequence[Job],
    num_workers: int,
    board: Board,
    more: Callable[[Job], Sequence[Job]] | None = None,
) -> dict[str, str]:
    """Run jobs in parallel; return a message for each failed job, by name.

    `more` is called with each job that has ended, and returns jobs to run next: later parts of
    runs. On Ctrl-C and SIGTERM, the workers are asked to save their runs; then KeyboardInterrupt or
    SystemExit propagates.
    """
    jobs = list(given)
    packed = [pack(job) for job in jobs]  # first, so that nothing starts if one cannot be packed
    index = {job.name: i for i, job in enumerate(board.jobs)}
    waiting = deque(range(len(jobs)))
    attempts = [0] * len(jobs)
    running: dict[int, subprocess.Popen[bytes]] = {}
    failures: dict[str, str] = {}
    try:
        with terminated():
            while waiting or running:
                while waiting and len(running) < num_workers:
                    i = waiting.popleft()
                    attempts[i] += 1
                    running[i] = start(jobs[i], packed[i])
                    board.set(index[jobs[i].name], "running")
                time.sleep(0.1)
                for i, process in list(running.items()):
                    if process.poll() is None:
                        continue
                    del running[i]
                    _close(process)
                    job, end = jobs[i], outcome(jobs[i], process)
                    if end.state in ("lost", "stopped") and attempts[i] < ATTEMPTS:
                        board.say(f"{job.name}: {end.detail}; it is started again.")
                        waiting.appendleft(i)
                        continue
                    if end.state == "lost":
                        failures[job.name] = f"{end.detail}; its last output:\n{log_tail(job)}"
                    elif end.state != "done":
                        failures[job.name] = end.detail
                    board.set(index[job.name], "done" if end.state == "done" else "failed")
                    for new in () if more is None else more(job):
                        index[new.name] = board.add(new)
                        waiting.appendleft(len(jobs))
                        jobs.append(new)
                        packed.append(pack(new))
                        attempts.append(0)
                board.refresh()
    finally:
        killed = stop(running)
        for i in running:
            board.set(index[jobs[i].name], "stopped")
        for i in killed:
            board.say(
                f"{jobs[i].name} did not save and stop when asked, so its process was killed; its "
                "last checkpoint is kept."
            )
        board.close()
    return failures


class _Terminated(SystemExit):
    """Raised on SIGTERM, with the corresponding exit status."""


@contextlib.contextmanager
def terminated() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that workers are stopped as on Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def handler(number: int, frame: Any) -> None:
        raise _Terminated(128 + number)

    before = signal.signal(signal.SIGTERM, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def stop(running: Mapping[int, subprocess.Popen[bytes]]) -> list[int]:
    """Ask workers to save and exit; kill those that do not, or all of them on a second Ctrl-C.

    Returns the numbers of the workers that had to be killed.
    """
    for process in running.values():
        if os.name == "nt":
            _close(process)  # the end of its input: SIGTERM would end the worker at once there
            continue
        with contextlib.suppress(ProcessLookupError):
            process.send_signal(signal.SIGTERM)
    limit = time.monotonic() + _GRACE
    try:
        for process in running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(0.1, limit - time.monotonic()))
    except KeyboardInterrupt:
        pass
    killed = []
    for i, process in running.items():
        if process.poll() is None:
            process.kill()
            process.wait()
            killed.append(i)
        _close(process)
    return killed


def _close(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(BrokenPipeError):
        assert process.stdin is not None
        process.stdin.close()


if __name__ == "__main__":
    sys.exit(main())
