"""Names and paths: none leaves `data_dir`, and none contains what cannot be shown or quoted."""

import json
import os

import pytest

from spinup import run
from spinup.envs import make_env
from spinup.grids.experiments import ExperimentGrid, call_experiment, setup_logger_kwargs
from spinup.runs.logger import Logger
from spinup.utils.errors import SpinupError

UNSEEN = [
    "a\0b",
    "a\nb",
    "a\rb",
    "\x1b[2Ja",
    "a\x07",
    "a\x9b31m",
    "a\u202eb",
    "a\u2028b",
    "a\udc80",
]


@pytest.mark.parametrize("name", UNSEEN)
def test_control_characters_are_refused_in_every_name_and_path(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    for make in (
        lambda: setup_logger_kwargs(name),
        lambda: setup_logger_kwargs("a", data_dir=name),
        lambda: call_experiment(name, lambda **kwargs: None),
        lambda: ExperimentGrid(name),
        lambda: ExperimentGrid("a").add("key", 1, name),
        lambda: Logger(output_dir=name),
        lambda: Logger(output_dir="a", output_fname=name),
        lambda: make_env(f"CartPole-v1{name}"),
        lambda: make_env(f"{name}:CartPole-v1"),
        lambda: make_env("CartPole-v1\n"),
    ):
        with pytest.raises(SpinupError):
            make()
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("key", ["exp_name", "data_dir", "env", "env_name"])
def test_a_preset_with_such_a_name_ends_in_one_sentence(tmp_path, monkeypatch, capsys, key):
    monkeypatch.chdir(tmp_path)
    content = {"env_name": "CartPole-v1", key: "a\0\x1b[31mb"}
    content.pop("env_name" if key == "env" else "", None)
    (tmp_path / "preset.json").write_text(json.dumps(content))
    assert run.main(["ppo", "--config", "preset.json", "--trust"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and "\\x00\\x1b[31m" in said and said[:-1].isprintable()
    assert os.listdir(tmp_path) == ["preset.json"]


@pytest.mark.parametrize("name", ["../x", "../../x", "a/../../x", "/tmp/x", "..", "a/.."])
def test_an_experiment_does_not_leave_data_dir(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpinupError, match="leads out of data_dir"):
        setup_logger_kwargs(name, 0, "data")
    with pytest.raises(SpinupError, match="leads out of data_dir"):
        ExperimentGrid(name)
    assert run.main(["ppo", "--env", "CartPole-v1", "--exp_name", name]) == 2
    assert "leads out of data_dir" in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("name", ["a", "bench/a", "a.b", "..a", "a..", ".../a", "Bob's $(x) %d"])
def test_names_with_folders_and_signs_stay_inside(name):
    path = setup_logger_kwargs(name, 3, "data")["output_dir"]
    assert path == os.path.join("data", name, f"{name}_s3")
    assert os.path.normpath(path).startswith("data" + os.sep)
