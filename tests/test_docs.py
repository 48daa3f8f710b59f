"""The documentation: its commands parse and run, its links resolve, its tables match the code."""

import importlib.util
import inspect
import json
import os
import re
import runpy
import shlex
import tempfile
from pathlib import Path

import pytest

import spinup.analysis.compare
import spinup.analysis.plot
import spinup.cli.new
import spinup.cli.test_policy
import spinup.policies.export
import spinup.quickstart
import spinup_lab.commands.doctor
import spinup_tune.command
from benchmarks import learn
from spinup import SpinupError, registry, run
from spinup.cli import plan as cli
from spinup.cli.main import run_file
from spinup.cli.usage import wants_help
from spinup.envs import resolve_env_id
from spinup_lab.exercises import recorded, tasks
from spinup_lab.exercises.exercise import Result

ROOT = Path(__file__).resolve().parents[1]
NOT_OURS = {".venv", ".git", "data", "out", "build", "dist", "node_modules"}


def pages():
    """Every Markdown file of the project."""
    found = []
    for folder, folders, files in os.walk(ROOT):
        folders[:] = [f for f in folders if f not in NOT_OURS and not f.startswith(".")]
        found += [Path(folder, file) for file in files if file.endswith(".md")]
    return sorted(found)


def name_of(path):
    return path.relative_to(ROOT).as_posix()


PAGES = pages()
ALGORITHMS = [row.name for row in registry.ROWS if "pytorch" in row.backends]
PAIRS = [(row.name, backend) for row in registry.ROWS for backend in row.backends]
every_algorithm = pytest.mark.parametrize(("name", "backend"), PAIRS)


# ---------------------------------------------------------------------------------------- commands


def blocks(text, language):
    """(whether marked to be run, content) of the fenced blocks in a language."""
    pattern = rf"(<!-- run -->\n)?^```{language}\n(.*?)^```$"
    return [(bool(m[1]), m[2]) for m in re.finditer(pattern, text, re.M | re.S)]


def commands(block):
    """The commands of ours in a bash block, as lists of words."""
    lines = block.replace("\\\n", " ").splitlines()
    ours = [line.strip() for line in lines if re.match(r"\s*(python -m spinup|spinup )", line)]
    return [shlex.split(line, comments=True) for line in ours]


def spinup_words(words):
    """The words after `spinup` or `python -m spinup.run`, None for another module of ours."""
    if words[0] == "spinup":
        return words[1:]
    return words[3:] if words[2] == "spinup.run" else None


def planned(function, args, preset=None):
    """Check a training command completely without running it."""
    if wants_help(args):
        return
    for cell in cli.plan(function, args, "x", preset=preset).grid.cells(function):
        resolve_env_id(cell.kwargs["env_name"])


class Env:
    """Stands for an environment where a command is only parsed."""

    def close(self):
        pass


def exercise(words, monkeypatch):
    """Run a command of `spinup exercise` in an empty folder, where every answer is right."""
    with tempfile.TemporaryDirectory() as folder:
        monkeypatch.chdir(folder)
        for kind in {type(task) for task in tasks.load().values()}:
            monkeypatch.setattr(kind, "check", lambda task, *a, **k: Result(task.id, 0))
        monkeypatch.setattr("builtins.input", lambda *a: "a")
        if words[0] == "check":
            assert run.main(["exercise", "start", words[1]]) == 0
        # a quiz that is answered at random is parsed, but not passed
        assert run.main(["exercise", *words]) in ((0, 1) if words[0] == "quiz" else (0,))
        monkeypatch.chdir(ROOT)


def doctor(words):
    """Run a command of `spinup doctor` on a healthy run instead of the reader's."""
    with tempfile.TemporaryDirectory() as folder:
        recorded.unpack(recorded.load("healthy-ppo")[:1], Path(folder))
        given = [folder if word.startswith("data/") else word for word in words]
        assert run.main(["doctor", *given]) == 0


def parse(words, monkeypatch):
    """Put a command through spinup's own parsers; SpinupError or SystemExit if one refuses it."""
    monkeypatch.setattr(spinup.analysis.plot, "make_plots", lambda *a, **k: None)
    monkeypatch.setattr(spinup.analysis.compare, "make_comparison", lambda *a, **k: None)
    tester = spinup.cli.test_policy
    monkeypatch.setattr(tester, "load_policy_and_env", lambda *a, **k: (Env(), None))
    monkeypatch.setattr(tester, "_longest", lambda *a: 0)
    monkeypatch.setattr(tester, "run_policy", lambda *a, **k: None)
    monkeypatch.setattr(tester, "record_episodes", lambda *a, **k: 0)
    report = spinup.policies.export.Report(1, 0.0, 0)
    monkeypatch.setattr(spinup.policies.export, "export_onnx", lambda *a, **k: report)
    monkeypatch.setattr(spinup.quickstart, "_quickstart", lambda *a: 0)
    monkeypatch.setattr(spinup.cli.new, "write", lambda *a: [])
    monkeypatch.setattr(spinup_lab.commands.doctor, "examined", lambda *a: [])
    monkeypatch.setattr(spinup_tune.command, "execute", lambda *a: 0)
    rest = spinup_words(words)
    if rest is not None:
        if rest[0] == "exercise":
            exercise(rest[1:], monkeypatch)
        elif rest[0] == "doctor":
            doctor(rest[1:])
        elif rest[0] in run.TOOLS or rest[0] in ("help", "--version"):
            assert run.main(rest) == 0
        else:
            planned(registry.load(rest[0]), rest[1:])
    elif words[2] == "spinup.quickstart":
        assert spinup.quickstart.main(words[3:]) == 0
    elif words[2].startswith(("spinup.examples.", "spinup.exercises.")):
        assert importlib.util.find_spec(words[2]) is not None
    elif words[2] == "spinup.compat":  # runs the reader's own file
        assert words[3].endswith(".py") and (ROOT / "spinup/compat/__main__.py").is_file()
    else:
        match = re.fullmatch(r"spinup\.algos\.(\w+)\.(\w+)\.\2", words[2])
        assert match, f"there is no command {words[2]}"
        function = registry.load(match[2], match[1])
        preset = Path(inspect.getsourcefile(inspect.unwrap(function))).with_name("config.json")
        planned(function, words[3:], preset)


COMMANDS = [
    pytest.param(words, id=f"{name_of(page)}: {shlex.join(words)}")
    for page in PAGES
    for _, block in blocks(page.read_text(encoding="utf-8"), "bash")
    for words in commands(block)
]


@pytest.mark.parametrize("words", COMMANDS)
def test_commands_of_the_documentation_parse(words, monkeypatch, request, tmp_path):
    monkeypatch.chdir(ROOT)  # where a reader is who types `--config spinup/presets/...`
    monkeypatch.setattr("spinup.user_config.DEFAULT_DATA_DIR", str(tmp_path))  # not their runs
    if "envs" in words:
        request.getfixturevalue("few_environments")
    parse(words, monkeypatch)


def docstring_commands():
    """The indented commands in the docstrings of the algorithms' files."""
    for name, backend in PAIRS:
        module = inspect.getmodule(registry.load(name, backend))
        for words in commands(module.__doc__):
            yield pytest.param(words, id=shlex.join(words))


@pytest.mark.parametrize("words", list(docstring_commands()))
def test_commands_in_docstrings_parse(words, monkeypatch):
    parse(words, monkeypatch)


@pytest.mark.parametrize(
    "line",
    [
        "spinup ppo --env CartPole-v1 --gama 0.9",
        "spinup ppo --epochs 3",
        "spinup ppoo --env CartPole-v1",
        "spinup vpg --env NoSuchEnvironment-v1",
        "spinup plot --smooth three data",
        "spinup compare --last ten data/a data/b",
        "python -m spinup.run test_policy --no-such-flag x",
        "python -m spinup.algos.pytorch.ppo.ppo --clip 0.1 0.2 --clip 0.3",
        "python -m spinup.nothing",
    ],
)
def test_a_wrong_command_is_noticed(line, monkeypatch):
    (words,) = commands(line)
    with pytest.raises((SpinupError, SystemExit, AssertionError)):
        parse(words, monkeypatch)


def tiny(words):
    """A command with a budget for a test: the last of each flag below wins over the text's."""
    rest = spinup_words(words)
    if rest is not None and (rest[0] in run.TOOLS or rest[0] in ("help", "--version")):
        return words
    if wants_help(words):
        return words
    small = {"--epochs": "2", "--steps_per_epoch": "64", "--num_threads": "1"}
    name = words[2].rpartition(".")[2] if rest is None else registry.resolve(rest[0])[0]
    if not registry.get(name).on_policy:
        small["--num_test_episodes"] = "1"
    if "--resume" in words:
        small["--epochs"] = "3"
    kept = []
    for word in words:
        if word.startswith("-") or not kept or kept[-1] not in small:
            kept.append(word)
    kept = [word for word in kept if word not in small]
    return [*kept, *(word for flag in small.items() for word in flag)]


def execute(words):
    """Run a command in this process; SystemExit or a code other than 0 when it fails."""
    rest = spinup_words(words)
    if rest is not None:
        assert run.main(rest) == 0
        return
    _, backend, name, _ = words[2].rsplit(".", 3)
    run_file(registry.load(name, backend), words[3:])


RUN_BASH = [
    pytest.param(block, id=f"{name_of(page)}-{i}")
    for page in PAGES
    for i, (marked, block) in enumerate(blocks(page.read_text(encoding="utf-8"), "bash"))
    if marked
]
RUN_PYTHON = [
    pytest.param(block, id=f"{name_of(page)}-{i}")
    for page in PAGES
    for i, (marked, block) in enumerate(blocks(page.read_text(encoding="utf-8"), "python"))
    if marked
]


@pytest.mark.parametrize("block", RUN_BASH)
def test_marked_commands_run(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in commands(block):
        execute(tiny(words))
    capsys.readouterr()
    trained = [w for w in commands(block) if "--exp_name" in w and "plot" not in w]
    for words in trained:
        exp_name = words[words.index("--exp_name") + 1]
        rows = (tmp_path / f"data/{exp_name}/{exp_name}_s0/progress.txt").read_text().splitlines()
        assert len(rows) == 1 + (3 if any("--resume" in w for w in commands(block)) else 2)


@pytest.mark.parametrize("block", RUN_PYTHON)
def test_marked_python_runs(block, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "example.py"
    script.write_text(block)
    runpy.run_path(str(script))
    capsys.readouterr()
    assert list(tmp_path.glob("data/**/progress.txt"))


def test_there_is_something_to_check():
    assert len(COMMANDS) >= 15 and len(RUN_BASH) >= 5 and len(RUN_PYTHON) >= 3
    assert {"docs/index.md", "spinup/algos/pytorch/ppo/README.md"} <= set(map(name_of, PAGES))


def test_the_tour_ends_in_a_comparison_that_its_seeds_establish():
    """The kept result is of README's commands, and README quotes its conclusion."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    kept = json.loads((ROOT / "benchmarks/results/tour.json").read_text())
    grid, comparison = (shlex.split(line) for line in kept["commands"])
    assert all(f"\n{line}\n" in text for line in kept["commands"])
    (pair,) = kept["pairs"]
    assert pair["verdict"] == "established"
    assert " ".join(pair["sentence"].split()) in " ".join(text.split())
    # what the comparison reads is what the grid writes
    function = registry.load(grid[3])
    cells = cli.plan(function, grid[4:], "x").grid.cells(function)
    folders = [f"data/{name}" for name in dict.fromkeys(cell.exp_name for cell in cells)]
    assert comparison[4:6] == folders
    assert {name: len(s["CartPole-v1"]) for name, s in kept["scores"].items()} == {
        "pi_lr=0.0001": 5,
        "pi_lr=0.001": 5,
    }


# ------------------------------------------------------------------------------------------- links


def without_code(text):
    """Markdown with its code and formulas blanked out: what looks like a link there is none."""
    for pattern in (r"^```.*?^```$", r"\$\$.*?\$\$", r"`[^`\n]*`"):
        text = re.sub(pattern, "x", text, flags=re.M | re.S)
    return text


def broken_links(page, text):
    """The relative links of a page that lead nowhere, headings included."""
    broken = []
    for target in re.findall(r"\[[^\]]*\]\(([^)\s]+)\)", without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, heading = target.partition("#")
        file = (page.parent / path) if path else page
        there = file.exists()
        if there and heading:
            there = heading in headings(text if file == page else file.read_text())
        if not there:
            broken.append(target)
    return broken


def headings(text):
    """The anchors of a page, as GitHub makes them."""
    lines = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_resolve(page):
    assert broken_links(page, page.read_text(encoding="utf-8")) == []


def test_a_broken_link_is_noticed():
    page = ROOT / "docs" / "index.md"
    text = "# Here\n[a](algorithms.md) [b](nowhere.md) [c](#here) [d](#gone) [e](https://x.org)\n"
    assert broken_links(page, text) == ["nowhere.md", "#gone"]


def test_the_documentation_reaches_every_page():
    index = (ROOT / "docs" / "index.md").read_text()
    there = {p.relative_to(ROOT / "docs").as_posix() for p in PAGES if ROOT / "docs" in p.parents}
    assert [p for p in sorted(there - {"index.md"}) if f"({p})" not in index] == []


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_algorithms_page_refers_to_the_readme_and_does_not_copy_it(name):
    page = (ROOT / "docs" / "algorithms.md").read_text()
    assert f"(../spinup/algos/pytorch/{name}/README.md)" in page
    readme = (ROOT / "spinup/algos/pytorch" / name / "README.md").read_text()
    long_lines = {line for line in readme.splitlines() if len(line) > 60}
    assert len(long_lines) > 20
    assert long_lines & set(page.splitlines()) == set()


# ------------------------------------------------------------------------ READMEs of the algorithms


def readme(name, backend="pytorch"):
    return (ROOT / "spinup/algos" / backend / name / "README.md").read_text(encoding="utf-8")


def section(text, title):
    """What is under the heading `## title`."""
    match = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", text, re.M | re.S)
    assert match, f"there is no section '{title}'"
    return match[1]


def table(text):
    """The rows of the first table, as lists of cells, without its header."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


TITLES = {
    "pytorch": [
        "The idea",
        "Quick facts",
        "Key equations",
        "Pseudocode",
        "Hyperparameters",
        "Images",
        "What is logged",
        "Healthy values",
        "Deviations",
        "Expected results",
        "References",
    ],
    "tf1": [  # refers to the PyTorch version for the idea, the equations and the pseudocode
        "Graph mode",
        "Quick facts",
        "Pseudocode",
        "Hyperparameters",
        "What is logged",
        "Differences from the PyTorch version",
        "Differences from the original",
        "Expected results",
        "References",
    ],
}


@every_algorithm
def test_a_readme_has_all_its_parts(name, backend):
    text = readme(name, backend)
    titles = [title for title in TITLES[backend] if (name, title) != ("her", "Images")]
    assert re.findall(r"^## (.+)$", text, re.M) == titles
    if backend == "pytorch":
        assert "$$" in section(text, "Key equations")
        return
    for part in ("Pseudocode", "Differences from the original", "References"):
        assert f"(../../pytorch/{name}/README.md#" in section(text, part)
    assert f"../../{backend}/{name}/README.md" in section(readme(name), "Quick facts")


@every_algorithm
def test_a_readme_explains_exactly_the_columns_that_are_logged(name, backend, tmp_path, capsys):
    explained = []
    for columns, text in table(section(readme(name, backend), "What is logged")):
        assert text
        explained += re.findall(r"`(\w+)`", columns)
    args = ["--steps", "32", "--epochs", "1", "--data_dir", str(tmp_path), "--num_threads", "1"]
    args += ["--num_test_episodes", "1"]
    run_file(registry.load(name, backend), args)  # with the preset beside the file
    capsys.readouterr()
    lines = (tmp_path / name / f"{name}_s0" / "progress.txt").read_text().splitlines()
    assert explained == lines[0].split("\t")
    assert len(lines) == 2


def numbers(text):
    """'4-5' -> [4, 5]; '3' -> [3]."""
    first, _, last = text.partition("-")
    return list(range(int(first), int(last or first) + 1))


def class_of(owner, source, names):
    """The class of a variable: that which `owner = maker(...)` or `with maker(...) as owner` calls.

    A maker that is a function is asked the same question, about a variable of the same name;
    `for_run` makes an object of the class that it is given.
    """
    maker = re.search(
        rf"\b{owner} = ([\w.]+)\(|with ([\w.]+)\([^)]*\)?\) as {owner}:|for_run\(([\w.]+), ", source
    )
    assert maker, f"nothing makes {owner}"
    first, *rest = next(filter(None, maker.groups())).split(".")
    found = names[first]
    for part in rest:
        found = getattr(found, part)
    if inspect.isclass(found):
        return found
    return class_of(owner, inspect.getsource(found), found.__globals__)


@every_algorithm
def test_pseudocode_lines_agree_with_the_code(name, backend):
    part = section(readme(name, backend), "Pseudocode")
    (_, code), *_ = blocks(section(readme(name), "Pseudocode"), "text")
    lines = [int(n) for n in re.findall(r"^ ?(\d+): ", code, re.M)]
    assert lines == list(range(1, len(lines) + 1))

    function = registry.load(name, backend)
    module = inspect.getmodule(function)
    body = inspect.getsource(function)
    if hasattr(module, f"{name}_learner"):  # the part of it that HER uses too
        body += inspect.getsource(getattr(module, f"{name}_learner"))
    implemented = {}
    for cell, names, where in table(part):
        called = names.strip("`")
        implemented[called] = numbers(cell)
        owner, _, method = called.rpartition(".")
        assert re.search(rf"{re.escape(called)}\b", body)  # called, or given to `partial`
        if owner:
            target = getattr(class_of(owner, body, vars(module)), method)
        else:
            target = getattr(module, called, None) or getattr(module.core, called)
        folder = ROOT if "/" in where else Path(module.__file__).parent
        assert Path(inspect.getsourcefile(target)) == folder / where.strip("`")
    assert sorted(n for found in implemented.values() for n in found) == lines

    update = f"{name}_update"
    said = re.match(r"Lines? (\d+)(?: (?:to|and) (\d+))? of", getattr(module, update).__doc__)
    assert said, f"the docstring of {update} does not say which lines it implements"
    assert implemented[update] == list(range(int(said[1]), int(said[2] or said[1]) + 1))


@every_algorithm
def test_expected_results_are_the_measured_gates_of_the_benchmark(name, backend):
    part = section(readme(name, backend), "Expected results")
    rows, name = [], name if backend == "pytorch" else f"{name}_{backend}"
    gates = [gate for gate in learn.GATES + learn.ON_DEMAND if gate[0] == name]
    files = [learn.RESULTS / learn.file_name(algo, env) for algo, env, *_ in gates]
    # a gate that was never run has nothing to show
    found = [json.loads(file.read_text()) if file.exists() else {} for file in files]
    fresh = any("fresh" in result for result in found)
    for (algo, env, steps, goal, stretch), result in zip(gates, found, strict=True):
        digits = 0 if abs(goal) > 1 else 2
        returns = {
            key: ", ".join(f"{ret:.{digits}f}" for ret in runs["returns"])
            for key, runs in (("", result), *((k, result.get(k)) for k in learn.ALSO))
            if runs
        }
        more = [returns.get("fresh", "")] if fresh else []
        command = f"`make learn ALGO={algo} ENV={env}`"
        if result:
            rows.append([env, str(steps), str(goal), str(stretch), returns[""], *more, command])
        if "compiled" in returns:
            assert f"seeds 100, 101 and 102 reach {returns['compiled']} on {env}" in part
    assert table(part) == rows
    assert fresh == (f"`python benchmarks/learn.py {name} --also fresh`" in part)
    assert f"benchmarks/results/learn/{learn.file_name(name, gates[0][1])}" in part


def test_every_gate_has_a_preset_that_its_algorithm_accepts_and_that_divides_its_steps():
    files = {learn.file_name(algo, env) for algo, env, *_ in learn.GATES}
    assert len(files) == len(learn.GATES)
    for algo, env, steps, _, _ in learn.GATES:
        function = registry.load(algo)
        preset = learn.preset_path(algo, env)
        (cell,) = cli.plan(function, [], "x", preset=preset).grid.cells(function)
        assert cell.kwargs["env_name"] == env
        assert steps % cell.kwargs.get("steps_per_epoch", 4000) == 0, (algo, env)
