"""The learning pages: their programs run and print what the pages show."""

import contextlib
import io
import itertools
import re
from pathlib import Path

import pytest

from spinup_lab.exercises import tasks as exercises

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("docs/spinningup", "docs/learn")
NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.md"))
PAGES = sorted(page for folder in FOLDERS for page in (ROOT / folder).glob("*.md"))
CODE = re.compile(
    r"^```python\n(?P<code>.*?)^```\n(?:\n```text\n(?P<shown>.*?)^```$)?", re.M | re.S
)


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def steps(text):
    """(code, the output that the page shows after it, or None) of each Python block."""
    return [(found["code"], found["shown"]) for found in CODE.finditer(text)]


def outputs(text):
    """Run a page's blocks in order, as one program; yield what each prints and what is shown."""
    names = {"__name__": "page"}
    for code, shown in steps(text):
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(code, "<page>", "exec"), names)
        yield printed.getvalue(), shown


def lines(text):
    return [line.rstrip() for line in text.splitlines()]


def program(page):
    """A page's program; one that imports TensorFlow is left to `make notebooks`."""
    slow = "spinup.utils.tf" in page.read_text(encoding="utf-8")
    return pytest.param(page, id=name_of(page), marks=[pytest.mark.slow] if slow else [])


PROGRAMS = [program(page) for page in PAGES if steps(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", PROGRAMS)
def test_a_page_prints_what_it_shows(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for printed, shown in outputs(page.read_text(encoding="utf-8")):
        assert lines(printed) == lines(shown or "")


def test_a_wrong_number_on_a_page_is_noticed():
    page = "```python\nx = 1 + 1\n```\n\nText.\n\n```python\nprint(x)\n```\n\n```text\n3\n```\n"
    assert list(outputs(page)) == [("", None), ("2\n", "3\n")]


def test_the_exercises_that_pages_name_exist():
    text = "".join(page.read_text(encoding="utf-8") for page in [*PAGES, *NOTEBOOKS])
    named = set(re.findall(r"`spinup exercise \w+ ([\w.]+)`", text))
    named |= set(re.findall(r'\b(?:check|hint)\("([\w.]+)"', text))
    assert len(named) > 10 and named <= set(exercises.load())


def without_code(text):
    return re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_headings_are_in_order(page):
    levels = [len(found) for found in re.findall(r"^(#+) ", without_code(page.read_text()), re.M)]
    assert levels[:1] == [1] and levels.count(1) == 1
    assert all(b <= a + 1 for a, b in itertools.pairwise(levels))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_answers_are_folded_and_formulas_are_closed(page):
    text = without_code(page.read_text(encoding="utf-8"))
    assert text.count("<details><summary>Answer</summary>\n\n") == text.count("\n\n</details>\n")
    for paragraph in re.sub(r"`[^`\n]*`", "", text).split("\n\n"):
        assert paragraph.count("$") % 2 == 0, paragraph
        assert paragraph.count("{") == paragraph.count("}"), paragraph
