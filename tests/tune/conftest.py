"""Small studies: a few epochs of a tiny network, all in this process."""

import contextlib
import io
import os
from pathlib import Path

import pytest

from spinup import registry
from spinup.grids.cells import CellFailed, run_cell
from spinup_tune.spaces import read_space
from spinup_tune.study import Settings, Study

BASE = {
    "env_name": "CartPole-v1",
    "ac_kwargs:hidden_sizes": [8],
    "steps_per_epoch": 60,
    "max_ep_len": 25,
    "logger_kwargs:quiet": True,
}


def run_jobs(title, jobs, more=None):
    """Run jobs in this process, in the order given."""
    failures = {}
    todo = list(jobs)
    while todo:
        job = todo.pop(0)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            try:
                run_cell(job)
            except CellFailed as error:
                failures[job.name] = str(error)
        if more is not None:
            todo += more(job)
    return failures


def as_given(key, value):
    """Accept any value of any argument."""
    return value


@pytest.fixture
def study_in(monkeypatch):
    """`study_in(folder, ...)` gives a study of a tiny REINFORCE, opened."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)

    def make(folder, algo="reinforce", launch=run_jobs, base=BASE, words=(), **changes):
        words = words or ["pi_lr=log:1e-3:1e-1"]
        wanted = {"trials": 4, "epochs": 4, "seeds": 1, "eta": 2, "rungs": 2, "last": 2}
        wanted |= {"finalists": 1, "test_seeds": 2, **changes}
        space = read_space(words, as_given)
        settings = Settings(algo=f"{algo}_pytorch", base=base, space=space, **wanted)
        function = registry.load(algo, "pytorch")
        study = Study(settings, function, Path(folder), launch, say=lambda line: None)
        study.open()
        return study

    make.base = BASE
    return make


@pytest.fixture
def run_here():
    return run_jobs
