"""The exercises in TensorFlow's graph mode, and the paths of version 0.1."""

import inspect
import runpy
import sys
from functools import partial
from importlib import import_module

import gymnasium as gym
import numpy as np
import pandas as pd
import pytest

from spinup.algos.tf1.common.networks import Networks
from spinup.algos.tf1.ddpg import ddpg as ddpg_module
from spinup.algos.tf1.ddpg.core import mlp_actor_critic
from spinup.algos.tf1.td3 import td3 as td3_module
from spinup.exercises.tf1.problem_set_1 import exercise1_1, exercise1_2, exercise1_3
from spinup.exercises.tf1.problem_set_1_solutions import exercise1_1_soln, exercise1_2_soln
from spinup.exercises.tf1.problem_set_2 import exercise2_2
from spinup.utils.tf import tf
from spinup_lab.exercises import judges_tf1 as judges
from spinup_lab.exercises.judges_common import Wrong

INCORRECT = "Your answer appears to be incorrect. Try again!"
OLD = {
    "problem_set_1.exercise1_1": ["gaussian_likelihood"],
    "problem_set_1.exercise1_2": ["mlp", "mlp_gaussian_policy", "EPS"],
    "problem_set_1.exercise1_3": ["td3", "ReplayBuffer"],
    "problem_set_1_solutions.exercise1_1_soln": ["gaussian_likelihood", "EPS"],
    "problem_set_1_solutions.exercise1_2_soln": [
        "mlp", "gaussian_likelihood", "mlp_gaussian_policy",
    ],
    "problem_set_2.exercise2_2": ["bugged_mlp_actor_critic"],
}  # fmt: skip


@pytest.fixture(autouse=True)
def _stub_stays(monkeypatch):
    """Exercise 1.2 may replace the stub of 1.1 by its answer."""
    monkeypatch.setattr(exercise1_1, "gaussian_likelihood", exercise1_1.gaussian_likelihood)


def run_file(path, monkeypatch, *words):
    monkeypatch.setattr(sys, "argv", [str(path), *words])
    with pytest.raises(SystemExit) as ended:
        runpy.run_path(str(path), run_name="__main__")
    return ended.value.code


@pytest.mark.parametrize("path", OLD)
def test_both_paths_have_the_originals_names(path):
    new, old = (
        import_module(f"spinup.exercises.tf1.{path}"),
        import_module(f"spinup.exercises.{path}"),
    )
    for name in OLD[path]:
        assert getattr(old, name) is getattr(new, name)


def test_signatures_are_the_originals():
    parameters = inspect.signature(exercise1_2.mlp).parameters
    assert list(parameters) == ["x", "hidden_sizes", "activation", "output_activation"]
    assert (
        parameters["hidden_sizes"].default == (32,) and parameters["activation"].default is tf.tanh
    )
    assert list(inspect.signature(exercise1_2.mlp_gaussian_policy).parameters) == [
        "x", "a", "hidden_sizes", "activation", "output_activation", "action_space",
    ]  # fmt: skip
    bugged = inspect.signature(exercise2_2.bugged_mlp_actor_critic).parameters
    assert bugged["hidden_sizes"].default == (400, 300) and bugged["action_space"].default is None
    assert inspect.signature(exercise1_3.td3) == inspect.signature(td3_module.td3)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("tf1/problem_set_1/exercise1_1", "shape"),
        ("tf1/problem_set_1/exercise1_2", "mlp is still to be written"),
        ("tf1/problem_set_1/exercise1_3", "compute_loss_q is still to be written"),
        ("problem_set_1/exercise1_2", "mlp is still to be written"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*found in sys.modules:RuntimeWarning")
def test_an_unfilled_exercise_is_incorrect_in_a_sentence(
    name, says, repo_root, monkeypatch, capsys
):
    assert run_file(repo_root / f"spinup/exercises/{name}.py", monkeypatch) == 1
    said = capsys.readouterr().out
    assert says in said and INCORRECT in said


# ------------------------------------------------------------------------------------------- 1.1


right = exercise1_1_soln.gaussian_likelihood


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda *xs: None, "returned None"),
        (lambda *xs: right(*xs)[:, None], "shape"),
        (lambda *xs: -right(*xs), "expected"),
        (lambda x, mu, s: right(x, mu, tf.log(tf.abs(s))), "expected"),
        (lambda x, mu, s: right(x, tf.stop_gradient(mu), s), "gradient .* respect to mu"),
        (lambda *xs: np.zeros(3), "not ndarray"),
    ],
)
def test_wrong_likelihoods_are_rejected(answer, says):
    with pytest.raises(Wrong, match=says):
        judges.check_gaussian_likelihood(answer)


def test_right_answers_pass(monkeypatch, capsys):
    judges.check_gaussian_likelihood(right)
    judges.check_mlp(network)
    judges.check_policy(policy)
    monkeypatch.setattr(sys, "argv", ["exercise1_2.py"])
    answers = exercise1_2_soln.mlp, exercise1_2_soln.mlp_gaussian_policy
    assert judges.exercise1_2(*answers) == 0
    assert "Congratulations" in capsys.readouterr().out
    judges.check_td3_loss_q(td3_module.compute_loss_q)
    judges.check_td3_loss_pi(td3_module.compute_loss_pi)


# ------------------------------------------------------------------------------------------- 1.2


def network(x, hidden_sizes=(32,), activation=tf.tanh, output_activation=None, every=False, b=True):
    for i, size in enumerate(hidden_sizes):
        with tf.variable_scope(None, default_name="mine"):
            x = x @ tf.get_variable("w", (x.shape[-1], size))
            bias = tf.get_variable("b", (size,), initializer=tf.zeros_initializer())
        x = x + bias if b else x
        act = activation if every or i < len(hidden_sizes) - 1 else output_activation
        x = x if act is None else act(x)
    return x


@pytest.mark.parametrize(
    ("mlp", "says"),
    [
        (partial(network, every=True), "the output of mlp"),
        (partial(network, b=False), "the output of mlp"),
        (
            lambda x, sizes, act, last: network(x, [*sizes, 1], act, last),
            "linear layers",
        ),
        (lambda x, sizes, act, last: network(x, sizes, act), "the output of mlp"),
        (lambda *given: None, "returned None"),
    ],
)
def test_wrong_networks_are_rejected(mlp, says):
    with pytest.raises(Wrong, match=says):
        judges.check_mlp(mlp)


def policy(x, a, sizes, act, last, space, start=-0.5, trainable=True, noise=None, likelihood=right):
    mu = network(x, [*sizes, 2], act, last)
    log_std = tf.get_variable(
        "log_std", (2,), initializer=tf.constant_initializer(start), trainable=trainable
    )
    pi = mu + tf.exp(log_std) * (tf.random_normal(tf.shape(mu)) if noise is None else noise(mu))
    return pi, likelihood(a, mu, log_std), likelihood(pi, mu, log_std)


def detached(x, mu, log_std):
    return right(x, mu, tf.stop_gradient(log_std))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"start": 0.5}, "values -0.5"),
        ({"trainable": False}, "trainable"),
        ({"noise": tf.zeros_like}, "standard deviation"),
        ({"noise": lambda mu: tf.random_normal((2,))}, "mean|standard deviation"),
        ({"noise": lambda mu: tf.random_normal((tf.shape(mu)[0], 1))}, "correlated"),
        ({"likelihood": lambda *xs: 2 * right(*xs)}, "mean|expected"),
        ({"likelihood": detached}, "log_std"),
    ],
)
def test_wrong_policies_are_rejected(changes, says):
    with pytest.raises(Wrong, match=says):
        judges.check_policy(partial(policy, **changes))


# ------------------------------------------------------------------------------------------- 1.3


def loss_q(ac, ac_targ, batch, gamma, std, clip, limits, least=tf.minimum, mask=1.0, bound=True,
           stop=tf.stop_gradient, rows=None):  # fmt: skip
    """The right loss, with places to go wrong."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    a2 = ac_targ.pi(o2)
    noise = std * tf.random_normal(tf.shape(a2) if rows is None else (tf.shape(a2)[0], 1))
    noise = tf.clip_by_value(noise, -clip, clip) if clip else noise
    a2 = tf.clip_by_value(a2 + noise, *limits) if bound else a2 + noise
    backup = stop(r + gamma * (1 - mask * d) * least(*ac_targ.twin_q(o2, a2)))
    q1, q2 = ac.twin_q(o, a)
    loss = tf.reduce_mean((q1 - backup) ** 2) + tf.reduce_mean((q2 - backup) ** 2)
    return loss, {"Q1Vals": q1, "Q2Vals": q2}


def without_clipping(ac, ac_targ, batch, gamma, std, clip, limits):
    return loss_q(ac, ac_targ, batch, gamma, std, None, limits)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (partial(loss_q, least=tf.maximum), "not terminal: expected"),
        (partial(loss_q, least=lambda q1, q2: q1), "not terminal: expected"),
        (partial(loss_q, least=lambda q1, q2: q2), "not terminal: expected"),
        (partial(loss_q, mask=0.0), "are terminal: expected"),
        (partial(loss_q, stop=tf.identity), "gradient"),
        (partial(loss_q, bound=False), "beyond 1"),
        (partial(loss_q, rows=1), "correlated"),
        (without_clipping, "should be clipped"),
        (lambda *given: None, "returned None"),
    ],
)
def test_wrong_critic_losses_are_rejected(answer, says):
    with pytest.raises(Wrong, match=says):
        judges.check_td3_loss_q(answer)


@pytest.mark.parametrize(
    "answer",
    [
        lambda ac, batch: -td3_module.compute_loss_pi(ac, batch),
        lambda ac, batch: -tf.reduce_mean(ac.twin_q(batch["obs"], ac.pi(batch["obs"]))[1]),
        lambda ac, batch: tf.stop_gradient(td3_module.compute_loss_pi(ac, batch)),
    ],
)
def test_wrong_policy_losses_are_rejected(answer):
    with pytest.raises(Wrong, match="loss_pi"):
        judges.check_td3_loss_pi(answer)


TINY = {
    "ac_kwargs": {"hidden_sizes": [8]},
    "steps_per_epoch": 60,
    "epochs": 1,
    "start_steps": 20,
    "update_after": 20,
    "update_every": 10,
    "batch_size": 8,
    "num_test_episodes": 1,
    "max_ep_len": 30,
}


def test_the_exercises_td3_trains_with_the_students_losses(tmp_path, monkeypatch):
    own, built = td3_module.compute_loss_pi, []
    monkeypatch.setattr(exercise1_3, "compute_loss_q", td3_module.compute_loss_q)
    monkeypatch.setattr(exercise1_3, "compute_loss_pi", lambda ac, b: built.append(1) or own(ac, b))
    folder = {"output_dir": str(tmp_path), "quiet": True}
    exercise1_3.td3("Pendulum-v1", **TINY, logger_kwargs=folder)
    assert built and td3_module.compute_loss_pi is own
    assert np.isfinite(pd.read_table(tmp_path / "progress.txt")["LossQ"]).all()


# ------------------------------------------------------------------------------------------- 2.2


def loss_of(actor_critic, compute_loss_q):
    """A loss for fixed weights and a fixed batch."""
    with tf.Graph().as_default(), tf.Session() as session:
        batch = {name: tf.placeholder(tf.float32, (None,)) for name in ("rew", "done")}
        batch |= {k: tf.placeholder(tf.float32, (None, 3)) for k in ("obs", "obs2")}
        batch["act"] = tf.placeholder(tf.float32, (None, 2))
        kwargs = {"hidden_sizes": (8,), "action_space": gym.spaces.Box(-2, 2, (2,))}
        ac = Networks(actor_critic, kwargs, "main", batch["obs"], batch["act"], ("pi", "q", "q_pi"))
        loss, _ = compute_loss_q(ac, ac, batch, 0.9)
        for i, v in enumerate(ac.vars()):
            values = np.random.default_rng(i).normal(size=v.shape.as_list())
            session.run(v.assign(values.astype(np.float32)))
        rng = np.random.default_rng(9)
        rows = {k: rng.normal(size=(16, *p.shape.as_list()[1:])) for k, p in batch.items()}
        return session.run(loss, {batch[k]: v for k, v in rows.items()})


@pytest.mark.filterwarnings("ignore:actor_critic returned a column")
def test_the_bug_of_2_2_shows_in_the_exercise_and_not_in_the_library():
    bugged = exercise2_2.bugged_mlp_actor_critic
    fine, wrong = (loss_of(f, exercise2_2.compute_loss_q) for f in (mlp_actor_critic, bugged))
    assert abs(wrong - fine) > 0.01
    for function in (mlp_actor_critic, bugged):
        assert loss_of(function, ddpg_module.compute_loss_q) == pytest.approx(fine, rel=1e-5)


def test_the_bugged_run_trains_and_a_flattened_column_is_mentioned_once(tmp_path, recwarn):
    for train, times in [(exercise2_2.ddpg, 0), (ddpg_module.ddpg, 1)]:
        folder = {"output_dir": str(tmp_path / str(times)), "quiet": True}
        train(
            "Pendulum-v1",
            actor_critic=exercise2_2.bugged_mlp_actor_critic,
            **TINY,
            logger_kwargs=folder,
        )
        told = [w for w in recwarn if "returned a column, of shape (batch, 1)" in str(w.message)]
        assert len(told) == times
        recwarn.clear()
