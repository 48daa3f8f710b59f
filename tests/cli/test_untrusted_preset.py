"""A preset from somebody else: without `--trust`, it only sets arguments of the run."""

import json
import sys

import pytest

from spinup import run
from tests.helpers.processes import run_python

MODULE = "import pathlib\npathlib.Path('imported').touch()\n"


@pytest.fixture
def downloads(tmp_path, monkeypatch):
    """A folder with a preset and modules that leave a trace when they are imported."""
    monkeypatch.chdir(tmp_path)
    for name in ("trap_of_a_preset", "ale_py", "gymnasium_robotics"):
        (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])

    def refused(capsys, *words, **content):
        (tmp_path / "preset.json").write_text(json.dumps(content))
        assert run.main(["ppo", "--config", "preset.json", *words]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and not (tmp_path / "data").exists()
        return said

    return refused


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("env", "trap_of_a_preset:CartPole-v1"),
        ("env_name", "trap_of_a_preset:CartPole-v1"),
        ("env", "GymV26Environment-v0"),
        ("env_kwargs", {"env_id": "trap_of_a_preset:CartPole-v1"}),
        ("hosts", "a,b"),
        ("hostfile", "hosts.txt"),
        ("ray_address", "somewhere:6379"),
        ("slurm_options", {"partition": "x"}),
        ("executor", "slurm"),
        ("executor", "ray"),
        ("track", "wandb"),
        ("track", "tensorboard,wandb"),
        ("logger_kwargs", {"sinks": "wandb"}),
        ("logger_kwargs", {"sinks": "tensorboard,'wandb'"}),
        ("logger_kwargs", {"sinks": ["tensorboard", "wandb"]}),
        ("logger_kwargs:sinks", ["wandb"]),
        ("data_dir", "/tmp"),
        ("logger_kwargs", {"output_dir": "/tmp"}),
    ],
)
def test_what_reaches_outside_the_run_needs_trust(downloads, capsys, tmp_path, key, value):
    content = {"env": "CartPole-v1"} if key not in ("env", "env_name") else {}
    said = downloads(capsys, **content, **{key: value})
    assert "if you trust that file, add --trust" in said
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("executor", "local"),
        ("track", "tensorboard"),
        ("logger_kwargs", {"sinks": "tensorboard"}),
        ("logger_kwargs", {"sinks": ["tensorboard"]}),
    ],
)
def test_what_stays_in_the_run_needs_no_trust(downloads, capsys, monkeypatch, key, value):
    monkeypatch.setattr("spinup.runs.sinks._import", lambda package, module: None)
    said = downloads(capsys, env="NoSuchEnv-v0", **{key: value})
    assert "there is no environment" in said


@pytest.mark.parametrize("value", [5, None, [], ["slurm"], {"a": 1}, "Slurm", True])
@pytest.mark.parametrize("key", ["executor", "track", "logger_kwargs:sinks"])
def test_what_is_no_executor_or_sink_is_one_sentence(downloads, capsys, key, value):
    downloads(capsys, env="NoSuchEnv-v0", **{key: value})


def test_an_executor_and_a_sink_that_the_user_typed_need_no_trust(downloads, capsys, monkeypatch):
    asked = []
    monkeypatch.setattr("spinup.cli.plan.check_sinks", asked.append)
    words = ["--executor", "slurm", "--track", "wandb"]
    said = downloads(capsys, *words, env="NoSuchEnv-v0", executor="ray", track="tensorboard")
    assert "there is no environment" in said and asked == [["wandb"]]
    said = downloads(capsys, "--trust", env="NoSuchEnv-v0", executor="slurm", track="wandb")
    assert "there is no environment" in said and asked == [["wandb"]] * 2


def test_a_preset_cannot_trust_itself(downloads, capsys):
    assert "add --trust to the command" in downloads(capsys, env="a:b", trust=True)


def test_with_trust_the_module_is_imported(downloads, capsys, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "trap_of_a_preset", raising=False)
    said = downloads(capsys, "--trust", env="trap_of_a_preset:CartPole-v9")
    assert "there is no environment" in said and (tmp_path / "imported").exists()
    sys.modules.pop("trap_of_a_preset", None)


def test_a_module_that_the_user_typed_is_imported_whatever_the_preset_says(
    downloads, capsys, tmp_path, monkeypatch
):
    monkeypatch.delitem(sys.modules, "trap_of_a_preset", raising=False)
    said = downloads(capsys, "--env", "trap_of_a_preset:CartPole-v9", env="other:CartPole-v1")
    assert "there is no environment" in said and (tmp_path / "imported").exists()
    sys.modules.pop("trap_of_a_preset", None)


@pytest.mark.parametrize("env", ["ALE/NoSuchGame-v5", "FetchNoSuchTask-v4"])
def test_an_id_of_a_package_imports_nothing_from_the_working_directory(
    downloads, capsys, tmp_path, monkeypatch, env
):
    packages = [n for n in sys.modules if n.partition(".")[0] in ("ale_py", "gymnasium_robotics")]
    for name in packages:
        if name != "ale_py._ale_py":  # an extension that cannot be loaded twice
            monkeypatch.delitem(sys.modules, name)
    said = downloads(capsys, env=env)
    assert not (tmp_path / "imported").exists(), said


def test_a_file_beside_the_user_does_not_hide_an_installed_package(tmp_path):
    # `python -m` puts the working directory first on the path
    (tmp_path / "gymnasium.py").write_text(MODULE)
    done = run_python("-m", "spinup.run", "ppo", "--env", "CartPol-v1", expect=None, cwd=tmp_path)
    assert "did you mean CartPole-v1" in done.stderr and done.returncode == 2
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize("hosts", ["-oProxyCommand=touch imported", "a,-oX", "a;b", "a b", "$(a)"])
def test_an_option_of_ssh_is_not_a_host(downloads, capsys, hosts):
    said = downloads(capsys, "--cpu", "2", "--trust", env="CartPole-v1", hosts=hosts)
    assert "'--hosts' must be names of machines" in said
