"""An algorithm outside the package: `spinup new`, `spinup.register`, and installed packages."""

import ast
import importlib.metadata
import inspect
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import spinup
from spinup import SpinupError, registry
from spinup.cli.main import main, overview
from spinup.cli.new import write
from spinup.policies.loading import load_policy_and_env
from tests.helpers.processes import run_python

ROOT = Path(spinup.__file__).parents[1]
# As the installed command does it: the working directory is not on the path.
COMMAND = [
    sys.executable,
    "-c",
    "import sys; sys.path.remove(''); from spinup.run import main; sys.exit(main())",
]


@pytest.fixture(autouse=True)
def nothing_stays_registered(monkeypatch):
    monkeypatch.setattr(registry, "_REGISTERED", {})


def install(project, name, target):
    """Leave the metadata of an installed package, as pip would."""
    text = (project / "pyproject.toml").read_text()
    entry = f'\n{name} = "{target}"\n'
    assert entry in text  # what pip would read
    info = project / f"{name}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[spinup.algorithms]\n{name} = {target}\n")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Write and install an algorithm in this process; forget it afterwards."""
    names = []

    def make(name, source):
        write(name, source, tmp_path)
        install(tmp_path / name, name, f"{name}.{name}:{name}")
        monkeypatch.syspath_prepend(str(tmp_path / name))
        names.append(name)
        return tmp_path / name

    yield make
    for name in names:
        for module in [m for m in sys.modules if m.partition(".")[0] == name]:
            del sys.modules[module]


# ---- the whole way, as a user goes it --------------------------------------------------------


def test_a_separate_package_trains_is_tested_and_resumes(tmp_path):
    where = tmp_path / "elsewhere"
    where.mkdir()
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(tmp_path / "mine_a")])}

    def spinup_(line, cwd=where):
        done = subprocess.run(
            [*COMMAND, *line.split()], cwd=cwd, env=env, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    said = spinup_("new mine_a --from vpg", cwd=tmp_path)
    assert "pip install -e mine_a\n  spinup mine_a --env CartPole-v1" in said
    install(tmp_path / "mine_a", "mine_a", "mine_a.mine_a:mine_a")
    tiny = "--env CartPole-v1 --steps 60 --hid 8 --train_v_iters 2 --exp_name e --data_dir data"
    spinup_(f"mine_a {tiny} --epochs 1 --seed 0 10")  # a grid
    spinup_(f"mine_a {tiny} --epochs 3 --resume --seed 0 10")
    run = where / "data" / "e" / "e_s10"
    lines = (run / "progress.txt").read_text().splitlines()
    assert len(lines) == 4
    assert json.loads((run / "config.json").read_text())["algo"] == "mine_a"
    assert "AverageEpRet" in spinup_(f"test_policy {run} -nr -n 2")
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", tmp_path / "mine_a"]
    other = run_python(*words, expect=None, cwd=where, env=env)
    assert "3 passed" in other.stdout, other.stdout  # the test that was written with it
    # next to the folder, which has the same name as the package
    spinup_(f"mine_a {tiny} --epochs 1 --seed 0 10 --num_workers 2", cwd=tmp_path)
    run_python("-m", "mine_a.mine_a", "--epochs", "1", "--steps", "60", cwd=tmp_path, env=env)


def test_an_editable_install_adds_the_folder_to_the_path(tmp_path):
    """A finder, which comes after the path, would not find what a folder's name hides."""
    write("mine_f", "vpg", tmp_path)
    code = "from setuptools import build_meta; print(build_meta.build_editable('wheel'))"
    project = tmp_path / "mine_f"
    (project / "wheel").mkdir()
    run_python("-c", code, cwd=project)
    (wheel,) = (project / "wheel").glob("*.whl")
    with zipfile.ZipFile(wheel) as content:
        (added,) = (name for name in content.namelist() if "dist-info" not in name)
        assert added.endswith(".pth")
        assert content.read(added).decode().strip() == str(project)


@pytest.mark.parametrize("source", ["sac", "dqn"])
def test_its_own_networks_are_opened_without_trusting_the_file(installed, source, tmp_path):
    installed(f"mine_{source}", source)
    function = registry.load(f"mine_{source}")
    row = registry.get(f"mine_{source}")
    assert row.action_spaces == registry.get(source).action_spaces
    assert row.on_policy is row.mpi is False
    env = {"sac": "Pendulum-v1", "dqn": "CartPole-v1"}[source]
    few = {"steps_per_epoch": 40, "start_steps": 10, "update_after": 10, "batch_size": 8}
    known = inspect.signature(function).parameters
    few = {key: value for key, value in few.items() if key in known}
    logger = {"output_dir": str(tmp_path / "run"), "quiet": True}
    function(env, epochs=1, num_test_episodes=1, logger_kwargs=logger, **few)
    policy = json.loads((tmp_path / "run" / "pyt_save" / "policy.json").read_text())
    assert policy["class"]["module"] == f"mine_{source}.core"
    made, get_action = load_policy_and_env(tmp_path / "run")
    assert made.action_space.contains(get_action(made.reset(seed=0)[0]))


def test_a_file_cannot_choose_another_class_of_the_package(installed, tmp_path):
    installed("mine_b", "sac")
    registry.load("mine_b")("Pendulum-v1", epochs=0, logger_kwargs={"output_dir": str(tmp_path)})
    file = tmp_path / "pyt_save" / "policy.json"
    policy = json.loads(file.read_text())
    policy["class"]["qualname"] = "Temperature"
    file.write_text(json.dumps(policy))
    with pytest.raises(SpinupError):
        load_policy_and_env(tmp_path)


# ---- spinup new ------------------------------------------------------------------------------

SOURCES = [row.name for row in registry.ROWS if row.name != "her"]
SOURCES += [f"{row.name}_tf1" for row in registry.ROWS if "tf1" in row.backends]


@pytest.mark.parametrize("source", SOURCES)
def test_the_copy_defines_what_it_uses(installed, source):
    project = installed(f"copy_of_{source}", source)
    name, (source, backend) = f"copy_of_{source}", registry.resolve(source)
    text = (project / name / f"{name}.py").read_text()
    tree = ast.parse(text)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {name, f"{name}_update"} <= functions
    assert not [f for f in functions if f == source or f.startswith(f"{source}_")]
    assert f"spinup.algos.{backend}.{source} import core" not in text
    assert f'Run("{name}")' in text and f"{source}_tf1" not in text.replace(name, "")
    assert f"spinup {name} --env" in ast.get_docstring(tree)
    module = importlib.import_module(f"{name}.{name}")
    original = registry.load(source, backend)
    assert registry.get(name).backends == (backend,)
    assert ("spinup[tf]" in (project / "pyproject.toml").read_text()) is (backend == "tf1")
    mine = inspect.signature(getattr(module, name)).parameters
    assert list(mine) == list(inspect.signature(original).parameters)
    assert registry.load(name) is getattr(module, name)
    readme = (project / name / "README.md").read_text()
    assert "| `gamma` |" in readme and "](.." not in readme


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("1st", "cannot be the name of an algorithm: use lower-case letters"),
        ("my-algo", "cannot be the name of an algorithm"),
        ("class", "cannot be the name of an algorithm"),
        ("MyAlgo", "cannot be the name of an algorithm"),
        ("../x", "cannot be the name of an algorithm"),
        ("ppo", "'ppo' is already an algorithm"),
        ("plot", "'plot' is already a command"),
        ("json", "there is already a module 'json'"),
        ("numpy", "there is already a module 'numpy'"),
        ("here", "already exists: choose another name"),
    ],
)
def test_a_name_that_is_taken_or_no_name_is_refused(name, sentence, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "kept.txt").write_text("mine")
    assert main(["new", name]) == 2
    out, err = capsys.readouterr()
    assert sentence in err and err.count("\n") == 1 and out == ""
    assert [p.name for p in tmp_path.rglob("*")] == ["here", "kept.txt"]


def test_an_unknown_source_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "mine_c", "--from", "ppoo"]) == 2
    assert "there is no algorithm 'ppoo' to start from" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_copy_in_graph_mode_trains_resumes_and_is_tested(installed, tmp_path, capsys):
    installed("mine_tf", "ppo_tf1")
    where = tmp_path / "data" / "e" / "e_s0"
    line = ["mine_tf", "--env", "CartPole-v1", "--steps", "60", "--hid", "8", "--exp_name", "e"]
    line += ["--train_v_iters", "2", "--train_pi_iters", "2", "--data_dir", str(tmp_path / "data")]
    assert main([*line, "--act", "elu", "--epochs", "1"]) == 0
    assert main([*line, "--act", "elu", "--epochs", "2", "--resume"]) == 0
    config = json.loads((where / "config.json").read_text())
    assert (config["algo"], config["backend"]) == ("mine_tf", "tf1")
    assert len((where / "progress.txt").read_text().splitlines()) == 3
    env, get_action = load_policy_and_env(where)
    assert env.action_space.contains(get_action(env.reset(seed=0)[0]))
    capsys.readouterr()


# ---- register --------------------------------------------------------------------------------


def test_a_registered_function_is_known_everywhere(tmp_path, capsys):
    calls = []

    def mine_d(env_fn, seed=0, logger_kwargs={}, lr=0.1):  # noqa: B006
        calls.append((env_fn().spec.id, seed, lr))

    spinup.register("mine_d", mine_d, action_spaces=("Discrete",))
    assert registry.resolve("mine_d") == registry.resolve("mine_d_pytorch") == ("mine_d", "pytorch")
    assert registry.load("mine_d") is mine_d and "mine_d" in overview()
    line = ["mine_d", "--env", "CartPole-v1", "--lr", "0.5", "--data_dir", str(tmp_path)]
    assert main(line) == 0
    assert calls == [("CartPole-v1", 0, 0.5)]
    assert main(["mine_d", "--help"]) == 0 and "--lr" in capsys.readouterr().out
    line[2] = "Pendulum-v1"
    assert main(line) == 2
    assert "mine_d cannot use the action space Box" in capsys.readouterr().err
    assert main(["mine_dd"]) == 2
    assert "did you mean mine_d?" in capsys.readouterr().err


def test_a_name_may_begin_with_the_name_of_another_algorithm():
    for name in ("mine", "mine_too", "ppo_too"):
        spinup.register(name, lambda env_fn, seed=0, logger_kwargs=None: None)
    for name in ("mine", "mine_too", "ppo_too", "ppo"):
        assert registry.resolve(name) == registry.resolve(f"{name}_pytorch") == (name, "pytorch")
    with pytest.raises(SpinupError, match="'mine_too' has no backend 'jax'"):
        registry.resolve("mine_too_jax")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("ppo", print), "'ppo' is an algorithm of this library"),
        (("my algo", print), "must be an identifier"),
        ((3, print), "must be an identifier"),
        (("mine_e", "module:function"), "needs a training function"),
        (("mine_e", print, "pytorch", ("Text",)), "'Text' is not an action space"),
    ],
)
def test_register_refuses(arguments, sentence):
    name, function, *more = arguments
    spaces = {"action_spaces": more[1]} if len(more) > 1 else {}
    with pytest.raises(SpinupError, match=sentence):
        spinup.register(name, function, **spaces)
    assert registry._REGISTERED == {}


def test_a_training_function_that_nobody_registered_runs_all_the_same(tmp_path):
    from spinup.algos.common.loop import Loop
    from spinup.runs.arguments import training_function
    from spinup.runs.run import Run

    @training_function
    def nobodys(
        env_fn,
        ac_kwargs,
        logger_kwargs,
        seed=0,
        steps_per_epoch=10,
        epochs=1,
        max_ep_len=5,
        save_freq=1,
        num_envs=1,
        vector="sync",
        shards=None,
        num_threads=1,
        device="cpu",
        resume=False,
        overwrite=False,
        progress=False,
    ):
        with Run("nobodys") as run:
            Loop(run)
            assert run.row.on_policy and run.row.mpi
            return [epoch for epoch in run.epochs()]

    logger = {"output_dir": str(tmp_path), "quiet": True}
    assert nobodys("CartPole-v1", {}, logger) == [0]


# ---- installed packages ----------------------------------------------------------------------


def broken(tmp_path, monkeypatch, source):
    folder = tmp_path / "site"
    (folder / "bad_one-1.0.dist-info").mkdir(parents=True)
    (folder / "bad_one-1.0.dist-info" / "METADATA").write_text("Name: bad_one\nVersion: 1.0\n")
    (folder / "bad_one-1.0.dist-info" / "entry_points.txt").write_text(
        "[spinup.algorithms]\nbad_one = bad_one_module:bad_one\n"
    )
    (folder / "bad_one_module.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    return folder


def test_a_broken_package_is_one_sentence_and_only_when_it_is_used(tmp_path, monkeypatch, capsys):
    broken(tmp_path, monkeypatch, "raise RuntimeError('bad\\nnews')")
    assert "bad_one" in registry.outside()
    for listing in ("--help", "algos"):
        assert main([listing]) == 0 and "bad_one" in capsys.readouterr().out
    assert registry.resolve("ppo") == ("ppo", "pytorch")
    assert "bad_one_module" not in sys.modules
    assert main(["bad_one", "--env", "CartPole-v1"]) == 2
    assert capsys.readouterr().err == (
        "spinup: the algorithm 'bad_one' of the package 'bad_one' cannot be imported "
        "(RuntimeError: bad news): correct or uninstall the package\n"
    )


def test_metadata_in_the_working_directory_adds_no_command(tmp_path, monkeypatch):
    folder = broken(tmp_path, monkeypatch, "raise RuntimeError")
    monkeypatch.chdir(folder)
    assert "bad_one" not in registry.outside()
    assert registry.find("bad_one") is None


def test_metadata_is_read_once_for_a_search_path(tmp_path, monkeypatch):
    read, scans = importlib.metadata.entry_points, []

    def counted(**kwargs):
        scans.append(kwargs)
        return read(**kwargs)

    monkeypatch.setattr(importlib.metadata, "entry_points", counted)
    monkeypatch.syspath_prepend(str(tmp_path))
    for _ in range(3):
        assert "bad_one" not in registry.outside() and registry.find("bad_one") is None
    assert len(scans) == 1
    broken(tmp_path, monkeypatch, "")  # a new folder on the path
    assert "bad_one" in registry.outside() and "bad_one" in registry.outside()
    assert len(scans) == 2


def test_importing_spinup_reads_no_metadata():
    code = (
        "import sys, spinup, spinup.registry as r; r.resolve('ppo'); spinup.SpinupError\n"
        "assert 'importlib.metadata' not in sys.modules"
    )
    run_python("-c", code)
