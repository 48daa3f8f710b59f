"""Scripts in the manner of the original's documentation run unchanged, from an empty folder."""

import runpy
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import pytest

SCRIPTS = sorted((Path(__file__).parent / "scripts").glob("*.py"))


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_script_runs_unchanged(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", [str(path)])
    monkeypatch.syspath_prepend(path.parent)
    monkeypatch.setattr(plt, "show", lambda *args, **kwargs: None)
    runpy.run_path(str(path), run_name="__main__")
    capsys.readouterr()
    plt.close("all")


def test_there_are_scripts():
    assert len(SCRIPTS) >= 12
