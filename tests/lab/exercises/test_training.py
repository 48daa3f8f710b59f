"""`spinup exercise check ID --train`: a run with the learner's function beside the library's."""

import contextlib
import types

import pytest

from spinup import run
from spinup.utils.errors import SpinupError
from spinup_lab.exercises import tasks, training
from spinup_lab.exercises.exercise import RIGHT, Check, Exercise, Result, resolve
from tests.helpers.processes import run_python

LOSS = "reinforce.loss_pi"
SUMS = "tools.discount_cumsum"


@pytest.fixture
def short(monkeypatch):
    """Two short epochs of REINFORCE."""
    recipe = {**training.recipes()["reinforce"], "epochs": 2, "steps_per_epoch": 200}
    monkeypatch.setitem(training.recipes(), "reinforce", recipe)


def copied(function):
    """A function of the learner's that does what the library's does."""
    return types.FunctionType(function.__code__, function.__globals__, "own")


def trainable():
    for task in tasks.load().values():
        with contextlib.suppress(SpinupError):
            yield task, training.algorithm(task)


def test_functions_of_all_ten_algorithms_can_be_trained_with():
    tasks = [(task, algo) for task, algo in trainable() if ".bug" not in task.id]
    assert {algo for _, algo in tasks} == set(training.recipes()) - {"every", "needed"}
    assert len(tasks) >= 25
    for task, algo in trainable():
        env, given = training.arguments(task)
        assert env and given["epochs"] >= 10 and algo in task.algorithms


def test_a_right_function_gives_the_library_s_run(short):
    task = tasks.find(LOSS)
    reference = resolve(task.reference)
    ours, none, _ = training.train(task, None, 0)
    theirs, calls, error = training.train(task, copied(reference), 0)
    assert (none, calls, error, len(ours)) == (0, 6, "", 2)
    lines = training.report(task, ours, theirs, calls, error, right=True)
    assert lines[-1] == "compute_loss_pi was called 6 times. All columns of both runs are equal."
    assert resolve(task.reference) is reference  # it is back in its place


def test_the_loss_alone_is_a_right_answer_there_too(short):
    task = tasks.find(LOSS)
    reference = resolve(task.reference)
    rows, calls, error = training.train(task, lambda *a, **k: reference(*a, **k)[0], 0)
    assert len(rows) == 2 and calls == 6 and not error


def test_a_wrong_function_changes_the_run_and_is_called_by_everybody(short):
    task = tasks.find(SUMS)
    reference = resolve(task.reference)
    ours, _, _ = training.train(task, None, 0)
    theirs, calls, error = training.train(task, lambda x, discount: reference(x, 0.5), 0)
    assert calls > 2 and not error  # other modules imported it by name
    lines = training.report(task, ours, theirs, calls, error, right=False)
    assert "The runs differ from epoch 0 on. One run shows" in lines[-1]


def test_a_function_that_fails_ends_its_own_run_only(short):
    def fails(*args, **kwargs):
        print("not shown")
        raise ValueError("no\nidea")

    task = tasks.find(LOSS)
    rows, calls, error = training.train(task, fails, 0)
    assert (rows, calls, error) == ([], 1, "ValueError: no idea")
    row = {"AverageEpRet": 12.0, "TotalEnvInteracts": 200}
    lines = training.report(task, [row], rows, calls, error, right=False)
    assert lines[-1] == "Your run stopped after 0 epochs. It raised ValueError: no idea"
    assert lines[1].split() == ["200", "steps", "-", "12.00"]


def test_a_run_that_takes_too_long_is_shown_as_far_as_it_went(short, monkeypatch):
    monkeypatch.setattr(training, "SECONDS", 0)
    rows, _, _ = training.train(tasks.find(LOSS), None, 0)
    assert len(rows) == 1


def test_the_table_has_ten_lines_and_ends_with_the_last_epoch():
    rows = [{"AverageEpRet": float(i), "TotalEnvInteracts": 100 * i} for i in range(1, 31)]
    lines = training.report(tasks.find(LOSS), rows, rows[:20], 1, "", right=True)
    table = [line.split() for line in lines if "steps" in line]
    assert len(table) == 10
    assert table[-1] == ["3,000", "steps", "-", "30.00"] and table[0][0] == "300"


@pytest.mark.parametrize("name", ["ppo.minibatches", "workflow.fix_seed", "ppo.exp_clip"])
def test_what_cannot_be_trained_is_said_before_anything_is_judged(name, tmp_path, capsys):
    assert run.main(["exercise", "check", name, "--dir", str(tmp_path), "--train"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and f"{name} has no training run to show" in err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("passed", [True, False])
def test_the_verdict_and_its_exit_code_stay(passed, tmp_path, monkeypatch, capsys):
    verdict = Result(LOSS, 1, (Check("it runs", passed), Check("value", False)))
    monkeypatch.setattr(Exercise, "check", lambda *_: verdict)
    seen = []
    monkeypatch.setattr(training, "demonstrate", lambda *words: seen.append(words))
    file = tmp_path / "mine.py"
    file.write_text("")
    words = ["exercise", "check", LOSS, str(file), "--dir", str(tmp_path), "--train"]
    assert run.main(words) == 1
    assert len(seen) == passed
    assert ("Nothing was trained" in capsys.readouterr().out) == (not passed)


@pytest.mark.slow
def test_from_the_command_line(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import numpy as np\n"
        "def discount_cumsum(x, discount):\n"
        "    sums = [sum(discount**k * v for k, v in enumerate(x[t:])) for t in range(len(x))]\n"
        "    return np.array(sums, float)\n"
    )
    words = ["exercise", "check", SUMS, "mine.py", "--train"]
    done = run_python("-m", "spinup.run", *words, expect=RIGHT, cwd=tmp_path)
    verdict, _, shown = done.stdout.partition("A demonstration, not a verdict")
    assert f"{SUMS}: right." in verdict and "30,000 steps" in shown
    assert "discount_cumsum was called" in shown
