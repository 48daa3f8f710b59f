"""Run cells as tasks on a Ray cluster (extra `cluster`).

A task starts the same worker process that `num_workers` uses on one machine, and waits for it. If
the task's node or Ray worker is lost, Ray reschedules the task on another node. The new worker
process continues from the checkpoint in the run directory, which must have the same path on all
nodes. If the lost worker process is still running, it holds the cell's lock until it has saved its
run.
"""

from __future__ import annotations

import dataclasses
import importlib
import os
import socket
import time
from collections.abc import Sequence
from typing import Any

from spinup.grids.board import Board
from spinup.grids.cells import Cell, Job, read_state
from spinup.grids.workers import ATTEMPTS, outcome, pack, start, stop, terminated
from spinup.utils.errors import SpinupError

RETRIES = 10  # maximum number of lost nodes or Ray workers per cell


def run_ray(
    jobs: Sequence[Job],
    board: Board,
    most: int,
    cpus: int,
    gpus: float,
    address: str | None,
) -> dict[str, str]:
    """Run jobs as Ray tasks; return a message for each failed job, by name.

    Args:
        jobs: the jobs to run.
        board: shows their progress.
        most: maximum number of tasks submitted at a time.
        cpus, gpus: resources that each task requests.
        address: address of the cluster; None finds a running cluster, or starts one here.
    """
    packed = [pack(job) for job in jobs]
    ray = _ray()
    ours = not ray.is_initialized()
    if ours:
        _connect(ray, address)
    try:
        _check_resources(ray, cpus, gpus, board)
        options = {"num_cpus": cpus, "num_gpus": gpus, "max_retries": RETRIES, "max_calls": 1}
        task = ray.remote(**options)(run_in_child)
        return _run(ray, task, jobs, packed, board, most)
    finally:
        if ours:
            ray.shutdown()


def _ray() -> Any:
    try:
        return importlib.import_module("ray")
    except ImportError as error:
        raise SpinupError(
            f"executor 'ray' needs Ray, which cannot be imported here ({error}): "
            "run pip install 'spinup[cluster]'"
        ) from error


def _connect(ray: Any, address: str | None) -> None:
    where = address or os.environ.get("RAY_ADDRESS") or "this machine"
    try:
        host, _, port = where.removeprefix("ray://").rpartition(":")
        if port.isdecimal():  # Ray itself takes half a minute to notice a missing cluster
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        quiet = {"log_to_driver": False, "logging_level": "error"}
        if where != "this machine":
            ray.init(address=address, **quiet)
            return
        try:
            ray.init(address="auto", **quiet)
        except ConnectionError:  # none is running: start one, with a minimal object store
            small = {"include_dashboard": False, "object_store_memory": 100 << 20}
            ray.init(address="local", **small, **quiet)
    except (ConnectionError, RuntimeError, ValueError, OverflowError, OSError) as error:
        raise SpinupError(
            f"there is no Ray cluster at {where} ({' '.join(str(error).split())}): start one "
            "with 'ray start --head', or leave out the address"
        ) from error


def _check_resources(ray: Any, cpus: int, gpus: float, board: Board) -> None:
    """Warn if no node can run a cell; an autoscaling cluster may add such a node later."""
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if not any(node.get("CPU", 0) >= cpus and node.get("GPU", 0) >= gpus for node in nodes):
        board.say(
            f"No node of the Ray cluster has {cpus} CPU and {gpus:g} GPU for a cell: the cells "
            "wait until there is one (Ctrl-C stops)."
        )


def run_in_child(packed: bytes, job: Job) -> tuple[str, str]:
    """As a Ray task, run a worker process for one cell; replace the process once if it is lost."""
    attempts = 0
    while True:
        process = start(job, packed)
        try:
            while process.poll() is None:
                time.sleep(0.1)
        finally:  # also if the task is canceled, which raises KeyboardInterrupt
            stop({0: process})
        end = outcome(job, process)
        if end.state == "busy":
            # A node that Ray has lost may still be running the cell: wait for its lock.
            continue
        attempts += 1
        if end.state not in ("lost", "stopped") or attempts == ATTEMPTS:
            return end.state, end.detail


def _run(
    ray: Any, task: Any, jobs: Sequence[Job], packed: Sequence[bytes], board: Board, most: int
) -> dict[str, str]:
    index = {job.name: i for i, job in enumerate(board.jobs)}
    waiting = list(range(len(jobs)))[::-1]
    pending: dict[Any, int] = {}
    failures: dict[str, str] = {}
    try:
        with terminated():
            while waiting or pending:
                while waiting and len(pending) < most:
                    i = waiting.pop()
                    pending[task.remote(packed[i], _places(jobs[i]))] = i
                ready, _ = ray.wait(list(pending), timeout=1.0)
                for ref in ready:
                    job = jobs[pending.pop(ref)]
                    state, detail = _result(ray, ref)
                    if state != "done":
                        failures[job.name] = detail
                    board.set(index[job.name], "done" if state == "done" else "failed")
                for i in pending.values():
                    _follow(board, index[jobs[i].name], jobs[i])
                board.refresh()
    except (KeyboardInterrupt, SystemExit):
        for ref in pending:
            ray.cancel(ref)
        ray.wait(list(pending), num_returns=len(pending), timeout=60.0)
        for i in pending.values():
            board.set(index[jobs[i].name], "stopped")
        raise
    finally:
        board.close()
    return failures


def _places(job: Job) -> Job:
    """Copy a job without its cell, which is sent packed and used only by the worker process."""
    cell = Cell(job.cell.exp_name, str, job.cell.seed, {})
    return dataclasses.replace(job, cell=cell, specs=())


def _result(ray: Any, ref: Any) -> tuple[str, str]:
    try:
        state, detail = ray.get(ref)
    except ray.exceptions.RayError as error:
        lines = str(error).strip().splitlines()
        return "failed", "\n".join([type(error).__name__, *lines[-10:]])
    return state, detail


def _follow(board: Board, i: int, job: Job) -> None:
    """Show a submitted cell as running once its worker has started."""
    if board.states[i] == "waiting":
        state = read_state(job)
        if state.get("launch") == job.launch and state["state"] == "running":
            board.set(i, "running", f"on {state.get('host')}")
