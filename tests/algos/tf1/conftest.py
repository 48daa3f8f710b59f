"""Fixtures for tests of the TensorFlow algorithms."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from spinup.algos.tf1.common.run import Variables
from spinup.runs.storage.checkpoints import load_checkpoint
from spinup.utils.tf import tf


@pytest.fixture
def session():
    """A session with a graph of its own, both of them the default ones."""
    with tf.Graph().as_default(), tf.Session().as_default() as session:
        yield session


@pytest.fixture(autouse=True)
def nothing_stays_entered():
    """Whatever a test does, TensorFlow is as eager afterwards as before."""
    yield
    assert tf.executing_eagerly() and tf.get_default_session() is None
    assert tf.get_default_graph().get_operations() == []


def variable_name(name):
    """The variable that holds a torch parameter: `pi.mu_net.2.weight` is `pi/dense_1/kernel`."""
    *path, kind = name.split(".")
    if kind == "log_std":
        return "pi/log_std"
    if path[-1].endswith("_filter"):  # both networks have the same one
        return f"{path[-1]}/{kind}"
    number = int(path[-1]) // 2  # every other module is an activation
    layer = f"dense_{number}" if number else "dense"
    return f"{path[0]}/{layer}/{'kernel' if kind == 'weight' else kind}"


def as_variables(tensors):
    """Torch parameters (or gradients) by name -> arrays as the graph's variables have them."""
    arrays = {variable_name(name): x.detach().numpy().copy() for name, x in tensors.items()}
    return {name: x.T if name.endswith("kernel") else x for name, x in arrays.items()}


def distance(one, other):
    """The largest difference of two dicts of arrays, relative to the largest number of each."""
    assert set(one) == set(other)
    return max(
        float(np.max(np.abs(one[k] - other[k]))) / max(float(np.max(np.abs(other[k]))), 1e-12)
        for k in one
    )


def set_variables(tensors):
    """Initialize the graph's variables, then set those that torch has, too; returns them."""
    variables = Variables(tf.global_variables())
    tf.get_default_session().run(tf.global_variables_initializer())
    variables.set(as_variables(tensors))
    return variables


@pytest.fixture
def twin():
    """The tools above, as attributes."""
    return SimpleNamespace(
        as_variables=as_variables, distance=distance, set_variables=set_variables
    )


def final_variables(folder):
    """All variables of a run, from its newest checkpoint."""
    return load_checkpoint(Path(folder) / "checkpoints")[0]["tracked"]["variables"]
