"""The bug zoo: every mutant fits our code, changes it, and leaves nothing behind."""

import ast
import importlib
import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

from spinup import registry
from spinup.algos.common import returns
from spinup.exercises import zoo
from spinup.exercises.zoo import applying, catalogue
from spinup.exercises.zoo.__main__ import change, main
from spinup.utils.errors import SpinupError

IDS = sorted(zoo.load())
PATH = ([1.0, 2.0, 4.0], [0.5, 0.25, 0.125], 8.0, 0.5, 0.5)


def codes(module):
    """The code of everything that a module defines."""
    pairs = applying._pairs(vars(module), vars(module), module.__name__)
    return {id(mine): mine.__code__ for mine, _ in pairs}


@pytest.mark.parametrize("name", IDS)
def test_mutant_fits_the_source_and_changes_what_it_compiles_to(name):
    mutant = zoo.find(name)
    for module in mutant.modules:
        healthy = catalogue.healthy_source(module)
        faulty = zoo.source(name, module)  # also checks that each piece occurs exactly once
        assert ast.dump(ast.parse(faulty)) != ast.dump(ast.parse(healthy))


@pytest.mark.parametrize("name", IDS)
def test_applying_a_mutant_changes_functions_and_leaves_nothing_behind(name):
    modules = [importlib.import_module(module) for module in zoo.find(name).modules]
    before, names = [codes(module) for module in modules], [set(vars(m)) for m in modules]
    with zoo.applied(name):
        during = [codes(module) for module in modules]
        # every changed module has a function that does something else now
        assert all(a != b for a, b in zip(before, during, strict=True))
    assert [codes(module) for module in modules] == before
    assert [set(vars(module)) for module in modules] == names


@pytest.mark.parametrize("name", IDS)
def test_mutant_is_complete(name):
    mutant = zoo.find(name)
    assert mutant.part in zoo.PARTS
    assert mutant.algorithms and set(mutant.algorithms) <= {row.name for row in registry.ROWS}
    assert len(mutant.story) > 100 and len(mutant.symptom) > 40
    assert mutant.story.endswith(".") and mutant.symptom.endswith(".")
    assert not mutant.title.endswith(".") and len(mutant.title) < 72
    assert all(hint.endswith((".", "?")) for hint in mutant.hints)
    arguments = inspect.signature(registry.load(mutant.algorithms[0], "pytorch")).parameters
    assert set(mutant.settings) <= set(arguments)


def test_a_function_of_a_mutant_is_a_copy():
    adv, _ = returns.gae(*PATH)
    faulty = zoo.function("gae-off-by-one", "gae")
    assert faulty is not returns.gae
    assert not np.allclose(faulty(*PATH)[0], adv)
    assert np.array_equal(returns.gae(*PATH)[0], adv)
    assert "<zoo" not in returns.gae.__code__.co_filename


def test_applied_reaches_those_who_have_imported_the_function_already():
    from spinup.algos.pytorch.common import advantages

    expected = zoo.function("gae-off-by-one", "gae")(*PATH)[0]
    with zoo.applied("gae-off-by-one") as mutant:
        assert mutant.id == "gae-off-by-one"
        assert np.array_equal(advantages.gae(*PATH)[0], expected)
    assert not np.array_equal(advantages.gae(*PATH)[0], expected)


def test_applied_restores_after_an_error_and_refuses_to_nest():
    before = returns.gae.__code__
    with pytest.raises(KeyError), zoo.applied("gae-off-by-one"):
        raise KeyError
    assert returns.gae.__code__ is before
    with (
        zoo.applied("gae-off-by-one"),
        pytest.raises(SpinupError, match="one at a time"),
        zoo.applied("gae-lambda-ignored"),
    ):
        pass
    assert returns.gae.__code__ is before


def test_a_traceback_shows_the_faulty_line():
    assert "gamma * val[:-1] - val[:-1]" in inspect.getsource(zoo.function("gae-off-by-one", "gae"))


def test_unknown_names_are_errors_that_name_the_nearest():
    with pytest.raises(SpinupError, match="did you mean gae-off-by-one"):
        zoo.find("gae-of-by-one")
    with pytest.raises(SpinupError, match="define no 'gea'"):
        zoo.function("gae-off-by-one", "gea")


def test_a_mutant_that_no_longer_fits_is_an_error():
    edit = catalogue.Edit("spinup.algos.common.returns", "no such text", "x")
    mutant = zoo.find("gae-off-by-one")
    stale = type(mutant)(**{**vars(mutant), "edits": (edit,)})
    with pytest.raises(SpinupError, match="occurs 0 times"):
        catalogue.mutated(stale, edit.module, "text")


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ({"tittle": "x"}, "unknown field 'tittle'"),
        ({"title": "x"}, "lacks the field"),
        ({"part": "retruns"}, "did you mean returns"),
        ({"hints": ["one"]}, "three hints"),
    ],
)
def test_a_wrong_table_is_an_error(table, problem, tmp_path):
    whole = dict.fromkeys(("title", "part", "story", "symptom", "noticed_by"), "returns")
    whole |= {"algorithms": ["ppo"], "hints": ["a", "b", "c"], "old": "a", "new": "b"}
    if problem.startswith("lacks"):
        whole.pop("story")
    with pytest.raises(SpinupError, match=problem):
        catalogue._mutant("x", {**whole, **table}, tmp_path / "x.toml")


def test_install_after_the_import_is_an_error():
    with pytest.raises(SpinupError, match="comes too late"):
        applying.install("gae-off-by-one")


def test_a_program_and_its_children_run_with_the_fault(tmp_path, monkeypatch):
    """The command starts a program that imports no torch, and that starts another one."""
    program = (
        "import subprocess, sys\n"
        "from spinup.algos.common.returns import gae\n"
        f"print(gae(*{PATH!r})[0].tolist(), flush=True)\n"
        "if len(sys.argv) == 1:\n"
        "    subprocess.run([sys.executable, __file__, 'child'], check=True)\n"
    )
    (tmp_path / "some_program.py").write_text(program)
    path = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "spinup.exercises.zoo", "gae-off-by-one", "--", "some_program"]
    run = subprocess.run(
        command,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    expected = zoo.function("gae-off-by-one", "gae")(*PATH)[0].tolist()
    assert run.stdout.splitlines() == [str(expected)] * 2


def test_the_command_lists_shows_and_refuses(capsys):
    assert main([]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == list(zoo.load())
    assert main(["--source", "gae-off-by-one"]) == 0
    assert "+    delta = rew + gamma * val[:-1] - val[:-1]" in capsys.readouterr().out
    assert change("gae-off-by-one").count("\n-") == 1
    with pytest.raises(SpinupError, match="cannot run"):
        main(["gae-off-by-one", "spinup.run"])
