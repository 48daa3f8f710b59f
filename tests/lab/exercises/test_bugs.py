"""Find the bug: the given function is faulty; a mended one with the right answer passes."""

import importlib.util
import json
import re

import pytest

from spinup_lab import bugs as zoo
from spinup_lab.commands.exercise import main
from spinup_lab.exercises import content, recorded, tasks
from spinup_lab.exercises.bugs import LETTERS, Bug, excerpt
from spinup_lab.exercises.exercise import WRONG, source_of
from spinup_lab.exercises.judge import examine

BUGS = [task for task in tasks.load().values() if isinstance(task, Bug)]
LOGS = [bug.fault.mutant for bug in BUGS if bug.log]
every_bug = pytest.mark.parametrize("bug", BUGS, ids=[bug.id for bug in BUGS])
ONE = "vpg.loss_pi.bug1"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def loaded(source, folder):
    file = folder / "given.py"
    file.write_text(source)
    spec = importlib.util.spec_from_file_location("given", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@every_bug
def test_the_given_function_is_faulty_and_the_verdict_does_not_give_it_away(bug, tmp_path):
    files = bug.files()
    module = loaded(files["exercise.py"], tmp_path)
    assert module.ANSWER == ""
    result = examine(bug, getattr(module, bug.name), file="exercise.py")
    assert result.exit_code == WRONG and result.misconception == "unchanged", str(result)
    assert bug.fault.title not in files["exercise.py"] + files["README.md"] + bug.title


@every_bug
def test_a_bug_is_complete(bug):
    assert len(bug.choices) == len(set(bug.choices)) == 4
    assert bug.right in LETTERS
    assert bug.fault.part in zoo.PARTS
    assert all(len(text) < 140 for text in bug.choices)
    assert all(len(line) <= 100 for line in bug.files()["exercise.py"].splitlines())
    near = content.read(content.FOLDER / "bugs.toml")["near"]
    if bug.log is None:
        assert bug.choices[LETTERS.index(bug.right)].startswith(f"{bug.fault.part}: ")
        offered = {text.partition(":")[0] for text in bug.choices}
        assert not offered & set(near[bug.fault.part])  # no second answer is right as well
    else:
        assert bug.choices[LETTERS.index(bug.right)] == bug.log.symptom


def test_answers_are_not_always_at_the_same_place():
    letters = "".join(bug.right for bug in BUGS)
    assert all(letters.count(letter) >= len(letters) / 8 for letter in LETTERS)


def test_there_are_enough_bugs_of_every_algorithm():
    assert len(BUGS) >= 50
    assert {bug.set for bug in BUGS} == set(range(11))  # set 11 mends environments instead


def column(run, name):
    return [row[run.columns.index(name)] for row in run.rows]


def final_return(run):
    return column(run, "AverageEpRet")[-1]


# What the right answer says, as a test of one run: true of the faulty ones, false of the healthy.
SEEN = {
    "pg-sign": lambda run: column(run, "AverageEpRet")[-1] < 12,
    "policy-detached": lambda run: max(column(run, "KL")) == 0,
    "value-fits-advantage": lambda run: max(column(run, "AverageVVals")) < 1,
    "ppo-clip-without-adv": lambda run: column(run, "LossPi")[0] > 0.09,
    "ppo-ratio-inverted": lambda run: column(run, "AverageEpRet")[-1] < 12,
    "ppo-entropy-sign": lambda run: min(column(run, "LossPi")) > 0.05,
    "returns-undiscounted": lambda run: column(run, "AverageVVals")[-1] > 10,
    "column-critic": lambda run: column(run, "LossQ")[-1] > 10 and column(run, "StdQVals")[-1] < 9,
    "no-done-mask": lambda run: column(run, "AverageQVals")[-1] > 60 and final_return(run) < 15,
    "dqn-nstep-gamma": lambda run: column(run, "AverageQVals")[-1] > 50,
    "dqn-target-clipped": lambda run: column(run, "AverageQVals")[-1] < 1.01,
    "her-reward-stale": lambda run: column(run, "AverageQVals")[-1] < -1.8,
    "sac-alpha-sign": lambda run: column(run, "Alpha")[-1] > 300,
    "sac-target-entropy-sign": lambda run: column(run, "Alpha")[-1] > 300,
    "pi-sign": lambda run: column(run, "LossPi")[-1] * column(run, "AverageQVals")[-1] > 0,
}


@pytest.mark.parametrize("mutant", LOGS)
def test_the_right_answer_is_what_the_runs_show(mutant):
    (bug,) = (bug for bug in BUGS if bug.fault.mutant == mutant)
    for run in bug.runs():
        assert SEEN[mutant](run) == (run.group == "faulty"), (run.group, run.seed)


@pytest.mark.parametrize("mutant", LOGS)
def test_recorded_runs_are_small_and_readable(mutant, tmp_path):
    (bug,) = (bug for bug in BUGS if bug.fault.mutant == mutant)
    runs = bug.runs()
    assert [(run.group, run.seed) for run in runs] == [
        (group, seed) for group in ("healthy", "faulty") for seed in range(3)
    ]
    assert len({run.columns for run in runs}) == 1
    logs = {name: text for name, text in bug.files().items() if name.startswith("runs/")}
    assert len(logs) == 12
    assert all(len(text) < 10_000 for text in logs.values())
    assert "Epoch\t" in logs["runs/faulty/faulty_s0/progress.txt"]
    words = set(re.findall(r"\b(?:[A-Z][a-z0-9]+){2,}\b|\bKL\b", " ".join(bug.choices)))
    assert words <= set(runs[0].columns)  # a choice names only columns that the logs have


def test_every_recorded_bug_has_a_question():
    shipped = {path.stem.removeprefix("bug-") for path in recorded.FOLDER.glob("bug-*.json")}
    assert shipped == set(LOGS)
    assert len(shipped) >= 12


def mended(bug, answer):
    """The file as a learner leaves it: the library's function, and the letter."""
    module = bug.reference.partition(":")[0]
    found = excerpt(zoo.source(bug.fault.mutant, module), module, bug.name)
    right = source_of(bug.reference).partition("\n")[2]
    return f'{found.imports}ANSWER = "{answer}"\n\n\n{right}\n'


def judged_here(exercise, file, seed):
    """Judge a file as `child.check_file` does, but in this process, which has torch already."""
    module = loaded(file.read_text(), file.parent)
    return examine(exercise, getattr(module, exercise.name), seed, file.name)


def test_check_wants_both_the_answer_and_the_function(here, capsys, monkeypatch):
    monkeypatch.setattr("spinup_lab.exercises.child.check_file", judged_here)
    bug = tasks.find(ONE)
    file = here / "spinup-exercises" / ONE / "exercise.py"
    assert main(["start", ONE]) == 0
    assert main(["check", ONE]) == 1
    out = capsys.readouterr().out
    assert "answer the question" in out and "(unchanged)" in out
    file.write_text(mended(bug, next(x for x in LETTERS if x != bug.right)))
    assert main(["check", ONE]) == 1
    assert "WRONG what the runs show" in capsys.readouterr().out
    file.write_text(mended(bug, bug.right.upper()))
    assert main(["check", ONE]) == 0
    assert bug.fault.title in capsys.readouterr().out
    progress = json.loads(here.joinpath("spinup-exercises/progress.json").read_text())
    assert progress["exercises"][ONE]["attempts"] == 3


def test_the_recorded_runs_can_be_plotted_and_compared(here, capsys):
    from spinup.analysis.compare import compare

    main(["start", ONE])
    folder = here / "spinup-exercises" / ONE / "runs"
    found = compare([str(folder / "healthy"), str(folder / "faulty")], reps=200)
    assert set(found["algorithms"]) == {"healthy", "faulty"}


def test_the_solution_tells_the_story_and_shows_the_function():
    bug = tasks.find(ONE)
    text = bug.solution()
    assert f'ANSWER = "{bug.right}"' in text
    assert bug.fault.title in text and "def compute_loss_pi" in text


def test_an_excerpt_brings_its_imports_and_its_neighbors():
    source = (
        "import os\nimport numpy as np\nfrom a import b, c\nLIMIT = 3\n\n\ndef other():\n    pass\n"
        "\n\ndef one(x):\n    return np.minimum(b(x), LIMIT) + other()\n"
    )
    found = excerpt(source, "package.module", "one", [("+ other()", "- other()")])
    assert found.imports == (
        "import numpy as np\nfrom a import b\nfrom package.module import LIMIT, other\n\n"
    )
    assert found.code == "def one(x):\n    return np.minimum(b(x), LIMIT) - other()"
