"""TensorFlow graphs of a stranger: what does more than compute, or is damaged, is refused."""

import json
import os
import shutil

import numpy as np
import pytest

from spinup.algos.tf1.common.saver import GraphSaver
from spinup.policies import tf_loader
from spinup.policies.tf_index import read_index
from spinup.policies.tf_loader import restore_tf_graph
from spinup.utils.errors import SpinupError
from spinup.utils.tf import tf
from tests.helpers.graphs import edited, forget_hashes, outputs, restored, small_graph


@pytest.fixture(scope="module")
def policy():
    return small_graph()


@pytest.fixture
def saved(policy, tmp_path):
    """A folder with a saved graph."""
    GraphSaver(*policy).save(str(tmp_path / "tf1_save"))
    return tmp_path / "tf1_save"


def after(op, pi):
    with tf.control_dependencies([op]):
        return tf.identity(pi)


def in_function(make):
    @tf.function(autograph=False)
    def call(pi):
        return after(make(), pi)

    return call


HOSTILE = {
    "WriteFile": lambda path: tf.raw_ops.WriteFile(filename=path, contents="x"),
    "ReadFile": lambda path: tf.raw_ops.ReadFile(filename=path),
    "MatchingFiles": lambda path: tf.raw_ops.MatchingFiles(pattern="*"),
    "PrintV2": lambda path: tf.raw_ops.PrintV2(input="x", output_stream=f"file://{path}"),
    "SaveV2": lambda path: tf.raw_ops.SaveV2(
        prefix=path, tensor_names=["a"], shape_and_slices=[""], tensors=[tf.constant(1.0)]
    ),
    "RestoreV2": lambda path: tf.raw_ops.RestoreV2(
        prefix=path, tensor_names=["a"], shape_and_slices=[""], dtypes=[tf.float32]
    )[0],
    "MergeV2Checkpoints": lambda path: tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=[path], destination_prefix=path
    ),
    "PyFunc": lambda path: tf.raw_ops.PyFunc(input=[], token="pyfunc_0", Tout=[tf.float32])[0],
    "EagerPyFunc": lambda path: tf.raw_ops.EagerPyFunc(
        input=[], token="pyfunc_0", Tout=[tf.float32], is_async=False
    )[0],
    "FIFOQueueV2": lambda path: tf.raw_ops.FIFOQueueV2(component_types=[tf.float32]),
    "TextLineDataset": lambda path: tf.raw_ops.TextLineDataset(
        filenames=[path], compression_type="", buffer_size=10
    ),
    "AssignVariableOp": lambda path: tf.raw_ops.AssignVariableOp(
        resource=tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[]), value=1.0
    ),
}


@pytest.mark.parametrize("place", ["input", "control", "function", "branch"])
@pytest.mark.parametrize("name", HOSTILE)
def test_a_graph_that_does_more_than_compute_is_refused(tmp_path, name, place):
    trace = tmp_path / "trace"

    def make():
        return HOSTILE[name](str(trace))

    def change(pi, x):
        if place == "control":
            return after(make(), pi)
        if place == "function":
            return in_function(make)(pi)
        if place == "branch":
            return tf.cond(tf.reduce_sum(x) > 0, lambda: in_function(make)(pi), lambda: pi)
        made = make()  # the output itself
        return made if isinstance(made, tf.Tensor) else after(made, pi)

    saver = GraphSaver(*small_graph(change))
    saver.save(str(tmp_path / "s"))
    with pytest.raises(SpinupError, match=f"'{name}'.*not among those that only compute"):
        restored(tmp_path / "s")
    assert not trace.exists()
    del saver.outputs["pi"], saver.names["outputs"]["pi"]  # nothing needs it any more
    saver._graph_version = -1
    saver.save(str(tmp_path / "s"))
    assert outputs(*restored(tmp_path / "s")).shape == (5, 4)
    assert not trace.exists()


def test_a_function_does_not_hide_behind_the_name_of_an_operation(tmp_path):
    trace = tmp_path / "trace"
    hidden = in_function(lambda: HOSTILE["WriteFile"](str(trace)))
    GraphSaver(*small_graph(lambda pi, x: hidden(pi))).save(str(tmp_path / "s"))

    def rename(graph):
        function = graph.graph_def.library.function[0]
        function.signature.name = "Abs"
        for node in graph.graph_def.node:
            if node.op in ("PartitionedCall", "StatefulPartitionedCall"):
                node.op = "Abs"
                for key in list(node.attr):
                    del node.attr[key]

    edited(tmp_path / "s", rename)
    with pytest.raises(SpinupError, match="'WriteFile'"):
        restored(tmp_path / "s")
    assert not trace.exists()


def calling(name, times, function):
    """Let the function's body call `name` several times, one after the other."""
    call = function.node_def[0]
    kind = call.attr["T"].type
    for i in range(times):
        node = function.node_def.add(name=f"call{i}", op="PartitionedCall")
        node.input.append(function.node_def[-2].name + ":output:0" if i else "pi")
        node.attr["Tin"].list.type.append(kind)
        node.attr["Tout"].list.type.append(kind)
        node.attr["f"].func.name = name
    function.ret[function.signature.output_arg[0].name] = f"call{times - 1}:output:0"


@pytest.mark.parametrize("kind", ["itself", "each other", "bomb", "chain"])
def test_functions_that_call_without_end_are_refused(tmp_path, kind):
    @tf.function(autograph=False)
    def call(pi):
        return tf.identity(pi)

    GraphSaver(*small_graph(lambda pi, x: call(pi))).save(str(tmp_path / "s"))

    def change(graph):
        library = graph.graph_def.library.function
        first = library[0].signature.name
        length = {"itself": 1, "each other": 2, "bomb": 30, "chain": 5000}[kind]
        for i in range(1, length):
            library.add().CopyFrom(library[0])
            library[i].signature.name = f"f{i}"
        for i, function in enumerate(library):
            last = i == length - 1
            if not (last and kind in ("bomb", "chain")):
                following = first if last else f"f{i + 1}"
                calling(following, 2 if kind == "bomb" else 1, function)

    edited(tmp_path / "s", change)
    with pytest.raises(SpinupError, match="calls functions too deeply or too often"):
        restored(tmp_path / "s")


def test_a_file_does_not_configure_the_runtime(tmp_path):
    @tf.function(autograph=False)
    def call(pi):
        return tf.identity(pi)

    GraphSaver(*small_graph(lambda pi, x: call(pi))).save(str(tmp_path / "s"))

    def change(graph):
        (node,) = (n for n in graph.graph_def.node if n.op == "PartitionedCall")
        node.attr["config_proto"].s = node.attr["executor_type"].s = b"theirs"

    edited(tmp_path / "s", change)
    sess, tensors = restored(tmp_path / "s")
    (op,) = (op for op in sess.graph.get_operations() if op.type == "PartitionedCall")
    assert {op.get_attr("config_proto"), op.get_attr("executor_type")} == {b""}
    assert outputs(sess, tensors, "pi").shape == (5,)


def node_named(graph, name):
    return next(node for node in graph.graph_def.node if node.name == name)


def huge_constant(graph):
    node = next(n for n in graph.graph_def.node if n.name.endswith("num_samples"))
    node.attr["value"].tensor.tensor_shape.dim.add(size=1 << 40)


def negative_constant(graph):
    node = next(n for n in graph.graph_def.node if n.name.endswith("num_samples"))
    node.attr["value"].tensor.tensor_shape.dim.add(size=-5)


def resource_constant(graph):
    node = next(n for n in graph.graph_def.node if n.name.endswith("num_samples"))
    node.attr["value"].tensor.dtype = 20


def unknown_constant(graph):
    node = next(n for n in graph.graph_def.node if n.name.endswith("num_samples"))
    node.attr["value"].tensor.dtype = 999


def flat_constant(graph):
    node = next(n for n in graph.graph_def.node if n.name.endswith("num_samples"))
    for _ in range(100_000):  # their product takes minutes to compute
        node.attr["value"].tensor.tensor_shape.dim.add(size=1 << 62)


def missing_function(graph):
    node_named(graph, "BiasAdd").attr["f"].func.name = "WriteFile"


EDITS = {
    "huge constants": huge_constant,
    "unusual constant": resource_constant,
    "an unusual constant": unknown_constant,
    "contains an unusual constant": negative_constant,
    "graph in .* contains an unusual constant": flat_constant,
    "no node 'nowhere'": lambda g: node_named(g, "BiasAdd").input.append("nowhere:7"),
    "no node 'gone'": lambda g: node_named(g, "BiasAdd").input.append("^gone"),
    "no graph for serving": lambda g: g.meta_info_def.ClearField("tags"),
    "cannot be imported": lambda g: node_named(g, "BiasAdd").input.pop(),
    "imported": lambda g: setattr(node_named(g, "BiasAdd").attr["T"], "type", 3),
    "'Elephant'": lambda g: setattr(node_named(g, "BiasAdd"), "op", "Elephant"),
    "calls the function 'WriteFile'": missing_function,
}


@pytest.mark.parametrize("mentions", EDITS)
def test_a_forged_graph_is_one_sentence(saved, mentions):
    edited(saved, EDITS[mentions])
    with pytest.raises(SpinupError, match=mentions) as caught:
        restored(saved)
    assert "\n" not in str(caught.value)


def test_devices_and_hints_of_the_file_are_dropped(saved):
    def change(graph):
        node = node_named(graph, "BiasAdd")
        node.device = "/job:worker/task:3/device:GPU:7"
        node.attr["_class"].list.s.append(b"loc:@nowhere")
        node.attr["_kernel"].s = b"label"

    edited(saved, change)
    assert outputs(*restored(saved)).shape == (5, 4)


@pytest.mark.parametrize("file", ["saved_model.pb", "variables/variables.index"])
@pytest.mark.parametrize("damage", ["truncated", "empty", "missing", "pipe", "flipped"])
@pytest.mark.parametrize("hashed", [True, False])
def test_a_damaged_file_is_one_sentence(saved, file, damage, hashed):
    path = saved / file
    data = path.read_bytes()
    path.unlink()
    if damage == "pipe":
        os.mkfifo(path)
    elif damage != "missing":
        flipped = bytes([*data[:40], data[40] ^ 255, *data[41:]])
        path.write_bytes({"truncated": data[:-9], "empty": b"", "flipped": flipped}[damage])
    if not hashed:
        forget_hashes(saved)
    with pytest.raises(SpinupError) as caught:
        restored(saved)
    assert "\n" not in str(caught.value)
    assert ("hash" in str(caught.value)) == hashed


def checksum(data):
    """CRC-32C, masked as in TensorFlow's tables."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    crc ^= 0xFFFFFFFF
    return ((((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")


SHAPE = bytes([0x12, 2, 8, 3, 0x12, 2, 8, 4])  # of w in the index: 3, 4
FORGED_SHAPES = {
    "same": SHAPE,
    "unreadable": b"\xff" * 8,
    "unknown rank": bytes([0x18, 1] * 4),
    "huge": bytes([0x12, 6, 8, 255, 255, 255, 255, 127]),
    "negative": bytes([0x12, 6, 8, 255, 255, 255, 255, 255]),
    "unknown field": bytes([0x7A, 6, 0, 0, 0, 0, 0, 0]),
}


@pytest.mark.parametrize("kind", FORGED_SHAPES)
def test_an_index_with_the_right_checksum_is_still_checked(saved, kind):
    path = saved / "variables" / "variables.index"
    before = path.read_bytes()
    assert before.count(SHAPE) == 1
    data = before.replace(SHAPE, FORGED_SHAPES[kind])
    # all variables are in the first block, which ends with its type, 0, and a checksum
    size = next(n for n in range(500) if checksum(before[: n + 1]) == before[n + 1 : n + 5])
    forged = data[: size + 1] + checksum(data[: size + 1]) + data[size + 5 :]
    assert (forged == before) == (kind == "same")
    path.write_bytes(forged)
    forget_hashes(saved)
    if kind == "same":
        restored(saved)
        return
    with pytest.raises(SpinupError, match=r"the variables in .* cannot be read") as caught:
        restored(saved)
    assert "\n" not in str(caught.value)


def test_an_index_of_several_blocks_is_read_whole(tmp_path):
    names = [f"{i}/{'long' * 40}/{i}" for i in range(3000)]
    with tf.Graph().as_default() as graph, tf.Session(graph=graph) as sess:
        values = [tf.zeros((2, 0)), tf.constant(1)] * 1500
        save = tf.raw_ops.SaveV2(
            prefix=str(tmp_path / "v"),
            tensor_names=names,
            shape_and_slices=[""] * 3000,
            tensors=values,
        )
        sess.run(save)
    assert (tmp_path / "v.index").stat().st_size > 1 << 18  # the size of a block
    found = read_index(tmp_path / "v.index")
    assert found == {
        name: ((3, ()) if i % 2 else (1, (2, 0)))  # numbers of int32 and float32
        for i, name in enumerate(names)
    }


@pytest.mark.parametrize("file", ["saved_model.pb", "variables/variables.index", "model_info.json"])
def test_flipped_bits_never_end_in_anything_but_a_sentence(saved, file):
    data, rng = (saved / file).read_bytes(), np.random.default_rng(5)
    refused = 0
    for _ in range(25):
        where = int(rng.integers(len(data)))
        flipped = data[where] ^ (1 << int(rng.integers(8)))
        forget_hashes(saved) if file != "model_info.json" else None
        (saved / file).write_bytes(bytes([*data[:where], flipped, *data[where + 1 :]]))
        try:
            restored(saved)
        except SpinupError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 5


FORGED_INFO = {
    "not valid JSON": b"{",
    "does not describe": b"[1]",
    "describe a saved graph": b'{"format": "other"}',
    "its own hash": b'{"sha256": "0"}',
    "names of its inputs": b'{"inputs": 3, "outputs": {}}',
    "names of its outputs": b'{"inputs": {}, "outputs": {"pi": 3}}',
    "list of files": b'{"files": 3}',
    "lists the file": b'{"files": {"../../x": "0"}}',
    "lists the file 'variables//": b'{"files": {"variables//variables.index": "0"}}',
    "valid names of its outputs": json.dumps(
        {"inputs": {}, "outputs": {str(i): "x:0" for i in range(2000)}}
    ).encode(),
    "no node": b'{"inputs": {}, "outputs": {"pi": "^x"}}',
    "cannot be imported": b'{"inputs": {}, "outputs": {"pi": "x:77"}}',
    "nested too deeply|its own hash": b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


@pytest.mark.parametrize("mentions", FORGED_INFO, ids=range(len(FORGED_INFO)))
def test_forged_names_are_one_sentence(saved, mentions):
    (saved / "model_info.json").write_bytes(FORGED_INFO[mentions])
    with pytest.raises(SpinupError, match=mentions) as caught:
        restored(saved)
    assert "\n" not in str(caught.value)


def test_all_files_together_have_a_limit(saved, monkeypatch):
    sizes = {p.name: p.stat().st_size for p in saved.rglob("*") if p.parts[-1] != "variables"}
    variables = [size for name, size in sizes.items() if name.startswith("variables.")]
    largest = sizes["saved_model.pb"]
    assert largest > sum(variables)
    monkeypatch.setattr(tf_loader, "VARIABLES_LIMIT", largest)
    with pytest.raises(SpinupError, match="does not match the hash"):
        restored(saved)
    forget_hashes(saved)
    monkeypatch.setattr(tf_loader, "VARIABLES_LIMIT", sum(variables) - 1)
    with pytest.raises(SpinupError, match="too large for a file"):
        restored(saved)
    monkeypatch.setattr(tf_loader, "VARIABLES_LIMIT", sum(variables))
    restored(saved)


@pytest.mark.parametrize("use_resource", [True, False])
@pytest.mark.parametrize("field", ["shared_name", "container"])
def test_a_file_does_not_touch_other_variables_of_the_session(tmp_path, use_resource, field):
    GraphSaver(*small_graph(use_resource=use_resource)).save(str(tmp_path / "s"))

    def share(graph):
        node_named(graph, "b").attr[field].s = b"mine"

    edited(tmp_path / "s", share)
    with tf.Graph().as_default() as graph:
        mine = tf.get_variable("mine", (4,), use_resource=use_resource)
        sess = tf.Session(graph=graph)
        sess.run(tf.global_variables_initializer())
        before = sess.run(mine)
        restore_tf_graph(sess, tmp_path / "s")
        np.testing.assert_array_equal(sess.run(mine), before)


def test_variables_that_do_not_fit_the_graph_are_one_sentence(saved, tmp_path):
    cases = {
        r"w has the shape \[3, 5\] and not \[3, 4\]": [("w", (3, 5), tf.float32)],
        "no variable w of the type": [("w", (3, 4), tf.float64)],
        "it has no variable b": [("w", (3, 4), tf.float32)],
    }
    for i, (mentions, variables) in enumerate(cases.items()):
        with tf.Graph().as_default() as graph:
            made = [
                tf.get_variable(n, shape, dtype, use_resource=True) for n, shape, dtype in variables
            ]
            sess = tf.Session(graph=graph)
            sess.run(tf.global_variables_initializer())
            GraphSaver(sess, {}, {"w": made[0].value()}).save(str(tmp_path / str(i)))
        shutil.rmtree(saved / "variables")
        shutil.copytree(tmp_path / str(i) / "variables", saved / "variables")
        forget_hashes(saved)
        with pytest.raises(SpinupError, match=mentions):
            restored(saved)


def test_the_list_of_operations_names_only_what_computes():
    from tensorflow.python.framework import op_def_registry

    found = {name: op_def_registry.get(name) for name in tf_loader.ALLOWED_OPS}
    assert [name for name, op in found.items() if op is None] == []
    # random numbers, variables, checks and calls of functions, which are themselves checked
    assert {name for name, op in found.items() if op.is_stateful} - tf_loader.RANDOM_OPS == {
        *("Assert", "CheckNumerics", "CheckNumericsV2", "Variable", "VariableV2", "VarHandleOp"),
        *("ReadVariableOp", "VariableShape", "ResourceGather", "StatelessRandomGetAlg"),
        *("If", "Case", "StatefulPartitionedCall"),
    }
    words = ("File", "Save", "Restore", "Py", "Queue", "Dataset", "Iterator", "Send", "Recv", "Rpc")
    words += ("Print", "Summary", "Assign", "Table", "Loop", "While", "Remote", "Symbolic")
    assert [n for n in found if any(word in n for word in words)] == []
