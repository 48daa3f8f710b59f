"""What an installed copy contains, and that the project's own files agree with each other."""

import email
import os
import re
import runpy
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import spinup
from spinup import registry
from tests.helpers.processes import run_python

try:
    import tomllib
except ImportError:  # Python 3.10, where pytest brings this one along
    import tomli as tomllib


@pytest.fixture(scope="module")
def sdist(repo_root, tmp_path_factory):
    """The unpacked source distribution, built from a copy: the tree itself stays clean."""
    folder = tmp_path_factory.mktemp("sdist")
    ignore = shutil.ignore_patterns("__pycache__", "*.egg-info")
    for name in ("spinup", "spinup_lab", "spinup_tune", "docs", "tests"):
        shutil.copytree(repo_root / name, folder / "source" / name, ignore=ignore)
    for path in repo_root.iterdir():
        if path.is_file() and not path.name.startswith("."):
            shutil.copy(path, folder / "source")
    program = "import setuptools.build_meta as b; b.build_sdist('..')"
    run_python("-c", program, cwd=folder / "source")
    (packed,) = folder.glob("spinup-*.tar.gz")
    with tarfile.open(packed) as archive:
        archive.extractall(folder, filter="data")
    return folder / f"spinup-{spinup.__version__}"


@pytest.fixture(scope="module")
def wheel(sdist, tmp_path_factory):
    """The files of a wheel built from the source distribution, as pip does it, with a manual."""
    out = tmp_path_factory.mktemp("wheels")
    page = out / "site/algorithms/ppo.html"
    page.parent.mkdir(parents=True)
    page.write_text("<h1>PPO</h1>")
    (out / "site/index.html").write_text("<h1>spinup</h1>")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*command, "--wheel-dir", str(out), str(sdist)],
        env={**os.environ, "SPINUP_MANUAL": str(out / "site")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("spinup-*.whl")
    return path


def test_a_source_distribution_holds_what_a_reader_needs(sdist, repo_root):
    wanted = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "CITATION.cff"}
    wanted |= {"constraints.txt", "Makefile", "pyproject.toml", "setup.py"}
    docs = [p for p in (repo_root / "docs").rglob("*") if p.is_file()]
    assert len(docs) > 20
    wanted |= {p.relative_to(repo_root).as_posix() for p in docs}
    there = {p.relative_to(sdist).as_posix() for p in sdist.rglob("*") if p.is_file()}
    assert sorted(wanted - there) == []
    assert "tests/test_package.py" in there
    assert not [p for p in there if "__pycache__" in p or p.endswith(".pyc")]


def test_the_readme_on_pypi_has_no_relative_links(wheel, repo_root):
    info = f"spinup-{spinup.__version__}.dist-info"
    metadata = email.message_from_bytes(zipfile.ZipFile(wheel).read(f"{info}/METADATA"))
    assert metadata["Description-Content-Type"].startswith("text/markdown")
    text = metadata.get_payload()
    assert "code written for the original" in text  # the words of a link
    targets = re.findall(r"\]\(([^()\s]+)\)", text)
    assert [t for t in targets if not t.startswith(("https://", "#"))] == []
    assert "](docs/" in (repo_root / "README.md").read_text()  # in the repository, they are links


def test_links_of_the_readme_become_absolute_once_the_repository_is_named(repo_root):
    for_pypi = runpy.run_path(str(repo_root / "setup.py"))["for_pypi"]
    text = "[`a`](docs/a.md#b) ![c](d.png) [e](https://x.org) [f](#g) x[i](j)"
    assert for_pypi(text, None) == "`a`  [e](https://x.org) [f](#g) xi"
    assert for_pypi(text, "https://host/me/spinup/") == (
        "[`a`](https://host/me/spinup/blob/main/docs/a.md#b) "
        "![c](https://host/me/spinup/raw/main/d.png) [e](https://x.org) [f](#g) "
        "x[i](https://host/me/spinup/blob/main/j)"
    )


def test_a_wheel_holds_every_module_and_data_file(wheel, repo_root):
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        str(path.relative_to(repo_root).as_posix())
        for pattern in (
            "*.py",
            "*.json",
            "*.toml",
            "*.txt",
            "*.mplstyle",
            "completion.*",
            "*.md",
            "py.typed",
        )
        for package in ("spinup", "spinup_lab", "spinup_tune")
        for path in (repo_root / package).rglob(pattern)
        if "__pycache__" not in path.parts
    }
    assert "spinup/py.typed" in wanted and "spinup/registry.py" in wanted
    assert "spinup/examples/pytorch/pg_math/1_simple_pg.py" in wanted
    assert "spinup/exercises/tf1/problem_set_2/exercise2_2.py" in wanted
    assert "spinup_lab/exercises/sets/set04_ppo.toml" in wanted
    assert sorted(wanted - inside) == []


def test_every_algorithm_ships_its_preset_and_its_readme(wheel):
    inside = set(zipfile.ZipFile(wheel).namelist())
    wanted = {
        f"spinup/algos/{backend}/{row.name}/{file}"
        for row in registry.ROWS
        for backend in row.backends
        for file in (f"{row.name}.py", "core.py", "config.json", "README.md")
    }
    assert sorted(wanted - inside) == []


def test_a_wheel_works_where_it_is_unpacked(wheel, tmp_path):
    zipfile.ZipFile(wheel).extractall(tmp_path)
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import spinup, spinup.run;"
        "print(spinup.__file__); spinup.run.main(['docs', 'ppo', '--path']);"
        "assert spinup.run.main(['exercise', 'start', 'tools.linear_schedule']) == 0;"
        "assert spinup.run.main(['exercise', 'check', 'tools.linear_schedule']) == 1;"
        "sys.exit(spinup.run.main(['help']))"
    )
    done = run_python("-I", "-c", code, tmp_path, cwd=tmp_path)
    module, page, *_ = done.stdout.splitlines()
    assert module == str(tmp_path / "spinup" / "__init__.py")
    assert page == str(tmp_path / "spinup" / "manual" / "algorithms" / "ppo.html")
    assert Path(page).read_text() == "<h1>PPO</h1>"
    assert "linear_schedule is still to be written" in done.stdout


# What belongs to the satellites -> a program that uses it. Without them, each ends in a sentence.
SATELLITES = {
    **{
        name: f"from spinup.run import main; sys.exit(main([{name!r}]))"
        for name in ("doctor", "probe", "exercise", "tune")
    },
    "spinup.tuning": "from spinup.tuning.study import Study",
    "spinup.doctor": "from spinup.doctor import examine",
    "spinup.probing": "from spinup.probing import probe",
    "spinup.exercises": "from spinup.exercises import check",
    "the bug zoo": "from spinup.exercises.zoo import load",
    "an environment": "from spinup.envs import make_env; make_env('spinup/ProbeAction-v0')",
    "a judge": "import runpy; runpy.run_module("
    "'spinup.exercises.pytorch.problem_set_1.exercise1_1', run_name='__main__')",
}


@pytest.fixture(scope="module")
def alone(wheel, tmp_path_factory):
    """Run a program where the wheel is unpacked and the satellites are removed."""
    folder = tmp_path_factory.mktemp("unpacked")
    zipfile.ZipFile(wheel).extractall(folder)
    shutil.rmtree(folder / "spinup_lab")
    shutil.rmtree(folder / "spinup_tune")

    def run(code, *words):
        # the packages of this environment, but not this checkout
        start = (
            "import sys; sys.path.insert(0, sys.argv.pop(1));"
            "sys.meta_path[:] = [f for f in sys.meta_path if 'editable' not in repr(f).lower()];"
        )
        return subprocess.run(
            [sys.executable, "-I", "-c", start + code, str(folder), *words],
            capture_output=True,
            text=True,
            cwd=folder,
            timeout=120,
        )

    return run


@pytest.mark.parametrize("name", SATELLITES)
def test_what_belongs_to_a_satellite_says_so_without_it(alone, name):
    done = alone(SATELLITES[name])
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert "is not installed" in last or "install its dependencies" in last, done.stderr
    assert "spinup_lab" in last or "spinup_tune" in last
    if name in ("doctor", "probe", "exercise", "tune", "a judge"):
        assert done.returncode == 2 and "Traceback" not in done.stderr


def test_everything_else_works_without_the_satellites(alone):
    line = "ppo --env CartPole-v1 --epochs 1 --steps 200 --exp_name one --hid 8"
    for words in (
        line.split(),
        ["test_policy", "data/one/one_s0", "--norender", "--episodes", "1"],
        ["plot", "data/one/one_s0", "--save", "one.png"],
        *(["runs"], ["algos"], ["envs"], ["presets"], ["completion", "bash"], ["help"]),
    ):
        done = alone("from spinup.run import main; sys.exit(main(sys.argv[1:]))", *words)
        assert done.returncode == 0, (words, done.stderr)


def test_every_folder_with_modules_is_a_package(repo_root):
    folders = {p.parent for p in (repo_root / "spinup").rglob("*.py")}
    assert [f for f in folders if not (f / "__init__.py").is_file()] == []


def test_a_wheel_carries_version_and_console_script(wheel):
    archive = zipfile.ZipFile(wheel)
    info = f"spinup-{spinup.__version__}.dist-info"
    assert "spinup = spinup.run:main" in archive.read(f"{info}/entry_points.txt").decode()
    metadata = archive.read(f"{info}/METADATA").decode()
    assert "Requires-Python: >=3.10" in metadata
    for extra in ("mpi", "tf", "mujoco", "atari", "video", "track", "cluster", "dev", "all"):
        assert f"Provides-Extra: {extra}\n" in metadata


def test_a_wheel_says_who_wrote_it_and_under_which_license(wheel, repo_root):
    archive = zipfile.ZipFile(wheel)
    info = f"spinup-{spinup.__version__}.dist-info"
    metadata = email.message_from_string(archive.read(f"{info}/METADATA").decode())
    assert metadata["License-Expression"] == "MIT"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Author"] == "spinup contributors"
    classifiers = metadata.get_all("Classifier")
    assert {"Typing :: Typed", "Programming Language :: Python :: 3.11"} <= set(classifiers)
    license_text = archive.read(f"{info}/licenses/LICENSE").decode()
    assert license_text == (repo_root / "LICENSE").read_text()
    assert "Copyright (c) 2026 spinup contributors" in license_text


def test_the_citation_names_the_current_version_and_license(repo_root):
    lines = (repo_root / "CITATION.cff").read_text().splitlines()
    fields = dict(line.split(": ", 1) for line in lines if re.match(r"[a-z-]+: ", line))
    assert fields["cff-version"] == "1.2.0" and fields["title"] == "spinup"
    assert fields["version"] == spinup.__version__
    assert fields["license"] == "MIT"
    assert "  - name: spinup contributors" in lines


def names(requirements):
    """The distributions that a list of requirements names, extras and versions cut off."""
    return {re.split(r"[\[<>=!~ ;]", line)[0].lower().replace("_", "-") for line in requirements}


def test_constraints_pin_everything_that_make_installs(repo_root):
    project = tomllib.loads((repo_root / "pyproject.toml").read_text())["project"]
    lines = (repo_root / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.]+", pin) for pin in pins)
    pinned = names(pins)
    extras = project["optional-dependencies"]
    for extra in ("dev", "mujoco", "atari", "minatar", "video", "track", "tf-cpu", "docs"):
        wanted = [line for line in extras[extra] if "== 'darwin'" not in line]
        assert names(wanted) <= pinned
    assert names(project["dependencies"]) <= pinned
    made = re.search(r"^EXTRAS \?= (.*)$", (repo_root / "Makefile").read_text(), re.M)
    assert "tf-cpu" in made[1].split(",") and "tf" not in made[1].split(",")
    assert not {"tf", "tf-cpu"} <= set(re.findall(r"[\w-]+", extras["all"][0]))
    assert "torch==2.13.0" in pins
    assert not any(name.startswith(("nvidia", "cuda", "triton")) for name in pinned)


def test_every_dependency_has_a_lower_bound(repo_root):
    project = tomllib.loads((repo_root / "pyproject.toml").read_text())["project"]
    every = project["dependencies"] + [
        line for extra in project["optional-dependencies"].values() for line in extra
    ]
    assert [line for line in every if ">=" not in line and not line.startswith("spinup[")] == []


def test_the_changelog_names_the_current_version(repo_root):
    assert f"## {spinup.__version__}" in (repo_root / "CHANGELOG.md").read_text()


@pytest.mark.parametrize(
    "target",
    [
        ".venv",
        "train",
        "test",
        "pytest",
        "lint",
        "types",
        "format",
        "learn",
        "soak",
        "speed",
        "scaling",
        "peers",
        "docs",
        "figures",
        "wheel",
        "docs-test",
        "browser",
        "clean",
    ],
)
def test_the_makefile_has_its_targets_and_explains_them(repo_root, target):
    makefile = (repo_root / "Makefile").read_text()
    assert re.search(rf"^{re.escape(target)}:.*## \w+", makefile, re.M)


def test_ci_runs_what_a_developer_runs(repo_root):
    script = repo_root / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert script.read_text().rstrip().endswith("make docs-test\nmake test")
    # where no browser can be had, the rest is tested all the same
    assert re.search(r"^make browser \|\| ", script.read_text(), re.M)
