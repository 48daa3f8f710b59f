"""What happens to a job when something happens to one of its processes, or to its launcher."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from spinup.parallel import launch as mpi_launch
from spinup.parallel.job import COLUMNS, ENTERED, JOB_VARIABLE, LEFT, PID, RUNNING, STEPS
from spinup.parallel.launch import Launch, _hanging
from tests.helpers.comparing import table_cells, weights

PROGRAM = Path(__file__).with_name("program_train.py")
MESSAGE = "RuntimeError: the fault that was asked for"


def words(**asked):
    return PROGRAM, json.dumps(asked)


@pytest.fixture
def undisturbed(once):
    """The same run with no fault."""
    return once("undisturbed", *words())


def checkpoints(folder):
    return sorted(path.name for path in (folder / "run/checkpoints").glob("step-*"))


# ------------------------------------------------------------------------------------- exceptions


@pytest.mark.mpi
@pytest.mark.parametrize("rank", [0, 1])
def test_an_exception_ends_the_job_with_its_traceback_last(start, tmp_path, rank):
    job = start(*words(fault="raise", rank=rank))
    job.until(lambda: "failed:" in job.stderr or job.process.poll() is not None)
    seen = time.monotonic()
    assert job.wait() == 1
    assert time.monotonic() - seen < 60, "soon, and not with mpirun's own patience"
    last = job.stderr.rstrip().splitlines()
    assert last[-1] == MESSAGE
    begin = last.index(f"Rank {rank} of 2 failed:")
    assert last[begin + 1].startswith("Traceback") and "program_train.py" in "".join(last[begin:])
    assert job.stdout.splitlines() == ["printed by 0"], "only rank 0 prints"
    # rank 1 failed in the second epoch; what was saved before is there
    assert checkpoints(tmp_path) == ["step-000000000100"]


@pytest.mark.mpi
def test_an_exception_before_training_ends_the_job(start):
    # Open MPI's mpirun sometimes stays for ever then: the launcher ends it
    job = start(*words(fault="import"))
    assert job.wait() != 0
    assert MESSAGE in job.stderr


@pytest.mark.parametrize("leaves", ["true", "sleep 0.5 & wait"])
def test_an_mpirun_that_outlives_its_processes_is_ended(monkeypatch, capfd, tmp_path, leaves):
    fake = tmp_path / "mpirun"
    fake.write_text(
        f"#!/bin/sh\n[ \"$1\" = --version ] && exit\ntrap '' TERM\n{leaves}\nexec sleep 1000\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr(mpi_launch, "find_mpirun", lambda: str(fake))
    monkeypatch.setattr(mpi_launch, "_GRACE", 0.3)
    assert mpi_launch.run_job(Launch(2)) == 1
    assert "the job lost a process" in capfd.readouterr().err


def test_an_mpirun_that_does_not_end_a_failed_job_is_ended(monkeypatch, capfd, tmp_path):
    fake = tmp_path / "mpirun"
    fake.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && exit\ntrap '' TERM\n"
        f"echo 'the traceback' > ${JOB_VARIABLE}/error-1\nsleep 1000 & exec sleep 1000\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr(mpi_launch, "find_mpirun", lambda: str(fake))
    monkeypatch.setattr(mpi_launch, "_GRACE", 0.3)
    assert mpi_launch.run_job(Launch(2, max_restarts=3)) == 1, "a mistake is not tried again"
    assert capfd.readouterr().err == "\nthe traceback\n"


@pytest.mark.mpi
def test_wrong_input_that_one_process_alone_notices_is_one_sentence(start):
    job = start(*words(fault="refuse"))
    assert job.wait() == 2
    last = job.stderr.rstrip().splitlines()[-1]
    assert last == "spinup: the input that was asked for is wrong"
    assert "Traceback" not in job.stderr


@pytest.mark.mpi
def test_leaving_alone_ends_the_job(start):
    job = start(*words(fault="exit"))
    assert job.wait() == 1
    assert "Rank 1 of 2 left its run:" in job.stderr
    assert job.stderr.rstrip().endswith("SystemExit: 0")


@pytest.mark.mpi
def test_under_an_outer_launcher_the_traceback_of_another_rank_is_seen(start):
    job = start("-np", 2, "python", *words(fault="raise"), program="mpirun")
    assert job.wait() == 1
    assert "Rank 1 of 2 failed:" in job.stderr and MESSAGE in job.stderr


# ------------------------------------------------------------------------------------------ kills


@pytest.mark.mpi
def test_a_killed_process_ends_the_job(start, tmp_path):
    job = start(*words(fault="kill", rank=1))
    assert job.wait() == 128 + signal.SIGKILL
    assert job.stderr.rstrip().splitlines()[-1] == "spinup: the job lost rank 1 (status 137)"
    assert checkpoints(tmp_path) == ["step-000000000100"]


@pytest.mark.mpi
def test_a_killed_job_restarts_from_its_checkpoint_and_ends_with_the_same_bits(
    start, undisturbed, tmp_path
):
    # an older run there, to be replaced, is not what a restart continues
    (tmp_path / "run").mkdir()
    (tmp_path / "run/progress.txt").write_text("Epoch\tTime\n0\t1\n1\t2\n")
    asked = {"launch": {"max_restarts": 2}, "train": {"overwrite": True}}
    job = start(*words(fault="kill", rank=0, **asked))
    assert job.wait() == 0
    assert (tmp_path / "killed").exists()
    assert "restarting from the last checkpoint (restart 1 of 2)" in job.stderr
    assert "(2 of 2)" not in job.stderr
    assert table_cells(tmp_path / "run") == table_cells(undisturbed / "run")
    assert weights(tmp_path / "run") == weights(undisturbed / "run")
    assert (tmp_path / "run/.finished").exists()
    config = json.loads((tmp_path / "run/config.json").read_text())
    assert config["resume"] and not config["overwrite"], "continued, not begun again"


@pytest.mark.mpi
def test_a_killed_launcher_takes_its_processes_along(start, tmp_path):
    job = start(*words(fault="wait"))
    job.until((tmp_path / "here").exists)
    job.process.kill()
    assert job.wait() == -signal.SIGKILL


# ------------------------------------------------------------------------------------------ hangs


@pytest.mark.mpi
def test_a_hanging_process_is_named_after_the_timeout(start):
    job = start(*words(fault="hang", launch={"timeout": 3}))
    assert job.wait() == 124
    last = job.stderr.rstrip().splitlines()[-1]
    assert "rank 1 has given no sign of life for 3 s while 1 of 2 ranks are waiting" in last


@pytest.mark.mpi
def test_a_stopped_process_is_named_after_the_timeout(start):
    job = start(*words(fault="stop", launch={"timeout": 3}))
    assert job.wait() == 124
    last = job.stderr.rstrip().splitlines()[-1]
    said = r"spinup: rank 1 \(pid \d+\) was stopped by a signal and has not continued for 3 s"
    assert re.match(said, last), last


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_stopped_inside_a_collective_is_named_too():
    child = subprocess.Popen(["sleep", "100"])
    try:
        table = rows({**WAITING, PID: os.getpid()}, {**WAITING, PID: child.pid})
        ranks = mpi_launch._Ranks(child, table, local=True)
        silence = np.array([11.0, 11.0])
        assert "all 2 ranks" in _hanging(table, silence, 10.0, True, ranks.stopped)
        os.kill(child.pid, signal.SIGSTOP)
        os.waitpid(child.pid, os.WUNTRACED)
        said = _hanging(table, silence, 10.0, True, ranks.stopped)
        assert (
            said
            == f"rank 1 (pid {child.pid}) was stopped by a signal and has not continued "
            + ("for 10 s")
        )
        assert _hanging(table, np.array([1.0, 1.0]), 10.0, True, ranks.stopped) == ""
        ranks.close()
    finally:
        child.kill()
        child.wait()


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux tells who ended first")
def test_the_first_process_to_end_is_remembered():
    mpirun, *others = (subprocess.Popen(["sleep", "100"]) for _ in range(3))
    try:
        ranks = mpi_launch._Ranks(mpirun, rows(*({PID: p.pid} for p in others)), local=True)
        assert not ranks.wait(0.01) and ranks.first_to_end == []
        for process in (others[1], others[0]):
            process.kill()
            assert not ranks.wait(10) and ranks.first_to_end == [1]
        mpirun.kill()
        assert ranks.wait(10)
        ranks.close()
    finally:
        for process in (mpirun, *others):
            process.kill()
            process.wait()


def test_a_launcher_that_was_stopped_itself_blames_nobody(monkeypatch, tmp_path):
    """As by Ctrl-Z: all is silent, but only because nobody looked."""
    table = rows(BUSY, BUSY)
    clock = iter([0.0, 0.0, 1000.0, 1000.5, 1001.0])
    monkeypatch.setattr(mpi_launch.time, "monotonic", lambda: next(clock))
    monkeypatch.setattr(mpi_launch, "_members", lambda session: [1, 2, 3])

    class Ranks:
        rounds = iter([False, False, True])
        wait = lambda self, seconds: next(self.rounds)  # noqa: E731
        stopped = lambda self: np.array([False, False])  # noqa: E731

    class Process:
        pid = 0

    assert mpi_launch._wait(Process(), Launch(2, timeout=300), table, tmp_path, Ranks()) == ""


def rows(*given):
    """A table from one dict a rank."""
    made = np.zeros((len(given), COLUMNS), np.int64)
    for row, values in zip(made, given, strict=True):
        for column, value in values.items():
            row[column] = value
    return made


BUSY = {ENTERED: 5, LEFT: 5, STEPS: 9, RUNNING: 1}
WAITING = {ENTERED: 5, LEFT: 4, RUNNING: 1}
DONE = {ENTERED: 9, LEFT: 9, STEPS: 9}


@pytest.mark.parametrize(
    ("given", "silence", "said"),
    [
        ([BUSY, BUSY], [1, 1], ""),
        ([BUSY, WAITING], [1, 99], ""),
        ([BUSY, WAITING], [11, 12], "rank 0 has"),
        ([BUSY, BUSY], [11, 1], "rank 0 has"),
        ([BUSY, BUSY, WAITING], [11, 11, 11], "rank 0, 1 has"),
        ([DONE, DONE], [99, 99], ""),  # nobody waits: it may do what it likes after training
        ([DONE, WAITING], [99, 11], "rank 0 has"),
        ([DONE, WAITING], [99, 9], ""),
        ([WAITING, {}], [5, 99], ""),  # still importing: judged by how long others waited
        ([WAITING, {}], [11, 99], "rank 1 has"),
        ([{}, {}], [99, 99], ""),
        ([WAITING, WAITING], [11, 11], "all 2 ranks"),
        ([WAITING, WAITING], [11, 1], ""),
    ],
)
def test_who_is_said_to_hang(given, silence, said):
    answer = _hanging(rows(*given), np.array(silence, float), 10.0, local=True)
    assert answer.startswith(said) and bool(answer) == bool(said)


def test_processes_on_other_machines_that_cannot_give_signs_are_not_blamed():
    assert _hanging(rows(WAITING, {}), np.array([99.0, 99.0]), 10.0, local=False) == ""


# ---------------------------------------------------------------------------------------- signals


@pytest.mark.mpi
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_launcher_saves_and_stops(start, undisturbed, tmp_path, number):
    job = start(*words(fault="wait", rank=number % 2))
    job.until((tmp_path / "here").exists)
    os.kill(job.process.pid, number)
    job.until(lambda: (tmp_path / "signals").stat().st_size)  # it travels through mpirun
    (tmp_path / "go").touch()
    assert job.wait() == 128 + number
    assert "Stopped and saved after 1" in job.stderr and "resume=True" in job.stderr
    assert job.stderr.count("Stopped and saved") == 1
    assert "Traceback" not in job.stderr and "finished" not in job.stdout
    assert len(table_cells(tmp_path / "run")) == 2
    if number == signal.SIGTERM:
        assert start(*words(train={"resume": True})).wait() == 0
        assert table_cells(tmp_path / "run") == table_cells(undisturbed / "run")
        assert weights(tmp_path / "run") == weights(undisturbed / "run")


@pytest.mark.mpi
def test_a_second_signal_ends_processes_that_do_not_stop(start, tmp_path):
    job = start(*words(fault="wait"))
    job.until((tmp_path / "here").exists)
    os.kill(job.process.pid, signal.SIGHUP)
    job.until(lambda: (tmp_path / "signals").stat().st_size)
    assert job.process.poll() is None
    os.kill(job.process.pid, signal.SIGINT)
    assert job.wait() == 128 + signal.SIGHUP
