"""The command that is printed is the one that was typed."""

import shlex
import sys
import types

import pytest

from spinup.utils import command
from tests.helpers.processes import run_python


@pytest.mark.parametrize(
    "argv, module, typed",
    [
        (["/x/bin/spinup", "ppo", "--env", "A b"], None, "spinup ppo --env 'A b'"),
        (["C:/x/spinup.exe", "ppo"], None, "spinup ppo"),
        (["/x/spinup/run.py", "ppo"], "spinup.run", "python -m spinup.run ppo"),
        (["/x/tool/__main__.py", "-v"], "tool.__main__", "python -m tool -v"),
        (["my.py", "$x"], None, "python my.py '$x'"),
        (["-c"], None, None),
        ([""], None, None),
        (["/x/ipykernel_launcher.py", "-f", "k.json"], "ipykernel_launcher", None),
    ],
)
def test_the_command_of_this_process(monkeypatch, argv, module, typed):
    monkeypatch.setattr(command.shutil, "which", lambda name: f"/x/bin/{name}")
    spec = None if module is None else types.SimpleNamespace(name=module)
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setitem(sys.modules, "__main__", types.SimpleNamespace(__spec__=spec))
    assert command.this_command() == typed


@pytest.mark.parametrize("program, words", [("spinup", "spinup"), ("x.py", "python -m spinup.run")])
def test_our_own_commands_are_written_as_the_user_writes_them(monkeypatch, program, words):
    monkeypatch.setattr(sys, "argv", [f"/somewhere/{program}"])
    monkeypatch.setattr(command.shutil, "which", lambda name: f"/x/bin/{name}")
    assert command.spinup_command("plot", "a b") == f"{words} plot 'a b'"


def test_a_script_that_is_not_on_the_path_is_named_by_its_own(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/x/.venv/bin/spinup", "ppo"])
    monkeypatch.setattr(command.shutil, "which", lambda name: None)
    assert command.this_command() == "/x/.venv/bin/spinup ppo"
    assert command.spinup_command("plot", "d") == "/x/.venv/bin/spinup plot d"


def test_a_script_prints_what_starts_it_again(tmp_path):
    script = tmp_path / "a script.py"
    script.write_text("from spinup.utils.command import this_command\nprint(this_command())\n")
    done = run_python(script, "one two", "*")
    assert shlex.split(done.stdout) == ["python", str(script), "one two", "*"]
