"""The same seed and the same shards give the same bits on 1, 2 and 4 processes."""

import itertools
import json
import re
from pathlib import Path

import pytest

from tests.helpers.comparing import diagnostics_cells, table_cells, weights

PROGRAM = Path(__file__).with_name("program_exact.py")
RUNS = ("reinforce", "vpg", "trpo", "ppo", "ppo-extras")
EPOCHS = 4

pytestmark = pytest.mark.mpi


def run_of(folder, name):
    return folder / f"run-{name}"


def assert_same(one, other):
    """Equal tables, time aside, and equal weights."""
    assert table_cells(one) == table_cells(other)
    assert diagnostics_cells(one) == diagnostics_cells(other)
    assert weights(one) == weights(other)


def parameters(folder, name, rank):
    return (folder / f"parameters-{name}-{rank}.txt").read_text().splitlines()


def on_four(once):
    """The folder of all runs on four processes."""
    return once("exact-4", PROGRAM, 4, "whole", "stop")


def on_fewer(once, procs):
    """The folder of all runs on `procs`; those that were stopped on four continue there."""
    stopped = on_four(once) / "stopped"
    return once(f"exact-{procs}", PROGRAM, procs, "whole", "resume", beginning=stopped)


def whole(once, procs):
    return (on_four(once) if procs == 4 else on_fewer(once, procs)) / "whole"


@pytest.fixture
def stopped_on_four(once):
    return on_four(once) / "stopped"


def resumed(once, procs):
    """The runs that were stopped on four processes, continued on `procs`."""
    return on_fewer(once, procs) / "stopped"


@pytest.mark.parametrize("procs", [2, 4])
@pytest.mark.parametrize("name", RUNS)
def test_the_number_of_processes_does_not_change_a_bit(once, name, procs):
    alone, together = (run_of(whole(once, n), name) for n in (1, procs))
    assert_same(together, alone)
    assert len(table_cells(alone)) == len(diagnostics_cells(alone)) == EPOCHS + 1


@pytest.mark.parametrize("procs", [2, 4])
@pytest.mark.parametrize("name", RUNS)
def test_parameters_are_equal_on_all_processes_after_every_epoch(once, name, procs):
    folder = whole(once, procs)
    first = parameters(folder, name, 0)
    assert [line.split()[0] for line in first] == [str(e) for e in range(EPOCHS)]
    assert all(a.split()[1] != b.split()[1] for a, b in itertools.pairwise(first)), "nothing learnt"
    for rank in range(1, procs):
        assert parameters(folder, name, rank) == first


@pytest.mark.parametrize("name", RUNS)
def test_a_signal_to_one_process_stops_all_of_them(stopped_on_four, name):
    assert len(table_cells(run_of(stopped_on_four, name))) == 2, "stopped in the second epoch"
    states = sorted((stopped_on_four / f"run-{name}/checkpoints").iterdir())
    steps = int(re.fullmatch(r"step-(\d+)", states[-1].name)[1])
    # in the middle of it: three processes had all of their data, the last one only a part
    assert 240 + 3 * 60 < steps < 480
    assert json.loads((states[-1] / "manifest.json").read_text())


@pytest.mark.parametrize("procs", [1, 2])
@pytest.mark.parametrize("name", RUNS)
def test_stopped_on_four_and_resumed_on_fewer_is_never_interrupted(once, name, procs):
    assert_same(run_of(resumed(once, procs), name), run_of(whole(once, 1), name))
