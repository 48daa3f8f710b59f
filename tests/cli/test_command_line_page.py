"""docs/command-line.md: what it shows of the command line is what the command line does.

Its commands are parsed, and run where marked, by tests/test_docs.py.
"""

import re
import shlex

import pytest

from spinup import run
from spinup.cli.flags import ALIASES


@pytest.fixture(scope="module")
def page(repo_root):
    return (repo_root / "docs" / "command-line.md").read_text(encoding="utf-8")


def test_the_refusals_shown_are_the_real_ones(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = re.findall(r"^\$ spinup (.+)\n(.+)$", page, re.M)
    assert len(shown) >= 4
    for line, sentence in shown:
        assert run.main(shlex.split(line)) == 2
        assert capsys.readouterr().err == f"{sentence}\n"
    assert list(tmp_path.iterdir()) == []


def test_the_table_of_short_flags_is_whole(page):
    found = dict(re.findall(r"^\| `-{1,2}(\w+)` \| `--([\w:]+)`", page, re.M))
    assert found == ALIASES


def test_the_dry_run_shown_has_the_columns_named(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (line,) = re.findall(r"^spinup (.+ --dry_run)$", page, re.M)
    assert run.main([*shlex.split(line), "--steps", "100", "--epochs", "1"]) == 0
    header = capsys.readouterr().out.splitlines()[0]
    for column in re.findall(r"^- \*(\w+)\*", page, re.M):
        assert f" {column}" in header
