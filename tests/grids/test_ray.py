"""Cells on a real Ray cluster of several nodes, one of which is lost in the middle of a run."""

import contextlib
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import pytest

from spinup.grids.experiments import ExperimentGrid
from spinup.utils.errors import SpinupError

ray = pytest.importorskip("ray", reason="needs the extra 'cluster'")


@pytest.fixture
def cluster(monkeypatch):
    """A head that takes no cells and two nodes that take one each, all processes of their own."""
    from ray.cluster_utils import Cluster

    # a lost node is noticed within seconds and not within a minute
    config = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
    small = {"object_store_memory": 80 << 20, "include_dashboard": False}
    with tempfile.TemporaryDirectory(prefix="r", dir="/tmp") as short:  # for short socket names
        monkeypatch.setenv("RAY_TMPDIR", short)
        head = {"num_cpus": 0, "_system_config": config, **small}
        cluster = Cluster(initialize_head=True, head_node_args=head)
        try:
            nodes = [cluster.add_node(num_cpus=1, **small) for _ in range(2)]
            yield cluster, nodes
        finally:
            cluster.shutdown()


def processes_of(node):
    """The ids of a node's own processes."""
    return {info.process.pid for infos in node.all_processes.values() for info in infos}


def pids():
    return [int(p.name) for p in Path("/proc").iterdir() if p.name.isdecimal()]


def parent(pid):
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # ended meanwhile
        return 0


def is_below(pid, ancestors):
    """Whether a process is, or descends from, one of `ancestors`."""
    while pid > 1 and pid not in ancestors:
        pid = parent(pid)
    return pid in ancestors


def test_a_node_and_a_worker_are_lost_and_their_cells_are_resumed(grids, cluster, tmp_path):
    cluster, nodes = cluster
    with grids.hold(tmp_path):
        grid = grids.Grid(tmp_path, executor="ray", ray_address=cluster.address)
        workers = grid.held(2)
        lost = next(node for node in nodes if is_below(workers[0], processes_of(node)))
        (other,) = (node for node in nodes if node is not lost)
        assert is_below(workers[1], processes_of(other)), "both cells on one node"
        # all of its processes at once, as when a machine loses power
        doomed = [pid for pid in pids() if is_below(pid, processes_of(lost))]
        assert workers[0] in doomed and workers[1] not in doomed
        for pid in sorted(doomed, key=lambda pid: pid not in processes_of(lost)):
            with contextlib.suppress(ProcessLookupError):  # some end by themselves with the first
                os.kill(pid, signal.SIGKILL)
        # and on the other node Ray's worker, which ours belongs to: it is asked to save, and Ray
        # starts the task again while it still has the lock
        os.kill(parent(workers[1]), signal.SIGKILL)
        grids.wait_for(lambda: grids.logs(tmp_path).count("--- 2") == 3, "a new try", tmp_path)
        assert grids.alive(workers[1])
    out, err = grid.wait()
    assert out.count(": done") == 3 and err == ""
    assert grids.results(tmp_path) == grids.reference
    # two of them were started a second time, and went on where the first had stopped
    logs = grids.logs(tmp_path)
    assert logs.count("--- 2") == 5 and logs.count("Resuming ") == 2
    assert logs.count("Stopped and saved after 250 steps") == 1
    assert not any(grids.alive(pid) for pid in workers)


def named(text):
    """The ids of the processes with `text` in their command lines, this one aside."""
    found = []
    for pid in pids():
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes()
            if text.encode() in words and pid != os.getpid():
                found.append(pid)
    return found


@pytest.mark.slow
def test_the_launcher_is_killed_and_the_grid_issued_again(grids, cluster, tmp_path):
    cluster, _ = cluster
    with grids.hold(tmp_path):
        grid = grids.Grid(tmp_path, executor="ray", ray_address=cluster.address)
        workers = grid.held(2)
        grid.process.kill()
        grid.process.wait()
    grids.wait_for(lambda: not any(map(grids.alive, workers)), "the workers' end", tmp_path)
    out, _ = grids.Grid(tmp_path, executor="ray", ray_address=cluster.address).wait()
    assert "2 continue from their checkpoints" in out
    assert grids.results(tmp_path) == grids.reference


@pytest.mark.slow
def test_a_cluster_that_was_started_for_a_grid_is_gone_after_it(grids, tmp_path, monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with tempfile.TemporaryDirectory(prefix="r") as short:
        monkeypatch.setenv("RAY_TMPDIR", short)
        with grids.hold(tmp_path):
            grid = grids.Grid(tmp_path, executor="ray")
            grid.held(1)
            assert named(f"{short}/ray")
            grid.process.send_signal(signal.SIGINT)
            time.sleep(3)  # the request passes through Ray to the held worker
        _, err = grid.wait(expect=130)
        assert "Stopped with 0 of 3 cells done." in err
        assert grids.states(tmp_path)["kill_s0"]["state"] == "stopped"
        grids.Grid(tmp_path, executor="ray").wait()
        grids.wait_for(lambda: not named(f"{short}/ray"), "the end of Ray", tmp_path)
    assert grids.results(tmp_path) == grids.reference


def test_without_ray_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "ray", None)
    eg = ExperimentGrid("g")
    eg.add("seed", [0, 1])
    with pytest.raises(SpinupError, match=r"pip install 'spinup\[cluster\]'"):
        eg.run(print, data_dir=tmp_path, executor="ray")


def test_an_address_where_nobody_is_is_a_sentence_and_takes_no_time(tmp_path):
    eg = ExperimentGrid("g")
    eg.add("seed", [0, 1])
    with pytest.raises(SpinupError, match=r"there is no Ray cluster at 127\.0\.0\.1:1 .*refused"):
        eg.run(print, data_dir=tmp_path, executor="ray", ray_address="127.0.0.1:1")
