"""The PyTorch exercises: their interface, right and wrong answers, and students' own files."""

import inspect
import os
import runpy
import shutil
import sys
import warnings
from functools import partial
from importlib import import_module
from pathlib import Path

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn

from spinup.algos.pytorch.ddpg import ddpg as ddpg_module
from spinup.algos.pytorch.ddpg.core import MLPActorCritic
from spinup.algos.pytorch.td3 import td3 as td3_module
from spinup.algos.pytorch.td3.td3 import smoothed_action
from spinup.exercises import common
from spinup.exercises.common import print_result
from spinup.exercises.pytorch.problem_set_1 import (
    exercise1_1,
    exercise1_2,
    exercise1_2_auxiliary,
    exercise1_3,
)
from spinup.exercises.pytorch.problem_set_1_solutions import exercise1_1_soln, exercise1_2_soln
from spinup.exercises.pytorch.problem_set_2 import exercise2_2
from spinup.utils.errors import SpinupError
from spinup_lab.exercises import judges_common
from spinup_lab.exercises import judges_pytorch as judges
from spinup_lab.exercises.judges_common import Wrong
from tests.helpers.processes import run_python

HERE = Path(__file__).parent
CONGRATULATIONS = "Congratulations! Your answer is correct."
INCORRECT = "Your answer appears to be incorrect. Try again!"


@pytest.fixture(autouse=True)
def _stub_stays(monkeypatch):
    """Exercise 1.2 may replace the stub of 1.1 by its answer."""
    monkeypatch.setattr(exercise1_1, "gaussian_likelihood", exercise1_1.gaussian_likelihood)


def run_file(module, monkeypatch, *words):
    """Run an exercise as a program, in this process; return its exit code."""
    monkeypatch.setattr(sys, "argv", [module.__file__, *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(module.__file__, run_name="__main__")
    return ended.value.code


# --------------------------------------------------------------------------------------- interface


SIGNATURES = {
    "common.print_result": "correct=False",
    "pytorch.problem_set_1.exercise1_1.gaussian_likelihood": "x, mu, log_std",
    "pytorch.problem_set_1.exercise1_2.mlp": "sizes, activation, output_activation=Identity",
    "pytorch.problem_set_1.exercise1_2.DiagonalGaussianDistribution": "mu, log_std",
    "pytorch.problem_set_1.exercise1_2.DiagonalGaussianDistribution.log_prob": "self, value",
    "pytorch.problem_set_1.exercise1_2.MLPGaussianActor": (
        "obs_dim, act_dim, hidden_sizes, activation"
    ),
    "pytorch.problem_set_1.exercise1_2.MLPGaussianActor.forward": "self, obs, act=None",
    "pytorch.problem_set_1.exercise1_2_auxiliary.mlp": (
        "sizes, activation, output_activation=Identity"
    ),
    "pytorch.problem_set_1.exercise1_2_auxiliary.MLPCritic": "obs_dim, hidden_sizes, activation",
    "pytorch.problem_set_1.exercise1_2_auxiliary.ExerciseActorCritic": (
        "observation_space, action_space, hidden_sizes=(64, 64), activation=Tanh, actor=None"
    ),
    "pytorch.problem_set_1.exercise1_3.ReplayBuffer": "obs_dim, act_dim, size",
    "pytorch.problem_set_1_solutions.exercise1_1_soln.gaussian_likelihood": "x, mu, log_std",
    "pytorch.problem_set_1_solutions.exercise1_2_soln.gaussian_likelihood": "x, mu, log_std",
    "pytorch.problem_set_1_solutions.exercise1_2_soln.mlp": (
        "sizes, activation, output_activation=Identity"
    ),
    "pytorch.problem_set_1_solutions.exercise1_2_soln.MLPGaussianActor": (
        "obs_dim, act_dim, hidden_sizes, activation"
    ),
    "pytorch.problem_set_2.exercise2_2.BuggedMLPActor": (
        "obs_dim, act_dim, hidden_sizes, activation, act_limit"
    ),
    "pytorch.problem_set_2.exercise2_2.BuggedMLPQFunction": (
        "obs_dim, act_dim, hidden_sizes, activation"
    ),
    "pytorch.problem_set_2.exercise2_2.BuggedMLPActorCritic": (
        "observation_space, action_space, hidden_sizes=(256, 256), activation=ReLU"
    ),
}


def shown(function):
    parts = []
    for p in inspect.signature(function).parameters.values():
        value = getattr(p.default, "__name__", p.default)
        parts.append(p.name if p.default is p.empty else f"{p.name}={value}")
    return ", ".join(parts)


@pytest.mark.parametrize("path", SIGNATURES)
def test_names_and_signatures_are_the_originals(path):
    words = path.split(".")
    depth = 1 if words[0] == "common" else 3
    found = import_module("spinup.exercises." + ".".join(words[:depth]))
    for word in words[depth:]:
        found = getattr(found, word)
    assert shown(found).startswith(SIGNATURES[path])


def test_td3_of_the_exercise_has_the_librarys_arguments():
    assert inspect.signature(exercise1_3.td3) == inspect.signature(td3_module.td3)


def test_the_verdict_is_printed_as_scripts_expect_it(capsys):
    for correct, text in [(True, CONGRATULATIONS), (False, INCORRECT)]:
        print_result(correct)
        line = "=" * 50
        expected = "\n" * 5 + line + "\n" * 4 + text + "\n" + "\n" * 3 + line + "\n"
        assert capsys.readouterr().out == expected
    print_result()
    assert INCORRECT in capsys.readouterr().out


@pytest.mark.parametrize(
    ("module", "says"),
    [(exercise1_1, "expected"), (exercise1_2, "mlp is still"), (exercise1_3, "compute_loss_q is")],
)
def test_an_unfilled_exercise_is_incorrect_in_a_sentence(module, says, monkeypatch, capsys):
    assert run_file(module, monkeypatch) == 1
    said = capsys.readouterr()
    assert says in said.out and INCORRECT in said.out and said.err == ""


def test_an_error_in_an_answer_names_its_line(capsys):
    def answer(x, mu, log_std):
        return x.no_such_method()

    assert common.judge(lambda: judges.check_gaussian_likelihood(answer)) == 1
    said = capsys.readouterr().out
    assert "AttributeError (test_pytorch_exercises.py, line" in said and INCORRECT in said


def test_what_cannot_be_judged_exits_with_two(capsys):
    def main():
        raise SpinupError("there is no such environment")

    with pytest.raises(SystemExit) as ended:
        common.exit_with(main)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "spinup: there is no such environment\n"


# ------------------------------------------------------------------------------------------- 1.1


right = exercise1_1_soln.gaussian_likelihood


def changes_its_argument(x, mu, log_std):
    found = right(x, mu, log_std)
    x.data.add_(1)
    return found


def one_for_each_dimension(x, mu, log_std):
    return torch.distributions.Normal(mu, log_std.exp()).log_prob(x)


WRONG_LIKELIHOODS = {
    "None": (lambda x, mu, log_std: None, "returned None"),
    "column": (lambda *xs: right(*xs)[:, None], "shape"),
    "row": (lambda *xs: right(*xs)[None], "shape"),
    "no sum": (one_for_each_dimension, "shape"),
    "total": (lambda *xs: right(*xs).sum(), "shape"),
    "sign": (lambda *xs: -right(*xs), "expected"),
    "no constant": (lambda x, mu, s: right(x, mu, s) + x.shape[1], "expected"),
    "std for log_std": (lambda x, mu, s: right(x, mu, s.abs().log()), "expected"),
    "detached": (lambda *xs: right(*xs).detach(), "no gradient"),
    "mu detached": (lambda x, mu, s: right(x, mu.detach(), s), "gradient .* respect to mu"),
    "log_std of the first row": (lambda x, m, s: right(x, m, s[0] if s.ndim == 2 else s), "32, 10"),
    "argument changed": (changes_its_argument, "changes its argument x"),
    "NumPy": (lambda *xs: right(*xs).detach().numpy(), "a tensor, not ndarray"),
}


@pytest.mark.parametrize("name", WRONG_LIKELIHOODS)
def test_wrong_likelihoods_are_rejected(name):
    answer, says = WRONG_LIKELIHOODS[name]
    with pytest.raises(Wrong, match=says):
        judges.check_gaussian_likelihood(answer)


def by_distribution(x, mu, log_std):
    return torch.distributions.Normal(mu, log_std.exp()).log_prob(x).sum(-1)


@pytest.mark.parametrize("answer", [right, by_distribution])
def test_right_likelihoods_pass_and_leave_the_random_numbers_alone(answer):
    before = torch.get_rng_state()
    judges.check_gaussian_likelihood(answer)
    assert torch.equal(before, torch.get_rng_state())


# ------------------------------------------------------------------------------------------- 1.2


def build(sizes, activation, output_activation=nn.Identity, skip=False, every=False, bias=True):
    layers = []
    for i in range(len(sizes) - 1):
        layers.append(nn.Linear(sizes[i], sizes[i + 1], bias=bias))
        last = i == len(sizes) - 2
        layers.append((activation if every or (not last and not skip) else output_activation)())
    return nn.Sequential(*layers)


@pytest.mark.parametrize(
    ("mlp", "says"),
    [
        (lambda *a: None, "returned None"),
        (partial(build, skip=True), "the output of mlp"),
        (partial(build, every=True), "the output of mlp"),
        (lambda sizes, act, last=nn.Identity: build([*sizes, sizes[-1]], act, last), "linear"),
        (lambda sizes, act, last=nn.Identity: build(sizes, act), "the output of mlp"),
        (lambda sizes, act, last=nn.Identity: build(sizes, nn.Tanh, last), "ReLU"),
        (lambda sizes, act, last=nn.Identity: list(build(sizes, act, last)), "not list"),
    ],
)
def test_wrong_networks_are_rejected(mlp, says):
    with pytest.raises(Wrong, match=says):
        judges.check_mlp(mlp)


class Sampling(exercise1_2_soln.DiagonalGaussianDistribution):
    def __init__(self, mu, log_std, how=None):
        super().__init__(mu, log_std)
        self.how = how

    def sample(self):
        return self.how(self.mu, self.log_std)


@pytest.mark.parametrize(
    ("how", "says"),
    [
        (lambda mu, s: None, "returned None"),
        (lambda mu, s: mu, "standard deviation"),
        (lambda mu, s: mu + s * torch.randn_like(mu), "standard deviation"),
        (lambda mu, s: mu + s.exp() ** 2 * torch.randn_like(mu), "standard deviation"),
        (lambda mu, s: mu + s.exp() * torch.randn(2), "mean|standard deviation"),
        (lambda mu, s: mu + s.exp() * torch.randn(*mu.shape[:-1], 1), "correlated"),
        (lambda mu, s: mu + s.exp() * torch.rand_like(mu), "mean"),
        (lambda mu, s: s.exp() * torch.randn_like(mu), "mean"),
        (lambda mu, s: (mu + s.exp() * torch.randn_like(mu)).sum(-1), "shape"),
    ],
)
def test_wrong_samples_are_rejected(how, says):
    with pytest.raises(Wrong, match=says):
        judges.check_sample(partial(Sampling, how=how))


class Actor(exercise1_2_soln.MLPGaussianActor):
    def __init__(self, *sizes, change):
        super().__init__(*sizes)
        change(self)


def plain_tensor(net):
    value = net.log_std.data
    del net.log_std
    net.log_std = value


def no_network(net):
    del net.mu_net


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (plain_tensor, "not among the parameters"),
        (no_network, "self.mu_net"),
        (lambda net: net.log_std.requires_grad_(False), "not among the parameters"),
        (lambda net: net.log_std.data.fill_(0.5), "log_std at"),
        (lambda net: setattr(net, "log_std", nn.Parameter(torch.full((1,), -0.5))), "shape"),
        (lambda net: setattr(net, "mu_net", nn.Sequential(net.mu_net, nn.Tanh())), "output"),
    ],
)
def test_wrong_policies_are_rejected(change, says):
    with pytest.raises(Wrong, match=says):
        judges.check_actor(partial(Actor, change=change))


def test_the_answer_of_1_2_is_right_and_uses_1_1(monkeypatch, capsys):
    answer = exercise1_2_soln
    names = ("mlp", "DiagonalGaussianDistribution", "MLPGaussianActor")
    monkeypatch.setattr(sys, "argv", ["exercise1_2.py"])
    assert judges.exercise1_2(*(getattr(answer, name) for name in names)) == 0
    assert CONGRATULATIONS in capsys.readouterr().out
    # a wrong answer to 1.1 shows in 1.2
    monkeypatch.setattr(answer, "gaussian_likelihood", lambda *xs: 2 * right(*xs))
    assert judges.exercise1_2(*(getattr(answer, name) for name in names)) == 1
    assert "from exercise 1.1" in capsys.readouterr().out


def test_entropy_adds_up_over_the_dimensions():
    normal = torch.distributions.Normal(torch.zeros(3), torch.tensor([0.5, 1.0, 2.0]))
    for module in (exercise1_2, exercise1_2_soln):
        pi = module.DiagonalGaussianDistribution(normal.mean, normal.stddev.log())
        torch.testing.assert_close(pi.entropy(), normal.entropy().sum())


def test_training_is_only_a_demonstration(monkeypatch, capsys, tmp_path):
    seen = {}

    def ppo(env, **arguments):
        seen.update(arguments, env=env)
        arguments["on_epoch"]({"AverageEpRet": -7.0}, None)

    monkeypatch.setattr("spinup.algos.pytorch.ppo.ppo.ppo", ppo)
    monkeypatch.setattr(judges_common.tempfile, "gettempdir", lambda: str(tmp_path))
    answer = exercise1_2_soln
    words = ["exercise1_2.py", "--train", "--env", "Pendulum-v1", "--epochs", "3"]
    monkeypatch.setattr(sys, "argv", words)
    judges.exercise1_2(answer.mlp, answer.DiagonalGaussianDistribution, answer.MLPGaussianActor)
    said = capsys.readouterr().out
    assert CONGRATULATIONS in said and "-7.0 in the last five" in said
    assert (seen["env"], seen["epochs"], seen["gamma"]) == ("Pendulum-v1", 3, 0.9)  # the preset's
    assert Path(seen["logger_kwargs"]["output_dir"]).parent == tmp_path / "experiments"


def test_the_actor_critic_names_what_is_unwritten():
    box = gym.spaces.Box(-1, 1, (3,)), gym.spaces.Box(-1, 1, (2,))

    class Empty(nn.Module):
        def __init__(self, *sizes):
            super().__init__()

    class NoNetwork(Empty):
        def __init__(self, *sizes):
            super().__init__()
            self.log_std, self.mu_net = nn.Parameter(torch.zeros(2)), None

    for actor, says in [(Empty, "Empty has no parameters"), (NoNetwork, "mlp is still")]:
        with pytest.raises(SpinupError, match=says):
            exercise1_2_auxiliary.ExerciseActorCritic(*box, actor=actor)
    ac = exercise1_2_auxiliary.ExerciseActorCritic(*box)
    a, v, logp = ac.step(torch.zeros(5, 3))
    assert (a.shape, v.shape, logp.shape) == ((5, 2), (5,), (5,))
    assert ac.act(torch.zeros(3)).shape == (2,)


# ------------------------------------------------------------------------------------------- 1.3


def loss_q(
    ac,
    ac_targ,
    batch,
    gamma,
    target_noise,
    noise_clip,
    limits,
    online=False,
    least=torch.min,
    masked=True,
    action=smoothed_action,
    detached=True,
    scale=1.0,
    same=True,
    critic=None,
):
    """The right loss, with places to go wrong."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    targ = ac if online else ac_targ
    a2, a3 = (action(targ, o2, target_noise, noise_clip, *limits) for _ in range(2))
    q_targ = least(targ.q1(o2, a2), (critic or targ.q2)(o2, a2 if same else a3))
    backup = r + gamma * (1 - d * masked) * q_targ
    backup = backup.detach() if detached else backup
    q1, q2 = ac.q1(o, a), ac.q2(o, a)
    loss = scale * ((q1 - backup) ** 2 + (q2 - backup) ** 2).mean()
    return loss, {"Q1Vals": q1.detach(), "Q2Vals": q2.detach()}


def unclipped_noise(ac, o2, std, clip, low, high):
    a2 = ac.pi(o2)
    return (a2 + std * torch.randn_like(a2)).clamp(low, high)


def unbounded_action(ac, o2, std, clip, low, high):
    a2 = ac.pi(o2)
    return a2 + (std * torch.randn_like(a2)).clamp(-clip, clip)


def shared_noise(ac, o2, std, clip, low, high):
    a2 = ac.pi(o2)
    return (a2 + (std * torch.randn(len(a2), 1)).clamp(-clip, clip)).clamp(low, high)


def no_noise(ac, o2, std, clip, low, high):
    return ac.pi(o2)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"online": True}, "loss_q|target critics"),
        ({"online": True, "detached": False}, "loss_q|gradient"),
        ({"least": torch.max}, "not terminal: expected"),
        ({"least": lambda q1, q2: q1}, "not terminal: expected"),
        ({"least": lambda q1, q2: q2}, "not terminal: expected"),
        ({"masked": False}, "are terminal: expected"),
        ({"scale": 0.5}, "expected"),
        ({"action": unclipped_noise}, "should be clipped"),
        ({"action": unbounded_action}, "beyond 1"),
        ({"action": shared_noise}, "correlated"),
        ({"action": no_noise}, "standard deviation"),
        ({"same": False}, "same noisy action"),
    ],
)
def test_wrong_critic_losses_are_rejected(changes, says):
    with pytest.raises(Wrong, match=says):
        judges.check_td3_loss_q(partial(loss_q, **changes))


def test_right_losses_of_td3_pass():
    judges.check_td3_loss_q(loss_q)
    judges.check_td3_loss_q(td3_module.compute_loss_q)
    judges.check_td3_loss_pi(td3_module.compute_loss_pi)


def test_the_log_needs_detached_values():
    def attached(*given):
        loss, _ = loss_q(*given)
        q = given[0].q1(given[2]["obs"], given[2]["act"])
        return loss, {"Q1Vals": q, "Q2Vals": q}

    with pytest.raises(Wrong, match="detached"):
        judges.check_td3_loss_q(attached)
    with pytest.raises(Wrong, match="lacks Q1Vals"):
        judges.check_td3_loss_q(lambda *given: (loss_q(*given)[0], {}))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda ac, data: ac.q1(data["obs"], ac.pi(data["obs"])).mean(), "loss_pi: expected"),
        (lambda ac, data: -ac.q2(data["obs"], ac.pi(data["obs"])).mean(), "loss_pi: expected"),
        (lambda ac, data: -ac.q1(data["obs"], data["act"]).mean(), "loss_pi: expected"),
        (lambda ac, data: -ac.q1(data["obs"], ac.pi(data["obs"]).detach()).mean(), "gradient"),
        (lambda ac, data: None, "returned None"),
    ],
)
def test_wrong_policy_losses_are_rejected(answer, says):
    with pytest.raises(Wrong, match=says):
        judges.check_td3_loss_pi(answer)


TINY = {
    "ac_kwargs": {"hidden_sizes": [8]},
    "steps_per_epoch": 60,
    "epochs": 2,
    "start_steps": 20,
    "update_after": 20,
    "update_every": 10,
    "batch_size": 8,
    "num_test_episodes": 1,
    "max_ep_len": 30,
}


def table(folder):
    return pd.read_table(folder / "progress.txt").drop(columns="Time")


def test_the_exercises_td3_trains_with_the_students_losses(tmp_path, monkeypatch):
    calls = []
    own = td3_module.compute_loss_pi
    monkeypatch.setattr(exercise1_3, "compute_loss_q", td3_module.compute_loss_q)
    monkeypatch.setattr(exercise1_3, "compute_loss_pi", lambda ac, b: calls.append(1) or own(ac, b))
    for train, name in [(exercise1_3.td3, "mine"), (td3_module.td3, "library")]:
        train("Pendulum-v1", **TINY, logger_kwargs={"output_dir": str(tmp_path / name)})
    assert calls  # by the student's loss
    assert td3_module.compute_loss_pi is own  # which is gone again
    pd.testing.assert_frame_equal(table(tmp_path / "mine"), table(tmp_path / "library"))


def test_flags_of_1_3_are_the_originals(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    seen = []
    monkeypatch.setattr(
        td3_module, "td3", lambda env, **kwargs: seen.append({"env": env, **kwargs})
    )
    words = ["--env", "Pendulum-v1", "--seed", "3", "--exp_name", "mine", "--use_soln"]
    assert run_file(exercise1_3, monkeypatch, *words) == 0
    assert run_file(exercise1_3, monkeypatch, "--use_soln", "-s", "4") == 0
    (first, second) = seen
    assert first["logger_kwargs"]["exp_name"] == "mine-pendulum-v1"
    assert Path(first["logger_kwargs"]["output_dir"]).name == "mine-pendulum-v1_s3"
    assert first["epochs"] == 10 and first["max_ep_len"] == 150
    assert first["ac_kwargs"] == {"hidden_sizes": [128, 128]}
    assert second["env"] == "Pendulum-v1" and second["seed"] == 4  # nothing needs MuJoCo
    assert second["logger_kwargs"]["exp_name"] == "ex13-td3-pendulum-v1"


# ------------------------------------------------------------------------------------------- 2.2


def networks_with_the_same_weights():
    box = gym.spaces.Box(-1, 1, (3,)), gym.spaces.Box(-2, 2, (2,))
    fine, bugged = MLPActorCritic(*box, (8,)), exercise2_2.BuggedMLPActorCritic(*box, (8,))
    with torch.no_grad():
        for p, q in zip(fine.parameters(), bugged.parameters(), strict=True):
            q.copy_(p)
    return fine, bugged


def some_batch(rows=16):
    shapes = {"obs": (rows, 3), "act": (rows, 2), "rew": (rows,), "obs2": (rows, 3)}
    return {**{k: torch.randn(s) for k, s in shapes.items()}, "done": torch.zeros(rows)}


@pytest.mark.filterwarnings("ignore:actor_critic returned a column")
def test_the_bug_of_2_2_shows_in_the_exercise_and_not_in_the_library():
    torch.manual_seed(0)
    (fine, bugged), batch = networks_with_the_same_weights(), some_batch()
    right, wrong = (
        exercise2_2.compute_loss_q(ac, ac, batch, 0.9)[0].item() for ac in (fine, bugged)
    )
    assert abs(wrong - right) > 0.01
    for ac in (fine, bugged):
        assert ddpg_module.compute_loss_q(ac, ac, batch, 0.9)[0].item() == pytest.approx(right)


def test_2_2_runs_its_grid_under_the_originals_names(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exercise2_2.main(["--h", "8", "--l", "1", "-n", "1", "-s", "600", "-t", "1200"])
    folders = {p.name.partition("_")[2] for p in (tmp_path / "data").iterdir()}
    assert {"ex2-2_ddpg_pendulum-v1", "ex2-2_ddpg_pendulum-v1_bug"} <= folders
    fine, bugged = sorted((tmp_path / "data").glob("*pendulum*/*_s0/progress.txt"), key=str)
    losses = [pd.read_table(path)["LossQ"].to_numpy()[-1] for path in (fine, bugged)]
    assert np.isfinite(losses).all() and losses[0] != losses[1]
    assert "broadcast" not in capsys.readouterr().out  # it would give the answer away


# -------------------------------------------------------------- a column in a user's own network


def train_ddpg(tmp_path, name, **changes):
    folder = {"output_dir": str(tmp_path / name), "quiet": True}
    ddpg_module.ddpg("Pendulum-v1", **{**TINY, **changes}, logger_kwargs=folder)


def test_a_flattened_column_is_mentioned_once_per_run(tmp_path):
    bugged = {"actor_critic": exercise2_2.BuggedMLPActorCritic}
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")  # as outside of tests: the same text is shown only once
        for name, changes in [("first", bugged), ("second", bugged), ("ours", {})]:
            train_ddpg(tmp_path, name, **changes)
            told = [str(w.message) for w in found if "returned a column" in str(w.message)]
            assert len(told) == len(changes)
            assert all("of shape (8, 1)" in text for text in told)
            found.clear()


# --------------------------------------------------------------------------- students' own files


def run_program(path, tmp_path, root, *words):
    folder = tmp_path / "temporary"
    folder.mkdir(exist_ok=True)
    start = [path] if isinstance(path, Path) else ["-m", path]
    paths = {"PYTHONPATH": str(root), "TMPDIR": str(folder)}
    return run_python(*start, *words, expect=None, cwd=folder, **paths)


def test_completed_files_run_from_their_own_folder(tmp_path, repo_root):
    shutil.copytree(HERE / "completed", tmp_path / "homework")
    done = run_program(tmp_path / "homework/exercise1_2.py", tmp_path, repo_root)
    assert done.returncode == 0, done.stderr
    assert CONGRATULATIONS in done.stdout and "own 1.1: True" in done.stdout


def test_a_completed_file_runs_without_the_exercise_before_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    runpy.run_path(str(HERE / "completed/exercise1_2.py"), run_name="__main__")
    said = capsys.readouterr().out
    assert CONGRATULATIONS in said and "exercise 1.1 is still to be written" in said


def test_completed_files_run_laid_over_ours(tmp_path, repo_root):
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(repo_root / "spinup", tmp_path / "copy/spinup", ignore=ignore)
    target = tmp_path / "copy/spinup/exercises/pytorch/problem_set_1"
    for path in (HERE / "completed").glob("*.py"):
        shutil.copy(path, target)
    name = "spinup.exercises.pytorch.problem_set_1.exercise1_2"
    done = run_program(name, tmp_path, tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    assert CONGRATULATIONS in done.stdout and "own 1.1: True" in done.stdout


WITHOUT_THE_LAB = """
import sys

class Hide:
    def find_spec(self, name, path=None, target=None):
        if name == "spinup_lab":
            raise ModuleNotFoundError("No module named 'spinup_lab'", name=name)

sys.meta_path.insert(0, Hide())
"""


def test_without_the_lab_a_problem_set_says_what_is_missing(tmp_path, repo_root):
    (tmp_path / "sitecustomize.py").write_text(WITHOUT_THE_LAB)
    path = f"{tmp_path}{os.pathsep}{repo_root}"
    for name in ("exercise1_1", "exercise1_2", "exercise1_3"):
        done = run_program(f"spinup.exercises.pytorch.problem_set_1.{name}", tmp_path, path)
        assert done.returncode == 2 and done.stderr.count("\n") == 1, done.stderr
        assert done.stderr.startswith("spinup: ") and "spinup_lab" in done.stderr


def test_files_of_earlier_versions_find_the_judge():
    from spinup.exercises.common import judge

    assert judge is judges_common.judge
