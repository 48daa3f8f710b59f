"""Saved TensorFlow graphs: written as a whole or not at all, and restored as they were."""

import errno
import json
import os
import pickle
import resource
import shutil
import sys
import types

import numpy as np
import pytest

from spinup.algos.tf1.common.saver import GraphSaver
from spinup.policies import tf_loader
from spinup.policies.tf_loader import restore_tf_graph
from spinup.runs.hooks import after_row
from spinup.runs.logger import Logger
from spinup.runs.resuming import Scalar
from spinup.utils.errors import SpinupError
from spinup.utils.files import self_hash
from spinup.utils.tf import tf
from tests.helpers.graphs import OBS, edited, outputs, restored, small_graph


@pytest.fixture(scope="module")
def policy():
    return small_graph()


@pytest.fixture
def saved(policy, tmp_path):
    """A folder with a saved graph."""
    GraphSaver(*policy).save(str(tmp_path / "tf1_save"))
    return tmp_path / "tf1_save"


def contents(folder):
    return {str(p.relative_to(folder)): p.is_file() and p.read_bytes() for p in folder.rglob("*")}


# ---------------------------------------------------------------------------------------- saving


@pytest.mark.parametrize("itr, name", [(None, "tf1_save"), (7, "tf1_save7")])
def test_a_logger_saves_a_graph_that_can_be_restored(policy, tmp_path, itr, name, capfd):
    sess, inputs, outs = policy
    logger = Logger(tmp_path / "run", quiet=True)
    logger.setup_tf_saver(sess, inputs=inputs, outputs=outs)
    logger.save_state({}, itr)
    logger.close()
    assert capfd.readouterr() == ("", "")
    new_sess, tensors = restored(tmp_path / "run" / name)
    np.testing.assert_array_equal(
        outputs(new_sess, tensors), sess.run(outs["mu"], {inputs["x"]: OBS})
    )
    assert sorted(tensors) == ["mu", "pi", "x"]
    names = {"inputs": {"x": "x:0"}, "outputs": {"pi": "Squeeze:0", "mu": "BiasAdd:0"}}
    assert pickle.loads((tmp_path / "run" / name / "model_info.pkl").read_bytes()) == names
    info = json.loads((tmp_path / "run" / name / "model_info.json").read_text())
    assert {"inputs": info["inputs"], "outputs": info["outputs"]} == names


def test_tensorflows_own_loader_reads_it(policy, saved, capfd):
    with tf.Session(graph=tf.Graph()) as sess:
        tf.saved_model.loader.load(sess, ["serve"], str(saved))
        got = sess.run("BiasAdd:0", {"x:0": OBS})
    np.testing.assert_array_equal(got, policy[0].run(policy[2]["mu"], {policy[1]["x"]: OBS}))


def test_saving_again_neither_grows_the_graph_nor_changes_a_byte(policy, tmp_path):
    saver = GraphSaver(*policy)
    saver.save(str(tmp_path / "tf1_save"))
    first, size = contents(tmp_path), len(policy[0].graph.get_operations())
    saver.save(str(tmp_path / "tf1_save"))
    assert contents(tmp_path) == first
    assert len(policy[0].graph.get_operations()) == size


def test_new_values_and_new_variables_are_saved(tmp_path):
    sess, inputs, outs = small_graph()
    saver = GraphSaver(sess, inputs, outs)
    saver.save(str(tmp_path / "s"))
    with sess.graph.as_default():
        sess.run(tf.global_variables()[0].assign(np.ones((3, 4))))
        saver.outputs["v"] = tf.matmul(inputs["x"], tf.get_variable("late", (3, 1)))
        saver.names["outputs"]["v"] = saver.outputs["v"].name
        sess.run(tf.global_variables()[-1].initializer)
    saver.save(str(tmp_path / "s"))
    new_sess, tensors = restored(tmp_path / "s")
    for key, tensor in saver.outputs.items():
        if key != "pi":
            expected = sess.run(tensor, {inputs["x"]: OBS})
            np.testing.assert_array_equal(outputs(new_sess, tensors, key), expected)


def test_a_graph_without_variables_is_saved(tmp_path):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, (None, 3))
        saver = GraphSaver(tf.Session(graph=graph), {"x": x}, {"mu": x + 1})
    saver.save(str(tmp_path / "s"))
    np.testing.assert_array_equal(outputs(*restored(tmp_path / "s")), OBS + 1)


def test_the_description_of_a_known_network_is_saved_next_to_the_graph(policy, tmp_path):
    from spinup.policies.saved import load_policy

    arrays = {"w": np.ones((3, 4), np.float32), "b": np.zeros(4, np.float32)}
    description = {"kind": "categorical", "layers": [["w", "b", "identity"]]}
    saver = GraphSaver(*policy, {"algo": "ppo"}, lambda: (description, arrays))
    saver.save(str(tmp_path / "s"))
    meta, tensors = load_policy(tmp_path / "s")
    assert meta["actor"] == description and meta["algo"] == "ppo"
    np.testing.assert_array_equal(tensors["w"], arrays["w"])
    info = tf_loader.read_info(tmp_path / "s")
    assert info["policy"] == {"algo": "ppo"}
    assert (tmp_path / "s" / "policy.safetensors.new").exists() is False


def test_the_best_policy_of_a_tensorflow_run_is_kept(policy, tmp_path):
    sess, inputs, outs = small_graph()
    logger = Logger(tmp_path, quiet=True)
    logger.setup_tf_saver(sess, inputs, outs)
    run = types.SimpleNamespace(
        config={"save_best": True},
        tracked={"best": Scalar(-np.inf)},
        check_parameters=lambda: None,
        logger=logger,
        policy_meta=lambda: {"algo": "ppo"},
        epoch=4,
    )
    for ret in (1.0, 3.0, 2.0):
        with sess.graph.as_default():
            sess.run(tf.global_variables()[1].assign(np.full(4, ret)))
        after_row(run, {"AverageEpRet": ret})
    info = tf_loader.read_info(tmp_path / "best" / "tf1_save")
    assert info["policy"] == {"algo": "ppo", "epoch": 4, "return": 3.0}
    new_sess, tensors = restored(tmp_path / "best" / "tf1_save")
    zero = new_sess.run(tensors["mu"], {tensors["x"]: np.zeros((1, 3))})
    np.testing.assert_array_equal(zero, np.full((1, 4), 3.0))


def test_a_saved_graph_does_not_go_through_a_link(policy, tmp_path):
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "precious").write_text("precious")
    for name in ("tf1_save", "tf1_save.old"):
        (tmp_path / name).symlink_to(theirs)
        GraphSaver(*policy).save(str(tmp_path / "tf1_save"))
        assert (tmp_path / "tf1_save" / "saved_model.pb").is_file()
        assert not (tmp_path / "tf1_save").is_symlink()
        assert contents(theirs) == {"precious": b"precious"}
        assert sorted(p.name for p in tmp_path.iterdir()) == ["tf1_save", "theirs"]


# ---------------------------------------------------------------------------- crashes, full disks


def versioned(policy):
    """A saver, and a function that sets all weights to one number."""
    sess, _, _ = policy
    with sess.graph.as_default():
        number = tf.placeholder(tf.float32, ())
        fill = [v.assign(tf.fill(v.shape, number)) for v in tf.global_variables()]
    return GraphSaver(*policy), lambda value: sess.run(fill, {number: value})


class Killed(BaseException):
    """Stands for the end of the process."""


def test_a_crash_at_any_call_leaves_the_old_save_or_the_new_one(tmp_path, monkeypatch):
    policy = small_graph()
    saver, set_to = versioned(policy)
    set_to(0)
    saver.save(str(tmp_path / "first"))
    real = {name: getattr(os, name) for name in ("mkdir", "rename", "replace", "fsync", "unlink")}
    rmtree = shutil.rmtree
    seen, places, n = [], set(), 0
    while n == 0 or seen[-1] == "killed":
        n += 1
        folder = tmp_path / str(n)
        folder.mkdir()
        shutil.copytree(tmp_path / "first", folder / "tf1_save")
        calls = [0]

        def counted(name, calls=calls, n=n):
            def call(*args, **kwargs):
                calls[0] += 1
                if calls[0] >= n:  # nothing works from here on, cleaning up included
                    raise Killed
                return real[name](*args, **kwargs)

            return call

        set_to(1)
        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(os, name, counted(name))
            patch.setattr(shutil, "rmtree", lambda *a, **k: None)
            try:
                saver.save(str(folder / "tf1_save"))
                seen.append("done")
            except Killed:
                seen.append("killed")
        found = next(p for p in (folder / "tf1_save", folder / "tf1_save.old") if p.exists())
        places.add(found.name)
        value = outputs(*restored(folder / "tf1_save"))
        assert any(np.allclose(value, n * (OBS.sum(1)[:, None] + 1), atol=1e-5) for n in (0, 1))
        set_to(2)
        saver.save(str(folder / "tf1_save"))
        value = outputs(*restored(folder / "tf1_save"))
        np.testing.assert_allclose(value, np.tile(2 * OBS.sum(1)[:, None] + 2, 4), atol=1e-5)
        assert not (folder / "tf1_save.old").exists()
        rmtree(folder)
    assert n > 8 and places == {"tf1_save", "tf1_save.old"}


@pytest.mark.parametrize("bytes_allowed", [0, 100, 1000, 10000])
def test_a_full_disk_costs_nothing(policy, tmp_path, bytes_allowed):
    logger = Logger(tmp_path, quiet=True)
    logger.setup_tf_saver(*policy)
    logger.save_state({}, None)
    before = contents(tmp_path)
    # what TensorFlow writes is limited too
    with policy[0].graph.as_default():
        big = GraphSaver(*policy, {"text": "x" * 20000})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (bytes_allowed, limits[1]))
    try:
        with pytest.raises(OSError) as caught, logger.writing("tf1_save"):
            big.save(str(tmp_path / "tf1_save"))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.errno == errno.EFBIG
    assert isinstance(caught.value, SpinupError) and "free some space" in str(caught.value)
    assert contents(tmp_path) == before
    logger.close()


# ---------------------------------------------------------------------- saves of the original


@pytest.fixture
def original(tmp_path):
    """A folder as TensorFlow 1.x wrote it: ref variables, and a pickle with the names."""
    sess, inputs, outs = small_graph(use_resource=False)
    folder = tmp_path / "simple_save"
    with sess.graph.as_default():
        tf.saved_model.simple_save(sess, str(folder), inputs, outs)
    assert any(op.type == "VariableV2" for op in sess.graph.get_operations())
    names = {"inputs": {"x": "x:0"}, "outputs": {k: v.name for k, v in outs.items()}}
    (folder / "model_info.pkl").write_bytes(pickle.dumps(names))
    return folder, sess, inputs, outs


def test_a_save_of_the_original_loads_and_no_pickle_is_opened(original):
    folder, sess, inputs, outs = original
    (folder / "model_info.pkl").write_bytes(b"never opened")
    got = outputs(*restored(folder))
    np.testing.assert_array_equal(got, sess.run(outs["mu"], {inputs["x"]: OBS}))


def test_names_that_only_the_pickle_has_need_the_opt_in(original):
    folder, sess, inputs, outs = original
    edited(folder, lambda graph: graph.ClearField("signature_def"))
    with pytest.raises(SpinupError, match=r"model_info.pkl is a pickle.*trust_pickle=True"):
        restored(folder)
    got = outputs(*restored(folder, trust_pickle=True))
    np.testing.assert_array_equal(got, sess.run(outs["mu"], {inputs["x"]: OBS}))
    (folder / "model_info.pkl").write_bytes(b"not a pickle")
    with pytest.raises(SpinupError, match="cannot be opened"):
        restored(folder, trust_pickle=True)
    (folder / "model_info.pkl").unlink()
    with pytest.raises(SpinupError, match="does not name the inputs"):
        restored(folder, trust_pickle=True)


# ---------------------------------------------------------------------------- graphs and sessions


def test_hashes_follow_the_format_of_policies(saved):
    info = json.loads((saved / "model_info.json").read_text())
    assert info["sha256"] == self_hash(info)
    assert sorted(info["files"]) == [
        "saved_model.pb",
        "variables/variables.data-00000-of-00001",
        "variables/variables.index",
    ]


@pytest.mark.parametrize("use_resource", [True, False])
def test_two_graphs_of_the_same_names_in_one_session(tmp_path, use_resource):
    sess, expected, given = tf.Session(graph=tf.Graph()), [], []
    for i in range(2):
        graph = small_graph(use_resource=use_resource)
        GraphSaver(*graph).save(str(tmp_path / str(i)))
        expected.append(graph[0].run(graph[2]["mu"], {graph[1]["x"]: OBS}))
        given.append(restore_tf_graph(sess, tmp_path / str(i)))
    for tensors, values in zip(given, expected, strict=True):
        np.testing.assert_array_equal(outputs(sess, tensors), values)


def test_a_seed_makes_samples_repeatable(saved):
    def drawn(seed):
        sess = tf.Session(graph=tf.Graph())
        got = tf_loader.restore(sess, saved, seed=seed)
        x = {got.inputs["x"]: np.zeros((50, 3))}
        return np.stack([sess.run(got.outputs["pi"], x) for _ in range(2)]), got

    (a, got), (b, _), (c, _) = drawn(3), drawn(3), drawn(4)
    np.testing.assert_array_equal(a, b)
    assert (a != c).any() and (a[0] != a[1]).any()
    assert got.random("pi") and not got.random("mu")


def test_missing_tensorflow_is_a_clear_error(saved, monkeypatch):
    for name in ("tensorflow", "tensorflow.compat.v1"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "spinup.utils.tf")
    with pytest.raises(SpinupError, match=r"spinup\[tf\]"):
        restore_tf_graph(sess=None, fpath=saved)
