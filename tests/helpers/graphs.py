"""Small TensorFlow graphs: saved, changed behind the hashes of their files, and restored."""

import json

import numpy as np

from spinup.policies.tf_loader import restore_tf_graph
from spinup.utils.tf import tf

OBS = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)


def small_graph(change=lambda pi, x: pi, use_resource=True):
    """A session with a policy of 3 inputs and 4 actions; `change` may alter its output."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, (None, 3), name="x")
        w = tf.get_variable("w", (3, 4), use_resource=use_resource)
        b = tf.get_variable("b", (4,), use_resource=use_resource)
        mu = tf.nn.bias_add(tf.matmul(x, w), b)
        pi = change(tf.squeeze(tf.random.categorical(mu, 1, seed=1), 1), x)
        sess = tf.Session(graph=graph)
        sess.run(tf.global_variables_initializer())
    return sess, {"x": x}, {"pi": pi, "mu": mu}


def restored(folder, **options):
    sess = tf.Session(graph=tf.Graph())
    return sess, restore_tf_graph(sess, folder, **options)


def outputs(sess, tensors, key="mu"):
    return sess.run(tensors[key], {tensors["x"]: OBS})


def edited(folder, change):
    """Change the SavedModel, without a trace in the hashes."""
    from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

    model = SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    change(model.meta_graphs[0])
    (folder / "saved_model.pb").write_bytes(model.SerializeToString())
    forget_hashes(folder)


def forget_hashes(folder):
    path = folder / "model_info.json"
    if path.exists():
        info = json.loads(path.read_text())
        path.write_text(json.dumps({k: v for k, v in info.items() if k not in ("files", "sha256")}))
