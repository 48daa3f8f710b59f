"""TensorFlow is imported silently, and nothing global changes."""

from tests.helpers.processes import run_python

CODE = """
import os
from spinup.utils.tf import tf
with tf.Graph().as_default(), tf.Session() as session:
    print(session.run(tf.constant(1) + 2))
print(tf.executing_eagerly())
print("TF_CPP_MIN_LOG_LEVEL" in os.environ)  # a child process must silence itself as well
"""


def test_tensorflow_says_nothing_stays_eager_and_leaves_the_environment_alone(monkeypatch):
    monkeypatch.delenv("TF_CPP_MIN_LOG_LEVEL", raising=False)
    done = run_python("-c", CODE)
    assert (done.stdout, done.stderr) == ("3\nTrue\nFalse\n", "")
