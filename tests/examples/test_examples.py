"""The programs under spinup/examples run, by themselves and as modules, and learn a little."""

import difflib
import inspect
import re
import runpy
import subprocess
import sys

import numpy as np
import pytest
import torch

from spinup.examples.pytorch import bench_ppo_cartpole, train_mnist

LINE = re.compile(
    r"epoch: +(\d+) \t loss: (-?\d+\.\d{3}) \t return: (\d+\.\d{3}) \t ep_len: (\d+\.\d{3})"
)
SCRIPTS = ("1_simple_pg", "2_rtg_pg")


@pytest.fixture(params=SCRIPTS)
def script(request, repo_root):
    path = repo_root / "spinup/examples/pytorch/pg_math" / f"{request.param}.py"
    return path, runpy.run_path(str(path))


def test_a_policy_gradient_script_learns(script, capsys):
    torch.manual_seed(0)
    script[1]["train"](epochs=12, batch_size=1000)
    rows = [LINE.fullmatch(line) for line in capsys.readouterr().out.splitlines()]
    assert [int(row[1]) for row in rows] == list(range(12))
    returns = [float(row[3]) for row in rows]
    assert returns == [float(row[4]) for row in rows]  # CartPole pays 1 per step
    assert np.mean(returns[-3:]) > 2 * np.mean(returns[:3])


def test_a_seed_repeats_a_policy_gradient_script(script, capsys):
    printed = set()
    for _ in range(2):
        torch.manual_seed(4)
        script[1]["train"]("CartPole-v1", [8], epochs=2, batch_size=100)
        printed.add(capsys.readouterr().out)
    assert len(printed) == 1


def test_arguments_and_weights_of_the_policy_gradient_scripts(script):
    parameters = inspect.signature(script[1]["train"]).parameters
    assert {name: p.default for name, p in parameters.items()} == {
        "env_name": "CartPole-v0",
        "hidden_sizes": [32],
        "lr": 1e-2,
        "epochs": 50,
        "batch_size": 5000,
        "render": False,
    }
    weights = script[1]["action_weights"]([1.0, 0.0, 4.0])
    expected = [5, 5, 5] if script[0].stem == SCRIPTS[0] else [5, 4, 4]
    np.testing.assert_array_equal(weights, expected)
    with pytest.raises(SystemExit, match="needs Box observations and Discrete actions"):
        script[1]["train"]("Pendulum-v1", epochs=1)


def test_the_two_scripts_differ_in_a_few_lines(repo_root):
    folder = repo_root / "spinup/examples/pytorch/pg_math"
    first, second = ((folder / f"{name}.py").read_text().splitlines() for name in SCRIPTS)
    changed = [line for line in difflib.ndiff(first, second) if line[0] in "+-"]
    assert 0 < len(changed) <= 12


def test_a_script_runs_as_a_program_from_anywhere(repo_root, tmp_path):
    # epochs and batch size are no flags, so that it is stopped after its first lines
    path = repo_root / "spinup/examples/pytorch/pg_math/1_simple_pg.py"
    words = [sys.executable, str(path), "--env", "CartPole-v1", "--lr", "0.1"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True, cwd=tmp_path) as process:
        line = process.stdout.readline()
        process.kill()
    assert LINE.fullmatch(line.rstrip("\n"))[1] == "0"


def test_the_benchmark_runs_its_grid_under_the_originals_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = "--cpu 1 --num_runs 2 --epochs 1 --steps 60"
    bench_ppo_cartpole.main(words.split())
    names = {p.name for p in (tmp_path / "data").iterdir() if (p / f"{p.name}_s10").is_dir()}
    assert names == {
        f"ppo-pyt-bench_cartpole-v0_hid{hid}_{act}"
        for hid in ("32", "64-64")
        for act in ("tanh", "relu")
    }
    capsys.readouterr()
    with pytest.raises(SystemExit):
        bench_ppo_cartpole.main(["--help"])
    said = capsys.readouterr().out
    assert (
        "--cpu" in said and "--num_runs" in said and "default: 4" in said and "default: 3" in said
    )


def test_the_digits_are_learned_and_logged(tmp_path, capsys):
    model = train_mnist.train_mnist(
        steps_per_epoch=60, epochs=3, lr=3e-3, logger_kwargs={"output_dir": str(tmp_path)}
    )
    head, *rows = (line.split("\t") for line in (tmp_path / "progress.txt").read_text().split("\n"))
    table = [dict(zip(head, row, strict=True)) for row in rows if row != [""]]
    assert len(table) == 3 and float(table[-1]["TestAcc"]) > 0.7 > float(table[0]["AverageAcc"])
    assert {"AverageAcc", "StdAcc", "MaxAcc", "MinAcc", "Loss", "TotalGradientSteps"} < set(head)
    saved = torch.load(tmp_path / "pyt_save" / "model.pt", weights_only=False)
    images, labels = train_mnist.make_digits(50, np.random.default_rng(3))
    assert images.shape == (50, 16, 16) and images.min() >= 0 and images.max() <= 1
    assert set(labels) <= set(range(10))
    with torch.no_grad():
        assert torch.equal(saved(torch.as_tensor(images)), model(torch.as_tensor(images)))
    assert "TestAcc" in capsys.readouterr().out
