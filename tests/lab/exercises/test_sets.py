"""The exercises: references pass, known mistakes are rejected and named, and files are complete."""

import ast
import importlib.util
import re

import pytest

from spinup import registry
from spinup_lab.exercises import judge, mistakes, tasks
from spinup_lab.exercises.exercise import RIGHT, WRONG, Exercise, NotYetWritten, resolve
from spinup_lab.exercises.judge import examine
from spinup_lab.exercises.mistakes import known_mistake

ALL = tasks.load()
FUNCTIONS = [t for t in ALL.values() if isinstance(t, Exercise) and t.kind == "F"]
every_task = pytest.mark.parametrize("task", ALL.values(), ids=list(ALL))
every_function = pytest.mark.parametrize("task", FUNCTIONS, ids=[task.id for task in FUNCTIONS])
TO_WRITE = [task for task in FUNCTIONS if "NotYetWritten" in task.files()["exercise.py"]]
TO_MEND = [task for task in FUNCTIONS if task not in TO_WRITE]
MISTAKES = [pytest.param(task, wrong, id=f"{task.id}: {wrong.name}")
            for task in FUNCTIONS for wrong in task.wrong]  # fmt: skip


@every_function
@pytest.mark.parametrize("seed", [0, 1])
def test_the_reference_passes_its_own_battery(task, seed):
    result = examine(task, resolve(task.reference), seed)
    assert result.exit_code == RIGHT, str(result)
    assert all(check.passed for check in result.checks)


@pytest.mark.parametrize(("task", "wrong"), MISTAKES)
def test_a_known_mistake_is_rejected_and_named(task, wrong, monkeypatch):
    """What the first mistake of an exercise does is computed twice, as for a learner's answer.

    Of the others, the judge gets what the list of mistakes has: the same function in the same
    cases.
    """
    if wrong is not task.wrong[0]:
        monkeypatch.setattr(
            judge, "outcomes", lambda task, _, seed: mistakes._of_mistake(task, wrong, seed)
        )
    result = examine(task, known_mistake(task, wrong))
    assert result.exit_code == WRONG
    assert result.misconception == wrong.name, str(result)
    assert result.story == wrong.story
    assert result.checks[-1].text  # the first difference
    assert result.next == f"spinup exercise hint {task.id}"


@every_function
def test_a_function_exercise_is_complete(task):
    cases = resolve(task.cases)()
    assert 8 <= len(cases) <= 20
    assert len({case.name for case in cases}) == len(cases)
    assert len(task.wrong) >= 3
    names = [wrong.name for wrong in task.wrong]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch("[a-z0-9-]+", name) for name in names)
    assert all(wrong.story.endswith((".", "?", "!")) for wrong in task.wrong)


@every_task
def test_every_exercise_has_what_the_command_line_shows(task):
    assert re.fullmatch(r"[a-z0-9_.-]+", task.id)
    assert task.set in tasks.SETS
    assert 1 <= task.difficulty <= 5 and 1 <= task.minutes <= 120
    assert len(task.hints) == 3 and all(hint.strip() for hint in task.hints)
    assert len(task.title) <= 50 and not task.title.endswith(".")
    files = task.files()
    assert task.file in files
    for name, content in files.items():
        if name.endswith(".py"):
            tree = ast.parse(content)
            assert task.id in ast.get_docstring(tree) or not isinstance(task, Exercise)
            too_long = [line for line in content.splitlines() if len(line) > 100]
            assert too_long == []


def started(task, folder):
    """Return the module that `start` writes."""
    file = folder / "stub.py"
    file.write_text(task.files()["exercise.py"])
    spec = importlib.util.spec_from_file_location("stub", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("task", TO_MEND, ids=[task.id for task in TO_MEND])
def test_given_code_is_wrong_until_it_is_mended(task, tmp_path):
    """The verdict does not give the fault away."""
    result = examine(task, getattr(started(task, tmp_path), task.name), file="exercise.py")
    assert result.exit_code == WRONG and result.misconception == "unchanged"


@pytest.mark.parametrize("task", TO_WRITE, ids=[task.id for task in TO_WRITE])
def test_the_stub_names_the_function_that_is_to_be_written(task, tmp_path):
    """Unfilled, it is wrong, with a sentence that names the function."""
    module = started(task, tmp_path)
    assert module.NotYetWritten is NotYetWritten
    result = examine(task, getattr(module, task.name), file="exercise.py")
    assert result.exit_code == WRONG and result.misconception is None
    assert result.checks[-1].text.startswith(task.name)
    assert "is still to be written" in result.checks[-1].text


@every_function
def test_the_solution_is_the_source_of_the_reference(task):
    text = task.solution()
    name = task.reference.rpartition(":")[2]
    assert re.search(rf"^(def|class) {name}\b", text, re.M)
    assert task.reference.partition(":")[0].replace(".", "/") in text


def test_every_page_to_read_exists(repo_root):
    docs = repo_root / "docs"
    known = {p.relative_to(docs).with_suffix("").as_posix() for p in docs.rglob("*.md")}
    known |= {f"algorithms/{row.name}" for row in registry.ROWS}  # made from the READMEs
    assert {task.page for task in ALL.values() if task.page} <= known
