"""What `core.py` of VPG, PPO and TRPO offers to user code, against numbers worked out by hand."""

import math

import numpy as np
import pytest
from gymnasium import spaces

from spinup.algos.tf1.ppo import core as ppo_core
from spinup.algos.tf1.ppo.ppo import PPOBuffer
from spinup.algos.tf1.trpo import core
from spinup.algos.tf1.trpo.trpo import GAEBuffer
from spinup.algos.tf1.vpg import core as vpg_core
from spinup.algos.tf1.vpg.vpg import VPGBuffer
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf

# ---- placeholders and variables --------------------------------------------------------------


def test_placeholders_take_batches_of_any_shape(session):
    shapes = [ph.shape.as_list() for ph in core.placeholders(None, 3, (2, 4))]
    assert shapes == [[None], [None, 3], [None, 2, 4]]
    box, discrete = spaces.Box(-1, 1, (2, 3), np.float32), spaces.Discrete(4, start=1)
    multi, binary = spaces.MultiDiscrete([2, 3]), spaces.MultiBinary((5, 2))
    found = core.placeholders_from_spaces(box, discrete, multi, binary)
    assert [ph.shape.as_list() for ph in found] == [[None, 2, 3], [None], [None, 2], [None, 5, 2]]
    assert [ph.dtype for ph in found] == [tf.float32, tf.int32, tf.int32, tf.int32]
    with pytest.raises(
        SpinupError, match=r"no placeholder for the space Text.*: use Box, Discrete"
    ):
        core.placeholder_from_space(spaces.Text(3))


def test_an_mlp_computes_its_layers_and_its_variables_are_found_by_scope(session):
    x = core.placeholder(2)
    with tf.variable_scope("one"):
        y = core.mlp(x, (3, 1), tf.tanh)
    with tf.variable_scope("two"):
        core.mlp(x, [4], output_activation=tf.nn.relu)
    session.run(tf.global_variables_initializer())
    assert core.count_vars("one") == 2 * 3 + 3 + 3 * 1 + 1 and core.count_vars("two") == 12
    assert core.count_vars() == 25 and core.count_vars("three") == 0
    assert [v.op.name for v in core.get_vars("two")] == ["two/dense/kernel", "two/dense/bias"]
    w1, b1, w2, b2 = session.run(core.get_vars("one"))
    obs = np.array([[0.5, -2.0], [1.0, 3.0]], np.float32)
    want = np.tanh(obs @ w1 + b1) @ w2 + b2  # no activation after the last layer
    np.testing.assert_allclose(session.run(y, {x: obs}), want, rtol=1e-5)


# ---- distributions ---------------------------------------------------------------------------


def test_the_likelihood_of_a_gaussian(session):
    # one standard deviation off in the first dimension, at the mean in the second
    x, mu, log_std = [[3.0, 1.0]], [[1.0, 1.0]], [math.log(2.0), math.log(0.5)]
    want = -0.5 - math.log(2.0) - math.log(0.5) - math.log(2 * math.pi)
    found = session.run(core.gaussian_likelihood(tf.constant(x), tf.constant(mu), log_std))
    assert found.shape == (1,) and found[0] == pytest.approx(want, rel=1e-6)


def test_the_divergence_of_gaussians_is_of_the_first_from_the_second(session):
    # KL(N(0,1) || N(1,2)) = log 2 + (1 + 1)/(2*4) - 1/2, and the other way round
    zeros, ones, log_2 = (np.full((3, 1), x, np.float32) for x in (0, 1, math.log(2)))
    there = core.diagonal_gaussian_kl(zeros, zeros, ones, log_2)
    back = core.diagonal_gaussian_kl(ones, log_2, zeros, zeros)
    found = session.run([there, back])
    assert found == pytest.approx([math.log(2) + 0.25 - 0.5, -math.log(2) + 2.5 - 0.5], rel=1e-6)
    twice = [np.tile(x, (1, 2)) for x in (zeros, zeros, ones, log_2)]
    two = core.diagonal_gaussian_kl(*(tf.constant(x) for x in twice))
    assert session.run(two) == pytest.approx(2 * found[0], rel=1e-6)  # summed over dimensions


def test_the_divergence_of_categoricals_is_of_the_first_from_the_second(session):
    p, q = np.float32([[0.5, 0.5], [0.9, 0.1]]), np.float32([[0.25, 0.75], [0.9, 0.1]])
    there = session.run(core.categorical_kl(tf.constant(np.log(p)), tf.constant(np.log(q))))
    back = session.run(core.categorical_kl(tf.constant(np.log(q)), tf.constant(np.log(p))))
    assert there == pytest.approx((0.5 * math.log(2) + 0.5 * math.log(2 / 3)) / 2, rel=1e-5)
    assert back == pytest.approx((0.25 * math.log(0.5) + 0.75 * math.log(1.5)) / 2, rel=1e-5)


def test_a_sampled_action_and_its_log_probability_belong_together(session):
    """Both actions of a policy: `logp` of what `pi` sampled is `logp_pi`."""
    x = core.placeholder(3)
    for space in (spaces.Discrete(5), spaces.Box(-1, 1, (2,), np.float32)):
        a = core.placeholder_from_space(space)
        with tf.variable_scope(type(space).__name__):
            pi, logp, logp_pi, v = vpg_core.mlp_actor_critic(x, a, (4,), action_space=space)
        session.run(tf.global_variables_initializer())
        obs = np.random.default_rng(0).standard_normal((20, 3))
        sampled, its_logp, values = session.run([pi, logp_pi, v], {x: obs})
        assert values.shape == its_logp.shape == (20,) and len(np.unique(sampled)) > 1
        again = session.run(logp, {x: obs, a: sampled})
        np.testing.assert_allclose(again, its_logp, rtol=1e-5, atol=1e-6)


# ---- flat vectors ----------------------------------------------------------------------------


@pytest.fixture
def cubic(session):
    """f(x, y) = x'Ax / 2 + sum(x^3) + 5 x0 y, whose Hessian is known; and a variable without it."""
    x = tf.get_variable("x", initializer=np.float32([1.0, 2.0]))
    y = tf.get_variable("y", initializer=np.float32([[3.0]]))
    unused = tf.get_variable("unused", initializer=np.float32([7.0]))
    a = np.float32([[2.0, 1.0], [1.0, 4.0]])
    f = 0.5 * tf.reduce_sum(x * tf.linalg.matvec(a, x)) + tf.reduce_sum(x**3) + 5 * x[0] * y[0, 0]
    session.run(tf.global_variables_initializer())
    return f, [x, y, unused]


def test_a_flat_gradient(session, cubic):
    # df/dx = Ax + 3x^2 + (5y, 0), df/dy = 5 x0
    want = [2 + 2 + 3 + 15, 1 + 8 + 12, 5, 0]
    assert session.run(core.flat_grad(*cubic)).tolist() == want


def test_products_with_the_hessian(session, cubic):
    hessian = np.float32([[2 + 6, 1, 5, 0], [1, 4 + 12, 0, 0], [5, 0, 0, 0], [0, 0, 0, 0]])
    v, product = core.hessian_vector_product(*cubic)
    assert v.shape.as_list() == [4]
    for row, unit in zip(hessian, np.eye(4), strict=True):
        assert session.run(product, {v: unit}).tolist() == row.tolist()
    assert session.run(product, {v: [1, -1, 2, 9]}).tolist() == (hessian @ [1, -1, 2, 9]).tolist()


def test_parameters_are_overwritten_from_a_flat_vector(session, cubic):
    params = cubic[1]
    assert session.run(core.flat_concat(params)).tolist() == [1, 2, 3, 7]
    new = core.placeholder()
    session.run(core.assign_params_from_flat(new, params), {new: [9, 8, 7, 6]})
    assert [p.tolist() for p in session.run(params)] == [[9, 8], [[7]], [6]]


def test_conjugate_gradients_solve_a_system():
    a, b = np.array([[4.0, 1.0], [1.0, 3.0]]), np.array([1.0, 2.0])
    found = core.conjugate_gradient(lambda v: a @ v, b, 10)
    np.testing.assert_allclose(found, [1 / 11, 7 / 11])
    assert core.conjugate_gradient(lambda v: a @ v, np.zeros(2), 10).tolist() == [0, 0]


def test_values_are_sorted_by_their_keys():
    found = {"mu": 1, "log_std": 2, "a": 3}
    assert core.keys_as_sorted_list(found) == ["a", "log_std", "mu"]
    assert core.values_as_sorted_list(found) == [3, 2, 1]


# ---- buffers ---------------------------------------------------------------------------------


@pytest.mark.parametrize("buffer_class", [PPOBuffer, VPGBuffer, GAEBuffer])
def test_a_buffer_returns_the_list_that_the_original_did(buffer_class):
    trpo = buffer_class is GAEBuffer
    shapes = [{"mu": [2], "log_std": [2]}] if trpo else []
    buffer = buffer_class(2, (), 3, *shapes, gamma=0.5, lam=0.5)
    for t, (r, v) in enumerate(((1.0, 2.0), (2.0, 4.0), (3.0, 6.0))):
        info = {"mu": [[t, 1]], "log_std": [-1, -t]}
        # as `sess.run` returned them: the list of the values sorted by their keys
        infos = [core.values_as_sorted_list(info) if t else info] if trpo else []
        buffer.store(np.array([t, -t]), 1, r, np.array([v]), np.array([-0.5 * t]), *infos)
    buffer.finish_path(np.array([8.0]))
    obs, act, adv, ret, logp, *infos = buffer.get()
    assert obs.tolist() == [[0, 0], [1, -1], [2, -2]] and act.tolist() == [1, 1, 1]
    # deltas 1, 1, 1 and the factor 1/4; returns 1 + (2 + (3 + 8/2)/2)/2
    raw = np.array([1.3125, 1.25, 1.0])
    np.testing.assert_allclose(adv, (raw - raw.mean()) / raw.std(), rtol=1e-4)
    assert ret.tolist() == [3.75, 5.5, 7.0] and logp.tolist() == [0, -0.5, -1]
    assert all(x.dtype == np.float32 for x in (obs, act, adv, ret, logp, *infos))
    if trpo:
        log_std, mu = infos
        assert log_std.tolist() == [[-1, 0], [-1, -1], [-1, -2]]
        assert mu.tolist() == [[0, 1], [1, 1], [2, 1]]


# ---- outside a graph -------------------------------------------------------------------------


def test_what_needs_a_graph_says_so_in_one_sentence():
    box = spaces.Box(-1, 1, (2,), np.float32)
    x = np.zeros((1, 2), np.float32)
    for call in (
        lambda: core.placeholder(3),
        lambda: core.placeholders(3, 4),
        lambda: core.placeholder_from_space(box),
        lambda: core.placeholders_from_spaces(box, box),
        lambda: core.mlp(x),
        lambda: core.mlp_actor_critic(x, x, action_space=box),
        lambda: ppo_core.mlp_actor_critic(x, x, action_space=box),
        lambda: ppo_core.mlp_gaussian_policy(x, x, (4,), tf.tanh, None, box),
        lambda: core.mlp_categorical_policy(x, x, (4,), tf.tanh, None, spaces.Discrete(2)),
        lambda: core.get_vars("pi"),
        lambda: core.count_vars("pi"),
        lambda: core.flat_grad(x, [x]),
        lambda: core.hessian_vector_product(x, [x]),
    ):
        with pytest.raises(SpinupError, match=r"with tf\.Graph") as error:
            call()
        assert "\n" not in str(error.value)
