"""Run as `python program_tf.py N`: gradients and parameters of graphs in N processes.

Process 0 writes what each check found to `results.json`: '' or what was wrong. Then come the runs
of program_tf1.py: importing TensorFlow takes longer than all of them.
"""

import sys
import time

from spinup.parallel.mpi import mpi_fork

if __name__ == "__main__":
    mpi_fork(int(sys.argv[1]))

import numpy as np

from spinup.parallel import mpi as mpi_tools
from spinup.parallel.mpi import num_procs, proc_id
from spinup.parallel.tf import MpiAdamOptimizer, sync_all_params, sync_params
from spinup.utils.tf import tf
from tests.helpers.mpi_checks import run_checks
from tests.mpi import program_tf1


def data(rank, shape=(6, 4), tag=0):
    return np.random.default_rng([rank, tag]).normal(size=shape)


def joined(tag=0):
    return np.concatenate([data(rank, tag=tag) for rank in range(num_procs())])


def same_everywhere(arrays):
    """Whether all processes have the same bytes."""
    mine = np.frombuffer(b"".join(np.asarray(a).tobytes() for a in arrays), np.uint8)
    first = mine.copy()
    mpi_tools.broadcast(first)
    return not mpi_tools.any_process(mine.tobytes() != first.tobytes())


def net(x, name, use_resource=True):
    """A loss whose parameters have several types and shapes; some have no gradient."""
    with tf.variable_scope(name, use_resource=use_resource):
        draw = np.random.default_rng(7)
        w = tf.get_variable("w", initializer=draw.normal(size=(4, 8)).astype(np.float32))
        b = tf.get_variable("b", initializer=np.float32(0.3))
        unused = tf.get_variable("unused", initializer=np.ones(3, np.float32))
        out = tf.get_variable("out", initializer=draw.normal(size=8))  # float64
        table = tf.get_variable("table", initializer=draw.normal(size=(5, 8)).astype(np.float32))
    rows = tf.cast(tf.abs(x[:, 0]) * 2, tf.int32) % 5
    hidden = tf.tanh(tf.cast(x, tf.float32) @ w + b) + tf.gather(table, rows)
    loss = tf.reduce_mean(tf.square(tf.reduce_sum(tf.cast(hidden, tf.float64) * out, axis=1)))
    return loss, [w, b, unused, out, table]


def check_averaged_gradients_are_those_of_the_joined_batch():
    for use_resource in (True, False):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float64, (None, 4))
            loss, params = net(x, "net", use_resource)
            pairs = MpiAdamOptimizer().compute_gradients(loss, params)
            plain = tf.gradients(loss, params)
            assert [v.name for _, v in pairs] == [p.name for p in params]
            assert pairs[2][0] is None and plain[2] is None
            averaged = [g for g, _ in pairs if g is not None]
            whole = [tf.convert_to_tensor(g) for g in plain if g is not None]
            session.run(tf.global_variables_initializer())
            got = session.run(averaged, {x: data(proc_id())})
            want = session.run(whole, {x: joined()})
            alone = session.run(whole, {x: data(proc_id())})
            assert same_everywhere(got)
            for a, b, c, v in zip(got, want, alone, [params[i] for i in (0, 1, 3, 4)], strict=True):
                assert a.dtype == v.dtype.base_dtype.as_numpy_dtype and a.shape == v.shape
                np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-6)
                assert not np.allclose(a, c, rtol=1e-3), "nothing was averaged"


def check_training_is_that_of_one_process_on_the_joined_batch():
    with tf.Graph().as_default(), tf.Session() as session:
        x, everything = (tf.placeholder(tf.float64, (None, 4)) for _ in range(2))
        ours, params = net(x, "ours")
        plain, expected = net(everything, "plain")
        train = MpiAdamOptimizer(1e-2).minimize(ours, var_list=params)
        train_plain = tf.train.AdamOptimizer(1e-2).minimize(plain, var_list=expected)
        session.run(tf.global_variables_initializer())
        for tag in range(10):
            feed = {x: data(proc_id(), tag=tag), everything: joined(tag)}
            session.run([train, train_plain], feed)
            assert same_everywhere(session.run(params))
        for got, want in zip(*session.run([params, expected]), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)
        assert not np.allclose(session.run(params[0]), np.random.default_rng(7).normal(size=(4, 8)))


def check_sync_all_params():
    types = (tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int32, tf.int64, tf.uint8)
    for use_resource in (True, False):
        with tf.Graph().as_default(), tf.Session() as session:
            for kind in types:
                value = tf.cast(tf.constant([[1, 2, 3]]) + 10 * proc_id(), kind)
                tf.get_variable(kind.name, initializer=value, use_resource=use_resource)
            tf.get_variable("flag", initializer=proc_id() == 0, use_resource=use_resource)
            tf.get_variable("empty", (0, 2), use_resource=use_resource)
            tf.get_variable("big", initializer=tf.constant(2**60 + proc_id(), tf.int64))
            session.run(tf.global_variables_initializer())
            assert not same_everywhere(session.run(tf.global_variables()))
            session.run(sync_all_params())
            after = session.run(tf.global_variables())
            assert same_everywhere(after)
            assert all(np.asarray(a, np.float64).tolist() == [[1, 2, 3]] for a in after[:7])
            assert after[7] == np.True_ and after[9] == 2**60


def check_sync_params_changes_only_its_own():
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.get_variable("a", initializer=float(proc_id()))
        b = tf.get_variable("b", initializer=float(proc_id()))
        session.run(tf.global_variables_initializer())
        session.run(sync_params([a]))
        assert session.run([a, b]) == [0, proc_id()]


def check_a_step_mends_parameters_that_drifted_apart():
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable("w", initializer=[1.0, 2.0])
        train = MpiAdamOptimizer(0.1).minimize(tf.reduce_sum(w), var_list=[w])
        session.run(tf.global_variables_initializer())
        session.run(w.assign_add([float(proc_id()), 0.0]))
        session.run(train)
        assert same_everywhere([session.run(w)])
        np.testing.assert_allclose(session.run(w), [0.9, 1.9], rtol=1e-6)


def late(x, seconds, before):
    """`x`, but only so many seconds after `before`."""

    def wait(value):
        time.sleep(seconds)
        return value

    with tf.control_dependencies(before):
        y = tf.numpy_function(wait, [x], x.dtype)
    y.set_shape(x.shape)
    return x + tf.stop_gradient(y - x)


def check_several_optimizers_in_one_run():
    """Their messages are ready in another order on every process, on few or many threads."""
    for threads in (1, 2, 4):
        with tf.Graph().as_default():
            # of several sizes, so that a mixed-up message cannot go unnoticed
            sizes = (3, 50, 7)
            feeds = [tf.placeholder(tf.float32, (size,)) for size in sizes]
            params = [
                tf.get_variable(f"w{i}", initializer=np.ones(size, np.float32))
                for i, size in enumerate(sizes)
            ]
            targets, previous = {}, []
            for turn in range(3):
                i = (turn + proc_id()) % 3
                targets[i] = late(feeds[i], 0.01, previous)
                previous = [targets[i]]
            trains = [
                MpiAdamOptimizer(0.1).minimize(tf.nn.l2_loss(w - targets[i]), var_list=[w])
                for i, w in enumerate(params)
            ]
            options = {"inter_op_parallelism_threads": threads, "use_per_session_threads": True}
            with tf.Session(config=tf.ConfigProto(**options)) as session:
                session.run(tf.global_variables_initializer())
                feed = {x: np.full(x.shape, 2.0 + proc_id(), np.float32) for x in feeds}
                for _ in range(5):
                    session.run(trains, feed)
                values = session.run(params)
                assert same_everywhere(values)
                for value in values:
                    np.testing.assert_allclose(value, np.full(value.shape, 1.5), rtol=0.02)


def check_one_optimizer_runs_without_the_other():
    with tf.Graph().as_default(), tf.Session() as session:
        feeds = [tf.placeholder(tf.float32, (3,)) for _ in range(2)]
        params = [tf.get_variable(f"w{i}", initializer=np.ones(3, np.float32)) for i in range(2)]
        trains = [
            MpiAdamOptimizer(0.1).minimize(tf.nn.l2_loss(w - x), var_list=[w])
            for w, x in zip(params, feeds, strict=True)
        ]
        session.run(tf.global_variables_initializer())
        session.run(trains[1], {feeds[1]: np.full(3, 2.0)})
        np.testing.assert_allclose(session.run(params), [[1, 1, 1], [1.1, 1.1, 1.1]], rtol=1e-6)


if __name__ == "__main__":
    run_checks(globals())
    program_tf1.train_all()
