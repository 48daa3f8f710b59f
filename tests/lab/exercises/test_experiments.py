"""Experiments: a prediction before the runs, shipped runs, and what the data say."""

import inspect
import json
from dataclasses import replace

import numpy as np
import pytest

from spinup.utils.errors import SpinupError
from spinup_lab.commands.exercise import main
from spinup_lab.exercises import measures, recorded, tasks
from spinup_lab.exercises.exercise import resolve
from spinup_lab.exercises.experiments import Arm, Experiment, best_arm, trend, worst_arm

EXPERIMENTS = [task for task in tasks.load().values() if isinstance(task, Experiment)]
every_experiment = pytest.mark.parametrize("task", EXPERIMENTS, ids=[t.id for t in EXPERIMENTS])
# What the shipped runs say; a change here is a change of what learners are told.
SAY = {
    "tools.exp_lambda": "0.9",
    "reinforce.exp_baseline": "value",
    "vpg.exp_train_v_iters": "unclear",
    "trpo.exp_delta": "0.001",
    "ppo.exp_clip": "0.02",
    "ddpg.exp_act_noise": "unclear",
    "sac.exp_alpha": "10",
    "acer.exp_c": "unclear",
    "her.exp_bitflip": "4",
    "dqn.exp_equal_actions": "rises",
    "workflow.exp_seeds": "20",
}


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(here, name, **answers):
    lines = [f"{key} = {json.dumps(value)}" for key, value in answers.items()]
    here.joinpath("spinup-exercises", name, "answer.toml").write_text("\n".join(lines))


REASON = "because I thought about it for a while"


@every_experiment
def test_an_experiment_is_complete(task):
    assert len(task.choices) >= 3 and "unclear" in task.choices
    assert len(task.arms) >= 2 and task.seeds >= 5
    assert bool(task.algo) != bool(task.measure)
    assert set(task.choices) - {"unclear"} <= {*task.names, "rises", "falls", "same"}
    assert all(len(text) < 90 for text in task.choices.values())


@pytest.mark.parametrize("task", [t for t in EXPERIMENTS if t.algo], ids=lambda task: task.id)
def test_the_training_function_takes_the_arguments(task):
    train = resolve(f"spinup.algos.pytorch.{task.algo}.{task.algo}:{task.algo}")
    given = {key.partition(":")[0] for key in task.settings}
    varied = {key for arm in task.arms for key in arm.settings}
    known = {*inspect.signature(train).parameters, "env_name", "env_kwargs"}
    assert "env_fn" not in given and given | varied <= known


@every_experiment
def test_shipped_runs_answer_the_question(task, tmp_path, capsys):
    size = recorded.FOLDER.joinpath(f"{task.id}.json").stat().st_size
    assert size < 200_000
    task.take_recorded(tmp_path / "recorded")
    assert task.runs_folder(tmp_path) == tmp_path / "recorded"
    assert task.decide(task.compare(tmp_path / "recorded"), task.names) == SAY[task.id]
    assert capsys.readouterr().err == ""  # `compare` had nothing to complain about


def test_nothing_runs_before_the_prediction_is_written(here):
    name = "dqn.exp_equal_actions"
    with pytest.raises(SpinupError, match="exercise start"):
        main(["run", name])
    main(["start", name])
    with pytest.raises(SpinupError, match="write your prediction"):
        main(["run", name])
    write(here, name, prediction="maybe", reason=REASON)
    with pytest.raises(SpinupError, match="'maybe' is not one of"):
        main(["run", name])
    write(here, name, prediction="rises", reason="why not")
    with pytest.raises(SpinupError, match="reason"):
        main(["run", name])
    assert sorted(p.name for p in here.glob("spinup-exercises/*/*")) == ["README.md", "answer.toml"]


def test_check_leads_through_an_experiment(here, capsys):
    name = "dqn.exp_equal_actions"
    assert main(["start", name]) == 0
    assert main(["check", name]) == 1
    assert "write your prediction" in capsys.readouterr().out
    write(here, name, prediction="rises", reason=REASON)
    assert main(["check", name]) == 1
    assert f"Next: spinup exercise run {name}" in capsys.readouterr().out
    assert main(["run", name, "--dry_run"]) == 0
    assert "24 runs" in capsys.readouterr().out
    assert main(["run", name]) == 0
    assert main(["check", name]) == 0
    out = capsys.readouterr().out
    assert "ok    prediction and data agree" in out
    assert "95% CI" in out and "your runs: Overestimate 2 0.5" in out


def test_a_wrong_prediction_passes_once_the_lesson_is_written(here, capsys):
    name = "dqn.exp_equal_actions"
    main(["start", name])
    write(here, name, prediction="same", reason=REASON)
    assert main(["run", name, "--recorded"]) == 0
    assert main(["check", name]) == 1
    out = capsys.readouterr().out
    assert "WRONG prediction and data agree" in out
    assert "the data say: rises" in out and "shipped runs" in out
    write(here, name, prediction="same", reason=REASON, lesson="the best of many is lucky")
    assert main(["check", name]) == 0
    assert "the data disagree, and you wrote why" in capsys.readouterr().out


def test_a_prediction_changed_after_the_runs_does_not_count(here, capsys):
    name = "dqn.exp_equal_actions"
    main(["start", name])
    write(here, name, prediction="falls", reason=REASON)
    main(["run", name, "--recorded"])
    write(here, name, prediction="rises", reason=REASON)
    assert main(["check", name]) == 1
    out = capsys.readouterr().out
    assert "predicted before the runs: falls" in out and "changed afterwards" in out


def test_a_broken_answer_cannot_be_judged(here, capsys):
    name = "dqn.exp_equal_actions"
    main(["start", name])
    here.joinpath("spinup-exercises", name, "answer.toml").write_text("prediction = rises")
    assert main(["check", name]) == 2
    assert "cannot be read" in capsys.readouterr().out


def test_run_refuses_what_is_not_an_experiment():
    with pytest.raises(SpinupError, match="not an experiment"):
        main(["run", "ddpg.loss_q"])


def test_run_without_shipped_runs_says_so_and_keeps_nothing(here, monkeypatch):
    name = "dqn.exp_equal_actions"
    main(["start", name])
    write(here, name, prediction="rises", reason=REASON)
    monkeypatch.setattr(recorded, "FOLDER", here)  # as if none were shipped
    with pytest.raises(SpinupError, match="no runs are shipped"):
        main(["run", name, "--recorded"])
    assert not list(here.glob("spinup-exercises/*/prediction.json"))


def test_an_experiment_with_training_makes_a_grid(here):
    task = replace(
        tasks.find("vpg.exp_train_v_iters"),
        seeds=2,
        arms=(Arm("0", {"train_v_iters": 0}), Arm("1", {"train_v_iters": 1})),
        settings={"env_name": "CartPole-v1", "steps_per_epoch": 60, "epochs": 2, "num_threads": 1},
    )
    task.make_runs(here / "runs")
    assert task.runs_folder(here) == here / "runs"
    found = sorted(p.parent.name for p in here.glob("runs/*/*/progress.txt"))
    assert found == ["0_s0", "0_s1", "1_s0", "1_s1"]
    here.joinpath("runs/1/1_s1/.finished").unlink()  # as if it had been interrupted
    assert task.runs_folder(here) is None


def pair(x, y, verdict="established"):
    return {"x": x, "y": y, "verdict": verdict}


def test_only_established_differences_decide():
    abc = ["a", "b", "c"]
    clear = {"pairs": [pair("c", "a"), pair("c", "b"), pair("b", "a")]}
    assert best_arm(clear, abc) == "c" and worst_arm(clear, abc) == "a"
    assert trend(clear, abc) == "rises" and trend(clear, abc[::-1]) == "falls"
    half = {"pairs": [pair("c", "a"), pair("c", "b", "not established"), pair("b", "a")]}
    assert best_arm(half, abc) == "unclear" and trend(half, abc) == "unclear"
    assert worst_arm(half, abc) == "a"


# ---- what is measured


def test_gae_errors_are_those_of_the_formula():
    """lambda = 0: gamma times the critic's error; lambda = 1: the noise of the later rewards."""
    (low,), (high,) = (measures.advantage_error(0, lam) for lam in (0, 1))
    assert low["Std"] == pytest.approx(0, abs=1e-9)
    assert low["Bias"] == pytest.approx(0.95 * 4, rel=0.3)
    expected = np.sqrt(sum(0.95 ** (2 * t) for t in range(1, 20)))
    assert high["Std"] == pytest.approx(expected, rel=0.05)


def test_a_baseline_changes_the_variance_and_not_the_mean():
    (none,), (value,) = (measures.gradient_noise(0, b) for b in ("none", "value"))
    assert value["Variance"] < none["Variance"] / 50
    # d/dlogit of the mean reward is 0.5 * p * (1 - p) at each of ten steps
    assert value["MeanGradient"] == pytest.approx(0.125, abs=0.02)


@pytest.mark.parametrize(("actions", "expected"), [(2, 0.564), (10, 1.539), (100, 2.508)])
def test_overestimation_is_that_of_order_statistics(actions, expected):
    (row,) = measures.overestimate(1, actions)
    assert row["Overestimate"] == pytest.approx(expected, abs=0.05)
    assert abs(row["DoubleQ"]) < 0.1


# ---- recorded runs


def test_recorded_runs_survive_a_round_trip(tmp_path, monkeypatch):
    monkeypatch.setattr(recorded, "FOLDER", tmp_path)
    run = recorded.RecordedRun("a b", 3, {"env": "E"}, ("Epoch", "X"), ((1, 0.25), (2, 1e-7)))
    recorded.save("one", [run])
    (again,) = recorded.load("one")
    assert again == run
    files = dict(again.files())
    assert files["a-b/a-b_s3/progress.txt"] == "Epoch\tX\n1\t0.25\n2\t1e-07\n"
    assert json.loads(files["a-b/a-b_s3/config.json"]) == {"env": "E", "exp_name": "a-b", "seed": 3}
