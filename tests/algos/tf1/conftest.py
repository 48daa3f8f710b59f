"""Fixtures for tests of the TensorFlow algorithms."""

import pytest

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
