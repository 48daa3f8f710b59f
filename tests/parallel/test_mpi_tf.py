"""Flat vectors and the optimizer in one process, with numbers computed by hand.

tests/mpi/test_tf.py has the tests with several processes.
"""

import numpy as np
import pytest

from spinup.parallel import tf as mpi_tf
from spinup.parallel.tf import MpiAdamOptimizer, assign_params_from_flat, flat_concat
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def variables(use_resource=True):
    a = tf.get_variable("a", initializer=[[1.0, 2.0], [3.0, 4.0]], use_resource=use_resource)
    b = tf.get_variable("b", initializer=5.0, use_resource=use_resource)
    return a, b


def messages():
    """The loops in which messages are sent, and functions outside of a loop."""
    operations = tf.get_default_graph().get_operations()
    return [op.name for op in operations if op.type in ("PyFunc", "EagerPyFunc", "While")]


@pytest.mark.parametrize("use_resource", [True, False])
def test_assigning_from_flat_inverts_flat_concat(session, use_resource):
    params = variables(use_resource)
    flat = flat_concat([*params, tf.constant([[6.0], [7.0]])])
    assert flat.shape == (7,)
    session.run(tf.global_variables_initializer())
    assert session.run(flat).tolist() == [1, 2, 3, 4, 5, 6, 7]
    x = tf.placeholder(tf.float32, (5,))
    session.run(assign_params_from_flat(x, params), {x: [10, 20, 30, 40, 50]})
    a, b = session.run(params)
    assert a.tolist() == [[10, 20], [30, 40]] and b == 50
    session.run(assign_params_from_flat(-flat_concat(params), params))
    assert session.run(flat_concat(params)).tolist() == [-10, -20, -30, -40, -50]


def test_assigning_from_flat_takes_arrays_of_another_type_and_empty_lists(session):
    double = tf.get_variable("double", (3,), tf.float64, tf.zeros_initializer())
    params = [*variables(), double]
    session.run(tf.global_variables_initializer())
    session.run(assign_params_from_flat(np.arange(8.0), params))
    assert session.run(params[0]).tolist() == [[0, 1], [2, 3]]
    assert session.run(double).tolist() == [5, 6, 7]
    assert session.run(assign_params_from_flat(tf.zeros((0,)), [])) is None


def test_a_variable_of_unknown_shape_cannot_be_assigned_from_flat(session):
    loose = tf.get_variable("loose", initializer=tf.placeholder(tf.float32), validate_shape=False)
    with pytest.raises(SpinupError, match="shape of variable loose:0 is not known"):
        assign_params_from_flat(tf.zeros((3,)), [loose])


@pytest.mark.parametrize("use_resource", [True, False])
def test_a_step_of_adam_in_one_process(session, use_resource):
    a, b = variables(use_resource)
    c = tf.get_variable("c", initializer=1.0, use_resource=use_resource)
    optimizer = MpiAdamOptimizer(learning_rate=0.1)
    step = tf.train.get_or_create_global_step()
    pairs = optimizer.compute_gradients(2 * a[0, 0] - 3 * b * b, [a, b, c])
    assert [v for _, v in pairs] == [a, b, c] and pairs[2][0] is None
    train = optimizer.apply_gradients(pairs, global_step=step)
    session.run(tf.global_variables_initializer())
    grads = session.run([g for g, _ in pairs[:2]])
    assert grads[0].tolist() == [[2, 0], [0, 0]] and grads[1] == -30
    session.run(train)
    # the first step of Adam is the learning rate times the sign of the gradient
    after_a, after_b, after_c = session.run([a, b, c])
    np.testing.assert_allclose(after_a, [[0.9, 2], [3, 4]], rtol=1e-6)
    assert after_b == pytest.approx(5.1) and after_c == 1
    assert session.run(step) == 1


def test_minimizing_is_plain_adam_in_one_process(session):
    x = tf.placeholder(tf.float32, (None, 3))
    losses, trains = [], []
    for name, adam in ("ours", MpiAdamOptimizer), ("plain", tf.train.AdamOptimizer):
        with tf.variable_scope(name):
            w = tf.get_variable("w", initializer=[[0.5], [-1.0], [2.0]])
            losses.append(tf.reduce_mean(tf.square(x @ w)))
            trains.append(adam(1e-2).minimize(losses[-1], var_list=[w]))
    session.run(tf.global_variables_initializer())
    rng = np.random.default_rng(0)
    for _ in range(5):
        session.run(trains, {x: rng.normal(size=(4, 3))})
    ours, plain = session.run(tf.trainable_variables())
    assert ours.tobytes() == plain.tobytes() and ours[0, 0] != 0.5


def test_one_process_sends_nothing(session):
    a, b = variables()
    synced = mpi_tf.sync_params([a, b]), mpi_tf.sync_all_params(), mpi_tf.sync_params([])
    MpiAdamOptimizer().minimize(tf.reduce_sum(a) * b)
    assert messages() == []
    session.run(tf.global_variables_initializer())
    session.run(synced)
    assert session.run(b) == 5


def test_all_gradients_travel_in_one_message_and_shapes_stay_known(session, monkeypatch):
    monkeypatch.setattr(mpi_tf, "num_procs", lambda: 2)
    a, b = variables()
    c = tf.get_variable("c", initializer=1.0)
    optimizer = MpiAdamOptimizer()
    pairs = optimizer.compute_gradients(tf.reduce_sum(a) * b, [a, c, b])
    assert len(messages()) == 1
    assert [None if g is None else g.shape.as_list() for g, _ in pairs] == [[2, 2], None, []]
    optimizer.apply_gradients(pairs)
    assert len(messages()) == 2


def test_strings_cannot_be_sent(session, monkeypatch):
    monkeypatch.setattr(mpi_tf, "num_procs", lambda: 2)
    tf.get_variable("text", initializer="words")
    with pytest.raises(SpinupError, match="variable text:0 contains values of type string"):
        mpi_tf.sync_all_params()
