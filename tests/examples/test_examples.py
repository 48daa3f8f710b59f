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

from spinup.examples import digits
from spinup.examples.pytorch import bench_ppo_cartpole, train_mnist
from spinup.examples.tf1 import bench_ppo_cartpole as bench_ppo_cartpole_tf1
from spinup.examples.tf1 import train_mnist as train_mnist_tf1
from spinup.utils.logx import restore_tf_graph
from spinup.utils.tf import tf

LINE = re.compile(
    r"epoch: +(\d+) \t loss: (-?\d+\.\d{3}) \t return: (\d+\.\d{3}) \t ep_len: (\d+\.\d{3})"
)
BACKENDS = ("pytorch", "tf1")
SCRIPTS = ("1_simple_pg", "2_rtg_pg")


@pytest.fixture(params=[f"{backend}/pg_math/{name}" for backend in BACKENDS for name in SCRIPTS])
def script(request, repo_root):
    path = repo_root / "spinup/examples" / f"{request.param}.py"
    return path, runpy.run_path(str(path))


def seed_both(number):
    torch.manual_seed(number)
    np.random.seed(number)


def test_a_policy_gradient_script_learns(script, capsys):
    seed_both(0)
    script[1]["train"](epochs=16, batch_size=1000)
    rows = [LINE.fullmatch(line) for line in capsys.readouterr().out.splitlines()]
    assert [int(row[1]) for row in rows] == list(range(16))
    returns = [float(row[3]) for row in rows]
    assert returns == [float(row[4]) for row in rows]  # CartPole pays 1 per step
    assert np.mean(returns[-3:]) > 2 * np.mean(returns[:3])


def test_a_seed_repeats_a_policy_gradient_script(script, capsys):
    printed = set()
    for _ in range(2):
        seed_both(4)
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


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_two_scripts_differ_in_a_few_lines(repo_root, backend):
    folder = repo_root / "spinup/examples" / backend / "pg_math"
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


@pytest.mark.parametrize(
    ("program", "name"),
    [(bench_ppo_cartpole, "ppo-pyt-bench"), (bench_ppo_cartpole_tf1, "ppo-tf1-bench")],
    ids=BACKENDS,
)
def test_the_benchmark_runs_its_grid_under_the_originals_names(
    program, name, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    words = "--cpu 1 --num_runs 2 --epochs 1 --steps 60"
    program.main(words.split())
    names = {p.name for p in (tmp_path / "data").iterdir() if (p / f"{p.name}_s10").is_dir()}
    assert names == {
        f"{name}_cartpole-v0_hid{hid}_{act}" for hid in ("32", "64-64") for act in ("tanh", "relu")
    }
    capsys.readouterr()
    with pytest.raises(SystemExit):
        program.main(["--help"])
    said = capsys.readouterr().out
    assert (
        "--cpu" in said and "--num_runs" in said and "default: 4" in said and "default: 3" in said
    )


@pytest.mark.parametrize("program", [train_mnist, train_mnist_tf1], ids=BACKENDS)
def test_the_digits_are_learned_and_logged(program, tmp_path, capsys):
    model = program.train_mnist(
        steps_per_epoch=60, epochs=3, lr=3e-3, logger_kwargs={"output_dir": str(tmp_path)}
    )
    head, *rows = (line.split("\t") for line in (tmp_path / "progress.txt").read_text().split("\n"))
    table = [dict(zip(head, row, strict=True)) for row in rows if row != [""]]
    assert len(table) == 3 and float(table[-1]["TestAcc"]) > 0.7 > float(table[0]["AverageAcc"])
    assert {"AverageAcc", "StdAcc", "MaxAcc", "MinAcc", "Loss", "TotalGradientSteps"} < set(head)
    said = capsys.readouterr().out
    assert "TestAcc" in said and "Number of parameters: 21258" in said

    images, labels = digits.make_digits(500, np.random.default_rng(3))
    if program is train_mnist:
        saved = torch.load(tmp_path / "pyt_save" / "model.pt", weights_only=False)
        with torch.no_grad():
            logits = saved(torch.as_tensor(images))
            assert torch.equal(logits, model(torch.as_tensor(images)))
        logits = logits.numpy()
    else:
        with tf.Graph().as_default(), tf.Session() as session:
            saved = restore_tf_graph(session, str(tmp_path / "tf1_save"))
            logits = session.run(saved["logits"], {saved["x"]: images})
    assert np.mean(logits.argmax(-1) == labels) > 0.7  # what was saved is the trained network


def test_digits_are_images_with_labels():
    images, labels = digits.make_digits(50, np.random.default_rng(3))
    assert images.shape == (50, 16, 16) and images.min() >= 0 and images.max() <= 1
    assert set(labels) <= set(range(10))
