"""The first thing anybody runs: it trains, measures, draws and films, and says when it failed."""

import inspect
import re

import numpy as np
import pytest
from PIL import Image

from spinup import ppo_pytorch, quickstart
from spinup.utils.errors import SpinupError

PRESET = quickstart.load_preset()


def short():
    """The preset cut to two small epochs: enough for every file, far too little to learn."""
    return {**PRESET, "steps_per_epoch": 400, "minibatch_size": 200, "epochs": 2}


def test_the_preset_holds_only_arguments_of_ppo_and_the_environment():
    preset = quickstart.load_preset()
    assert preset["env"] == "CartPole-v1"
    known = set(inspect.signature(ppo_pytorch).parameters)
    assert set(preset) - {"env"} <= known
    # The driver passes these itself; in the preset they would be given twice.
    assert not set(preset) & {"seed", "logger_kwargs", "overwrite", "progress", "env_fn"}


def test_a_run_that_misses_the_target_leaves_its_results_and_exits_with_one(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr(quickstart, "load_preset", short)
    assert quickstart.main(["--out", str(tmp_path / "out"), "--seed", "3"]) == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[-1].startswith("spinup: PPO reached ")
    assert "800/800 steps" in said.err and "return " in said.err
    average = float(re.search(r"average return ([\d.]+) over 20 episodes", said.out).group(1))
    assert average == pytest.approx(
        quickstart.evaluate(tmp_path / "out" / "run", seed=3).mean(), abs=0.06
    )
    for name in ("learning_curve.png", "agent.gif"):
        assert str(tmp_path / "out" / name) in said.out
        with Image.open(tmp_path / "out" / name) as image:
            assert np.asarray(image.convert("RGB")).std() > 1  # something is drawn on it
    # Again into the same folder: it is there to be run twice.
    assert quickstart.main(["--out", str(tmp_path / "out"), "--seed", "3"]) == 1
    assert f"average return {average}" in capsys.readouterr().out


def test_a_solved_run_exits_with_zero(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(quickstart, "load_preset", short)
    monkeypatch.setattr(quickstart, "evaluate", lambda run_dir, seed: np.full(20, 475.0))
    assert quickstart.main(["--out", str(tmp_path / "out")]) == 0
    assert "average return 475.0" in capsys.readouterr().out


def test_a_missing_renderer_is_told_before_training(tmp_path, monkeypatch, capsys):
    def cannot(env):
        raise SpinupError("This environment cannot be drawn.")

    monkeypatch.setattr(quickstart, "draw", cannot)
    monkeypatch.setattr(quickstart, "train", lambda *a: pytest.fail("trained before checking"))
    assert quickstart.main(["--out", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "spinup: This environment cannot be drawn.\n"


@pytest.mark.slow
def test_the_quickstart_solves_cartpole(tmp_path, capsys):
    assert quickstart.main(["--out", str(tmp_path / "out")]) == 0
    assert "average return" in capsys.readouterr().out
