"""`spinup docs`: finds a page in the shipped copy or in a clone, and opens it."""

import webbrowser

import pytest

from spinup import run
from spinup.cli import docs

PAGES = (
    "index",
    "algorithms",
    "algorithms/ppo",
    "algorithms/tf1/ppo",
    "user/installation",
    "results/ppo",
)


@pytest.fixture
def clone(tmp_path, monkeypatch):
    """A clone whose site is not built yet."""
    (tmp_path / "spinup").mkdir()
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/build.py").touch()
    monkeypatch.setattr(docs, "PACKAGE", tmp_path / "spinup")
    return tmp_path


@pytest.fixture(autouse=True)
def opened(monkeypatch):
    """What the browser was asked to open."""
    found = []
    monkeypatch.setattr(webbrowser, "open", lambda uri: not found.append(uri))
    return found


def write(folder):
    for page in (*PAGES, "source/spinup/run"):
        file = folder / f"{page}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("<h1>x</h1>")


@pytest.mark.parametrize("place", ["spinup/manual", "build/docs/html"])
def test_a_page_is_opened_from_the_shipped_copy_or_the_built_one(clone, place, opened, capsys):
    write(clone / place)
    for words, page in {
        (): "index",
        ("ppo",): "algorithms/ppo",
        ("algorithms/tf1/ppo",): "algorithms/tf1/ppo",
        ("Algorithms/PPO.html",): "algorithms/ppo",
        ("installation",): "user/installation",
        ("algorithms",): "algorithms",
    }.items():
        file = clone / place / f"{page}.html"
        assert run.main(["docs", *words]) == 0
        assert capsys.readouterr().out == f"{file}\n"
        assert opened.pop() == file.as_uri()
    assert opened == []


def test_the_shipped_copy_wins(clone, capsys):
    write(clone / "build/docs/html")
    write(clone / "spinup/manual")
    assert run.main(["docs"]) == 0
    assert capsys.readouterr().out == f"{clone / 'spinup/manual/index.html'}\n"


def test_path_prints_and_opens_nothing(clone, opened, capsys):
    write(clone / "spinup/manual")
    assert run.main(["docs", "ppo", "--path"]) == 0
    assert capsys.readouterr().out == f"{clone / 'spinup/manual/algorithms/ppo.html'}\n"
    assert opened == []


def test_without_a_browser_the_path_is_what_is_left(clone, capsys, monkeypatch):
    write(clone / "spinup/manual")
    monkeypatch.setattr(webbrowser, "open", lambda uri: False)
    assert run.main(["docs"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        str(clone / "spinup/manual/index.html"),
        "no browser could be started; open this file in one",
    ]


def test_a_page_that_does_not_exist_is_refused_with_the_nearest_name(clone, opened, capsys):
    write(clone / "spinup/manual")
    assert run.main(["docs", "instalation"]) == 2
    error = capsys.readouterr().err
    assert error == (
        "spinup: the documentation has no page 'instalation'; did you mean installation?\n"
    )
    assert run.main(["docs", "spinup/run"]) == 2  # a listing of code is not a page to name
    assert opened == []


def test_a_clone_without_a_site_says_how_to_build_it(clone, capsys):
    assert run.main(["docs"]) == 2
    assert f"run 'make docs' in {clone}\n" in capsys.readouterr().err
    (clone / "docs/build.py").unlink()
    assert run.main(["docs"]) == 2
    assert "this installation has no copy of the documentation" in capsys.readouterr().err
