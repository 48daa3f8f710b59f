"""A job with `until` pauses its run; a later job continues it, as if it had never stopped."""

import dataclasses
import io
import json

import cloudpickle
import pytest

from spinup import registry
from spinup.grids.board import Board, _epochs
from spinup.grids.cells import Cell, decide, make_jobs, read_state, run_cell
from spinup.grids.slurm_executor import _dump, _job
from spinup.grids.workers import run_local
from tests.helpers.comparing import table_cells, weights

TINY = {
    "ppo": {"anneal_lr": True, "train_pi_iters": 2, "train_v_iters": 2, "minibatch_size": 20},
    "acer": {"anneal_lr": True, "replay_size": 100, "n_steps": 10, "num_test_episodes": 1},
}


def job_of(folder, algo="ppo", until=None, **changes):
    kwargs = {
        "env_name": "CartPole-v1",
        "ac_kwargs": {"hidden_sizes": [8]},
        "steps_per_epoch": 60,
        "epochs": 4,
        "max_ep_len": 25,
        "logger_kwargs": {"quiet": True},
        **TINY[algo],
        **changes,
    }
    cell = Cell("x", registry.load(algo, "pytorch"), 0, kwargs)
    (job,) = make_jobs([cell], folder / ".grid", [str(folder / "x_s0")], "launch", 1)
    return dataclasses.replace(job, until=until)


@pytest.mark.parametrize("algo", ["ppo", "acer"])
def test_a_run_continued_twice_equals_one_that_never_paused(algo, tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    for until, rows in ((1, 1), (3, 3), (None, 4)):
        assert run_cell(job_of(tmp_path / "a", algo, until)) == ("fresh" if rows == 1 else "resume")
        assert len(table_cells(tmp_path / "a" / "x_s0")) == 1 + rows
    run_cell(job_of(tmp_path / "b", algo))
    assert table_cells(tmp_path / "a" / "x_s0") == table_cells(tmp_path / "b" / "x_s0")
    assert weights(tmp_path / "a" / "x_s0") == weights(tmp_path / "b" / "x_s0")
    assert not (tmp_path / "a" / "x_s0" / ".old").exists()


def test_the_pause_is_not_part_of_the_cell_but_decides_what_is_done(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    first, later, whole = (job_of(tmp_path, until=until) for until in (1, 3, None))
    assert first.hash == later.hash == whole.hash
    run_cell(first)
    assert read_state(first)["until"] == 1
    actions = [decide(job).action for job in (first, later, whole)]
    assert actions == ["skip", "resume", "resume"]
    assert all(decide(job).note == "" for job in (first, later, whole))
    config = json.loads((tmp_path / "x_s0" / "config.json").read_text())
    assert (config["epochs"], config["on_epoch"]) == (4, "pause")


def test_a_pause_reaches_workers_and_slurm_tasks_and_the_live_table(tmp_path):
    job = job_of(tmp_path, until=3)
    assert cloudpickle.loads(cloudpickle.dumps(job)).until == 3
    (row,) = json.loads(_dump([job])[0])
    assert _job(row).until == 3
    assert (_epochs(job), _epochs(job_of(tmp_path))) == (3, 4)


def test_a_pause_still_calls_the_users_function(tmp_path, monkeypatch):
    monkeypatch.setattr("os.fsync", lambda descriptor: None)
    seen = []
    run_cell(job_of(tmp_path, until=2, on_epoch=lambda row, ac: seen.append(row["Epoch"])))
    assert seen == [0, 1]


def test_the_table_takes_later_parts_of_runs_and_further_runs(tmp_path):
    first = job_of(tmp_path, until=1)
    board = Board("x", [first], stream=io.StringIO())
    board.states[0] = "done"
    assert board.add(job_of(tmp_path, until=3)) == 0
    assert (board.states, board._epochs) == (["waiting"], [3])
    assert board.add(dataclasses.replace(first, name="another")) == 1
    assert [job.until for job in board.jobs] == [3, 1]
    assert len(board.lines(80, 24)) == 4


def test_workers_run_what_a_finished_job_allows(tmp_path):
    first = job_of(tmp_path, until=1)
    asked = []

    def more(job):
        asked.append(job.until)
        return [job_of(tmp_path, until=2)] if job.until == 1 else []

    board = Board("x", [first], stream=io.StringIO())
    assert run_local([first], 1, board, more) == {}
    assert asked == [1, 2] and board.states == ["done"]
    assert len(table_cells(tmp_path / "x_s0")) == 3
