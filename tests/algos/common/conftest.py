"""The loop without networks, and what its runs track."""

from types import SimpleNamespace

import pytest

from spinup.algos.common.loop import Loop
from spinup.runs.run import Run
from tests.helpers.loops import NAMES, Fixed, Tape


@pytest.fixture
def play(in_run):
    """A function that runs the loop without a network; returns the loop and all transitions.

    `update(loop)` is called for every gradient step and returns what it measured.
    """

    def loop_of(
        env_fn=Tape,
        policy=None,
        update=lambda loop: {},
        get_action=None,
        algo="ddpg",
        start_steps=0,
        update_after=0,
        update_every=1,
        updates_per_step=0.0,
        **given,
    ):
        policy, rows = policy or Fixed(), []

        def body(run):
            loop = Loop(run, ("QVals",), ("LossQ",))
            for _epoch in run.epochs():
                for _t in loop.steps():
                    a = loop.act(policy, start_steps)
                    for row in zip(*(x.copy() for x in loop.step(a)), strict=True):
                        rows.append(SimpleNamespace(**dict(zip(NAMES, row, strict=True))))
                    for _ in range(loop.updates_due(update_after, update_every, updates_per_step)):
                        loop.record(update(loop))
                loop.evaluate(get_action, run.config["num_test_episodes"])
                loop.log()
            return SimpleNamespace(loop=loop, rows=rows, policy=policy, dir=run.output_dir)

        return in_run(algo, body, env_fn, **{"epochs": 2, **given})

    return loop_of


@pytest.fixture
def tracked(monkeypatch):
    """Everything that the runs of a test track, one dict per run."""
    found, track = [], Run.track

    def remember(run, **objects):
        if not run.tracked:
            found.append(run.tracked)
        track(run, **objects)

    monkeypatch.setattr(Run, "track", remember)
    return found
