"""A grid whose launcher or workers are killed ends, issued again, as if nothing had happened."""

import os
import signal

import pytest


def test_the_launcher_is_killed_and_the_grid_issued_again(grids, tmp_path):
    with grids.hold(tmp_path):
        first = grids.Grid(tmp_path, num_workers=2, threads=30)
        workers = first.held(2)
        first.process.kill()
        first.process.wait()
        first.asked_to_stop(workers)
    # the workers notice, save themselves in the middle of an epoch and go
    grids.wait_for(
        lambda: not any(grids.alive(pid) for pid in workers), "the workers' end", tmp_path
    )
    assert sorted(s["state"] for s in grids.states(tmp_path).values()) == ["stopped", "stopped"]
    out, _ = grids.Grid(tmp_path, num_workers=2).wait()
    assert (
        "Of 3 cells, 0 are already done and are skipped, and 2 continue from their checkpoints."
        in out
    )
    assert grids.results(tmp_path) == grids.reference
    # and once more: nothing is touched
    before = {name: state["time"] for name, state in grids.states(tmp_path).items()}
    out, _ = grids.Grid(tmp_path, num_workers=2).wait()
    assert "Of 3 cells, 3 are already done" in out
    assert {name: state["time"] for name, state in grids.states(tmp_path).items()} == before


def test_a_grid_issued_while_the_killed_ones_workers_still_live_waits_for_them(grids, tmp_path):
    """The workers cannot end yet, and a second start of the grid must not run their cells."""
    with grids.hold(tmp_path):
        first = grids.Grid(tmp_path, num_workers=2, seeds=[0, 1])
        workers = first.held(2)
        first.process.kill()
        first.process.wait()
        second = grids.Grid(tmp_path, num_workers=2, seeds=[0, 1])
        waiting = "Waiting for the process (pid "
        grids.wait_for(lambda: grids.logs(tmp_path).count(waiting) == 2, "new workers", tmp_path)
        assert all(grids.alive(pid) for pid in workers)
        launches = {s["launch"] for s in grids.states(tmp_path).values()}
        assert len(launches) == 1, "a cell was taken while its lock was held"
    second.wait()
    assert grids.results(tmp_path, (0, 1)) == {s: grids.reference[s] for s in (0, 1)}


def test_a_killed_worker_is_replaced_once_then_reported_and_the_next_start_finishes(
    grids, tmp_path
):
    with grids.hold(tmp_path):
        grid = grids.Grid(tmp_path, num_workers=2, seeds=[0, 1])
        victim, other = grid.held(2)
        grids.hold_at(tmp_path, 20)  # a process that goes on has fewer steps to do
        os.kill(victim, signal.SIGKILL)
        (second,) = grids.wait_for(
            lambda: (found := set(grid.held(2)) - {victim, other}) and list(found),
            "a new worker",
            tmp_path,
        )
        os.kill(second, signal.SIGKILL)
        grids.wait_for(lambda: not grids.alive(second), "the second worker's end", tmp_path)
    out, err = grid.wait(expect=1)
    assert out.count("its process was killed by SIGKILL; it is started again.") == 1
    assert "its process was killed by SIGKILL" in err
    assert "spinup: 1 of 2 cells failed (kill_s" in err
    grids.Grid(tmp_path, num_workers=2, seeds=[0, 1]).wait()
    assert grids.results(tmp_path, (0, 1)) == {s: grids.reference[s] for s in (0, 1)}


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_to_the_launcher_lets_the_workers_save(grids, tmp_path, number, status):
    with grids.hold(tmp_path):
        grid = grids.Grid(tmp_path, num_workers=2, seeds=[0, 1])
        workers = grid.held(2)
        grid.process.send_signal(number)
        grid.asked_to_stop(workers)
    _, err = grid.wait(expect=status)
    assert "Stopped with 0 of 2 cells done. This command skips finished cells and continues" in err
    assert not any(grids.alive(pid) for pid in workers)
    found = grids.states(tmp_path)
    assert [found[name]["state"] for name in sorted(found)] == ["stopped", "stopped"]
    assert "Stopped and saved after 250 steps" in grids.logs(tmp_path)
    if number == signal.SIGINT:
        # here, one after the other: the same books
        out, _ = grids.Grid(tmp_path, seeds=[0, 1]).wait()
        assert "2 continue from their checkpoints" in out
        assert grids.results(tmp_path, (0, 1)) == {s: grids.reference[s] for s in (0, 1)}


def test_overwrite_runs_everything_again_but_a_replaced_worker_goes_on(grids, tmp_path):
    grids.Grid(tmp_path, num_workers=2, seeds=[0]).wait()
    with grids.hold(tmp_path):
        grid = grids.Grid(tmp_path, num_workers=2, seeds=[0], overwrite=True)
        os.kill(grid.held(1)[0], signal.SIGKILL)
    grid.wait()
    assert "Resuming " in grids.logs(tmp_path)
    assert grids.results(tmp_path, (0,)) == {0: grids.reference[0]}
