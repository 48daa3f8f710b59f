"""Starting real MPI jobs from tests: not many at a time, and nothing left running afterwards."""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
MARK = "SPINUP_TEST_JOB"
SECONDS = 300  # longer than any job takes on a busy machine
# Jobs that may run side by side: each is at least two busy processes.
SLOTS = max(1, (os.cpu_count() or 2) // 2)


@contextlib.contextmanager
def a_slot() -> Iterator[None]:
    """Wait until fewer than SLOTS jobs run on this machine."""
    folder = Path(tempfile.gettempdir(), f"spinup-test-slots-{os.getuid()}")
    folder.mkdir(exist_ok=True)
    while True:
        for number in range(SLOTS):
            with open(folder / str(number), "w") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    continue
                yield
                return
        time.sleep(0.1)


def processes_of(mark: str) -> list[int]:
    """The running processes that have `mark` in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # gone, or another user's
            if f"{MARK}={mark}".encode() in (folder / "environ").read_bytes():
                found.append(int(folder.name))
    return found


class Job:
    """A program that runs, perhaps as several processes; what it printed is kept in files."""

    def __init__(self, command: list[str], folder: Path, environment: dict[str, str]):
        self.mark = uuid.uuid4().hex
        self.folder = folder
        self._out, self._err = folder / f"{self.mark}.out", folder / f"{self.mark}.err"
        with open(self._out, "wb") as out, open(self._err, "wb") as err:
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**environment, MARK: self.mark},
                cwd=folder,
                start_new_session=True,  # a signal to it does not reach pytest
                # pytest may run under nohup, whose deaf ear for SIGHUP children inherit
                preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
            )

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def until(self, condition: Callable[[], bool], seconds: float = SECONDS) -> None:
        """Wait for something that this job does."""
        deadline = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, f"ended before: {self.stdout}\n{self.stderr}"
            assert time.monotonic() < deadline, f"did not happen: {self.stdout}\n{self.stderr}"
            time.sleep(0.02)

    def wait(self, seconds: float = SECONDS) -> int:
        """The exit status; every process of the job must be gone by then, or a moment later."""
        status = self.process.wait(seconds)
        deadline = time.monotonic() + 60
        while (left := processes_of(self.mark)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not left, f"processes left behind: {left}\n{self.stderr}"
        return status

    def end(self) -> None:
        """Whatever the test found, nothing of it stays."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        for pid in processes_of(self.mark):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture(scope="session")
def environment(repo_root: Path) -> dict[str, str]:
    """The environment of jobs: this source tree, this interpreter, no traces of another job."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("OMPI_", "PMIX_", "PMI"))}
    tools = str(Path(sys.executable).parent)
    return {
        **inherited,
        "PYTHONPATH": str(repo_root),
        "PATH": tools + os.pathsep + os.environ["PATH"],
        "OMP_NUM_THREADS": "1",
        # for tests that use mpirun themselves; the library's own launcher sets these
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    }


@pytest.fixture
def start(environment: dict[str, str], tmp_path: Path) -> Iterator[Callable[..., Job]]:
    """`start(words, **variables)` starts Python with these words and returns the Job."""
    jobs: list[Job] = []
    with contextlib.ExitStack() as held:

        def start_one(*words: object, program: str = sys.executable, **variables: str) -> Job:
            if not jobs:  # not before: other fixtures of the test may need the slot
                held.enter_context(a_slot())
            command = [program, *(str(word) for word in words)]
            jobs.append(Job(command, tmp_path, {**environment, **variables}))
            return jobs[-1]

        yield start_one
        for job in jobs:
            job.end()


@pytest.fixture(scope="session")
def once(
    environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Callable[..., Path]:
    """`once(name, words)` runs a program that must succeed, one time for all tests and workers.

    Returns the folder that it ran in, which holds a copy of the folder `beginning` when it starts.
    """
    # workers of pytest-xdist have a folder each in one that they share
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent

    def run_once(name: str, *words: object, beginning: Path | None = None) -> Path:
        folder = shared / f"job-{name}"
        folder.mkdir(exist_ok=True)
        with open(folder / ".lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            done = folder / ".done"
            if not done.exists():
                if beginning is not None:
                    shutil.copytree(beginning, folder / beginning.name)
                with a_slot():
                    command = [sys.executable, *(str(word) for word in words)]
                    job = Job(command, folder, environment)
                    try:
                        status = job.wait()
                    finally:
                        job.end()
                done.write_text(json.dumps([status, job.stdout[-4000:], job.stderr[-4000:]]))
            status, out, err = json.loads(done.read_text())
        assert status == 0, f"{name} ended with status {status}\n{out}\n{err}"
        return folder

    return run_once
