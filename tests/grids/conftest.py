"""Grids in processes of their own, to kill and to compare."""

import contextlib
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.comparing import table_cells, weights
from tests.helpers.processes import environment

PROGRAM = Path(__file__).with_name("program.py")
SECONDS = 300  # longer than anything here takes on a busy machine


class Grid:
    """One start of `program.py` in its own folder."""

    started = []

    def __init__(self, folder, **options):
        self.folder = Path(folder)
        self.started.append(self)
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(),
            # a shell may have SIGINT ignored for what it starts in the background
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def wait(self, expect=0):
        """What it printed (standard output, standard error), once it has ended as expected."""
        out, err = self.process.communicate(timeout=SECONDS)
        assert self.process.returncode == expect, f"{out}\n{err}\n{logs(self.folder)[-8000:]}"
        return out, err

    def held(self, count):
        """The ids of the worker processes that wait in the middle of their runs."""
        return wait_for(lambda: ids(self.folder, count), f"{count} held workers", self.folder)

    def asked_to_stop(self, workers):
        """Wait until SIGTERM has arrived in these held processes."""

        def arrived():
            files = [self.folder / f"signals-{pid}" for pid in workers]
            return all(signal.SIGTERM in file.read_bytes() for file in files)

        wait_for(arrived, "the signals", self.folder)


def ids(folder, count):
    found = [int(p.name.partition("-")[2]) for p in folder.glob("reached-*")]
    found = [pid for pid in found if alive(pid)]
    return found if len(found) >= count else None


def alive(pid):
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(condition, what, folder):
    """The first true value of `condition()`."""
    limit = time.monotonic() + SECONDS
    while time.monotonic() < limit:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"waited in vain for {what}:\n{logs(folder)[-8000:]}")


def logs(folder):
    texts = [p.read_text(errors="replace") for p in Path(folder).rglob("log.txt")]
    return "\n".join(texts)


def states(folder):
    """What is known about every cell, by name."""
    files = Path(folder).glob("*/.grid/*/state.json")
    return {p.parent.name: json.loads(p.read_text()) for p in files}


def results(folder, seeds=(0, 1, 2)):
    """Everything that the cells computed: their tables without the time, their weights."""
    found = {}
    for seed in seeds:
        run = Path(folder) / "kill" / f"kill_s{seed}"
        assert (run / ".finished").exists(), run
        table = table_cells(run)
        assert [row[0] for row in table[1:]] == [str(epoch) for epoch in range(6)]
        assert not (run / ".old").exists(), "a cell ran twice"
        found[seed] = (table, weights(run))
    return found


def hold_at(folder, step):
    """From now on processes wait in this step instead."""
    (folder / "hold.new").write_text(str(step))
    (folder / "hold.new").rename(folder / "hold")


@contextlib.contextmanager
def hold(folder):
    """Processes that reach their 250th step meanwhile wait in it."""
    hold_at(folder, 250)
    try:
        yield
    finally:
        (folder / "hold").unlink(missing_ok=True)
        for path in folder.glob("reached-*"):
            path.unlink()


class Tools:
    """What tests need from here; pytest gives them no other way to import it."""

    Grid = Grid
    alive, wait_for, states = staticmethod(alive), staticmethod(wait_for), staticmethod(states)
    hold_at = staticmethod(hold_at)
    results, hold, logs = staticmethod(results), staticmethod(hold), staticmethod(logs)
    program = PROGRAM

    def __init__(self, reference):
        self.reference = reference


@pytest.fixture(autouse=True)
def no_grid_outlives_its_test():
    """A test that fails half-way must not leave processes behind."""
    yield
    for grid in Grid.started:
        if grid.process.poll() is None:
            grid.process.kill()
        grid.process.wait()
        grid.process.stdout.close()
        grid.process.stderr.close()
    Grid.started.clear()


@pytest.fixture(scope="session")
def grids(tmp_path_factory):
    """Tools, and the results of the grid of `program.py` when nothing disturbs it."""
    folder = tmp_path_factory.mktemp("reference")
    Grid(folder, num_workers=2).wait()
    return Tools(results(folder))
