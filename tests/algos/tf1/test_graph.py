"""Parts of a graph as functions, with random numbers that follow from a seed."""

import numpy as np
import pytest

from spinup.algos.tf1.common.graph import Function, records, use_seeds
from spinup.algos.tf1.common.layers import placeholder
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf

N = 4000


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def rng(seed):
    return np.random.default_rng(seed)


def softmax(logits):
    return np.exp(logits) / np.exp(logits).sum()


LOGITS = np.float32([0.0, 1.0, -1.0])
# What user code samples with -> its dtype, and a check of N numbers.
SAMPLERS = {
    "normal": (lambda: tf.random_normal((N,), 2.0, 0.5), "float32", (2.0, 0.5)),
    "random.normal": (lambda: tf.random.normal(tf.constant([N])), "float32", (0.0, 1.0)),
    "float64": (lambda: tf.random.normal((N,), dtype=tf.float64), "float64", (0.0, 1.0)),
    "uniform": (lambda: tf.random.uniform((N,), -1, 3), "float32", (1.0, 4 / 12**0.5)),
    "int32": (lambda: tf.random.uniform((N,), 0, 9, tf.int32), "int32", (4.0, (80 / 12) ** 0.5)),
    "int64": (lambda: tf.random.uniform((N,), 0, 9, tf.int64), "int64", (4.0, (80 / 12) ** 0.5)),
    "truncated": (lambda: tf.truncated_normal((N,)), "float32", (0.0, 0.8796)),
    "multinomial": (lambda: tf.multinomial(LOGITS[None], N)[0], "int64", "categorical"),
    "categorical": (
        lambda: tf.random.categorical(LOGITS[None], N, dtype=tf.int32)[0], "int32", "categorical"
    ),
    "dropout": (lambda: tf.nn.dropout(tf.ones(N), rate=0.25), "float32", (1.0, (1 / 3) ** 0.5)),
}  # fmt: skip


def test_every_kind_of_sampling_repeats_with_its_seed_and_keeps_its_distribution(graph):
    tensors = {name: make() for name, (make, _, _) in SAMPLERS.items()}
    twins = {name: make() for name, (make, _, _) in SAMPLERS.items()}
    assert use_seeds(graph) == []
    sample = Function({}, {**tensors, **{f"{name} 2": x for name, x in twins.items()}})
    with tf.Session():
        one, same, other = sample({}, rng(0)), sample({}, rng(0)), sample({}, rng(1))
        fixed = sample({}), sample({})
    for name, (_, dtype, moments) in SAMPLERS.items():
        x = one[name]
        assert x.dtype == dtype and x.shape == (N,)
        np.testing.assert_array_equal(x, same[name])
        np.testing.assert_array_equal(fixed[0][name], fixed[1][name])
        for different in (other[name], one[f"{name} 2"], fixed[0][name]):
            assert (x != different).mean() > 0.2, name
            assert abs(np.corrcoef(x, different)[0, 1]) < 0.07, name
        if moments == "categorical":
            counts = np.bincount(x, minlength=3) / N
            np.testing.assert_allclose(counts, softmax(LOGITS), atol=0.03)
        else:
            mean, std = moments
            assert x.mean() == pytest.approx(mean, abs=0.08 * std)
            assert x.std() == pytest.approx(std, rel=0.05)


def test_dynamic_shapes_control_inputs_and_initializers_are_kept(graph):
    count = tf.get_variable("count", (), tf.int32, tf.zeros_initializer(), use_resource=True)
    start = tf.random_uniform_initializer(-1, 1)
    weights = tf.get_variable("weights", (50,), tf.float32, start, use_resource=True)
    x = tf.placeholder(tf.float32, (None, 2))
    with tf.control_dependencies([count.assign_add(1)]):
        noise = tf.random.normal(tf.shape(x))
    use_seeds(graph)
    add = Function({"x": x}, x + noise)
    initialize = Function({}, [], [tf.global_variables_initializer()])
    found = []
    for seed in (1, 1, 2):
        with tf.Session() as session:
            initialize({}, rng(seed))
            found.append(session.run(weights))
            assert add({"x": np.zeros((3, 2), np.float32)}, rng(0)).shape == (3, 2)
            assert session.run(count) == 1
    np.testing.assert_array_equal(found[0], found[1])
    assert not np.array_equal(found[0], found[2]) and np.abs(found[0]).max() > 0.8


def test_a_random_tensor_may_be_an_output_itself(graph):
    noise = tf.random.normal((5,))
    both = Function({}, [noise, noise + 1])
    use_seeds(graph)
    with tf.Session():
        one, plus = both({}, rng(3))
        np.testing.assert_array_equal(one, both({}, rng(3))[0])
    np.testing.assert_allclose(plus, one + 1, rtol=1e-6)


@pytest.mark.parametrize("kind", ["cond", "while", "function", "gamma"])
def test_what_cannot_be_seeded_is_named(graph, kind):
    outside = tf.random.normal(())
    yes = tf.placeholder_with_default(True, ())
    make = {
        "cond": lambda: tf.cond(yes, lambda: tf.random.normal(()), lambda: 0.0),
        "while": lambda: tf.while_loop(lambda x: x < 1, lambda x: x + tf.random.normal(()), [0.0]),
        "function": lambda: tf.function(lambda: tf.random.normal(()))(),
        "gamma": lambda: tf.random.gamma((), 1.0),
    }
    total = outside + make[kind]()
    assert use_seeds(graph) == ["RandomGamma" if kind == "gamma" else "RandomStandardNormal"]
    with tf.Session():
        drawn = Function({}, [outside, total])
        one, other = drawn({}, rng(0)), drawn({}, rng(0))
    assert one[0] == other[0]  # the others are replaced all the same
    assert np.isfinite(one[1])


def test_a_function_feeds_what_its_outputs_need_in_any_session(graph):
    x, y = tf.placeholder(tf.float32, (None,)), tf.placeholder(tf.float32, ())
    total = tf.get_variable("total", (), tf.float32, tf.zeros_initializer(), use_resource=True)
    inputs = {"x": x, "y": y}
    single = Function(inputs, 2 * x)
    listed = Function(inputs, [x + y, y])
    named = Function(inputs, {"sum": tf.reduce_sum(x)}, [total.assign_add(tf.reduce_sum(x)).op])
    only = Function(inputs, [], [total.assign_add(1.0).op])
    noise = Function(inputs, tf.random.normal(()) + y)
    use_seeds(graph)
    batch = {"x": np.float32([1, 2]), "y": np.float32(3)}
    for _ in range(2):  # a session of its own each time
        with tf.Session() as session:
            session.run(total.initializer)
            np.testing.assert_array_equal(single({"x": batch["x"]}), [2, 4])  # y is not asked for
            one, other = listed(batch)
            np.testing.assert_array_equal(one, [4, 5])
            assert other == 3
            assert named(batch) == {"sum": 3} and only({}) == []
            assert session.run(total) == 4  # 0 + 3 + 1
            draws = np.random.default_rng(5)
            assert noise(batch, draws) != noise(batch, draws)
            before = draws.bit_generator.state
            single(batch, draws)
            assert draws.bit_generator.state == before  # nothing random, nothing drawn
    with pytest.raises(KeyError), tf.Session():
        listed({"x": batch["x"]})


def test_a_graph_has_one_seed(graph):
    for _ in range(3):
        tf.random.normal(())
    use_seeds(graph)
    assert len(records(graph, "seed")) == 1 and len(records(graph, "replaced")) == 3


def test_eager_code_is_told_what_to_do():
    with pytest.raises(SpinupError, match=r"call it inside `with tf.Graph\(\).as_default"):
        placeholder(3)
