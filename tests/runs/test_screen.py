"""What a run prints: it announces itself once, shows whole numbers whole, and says how to go on."""

import inspect
import json
import re
import shlex

import numpy as np
import pytest

from spinup import registry, run
from spinup.runs import screen
from spinup.runs.logger import Logger

TINY = "--env CartPole-v1 --steps 40 --hid 4 --epochs 1"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")


@pytest.mark.parametrize(
    ("algo", "backend"), [("dqn", "pytorch"), ("ppo", "pytorch"), ("ppo", "tf1")]
)
def test_the_first_result_comes_after_a_few_lines(algo, backend, capsys, tmp_path):
    more, name = "--update_after 20" if algo == "dqn" else "", f"{algo}_{backend}"
    assert run.main(f"{name} {TINY} --gamma 0.98 --seed 3 {more}".split()) == 0
    before = capsys.readouterr().out.partition("|             Epoch |")[0]
    assert len(before.splitlines()) <= 8
    assert f"Training {algo} on CartPole-v1\n" in before
    assert f"  directory  data/cmd_{name}/cmd_{name}_s3\n" in before
    assert f"  device     cpu{' (TensorFlow)' if backend == 'tf1' else ''}\n" in before
    changed = " ".join(re.search(r"  changed    (.*(?:\n {13}.*)*)", before)[1].split())
    assert changed == (
        "ac_kwargs:hidden_sizes=[4, 4], seed=3, steps_per_epoch=40, epochs=1, gamma=0.98"
        + (", update_after=20" if more else "")
    )
    assert all(len(line) <= 80 for line in before.splitlines())
    folder = tmp_path / f"data/cmd_{name}/cmd_{name}_s3"
    config = json.loads((folder / "config.json").read_text())
    assert set(inspect.signature(registry.load(name)).parameters) <= set(config)


def test_arguments_of_the_environment_are_shown_as_well(capsys):
    line = TINY.replace("CartPole-v1", "Pendulum-v1")
    assert run.main(f"ppo {line} --env_kwargs:g 5.0".split()) == 0
    assert "changed    env_kwargs:g=5.0, " in capsys.readouterr().out


def test_with_a_bar_the_start_is_announced_too_and_a_quiet_run_says_nothing(capsys, monkeypatch):
    assert run.main(f"ppo {TINY} --progress".split()) == 0
    out = capsys.readouterr().out
    assert out.startswith("Training ppo on CartPole-v1") or "\nTraining ppo on CartPole-v1" in out
    assert "| " not in out
    registry.load("ppo")(
        lambda: __import__("gymnasium").make("CartPole-v1"),
        steps_per_epoch=40,
        epochs=1,
        logger_kwargs={"output_dir": "q", "quiet": True},
    )
    assert capsys.readouterr().out == ""


def test_a_users_own_logger_still_prints_its_configuration(capsys):
    Logger("mine").save_config({"lr": 1})
    out = capsys.readouterr().out
    assert "Logging to mine/progress.txt" in out and '"lr": 1' in out


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (80000, "80,000"),
        (np.int64(1234567), "1,234,567"),
        (80000.0, "80,000"),
        (-0.0, "0"),
        (np.float32(-0.0), "0"),
        (0.000123456, "0.000123"),
        (1234.5, "1.23e+03"),
        (float("nan"), "nan"),
        (float("-inf"), "-inf"),
        (np.bool_(True), "1"),
        ("text", "text"),
    ],
)
def test_whole_numbers_are_shown_whole_and_zero_has_no_sign(value, text):
    assert screen.shown(value) == text


def test_the_table_is_aligned_and_fits_the_terminal(monkeypatch):
    row = {"Epoch": 3, "TotalEnvInteracts": 123456789, "Note": "n" * 200, "Big": 999999999999}
    for columns in (80, 120):
        monkeypatch.setenv("COLUMNS", str(columns))
        lines = screen.table(row).splitlines()
        assert {len(line) for line in lines} == {columns}
        assert lines[0] == lines[-1] == "-" * columns
    plain = screen.table({"Epoch": 3, "TotalEnvInteracts": 80000}).splitlines()
    assert plain[2] == "| TotalEnvInteracts |          80,000 |"


def test_the_file_keeps_its_numbers_as_they_are(tmp_path):
    logger = Logger("a", quiet=True)
    for key, value in (("Steps", 80000), ("Zero", -0.0), ("X", 1234.5)):
        logger.log_tabular(key, value)
    logger.dump_tabular()
    logger.close()
    assert (tmp_path / "a/progress.txt").read_text() == "Steps\tZero\tX\n80000\t-0.0\t1234.5\n"


def stop_after(steps, monkeypatch):
    """Let every run receive Ctrl-C after so many polls."""
    from spinup.runs.signals import Signals

    polls = []

    def poll(self):
        polls.append(1)
        if len(polls) == steps:
            self.received = 2
        return self.received is not None

    monkeypatch.setattr(Signals, "poll", poll)


@pytest.mark.parametrize(
    "words",
    [
        "ppo --env CartPole-v1 --steps 40 --hid 4 --epochs 3 --exp_name 'my exp' --overwrite -s 3",
        "ppo --env CartPole-v1 --steps 40 --hid 4 --epochs 3 --dt",
        "ppo --env CartPole-v1 --steps 40 --hid 4 --epochs 3 --seed 3 4",
    ],
)
def test_the_command_that_is_printed_continues_the_run(words, capsys, monkeypatch, tmp_path):
    with monkeypatch.context() as patch:
        stop_after(50, patch)
        assert run.main(shlex.split(words)) == 130
    said = capsys.readouterr().err.splitlines()
    assert said[0].startswith("Stopped and saved after ")
    command = shlex.split(said[1])
    assert command[:3] == ["python", "-m", "spinup.run"] and "--overwrite" not in command
    assert run.main(command[3:]) == 0
    assert "Resuming data/" in capsys.readouterr().out
    for path in tmp_path.glob("data/*/*/progress.txt"):
        assert len(path.read_text().splitlines()) == 4
    assert not list(tmp_path.glob("data/*/*/.old"))


def test_a_python_program_is_told_the_call(capsys, monkeypatch):
    import gymnasium

    stop_after(50, monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        registry.load("ppo")(
            lambda: gymnasium.make("CartPole-v1"),
            steps_per_epoch=40,
            epochs=3,
            logger_kwargs={"output_dir": "my run", "quiet": True},
        )
    assert capsys.readouterr().err.splitlines() == [
        "Stopped and saved after 49 steps. To continue exactly from here, repeat the call with "
        "resume=True:",
        '    ppo(..., resume=True, logger_kwargs={"output_dir": "my run"})',
    ]
