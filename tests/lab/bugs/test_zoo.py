"""The bug zoo: every mutant fits our code, changes it, and leaves nothing behind."""

import ast
import importlib
import inspect
import os
import subprocess
import sys

import gymnasium
import numpy as np
import pytest

from spinup import registry
from spinup.algos.common import returns
from spinup.envs import make_env
from spinup.utils.errors import SpinupError
from spinup_lab import bugs as zoo
from spinup_lab.bugs import applying, mutants
from spinup_lab.bugs.__main__ import change, main
from tests.helpers.processes import run_python

IDS = sorted(zoo.load())
PATH = ([1.0, 2.0, 4.0], [0.5, 0.25, 0.125], 8.0, 0.5, 0.5)


@pytest.fixture(autouse=True)
def no_animal_escapes():
    """The broken environments are registered for one test only.

    Other tests see the list of known ids, in messages that name the nearest one.
    """
    yield
    for name in [name for name in gymnasium.registry if name.startswith("zoo/")]:
        del gymnasium.registry[name]
    sys.modules.pop("spinup_lab.bugs.environments", None)  # importing it registers them


def codes(module):
    """The code of everything that a module defines."""
    pairs = applying._pairs(vars(module), vars(module), module.__name__)
    return {id(mine): mine.__code__ for mine, _ in pairs}


@pytest.mark.parametrize("name", IDS)
def test_mutant_fits_the_source_and_changes_what_it_compiles_to(name):
    mutant = zoo.find(name)
    for module in mutant.modules:
        healthy = mutants.healthy_source(module)
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
    from spinup.algos.common import rollout

    expected = zoo.function("gae-off-by-one", "gae")(*PATH)[0]
    with zoo.applied("gae-off-by-one") as mutant:
        assert mutant.id == "gae-off-by-one"
        assert np.array_equal(rollout.gae(*PATH)[0], expected)
    assert not np.array_equal(rollout.gae(*PATH)[0], expected)


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
    edit = mutants.Edit("spinup.algos.common.returns", "no such text", "x")
    mutant = zoo.find("gae-off-by-one")
    stale = type(mutant)(**{**vars(mutant), "edits": (edit,)})
    with pytest.raises(SpinupError, match="occurs 0 times"):
        mutants.mutated(stale, edit.module, "text")


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
        mutants._mutant("x", {**whole, **table}, tmp_path / "x.toml")


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
    words = ["-m", "spinup_lab.bugs", "gae-off-by-one", "--", "some_program"]
    run = run_python(*words, cwd=tmp_path, PYTHONPATH=path)
    expected = zoo.function("gae-off-by-one", "gae")(*PATH)[0].tolist()
    assert run.stdout.splitlines() == [str(expected)] * 2


def test_the_command_lists_shows_and_refuses(capsys):
    assert main([]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in listed] == list(zoo.load())
    assert main(["--source", "gae-off-by-one"]) == 0
    assert "+    delta = rew + gamma * val[:-1] - val[:-1]" in capsys.readouterr().out
    assert change("gae-off-by-one").count("\n-") == 1
    assert main(["gae-off-by-one", "spinup.run"]) == 2
    assert "cannot run" in capsys.readouterr().err


def test_the_documented_path_of_the_command_works():
    for words, code in ((["--source", "gae-off-by-one"], 0), (["nothing", "here"], 2)):
        command = [sys.executable, "-m", "spinup.exercises.zoo", *words]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        assert run.returncode == code and "Traceback" not in run.stderr


# ---- faulty environments -------------------------------------------------------------------------


def episode(name, torques, seed=3):
    """Play these torques (one for each step) as fractions of the range; return all steps."""
    env = gymnasium.make(f"spinup_lab.bugs.environments:zoo/{name}-v0")
    low, high = env.action_space.low, env.action_space.high
    obs, _ = env.reset(seed=seed)
    steps = [env.step((low + (high - low) * u).astype(np.float32)) for u in torques]
    return obs, steps


def test_every_faulty_environment_exists_and_can_be_trained_on():
    assert len(zoo.broken_environments()) == 4
    for name, broken in zoo.broken_environments().items():
        assert broken.id == name and broken.part == "environment"
        assert broken.story.endswith(".") and broken.symptom.endswith(".")
        env = make_env(broken.env)
        assert env.observation_space.shape == (3,)


def test_the_late_reward_is_that_of_the_step_before():
    rewards = [step[1] for step in episode("LateReward", (0.1, 0.9, 0.4))[1]]
    other = [step[1] for step in episode("LateReward", (0.9, 0.9, 0.4))[1]]
    assert rewards[0] == other[0] == 0.0
    assert rewards[1] != other[1]


def test_the_time_limit_is_a_death():
    _, steps = episode("LimitIsDeath", [0.5] * 200)
    assert [step[2] for step in steps] == [False] * 199 + [True]
    assert not any(step[3] for step in steps)


def test_the_shared_array_changes_what_was_returned_before():
    with pytest.warns(UserWarning, match="share an object"):  # Gymnasium notices this one
        obs, steps = episode("SharedArray", (0.1, 0.9))
    assert all(step[0] is obs for step in steps)


def test_the_unseeded_environment_starts_anywhere():
    assert not np.array_equal(episode("Unseeded", ())[0], episode("Unseeded", ())[0])


@pytest.mark.parametrize("name", ["Wide", "Narrow", "Lopsided"])
def test_a_rescaled_pendulum_is_a_pendulum(name):
    env = gymnasium.make("Pendulum-v1")
    obs, _ = env.reset(seed=3)
    mine, steps = episode(f"{name}Pendulum", (0.0, 0.25, 1.0))
    assert np.array_equal(mine, obs)
    for step, torque in zip(steps, (-2.0, -1.0, 2.0), strict=True):
        expected = env.step(np.array([torque], np.float32))
        assert np.allclose(step[0], expected[0], atol=1e-5)
        assert step[1] == pytest.approx(expected[1], abs=1e-4)


def test_two_pendulums_are_seeded_and_have_two_torques():
    first, steps = episode("TwoPendulums", (0.0, 1.0))
    again, same = episode("TwoPendulums", (0.0, 1.0))
    assert np.array_equal(first, again) and np.array_equal(steps[1][0], same[1][0])
    assert first.shape == (6,) and not np.array_equal(first[:3], first[3:])
