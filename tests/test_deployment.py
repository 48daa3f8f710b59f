"""The GitHub workflow and the Dockerfile: they use commands and files that exist."""

import json
import re
import shlex

import pytest
import yaml

VERSIONS = {"3.10", "3.11", "3.12", "3.13"}


@pytest.fixture(scope="module")
def workflow(repo_root):
    return yaml.safe_load((repo_root / ".github" / "workflows" / "test.yml").read_text())


@pytest.fixture(scope="module")
def targets(repo_root):
    """The targets of the Makefile."""
    return set(re.findall(r"^([.a-z-]+):.*##", (repo_root / "Makefile").read_text(), re.M))


def variants(job):
    """The combinations of a job's matrix, as GitHub makes them."""
    matrix = dict(job["strategy"]["matrix"])
    extra = matrix.pop("include", [])
    found = [{}]
    for key, values in matrix.items():
        found = [{**variant, key: value} for variant in found for value in values]
    base = [dict(variant) for variant in found]
    for entry in extra:
        # An entry joins the variants whose own values it does not change, or is a new one.
        fits = [
            i for i, b in enumerate(base) if all(entry[k] == b[k] for k in entry.keys() & b.keys())
        ]
        for i in fits:
            found[i].update(entry)
        if not fits:
            found.append(dict(entry))
    return found


def test_every_system_and_version_is_tested(workflow):
    make, windows = workflow["jobs"]["make"], workflow["jobs"]["windows"]
    tested = {(v["os"], v["python"]) for v in variants(make) if v["target"] == "pytest"}
    assert tested == {(os, v) for os in ("ubuntu-latest", "macos-latest") for v in VERSIONS}
    assert windows["runs-on"] == "windows-latest"
    assert {v["python"] for v in variants(windows)} == VERSIONS


def test_style_types_and_the_site_are_checked_once(workflow):
    extra = [v for v in variants(workflow["jobs"]["make"]) if v["target"] != "pytest"]
    assert [(v["os"], v["python"], v["target"]) for v in extra] == [
        ("ubuntu-latest", "3.11", "lint types"),
        ("ubuntu-latest", "3.11", "browser docs-test"),
    ]


def test_versions_are_pinned_wherever_the_pins_can_be_installed(workflow):
    for variant in variants(workflow["jobs"]["make"]):
        pinned = variant["constraints"] == "constraints.txt"
        assert pinned is (variant["python"] != "3.10")
    for variant in variants(workflow["jobs"]["windows"]):
        pinned = variant.get("pins") == "-c constraints.txt"
        assert pinned is (variant["python"] != "3.10")


def test_the_workflow_runs_what_a_developer_runs(workflow, targets, repo_root):
    steps = [s["run"] for job in workflow["jobs"].values() for s in job["steps"] if "run" in s]
    (make,) = [s for s in steps if s.startswith("make ")]
    assert make.startswith("make ${{ matrix.target }} PYTHON=python CONSTRAINTS=")
    for variant in variants(workflow["jobs"]["make"]):
        assert set(variant["target"].split()) <= targets
    (pytest_step,) = [s for s in steps if "pytest" in s]
    folders = [word for word in pytest_step.split() if word.startswith("tests/")]
    assert folders and all((repo_root / folder).is_dir() for folder in folders)


def test_the_commands_on_windows_are_accepted(workflow, monkeypatch):
    from spinup import registry
    from spinup.cli import plan

    steps = [step.get("run", "") for step in workflow["jobs"]["windows"]["steps"]]
    ours = [shlex.split(step)[1:] for step in steps if step.startswith("spinup ")]
    trained = [words for words in ours if words[0] in registry.algorithms()]
    assert len(trained) == 2 and "--resume" in trained[1]
    for name, *words in trained:
        function = registry.load(name)
        assert len(plan.plan(function, words, "x").grid.cells(function)) == 1


# --------------------------------------------------------------------------------------- Dockerfile


@pytest.fixture(scope="module")
def dockerfile(repo_root):
    """The instructions of the Dockerfile, as (name, rest)."""
    text = (repo_root / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [tuple(line.split(None, 1)) for line in lines]


def sources(dockerfile):
    """What the Dockerfile copies from the project."""
    return [word for name, rest in dockerfile if name == "COPY" for word in rest.split()[:-1]]


def test_what_the_image_copies_exists_and_is_not_ignored(dockerfile, repo_root):
    copied = sources(dockerfile)
    assert copied and all((repo_root / source).exists() for source in copied)
    lines = (repo_root / ".dockerignore").read_text().splitlines()
    assert "*" in lines
    assert {line[1:] for line in lines if line.startswith("!")} == set(copied)


def test_the_image_has_what_an_installation_needs(dockerfile, repo_root):
    copied = set(sources(dockerfile))
    project = (repo_root / "pyproject.toml").read_text()
    assert 'license-files = ["LICENSE"]' in project
    assert '"readme"' in project and "README.md" in (repo_root / "setup.py").read_text()
    assert {"README.md", "LICENSE", "setup.py"} <= copied
    # The stamp of `make .venv` depends on these two.
    assert {"pyproject.toml", "constraints.txt", "Makefile", "spinup"} <= copied


def test_the_image_runs_the_commands_of_the_readme(dockerfile, targets, repo_root):
    ((_, start),) = [row for row in dockerfile if row[0] == "CMD"]
    assert json.loads(start) == ["make", "train"]
    assert "make train" in (repo_root / "README.md").read_text()
    builds = [rest for name, rest in dockerfile if name == "RUN" and rest.startswith("make ")]
    assert builds == ["make .venv EXTRAS=video"] and ".venv" in targets
    makefile = (repo_root / "Makefile").read_text()
    assert "-c $(CONSTRAINTS) -e '.[$(EXTRAS)]'" in makefile


def test_the_image_is_of_a_version_that_the_constraints_are_for(dockerfile):
    assert dockerfile[0] == ("FROM", "python:3.11-slim")
