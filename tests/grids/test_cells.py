"""Cells: what their hash sees, what is skipped, resumed and said when a grid is issued again."""

import dataclasses
import functools
import json
import math
import shutil
from pathlib import Path

import cloudpickle
import gymnasium as gym
import numpy as np
import pytest

from spinup import user_config, vpg_pytorch
from spinup.grids.cells import Cell, describe, digest, holding, read_state
from spinup.grids.experiments import CellsFailed, ExperimentGrid
from spinup.utils.errors import SpinupError
from tests.helpers.processes import run_python


def cell(thunk=vpg_pytorch, name="x", seed=0, **kwargs):
    return Cell(name, thunk, seed, kwargs)


# ------------------------------------------------------------------------------------- the hash


def adder(n):
    return lambda x: x + n


class Plain:
    def __init__(self, n):
        self.n = n


# Pairs of different values: a hash that takes one for the other would skip what never ran.
DIFFERENT = [
    (0, 1),
    (0, False),
    (1, 1.0),
    (1, "1"),
    (None, "None"),
    (0.1, math.nextafter(0.1, 1)),
    ([1, 2], [2, 1]),
    ([1, [2]], [1, 2]),
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"b": 1}),
    (lambda: 1, lambda: 2),
    (lambda: "CartPole-v1", lambda: "Acrobot-v1"),
    (lambda x: x + 1, lambda x: x - 1),
    (lambda x: x.a, lambda x: x.b),
    (lambda x=1: x, lambda x=2: x),
    (lambda *, x=1: x, lambda *, x=2: x),
    (adder(1), adder(2)),
    (lambda: lambda: 1, lambda: lambda: 2),
    (functools.partial(max, 1), functools.partial(max, 2)),
    (functools.partial(max, key=abs), functools.partial(max, key=len)),
    (np.zeros(3), np.zeros(4)),
    (np.zeros(3), np.zeros(3, np.float32)),
    (np.array([1, 2]), np.array([2, 1])),
    (Plain(1), Plain(2)),
    (type("A", (), {"f": lambda self: 1}), type("A", (), {"f": lambda self: 2})),
    (type("A", (), {"n": 1}), type("A", (), {"n": 2})),
    (Plain(1).__init__, Plain(2).__init__),
    (b"a", b"b"),
    ({1, 2}, {1, 3}),
    (gym.make("CartPole-v1"), gym.make("Acrobot-v1")),
    (dict, list),
]


@pytest.mark.parametrize(("a", "b"), DIFFERENT, ids=range(len(DIFFERENT)))
def test_different_values_have_different_hashes(a, b):
    assert digest(a) != digest(b)


def cycle():
    items = [1]
    items.append(items)
    return items


# Made twice, or made anew elsewhere, these are the same.
SAME = [
    lambda: (32, 32),
    lambda: {"a": 1, "b": [2.5, None]},
    lambda: lambda x: x + 1,
    lambda: adder(3),
    lambda: functools.partial(print, "a", end=""),
    lambda: np.arange(5.0),
    lambda: Plain([1, {2, 3}]),
    lambda: {"x", "y", "z"},
    lambda: vpg_pytorch,
    lambda: gym.make("CartPole-v1"),
    lambda: (lambda env: lambda: env)(gym.make("CartPole-v1")),
    cycle,
    object,
    lambda: np.random.default_rng,
]


@pytest.mark.parametrize("make", SAME, ids=range(len(SAME)))
def test_equal_values_have_equal_hashes_also_after_a_journey(make):
    assert digest(make()) == digest(make())
    assert digest(cloudpickle.loads(cloudpickle.dumps(make()))) == digest(make())


def test_lists_and_tuples_are_alike_and_dicts_have_no_order():
    assert digest((1, [2, 3])) == digest([1, (2, 3)])
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1})


def test_a_hash_is_the_same_in_every_process(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from spinup.grids.cells import Cell\n"
        "def train(x={'b', 'a', 'c'}): return x\n"
        "n = 5\n"
        "def outer(k): return lambda: (k, {'p', 'q', 'r'})\n"
        "class Net:\n"
        "    size = 3\n"
        "    def f(self): return {1.5, 'z'}\n"
        "kwargs = dict(env_fn=outer(n), ac=Net, o=Net(), s={'x', 'y', 'z'}, gamma=0.9)\n"
        "print(Cell('n', train, 3, kwargs).hash)\n"
    )
    outputs = {run_python(script, PYTHONHASHSEED=seed).stdout for seed in ("1", "2")}
    (out,) = outputs
    assert len(out.strip()) == 64


def test_what_makes_up_the_hash_of_a_cell():
    base = cell(gamma=0.9)
    assert base.hash == cell(gamma=0.9).hash
    others = [
        cell(gamma=0.8),
        cell(gamma=0.9, lam=1),
        cell(gamma=0.9, seed=1),
        cell(gamma=0.9, name="y"),
        cell(print, gamma=0.9),
    ]
    assert len({base.hash, *(c.hash for c in others)}) == 6
    # how it is carried out is no part of it
    how = {"resume": True, "overwrite": False, "progress": True, "logger_kwargs": {"quiet": True}}
    assert cell(gamma=0.9, **how).hash == base.hash


def test_functions_of_packages_go_by_name_and_others_by_code():
    name = "spinup.algos.pytorch.vpg.vpg.vpg"
    assert describe(vpg_pytorch) == ["name", name]
    assert describe(adder)[:2] == ["function", "adder"]


def test_a_cell_cannot_be_changed():
    one = cell(gamma=0.9)
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.seed = 5
    with pytest.raises(TypeError):
        one.kwargs["gamma"] = 1
    back = cloudpickle.loads(cloudpickle.dumps(one))
    assert back == one and back.hash == one.hash


# --------------------------------------------------------------------------------- issued again


class Trainer:
    """Notes the calls of `train`, and what shall go wrong in it by seed."""

    def __init__(self, folder):
        self.folder, self.calls, self.trouble = folder, [], {}

    def run(self, **more):
        """Issue the grid; returns the calls it made: (seed, resume, overwrite)."""
        self.calls.clear()
        eg = ExperimentGrid("g")
        eg.add("seed", more.pop("seeds", [0, 1, 2]))
        for key in ("gamma", "resume", "overwrite", "env_fn"):
            if key in more:
                eg.add(key, [more.pop(key)])
        eg.run(train, data_dir=self.folder, **more)
        return list(self.calls)


current = []  # the trainer of the test that runs; a global is no part of a function's hash


def train(seed, logger_kwargs, resume=False, overwrite=False, gamma=0, env_fn=None):
    """Makes a run directory as an algorithm does; fails, or stops half-way, when told to."""
    run = Path(logger_kwargs["output_dir"])
    (run / "checkpoints" / "step-000000000001").mkdir(parents=True, exist_ok=True)
    current[-1].calls.append((seed, resume, overwrite))
    if seed in current[-1].trouble:
        raise current[-1].trouble[seed]
    (run / ".finished").touch()


@pytest.fixture
def trainer(tmp_path):
    current.append(Trainer(tmp_path))
    yield current[-1]
    current.pop()


FRESH = [(0, False, False), (1, False, False), (2, False, False)]


def test_done_cells_are_skipped(trainer, capsys):
    assert trainer.run() == FRESH
    assert trainer.run() == []
    assert (
        "Of 3 cells, 3 are already done and are skipped, and 0 continue" in capsys.readouterr().out
    )
    assert trainer.run(seeds=[0, 1, 2, 3]) == [(3, False, False)]
    said = capsys.readouterr().out
    assert f"To run all again, delete {trainer.folder / 'g' / '.grid'}." in said
    shutil.rmtree(trainer.folder / "g" / ".grid")
    assert trainer.run() == FRESH


def test_a_failed_cell_is_resumed_and_the_others_are_not_touched(trainer, capsys):
    trainer.trouble = {1: ArithmeticError("no good")}
    with pytest.raises(CellsFailed, match=r"1 of 3 cells failed \(g_s1\)"):
        trainer.run()
    assert trainer.calls == FRESH
    assert "ArithmeticError: no good" in capsys.readouterr().err
    trainer.trouble = {}
    assert trainer.run() == [(1, True, False)]
    assert trainer.run() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt(), SystemExit(143)])
def test_a_stopped_grid_goes_on(trainer, error, capsys):
    trainer.trouble = {1: error}
    with pytest.raises(type(error)):
        trainer.run()
    err = capsys.readouterr().err
    assert "Stopped with 1 of 3 cells done." in err
    assert "skips finished cells and continues the others" in err
    assert trainer.calls == FRESH[:2]
    trainer.trouble = {}
    assert trainer.run() == [(1, True, False), (2, False, False)]


@pytest.mark.parametrize("status", [None, 3, 255, "no good"])
def test_a_function_that_exits_is_a_failure_and_no_end(trainer, status):
    trainer.trouble = {0: SystemExit(status)}
    with pytest.raises(CellsFailed):
        trainer.run()
    assert trainer.calls == FRESH


def test_wrong_input_of_a_cell_is_reported_as_its_sentence(trainer, capsys):
    trainer.trouble = {0: SpinupError("gamma is too large.")}
    with pytest.raises(CellsFailed):
        trainer.run()
    err = capsys.readouterr().err
    assert "SpinupError: gamma is too large." in err and "Traceback" not in err


def test_a_changed_cell_is_noticed_and_said(trainer, capsys):
    trainer.run(gamma=0.9)
    capsys.readouterr()
    assert trainer.run(gamma=0.8) == FRESH
    said = capsys.readouterr().out
    run = trainer.folder / "g" / "g_s1"
    sentence = f"g_s1 has changed since it last ran in {run} (gamma): it runs again"
    assert sentence in said
    # with resume=True it is handed on as that, and the run itself decides
    assert trainer.run(gamma=0.7, resume=True) == [(s, True, False) for s in range(3)]


def test_a_changed_lambda_is_noticed(trainer, capsys):
    trainer.run(env_fn=lambda: 1)
    assert trainer.run(env_fn=lambda: 1) == []
    assert trainer.run(env_fn=lambda: 2) == FRESH
    assert "(env_fn): it runs again" in capsys.readouterr().out


def test_a_function_that_hides_its_arguments_is_resumed_where_there_is_a_checkpoint(trainer):
    eg = ExperimentGrid("g")
    eg.add("seed", [0, 1])
    trainer.trouble = {0: ArithmeticError()}
    with pytest.raises(CellsFailed):
        eg.run(lambda **kwargs: train(**kwargs), data_dir=trainer.folder)
    trainer.trouble = {}
    eg.run(lambda **kwargs: train(**kwargs), data_dir=trainer.folder)
    assert trainer.calls == [(0, False, False), (1, False, False), (0, True, False)]


def test_a_function_that_cannot_resume_starts_again(trainer):
    def once(seed, logger_kwargs):
        train(seed, logger_kwargs)

    eg = ExperimentGrid("g")
    eg.add("seed", [0, 1])
    trainer.trouble = {0: ArithmeticError()}
    with pytest.raises(CellsFailed):
        eg.run(once, data_dir=trainer.folder)
    trainer.trouble = {}
    eg.run(once, data_dir=trainer.folder)
    assert trainer.calls == [(0, False, False), (1, False, False), (0, False, False)]


def test_overwrite_runs_everything_again(trainer):
    trainer.run()
    assert trainer.run(overwrite=True) == [(s, False, True) for s in range(3)]


def test_resume_false_starts_partial_runs_anew(trainer):
    trainer.trouble = {1: ArithmeticError()}
    with pytest.raises(CellsFailed):
        trainer.run(resume=False)
    trainer.trouble = {}
    assert trainer.run(resume=False) == [(1, False, False)]


@pytest.mark.parametrize("victim", [".finished", ""])
def test_deleted_results_are_made_again(trainer, victim):
    trainer.run()
    run = trainer.folder / "g" / "g_s1"
    if victim:
        (run / victim).unlink()
    else:
        shutil.rmtree(run)
    assert trainer.run() == [(1, bool(victim), False)]


def put_a_run(run, config, table):
    """What a run outside of the grid leaves in a directory."""
    (run / "config.json").write_text(config)
    (run / "progress.txt").write_text(table)


def test_a_run_that_has_taken_the_place_of_a_cell_is_not_taken_for_it(trainer, capsys):
    runs = [trainer.folder / "g" / f"g_s{seed}" for seed in range(3)]
    for run in runs:
        run.mkdir(parents=True)
        put_a_run(run, "gamma 0.9", "Epoch\tTime\n0\t1.25\n")
    assert trainer.run() == FRESH
    put_a_run(runs[0], "gamma 0.5", "Epoch\tTime\n0\t1.5\n")  # other settings: not our results
    put_a_run(runs[1], "gamma 0.9", "Epoch\tTime\n0\t1.5\n")  # the same run once more
    put_a_run(runs[2], "more epochs", "Epoch\tTime\n0\t1.25\n1\t2.5\n")  # continued
    capsys.readouterr()
    assert trainer.run() == FRESH[:1]
    sentence = f"{runs[0]} contains a different run from the one that g_s0 left there: it runs "
    assert sentence in capsys.readouterr().out
    assert trainer.run() == []
    state = trainer.folder / "g" / ".grid" / "g_s1" / "state.json"
    state.write_text(state.read_text().replace('"length": 18', '"length": "x"'))
    put_a_run(runs[1], "other", "table")
    assert trainer.run() == []  # nothing is known about the run it left


NO_STATE = b'{"format": "spinup-cell-1", "parts": {}, "hash": "x", "launch": "y"}'


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[]", b"{}", b'{"format": "spinup-cell-1"}', NO_STATE, b"\x80"]
)
def test_a_state_that_cannot_be_read_is_none(trainer, text):
    trainer.run()
    (trainer.folder / "g" / ".grid" / "g_s1" / "state.json").write_bytes(text)
    assert trainer.run() == [(1, False, False)]


def test_with_a_date_nothing_is_skipped_and_that_is_said(trainer, capsys, monkeypatch):
    assert trainer.run(datestamp=True) == FRESH
    assert trainer.run(datestamp=True) == FRESH
    assert "nothing is skipped or resumed" in capsys.readouterr().out
    monkeypatch.setattr(user_config, "FORCE_DATESTAMP", True)
    trainer.run()
    assert "nothing is skipped or resumed" in capsys.readouterr().out


def test_a_cell_that_another_process_runs_is_left_to_it(trainer, monkeypatch):
    from spinup.grids import launching as run_utils

    eg = ExperimentGrid("g")
    eg.add("seed", [0, 1])
    (_, job) = eg._jobs(eg.cells(train), trainer.folder, False, None)
    monkeypatch.setattr(
        run_utils, "run_cell", functools.partial(run_utils.run_cell, wait=0.5), raising=True
    )
    with holding(job, 0), pytest.raises(CellsFailed):
        trainer.run(seeds=[0, 1])
    assert trainer.calls == [(0, False, False)]
    assert read_state(job) == {}
    assert trainer.run(seeds=[0, 1]) == [(1, False, False)]


def test_the_state_is_text_and_says_what_ran(trainer):
    trainer.run(gamma=0.5)
    state = json.loads((trainer.folder / "g" / ".grid" / "g_s2" / "state.json").read_text())
    assert state["state"] == "done" and state["finished"] is True
    assert state["output_dir"] == str(trainer.folder / "g" / "g_s2")
    assert set(state["parts"]) == {"(function)", "(name)", "seed", "gamma"}


def test_a_single_cell_is_one_call_and_keeps_no_books(trainer):
    assert trainer.run(seeds=[0]) == trainer.run(seeds=[0]) == FRESH[:1]
    assert not (trainer.folder / "g" / ".grid").exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"executor": "kubernetes"}, "executor must be one of local, ray, slurm"),
        ({"num_workers": 0}, "num_workers must be a positive integer"),
        ({"num_workers": 2.0}, "num_workers must be a positive integer"),
        ({"num_workers": True}, "num_workers must be a positive integer"),
        ({"cpus_per_cell": 0}, "cpus_per_cell must be"),
        ({"gpus_per_cell": -1}, "gpus_per_cell must be a non-negative number"),
        ({"gpus_per_cell": 1}, "gpus_per_cell requests GPUs from a cluster"),
        ({"num_workers": 2, "num_cpu": 2}, "cannot have several MPI processes"),
        ({"executor": "ray", "num_cpu": 2}, "cannot have several MPI processes"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_runs(trainer, options, sentence):
    with pytest.raises(SpinupError, match=sentence):
        trainer.run(**options)
    assert trainer.calls == [] and list(trainer.folder.iterdir()) == []


def test_a_place_that_cannot_be_written_is_refused_in_a_sentence(trainer):
    (trainer.folder / "g").write_text("a file is in the way")
    with pytest.raises(SpinupError, match=r"cannot write in .*\.grid .*: choose another data_dir"):
        trainer.run()
    assert trainer.calls == []
