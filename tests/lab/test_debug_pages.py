"""The pages on debugging: every column is explained, and recorded numbers are the recorded ones."""

import re
from pathlib import Path

import pytest

from spinup import registry
from spinup_lab.doctor import examine
from spinup_lab.doctor.rules import RULES
from spinup_lab.exercises import recorded, tasks

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs/debug/read-your-log.md").read_text(encoding="utf-8")
READMES = [
    ROOT / f"spinup/algos/{backend}/{row.name}/README.md"
    for row in registry.ROWS
    for backend in row.backends
]
RECORDED = re.compile(r"<!-- recorded: (\S+) (\S+) -->\n(.*?)\n\n", re.S)


def cells(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


def columns(text):
    """The columns in the first cells of the tables whose first column is called `column`."""
    found = []
    for table in re.findall(r"^\| column \|.*\n\|[-|]+\n((?:\|.*\n)+)", text, re.M):
        for row in table.splitlines():
            first, *others = cells(row)
            assert all(others), row
            found += re.findall(r"`(\w+)`", first)
    return found


def logged():
    """Every column that a README says is logged."""
    names = set()
    for readme in READMES:
        text = readme.read_text(encoding="utf-8").partition("## What is logged")[2]
        names.update(columns(text.partition("\n## ")[0]))
    return names


def test_every_logged_column_is_explained_once():
    explained = columns(PAGE)
    assert len(explained) == len(set(explained))
    assert set(explained) == logged()


def test_every_rule_on_logged_columns_is_named():
    known = {f"[{name}](doctor.md#{name.lower()})" for name in RULES}
    named = set(re.findall(r"\[[XSCR]\d+\]\(doctor\.md#\w+\)", PAGE))
    assert named <= known
    there = logged()
    watching = {
        f"[{rule.id}](doctor.md#{rule.id.lower()})"
        for rule in RULES.values()
        if rule.tier == 1 and {n for need in rule.needs for n in need.split("|")[:1]} <= there
    }
    about_settings = {f"[S{n}](doctor.md#s{n})" for n in (35, 36, 37)}
    assert watching - named == about_settings


@pytest.mark.parametrize(("healthy", "faulty", "table"), RECORDED.findall(PAGE))
def test_numbers_of_a_story_are_those_of_the_recorded_runs(healthy, faulty, table):
    runs = {"healthy": recorded.load(healthy)[0], "faulty": recorded.load(faulty)[0]}
    assert all(run.seed == 0 for run in runs.values())
    header, _, *rows = table.splitlines()
    names = [re.fullmatch(r"(healthy|faulty) `(\w+)`", cell).groups() for cell in cells(header)[1:]]
    assert len(rows) > 3 and len(names) > 4
    for row in rows:
        epoch, *shown = cells(row)
        for (group, column), text in zip(names, shown, strict=True):
            run = runs[group]
            number = run.rows[int(epoch)][run.columns.index(column)]
            digits = len(text.partition(".")[2])
            assert float(text) == round(number, digits) + 0.0, (epoch, group, column, number)


def test_five_stories_name_the_exercise_in_which_the_bug_is_found():
    stories = re.findall(r"^### .*?(?=^##)", PAGE.partition("## Five failures")[2], re.M | re.S)
    assert len(stories) == len(RECORDED.findall(PAGE)) == 5
    exercises = tasks.load()
    for story in stories:
        ((_, faulty, _),) = RECORDED.findall(story)
        (name,) = re.findall(r"`spinup exercise start ([\w.]+)`", story)
        assert f"bug-{exercises[name].fault.mutant}" == faulty


def findings(name, folder):
    """The ids of what doctor reports about each of some recorded runs, without hints."""
    recorded.unpack(recorded.load(name), folder)
    runs = sorted(path.parent for path in folder.rglob("progress.txt"))
    return [[f.id for f in examine(run) if f.level != "hint"] for run in runs]


@pytest.mark.parametrize("name", sorted(p.stem for p in recorded.FOLDER.glob("healthy-*.json")))
def test_doctor_finds_nothing_in_healthy_recorded_runs(name, tmp_path):
    assert findings(name, tmp_path) == [[], [], []]


SAID = {"bug-policy-detached": ["S8"], "bug-ppo-clip-without-adv": ["X2"]}


@pytest.mark.parametrize("faulty", [found[1] for found in RECORDED.findall(PAGE)])
def test_doctor_says_about_a_recorded_run_what_its_story_says(faulty, tmp_path):
    assert findings(faulty, tmp_path) == [SAID.get(faulty, [])] * 3
