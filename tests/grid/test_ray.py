"""Cells on a real Ray cluster of several nodes, one of which is lost in the middle of a run."""

import os
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from spinup.utils.errors import SpinupError
from spinup.utils.run_utils import ExperimentGrid

ray = pytest.importorskip("ray", reason="needs the extra 'cluster'")


@pytest.fixture
def cluster(monkeypatch):
    """A head that takes no cells and two nodes that take one each, all processes of their own."""
    from ray.cluster_utils import Cluster

    # a lost node is noticed within seconds and not within a minute
    config = {"health_check_period_ms": 500, "health_check_failure_threshold": 3}
    small = {"object_store_memory": 80 << 20, "include_dashboard": False}
    with tempfile.TemporaryDirectory(prefix="r") as short:  # sockets want short paths
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


def is_below(pid, ancestors):
    """Whether a process is, or descends from, one of `ancestors`."""
    while pid > 1 and pid not in ancestors:
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:  # ended meanwhile
            return False
    return pid in ancestors


def test_a_node_is_lost_and_its_cell_is_resumed_on_another(grids, cluster, tmp_path):
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
        for pid in doomed:
            os.kill(pid, signal.SIGKILL)
    out, err = grid.wait()
    assert out.count(": done") == 3 and err == ""
    assert grids.results(tmp_path) == grids.reference
    # one of them was started a second time, and went on where the first had stopped
    logs = grids.logs(tmp_path)
    assert logs.count("--- 2") == 4 and logs.count("Resuming ") == 1
    assert not any(grids.alive(pid) for pid in workers)


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
