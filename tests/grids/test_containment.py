"""Names and paths: none leaves `data_dir`, and none contains what cannot be shown or quoted."""

import json
import os
from pathlib import Path

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


@pytest.mark.parametrize(
    "name",
    [
        *(
            "",
            " ",
            ".",
            "..",
            "../x",
            "../../x",
            "a/x",
            "/tmp/x",
            "a\\x",
            "a/",
            "a\0b",
            ".lock",
            ".x",
        )
    ],
)
def test_a_table_does_not_leave_the_run_directory(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpinupError, match="output_fname"):
        Logger(output_dir="run", output_fname=name)
    content = {"env": "CartPole-v1", "logger_kwargs": {"output_fname": name}}
    (tmp_path / "preset.json").write_text(json.dumps(content))
    for trust in ([], ["--trust"]):
        assert run.main(["ppo", "--config", "preset.json", *trust]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1 and "output_fname" in said
    assert os.listdir(tmp_path) == ["preset.json"]


def test_a_table_is_named_by_text_or_a_path(tmp_path):
    for wrong in (None, 5, b"x"):
        with pytest.raises(SpinupError, match="plain name"):
            Logger(output_dir=tmp_path, output_fname=wrong)
    Logger(output_dir=tmp_path, output_fname=Path("log.1.txt")).close()
    assert (tmp_path / "log.1.txt").is_file()


@pytest.mark.parametrize("name", ["n*", "n?tes.txt", "[n]otes.txt", "*"])
@pytest.mark.parametrize("overwrite", [True, False])
def test_signs_in_the_name_of_a_table_match_no_other_files(tmp_path, name, overwrite):
    (tmp_path / "notes.txt").write_text("mine")
    for value in (1, 2):
        logger = Logger(tmp_path, output_fname=name, overwrite=overwrite)
        logger.log_tabular("Epoch", value)
        logger.dump_tabular()
        logger.close()
    assert (tmp_path / "notes.txt").read_text() == "mine"
    assert (tmp_path / name).read_text() == "Epoch\n2\n"
    assert (tmp_path / ".old" / "001" / name).is_file() is not overwrite
