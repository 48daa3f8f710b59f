"""A user's graph function as networks, their targets, and Adam against torch's."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup.algos.tf1.common.gradients import Adam
from spinup.algos.tf1.common.graph import records
from spinup.algos.tf1.common.layers import placeholders
from spinup.algos.tf1.common.networks import Networks, polyak_update, target_copy
from spinup.algos.tf1.common.qnets import action_limits
from spinup.algos.tf1.ddpg import ddpg
from spinup.algos.tf1.sac import sac
from spinup.algos.tf1.td3 import td3
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def linear(x, a, scopes=("pi", "q"), get=tf.get_variable, action_space=None):
    """pi = k x and q = w a, both columns."""
    with tf.variable_scope(scopes[0]):
        pi = x * get("k", initializer=2.0)
    with tf.variable_scope(scopes[1]):
        w = get("w", initializer=3.0)
    return pi, w * a, w * pi


def networks(function=linear, **kwargs):
    obs, act = tf.placeholder(tf.float32, (None, 1)), tf.placeholder(tf.float32, (None, 1))
    return Networks(function, kwargs, "main", obs, act, ("pi", "q", "q_pi"))


def test_networks_are_built_again_at_other_inputs_with_the_same_variables(graph):
    ac = networks()
    x = tf.constant([[1.0], [2.0]])
    pi, q = ac.pi(x), ac.q(x, 10 * x)
    assert [v.name for v in ac.vars()] == ["main/pi/k:0", "main/q/w:0"]
    assert [v.name for v in ac.vars("q")] == ["main/q/w:0"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([pi, q])[0].tolist() == [[2], [4]]
        assert session.run(q).tolist() == [[30], [60]]


def test_a_scope_of_the_users_that_looks_like_ours_is_told_apart(graph):
    ac = networks(scopes=("pi/domain", "q/main"))
    ac_targ = target_copy(ac)
    assert [v.name for v in ac.vars()] == ["main/pi/domain/k:0", "main/q/main/w:0"]
    assert [v.name for v in ac_targ.vars()] == ["target/pi/domain/k:0", "target/q/main/w:0"]


def test_targets_start_equal_and_move_by_polyak(graph):
    ac = networks()
    ac_targ = target_copy(ac)
    step = polyak_update(ac, ac_targ, 0.75)
    k, w = ac_targ.vars()
    with tf.Session() as session:
        session.run([v.initializer for v in ac.vars()])
        session.run([v.assign(-1.0) for v in (k, w)])
        session.run(records(graph, "start"))
        assert session.run([k, w]) == [2, 3]
        session.run([v.assign(6.0) for v in (k, w)])
        session.run(step)
        assert session.run([k, w]) == [0.75 * 6 + 0.25 * 2, 0.75 * 6 + 0.25 * 3]
        assert session.run(ac.vars()) == [2, 3]


def test_a_graph_function_that_cannot_be_trained_is_one_sentence(graph):
    with pytest.raises(SpinupError, match=r"returned 2 tensors, but .* needs 3: pi, q, q_pi"):
        networks(lambda x, a: (x, a))
    with pytest.raises(SpinupError, match="no variables in the variable scope 'pi'"):
        networks(scopes=("policy", "q")).vars("pi")
    ac = networks(get=lambda name, initializer: tf.Variable(initializer))
    with pytest.raises(SpinupError, match=r"create them with tf\.get_variable"):
        ac.pi(ac.obs)


def test_adam_takes_the_steps_of_torch(graph):
    rng = np.random.default_rng(0)
    start = rng.normal(size=(40,)).astype(np.float32)
    # gradients of all sizes, down to where epsilon decides
    scales = (10.0 ** rng.uniform(-9, 2, 40)).astype(np.float32)
    optimizer = Adam(0.01, "x")
    initial = tf.constant_initializer(start)
    p = tf.get_variable("p", (40,), tf.float32, initial, use_resource=True)
    g = tf.placeholder(tf.float32, (40,))
    step = optimizer.minimize(tf.reduce_sum(p * g), [p])
    theirs = torch.nn.Parameter(torch.tensor(start))
    adam = torch.optim.Adam([theirs], lr=0.01)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for i in range(20):
            if i == 10:
                optimizer.set_lr(0.05)
                adam.param_groups[0]["lr"] = 0.05
            grad = (scales * rng.normal(size=40)).astype(np.float32)
            theirs.grad = torch.tensor(grad)
            adam.step()
            before = session.run(p)
            session.run(step, {g: grad})
            moved = session.run(p) - before
            assert np.abs(moved).max() > (0.004 if i < 10 else 0.02)
            np.testing.assert_allclose(session.run(p), theirs.detach(), rtol=0, atol=1e-6)


def test_an_unused_parameter_is_left_alone(graph):
    optimizer = Adam(0.1, "x")
    p, other = (tf.get_variable(n, initializer=1.0, use_resource=True) for n in "pq")
    step = optimizer.minimize(p**2, [p, other])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        assert session.run([p, other]) == pytest.approx([0.9, 1.0])


UNEVEN = spaces.Box(np.float32([-1, 0]), np.float32([3, 0.5]))
TWINS = {
    "ddpg": (ddpg, ("pi", "q", "q_pi"), ()),
    "td3": (td3, ("pi", "q1", "q2", "q1_pi"), (0.2, 0.5, action_limits(UNEVEN))),
    "sac": (sac, ("mu", "pi", "logp_pi", "q1", "q2"), (0.2,)),
}


@pytest.mark.parametrize("algo", list(TWINS))
def test_values_may_be_columns(graph, algo):
    module, names, more = TWINS[algo]

    def columns(*args, **kwargs):
        found = module.core.mlp_actor_critic(*args, **kwargs)
        return [x[:, None] if len(x.shape) == 1 else x for x in found]

    obs, act, rew, done = placeholders(3, 2, None, None)
    batch = {"obs": obs, "act": act, "rew": rew, "obs2": obs + 1, "done": done}
    kwargs, fetched = {"hidden_sizes": (4,), "action_space": UNEVEN}, []
    for function in (module.core.mlp_actor_critic, columns):  # with the same variables
        nets = [Networks(function, kwargs, s, obs, act, names) for s in ("main", "target")]
        loss_q, info = module.compute_loss_q(*nets, batch, 0.9, *more)
        loss_pi = module.compute_loss_pi(nets[0], batch, *more[: algo == "sac"])
        fetched.append([loss_q, loss_pi, *info.values()])
    rng = np.random.default_rng(0)
    feed = {x: rng.random((5, *x.shape[1:])) for x in (obs, act, rew, done)}
    drawn = rng.normal(size=(5, 2))
    normals = [op for op in graph.get_operations() if op.type == "RandomStandardNormal"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        one, other = session.run(fetched, {**feed, **{op.outputs[0]: drawn for op in normals}})
    for x, y in zip(tf.nest.flatten(one), tf.nest.flatten(other), strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(x, y, rtol=1e-6)
