"""Loading a saved TensorFlow graph without letting it do anything but arithmetic.

A SavedModel is a program: among its operations are some that read and write files, open
connections or call Python. TensorFlow's own loader imports all of them, and runs those that restore
the variables. Here, the file is parsed as data, only the part of the graph that the named outputs
need is kept, and every operation in it has to be in `tf_operations.toml`. The variables are read by
TensorFlow's checkpoint reader, after a look at their index, and fed into the session, so no
operation of the file runs before the caller asks for an output.
"""

from __future__ import annotations

import importlib
import math
import os
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from spinup.policies.saved import read_description
from spinup.policies.tf_index import read_index
from spinup.runs.storage.policies import GRAPH_FORMAT, OLD
from spinup.utils.errors import SpinupError
from spinup.utils.reading import open_regular, read_file, sha256_file
from spinup.utils.toml import parse_toml

GRAPH_LIMIT = 1 << 25  # bytes of a saved_model.pb; a large policy's has a tenth of this
VARIABLES_LIMIT = 1 << 32  # bytes of the files in variables/
CONSTANTS_LIMIT = 1 << 28  # bytes of all constants; a small file can describe huge ones
NODES_LIMIT = 1 << 20  # nodes after TensorFlow has copied a function's nodes for each of its calls
DEPTH_LIMIT = 50  # calls of functions within functions; one that calls itself has no end
NAMES_LIMIT = 1000  # inputs or outputs


def _operations() -> dict[str, frozenset[str]]:
    text = Path(__file__).with_name("tf_operations.toml").read_text(encoding="utf-8")
    return {group: frozenset(names.split()) for group, names in parse_toml(text).items()}


ALLOWED_OPS = frozenset().union(*_operations().values())
RANDOM_OPS = _operations()["random"]
_VARIABLES = ("Variable", "VariableV2", "VarHandleOp")


class _Refused(ValueError):
    """What is wrong with a graph; `restore` adds which one it is."""

    def __init__(self, what: str, advice: str = "use another save") -> None:
        super().__init__(f"{what}; {advice}")


class Restored(NamedTuple):
    """A graph that was imported into a session."""

    inputs: dict[str, Any]  # tensors by name
    outputs: dict[str, Any]
    policy: dict[str, Any] | None  # the policy's metadata; None in runs of the original
    random: Callable[[str], bool]  # whether the graph draws random numbers for an output


def restore_tf_graph(
    sess: Any, fpath: str | os.PathLike[str], trust_pickle: bool = False
) -> dict[str, Any]:
    """Load a `tf1_save[itr]` folder into `sess`; return its inputs and outputs by name.

    Saves of the original Spinning Up load as well. A graph with operations that do more than
    compute is refused.

    Args:
        sess: a session; the saved graph is added to its graph.
        fpath: the folder with `saved_model.pb`.
        trust_pickle: if there is no other record of the tensors' names, open `model_info.pkl`,
            which can run any program.
    """
    restored = restore(sess, fpath, trust_pickle)
    return {**restored.inputs, **restored.outputs}


def restore(
    sess: Any,
    fpath: str | os.PathLike[str],
    trust_pickle: bool = False,
    seed: int | None = None,
) -> Restored:
    """Load a folder as `restore_tf_graph` does; `seed` determines its random numbers."""
    folder = Path(fpath)
    old = Path(f"{folder}{OLD}")
    if not folder.exists() and old.exists():  # a process was killed while it replaced the save
        folder = old
    info = read_info(folder)
    meta_graph = _read_graph(folder)
    if info is None:
        info = _signature(meta_graph) or _read_pickle(folder, trust_pickle)
    names = _tensor_names(folder, info)
    wanted = [name for group in names.values() for name in group.values()]
    try:
        part, random = _needed_part(meta_graph.graph_def, wanted)
        if seed is not None:
            _seed(part, seed)
        imported = _import(sess, folder, part, wanted)
    except _Refused as error:
        raise SpinupError(f"the graph in {folder} {error}") from error
    by_group = {g: {key: imported[n] for key, n in names[g].items()} for g in names}
    policy = info.get("policy")
    return Restored(
        by_group["inputs"],
        by_group["outputs"],
        policy if isinstance(policy, dict) else None,
        lambda key: random(names["outputs"][key]),
    )


# ------------------------------------------------------------------------------ names of tensors


def read_info(fpath: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Read `model_info.json`, and check the folder's files against its hashes.

    Returns None if the file does not exist, as in runs of the original.
    """
    folder = Path(fpath)
    path = folder / "model_info.json"
    try:
        info = read_description(path, "a saved graph", (GRAPH_FORMAT, None))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SpinupError(f"cannot read {path} ({error.strerror}): use another save") from error
    files = info.get("files", {})
    if not isinstance(files, dict) or len(files) > 1000:
        raise SpinupError(f"{path} has no valid list of files: use another save")
    room = VARIABLES_LIMIT
    for name, digest in files.items():
        file = folder / name
        # Every file has one spelling, so that none is read a thousand times.
        if name not in ("saved_model.pb", f"variables/{file.name}"):
            raise SpinupError(f"{path} lists the file {name!r}: use another save")
        try:
            intact = sha256_file(file, room) == digest
            room -= file.stat().st_size
        except OSError:
            intact = False
        if not intact:
            raise SpinupError(
                f"{file} is missing or damaged (it does not match the hash in model_info.json): "
                "use another save"
            )
    return info


def _signature(meta_graph: Any) -> dict[str, Any] | None:
    """Return the names in the SavedModel's signature: the original's saves have one."""
    if "serving_default" not in meta_graph.signature_def:
        return None
    signature = meta_graph.signature_def["serving_default"]
    return {
        "inputs": {key: tensor.name for key, tensor in signature.inputs.items()},
        "outputs": {key: tensor.name for key, tensor in signature.outputs.items()},
    }


def _read_pickle(folder: Path, trust_pickle: bool) -> dict[str, Any]:
    path = folder / "model_info.pkl"
    if not path.is_file():
        raise SpinupError(
            f"{folder} does not name the inputs and outputs of its graph: pass a folder that "
            "setup_tf_saver and save_state wrote"
        )
    if not trust_pickle:
        raise SpinupError(
            f"{path} is a pickle, which can run any program when it is opened: if you trust its "
            "author, pass trust_pickle=True (--trust-pickle)"
        )
    import pickle

    try:
        with open_regular(path) as file:
            info = pickle.load(file)
    except Exception as error:  # unpickling can raise anything
        raise SpinupError(f"{path} cannot be opened ({error!r}): use another save") from error
    return info if isinstance(info, dict) else {}


def _tensor_names(folder: Path, info: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Return the names of the inputs and outputs: {group: {key: tensor name}}."""
    names = {group: info.get(group) for group in ("inputs", "outputs")}
    for group, found in names.items():
        if (
            not isinstance(found, dict)
            or len(found) > NAMES_LIMIT
            or not all(isinstance(text, str) for pair in found.items() for text in pair)
        ):
            raise SpinupError(f"{folder} has no valid names of its {group}: use another save")
    return names  # type: ignore[return-value]


# ------------------------------------------------------------------------------------- the graph


def _read_graph(folder: Path) -> Any:
    """Parse `saved_model.pb` as data; return the graph for serving."""
    path = folder / "saved_model.pb"
    try:
        data = read_file(path, GRAPH_LIMIT)
    except OSError as error:
        raise SpinupError(
            f"cannot read {path} ({error.strerror}): pass a tf1_save folder"
        ) from error
    from spinup.utils.tf import tf  # first, because it silences TensorFlow

    messages = importlib.import_module("google.protobuf.message")
    model = importlib.import_module("tensorflow.core.protobuf.saved_model_pb2").SavedModel()
    try:
        model.ParseFromString(data)
    except (messages.DecodeError, RecursionError) as error:
        raise SpinupError(f"{path} is damaged ({error}): use another save") from error
    serving = tf.saved_model.tag_constants.SERVING
    graphs = [graph for graph in model.meta_graphs if serving in graph.meta_info_def.tags]
    if not graphs:
        raise SpinupError(f"{path} contains no graph for serving: use another save")
    return graphs[0]


def _needed_part(graph_def: Any, wanted: Iterable[str]) -> tuple[Any, Any]:
    """Return the part of a graph that computes the wanted tensors, all of it checked.

    The second result is a function that tells whether a tensor depends on random numbers.
    """
    nodes = {node.name: node for node in graph_def.node}
    functions = {f.signature.name: f for f in graph_def.library.function}
    needed = [nodes[name] for name in _reachable(nodes, wanted)]
    called = _called(functions, needed)
    _check_ops([*needed, *(n for f in called.values() for n in f.node_def)], called)
    part = type(graph_def)(versions=graph_def.versions)
    part.node.extend(_cleaned(node) for node in needed)
    for given in called.values():
        function = part.library.function.add()
        function.CopyFrom(given)
        for field in ("attr", "arg_attr", "resource_arg_unique_id", "node_def"):
            function.ClearField(field)
        function.node_def.extend(_cleaned(node) for node in given.node_def)

    def random(name: str) -> bool:
        own = [nodes[n] for n in _reachable(nodes, [name])]
        inner = [n for f in _called(functions, own).values() for n in f.node_def]
        return any(_is_random(node.op) for node in (*own, *inner))

    return part, random


def _is_random(op: str) -> bool:
    return any(word in op for word in ("Random", "Multinomial", "TruncatedNormal"))


def _reachable(nodes: Mapping[str, Any], wanted: Iterable[str]) -> list[str]:
    """Return the nodes that the tensors depend on, in the order of the file."""
    todo = [name.partition(":")[0] for name in wanted]
    found: set[str] = set()
    while todo:
        name = todo.pop()
        if name in found:
            continue
        if name not in nodes:
            raise _Refused(f"has no node {name[:80]!r}")
        found.add(name)
        # control inputs start with ^, and others may end with the number of an output
        todo += [text.lstrip("^").partition(":")[0] for text in nodes[name].input]
    return [name for name in nodes if name in found]


def _called(functions: Mapping[str, Any], nodes: list[Any]) -> dict[str, Any]:
    """Return the functions that the nodes call, directly or through others, by name.

    TensorFlow copies a function's nodes for each call before it runs anything. Therefore, an error
    is raised if the calls are nested too deeply, or if the copies would be too many.
    """
    calls: dict[str, Counter[str]] = {}
    level, depth, size = _direct_calls(functions, nodes), 0, len(nodes)
    while level:
        deeper: Counter[str] = Counter()
        for name, times in level.items():
            body = functions[name].node_def
            if name not in calls:
                calls[name] = _direct_calls(functions, body)
            size += times * len(body)
            for inner, number in calls[name].items():
                deeper[inner] += times * number
        level, depth = deeper, depth + 1
        if depth > DEPTH_LIMIT or size > NODES_LIMIT:
            raise _Refused("calls functions too deeply or too often")
    return {name: functions[name] for name in calls}


def _direct_calls(functions: Mapping[str, Any], nodes: Iterable[Any]) -> Counter[str]:
    """Count how often the nodes call each function."""
    found: Counter[str] = Counter()
    for node in nodes:
        names = [*_functions_in(node.attr.values())]
        if missing := {*names} - functions.keys():
            what = f"calls the function {min(missing)[:80]!r}, which it does not contain"
            raise _Refused(what)
        # A function of the file takes precedence over an operation of the same name.
        found.update([*names, node.op] if node.op in functions else names)
    return found


def _functions_in(values: Iterable[Any]) -> Iterator[str]:
    """Yield the names of functions in attributes."""
    todo = list(values)
    while todo:
        value = todo.pop()
        kind = value.WhichOneof("value")
        for func in [value.func] if kind == "func" else value.list.func if kind == "list" else []:
            yield func.name
            todo += func.attr.values()


def _check_ops(nodes: Iterable[Any], called: Mapping[str, Any]) -> None:
    """Raise an error for operations that are not allowed, and for absurd constants."""
    room = CONSTANTS_LIMIT
    for node in nodes:
        if node.op not in ALLOWED_OPS and node.op not in called:
            raise _Refused(
                f"contains the operation {node.op[:80]!r} ({node.name[:80]!r}), which is not among "
                "those that only compute",
                "if you trust its author, load it with TensorFlow itself",
            )
        if node.op == "Const":
            room -= _constant_bytes(node.attr["value"].tensor)
        if room < 0:
            raise _Refused("contains huge constants")


def _constant_bytes(tensor: Any) -> int:
    """Return the memory that a constant takes: its shape can be larger than its data."""
    from spinup.utils.tf import tf

    # TensorFlow's tensors have at most 254 dimensions.
    sizes = [dim.size for dim in tensor.tensor_shape.dim[:255]]
    try:
        dtype = tf.as_dtype(tensor.dtype)
    except TypeError:
        dtype = tf.variant
    plain = _is_number(dtype)
    usual = (plain or dtype == tf.string) and len(sizes) < 255 and min(sizes, default=0) >= 0
    if not usual:
        raise _Refused("contains an unusual constant")
    return math.prod(sizes) * (dtype.size if plain else 32)


def _is_number(dtype: Any) -> bool:
    return bool(dtype.is_floating or dtype.is_integer or dtype.is_complex or dtype.is_bool)


def _cleaned(node: Any) -> Any:
    """Copy a node without devices and without attributes that are hints to the runtime.

    Hints start with an underscore (such as colocation with nodes that are not needed), except for
    those of function calls, which configure TensorFlow's optimizers and executors.
    """
    copy = type(node)(name=node.name, op=node.op, input=node.input)
    for key, value in node.attr.items():
        if not key.startswith("_") and key not in ("config", "config_proto", "executor_type"):
            copy.attr[key].CopyFrom(value)
    return copy


def _seed(part: Any, seed: int) -> None:
    """Replace the seeds of a graph's random operations."""
    rng = np.random.default_rng(seed)
    bodies = (node for function in part.library.function for node in function.node_def)
    for node in (*part.node, *bodies):
        if node.op in RANDOM_OPS:
            for key in ("seed", "seed2"):
                node.attr[key].i = int(rng.integers(1, 2**31))


def _import(sess: Any, folder: Path, part: Any, wanted: list[str]) -> dict[str, Any]:
    """Add the graph to the session's and set its variables; return the wanted tensors by name."""
    from spinup.utils.tf import tf

    if any(node.op in _VARIABLES for f in part.library.function for node in f.node_def):
        raise _Refused("has variables in functions")
    variables = [node for node in part.node if node.op in _VARIABLES]
    values = _read_variables(folder, variables) if variables else []
    for node in variables:
        # Never the same variable as another one in the session, whatever the file says.
        unique = f"{node.name}-{secrets.token_hex(8)}" if node.op == "VarHandleOp" else ""
        node.attr["shared_name"].s, node.attr["container"].s = unique.encode(), b""
    names = [*(name if ":" in name else f"{name}:0" for name in wanted)]
    names += [f"{node.name}:0" for node in variables]
    try:
        with sess.graph.as_default():
            # If names of the file exist in the session, other names are chosen.
            tensors = tf.import_graph_def(part, name="", return_elements=names)
            _assign(sess, tensors[len(wanted) :], values)
    except Exception as error:  # a forged graph can make TensorFlow raise anything
        raise _Refused(f"cannot be imported ({reason(error)})") from error
    return dict(zip(wanted, tensors, strict=False))


# ------------------------------------------------------------------------------------- variables


def _assign(sess: Any, variables: Iterable[Any], values: Iterable[np.ndarray]) -> None:
    """Set variables, given by their tensors: handles of resources, or references."""
    from spinup.utils.tf import tf

    feed, assignments = {}, []
    for variable, value in zip(variables, values, strict=True):
        fed = tf.placeholder(value.dtype, value.shape)
        feed[fed] = value
        if variable.dtype == tf.resource:
            assignments.append(tf.raw_ops.AssignVariableOp(resource=variable, value=fed))
        else:
            assignments.append(tf.raw_ops.Assign(ref=variable, value=fed).op)
    sess.run(assignments, feed)


def _read_variables(folder: Path, nodes: Iterable[Any]) -> list[np.ndarray]:
    """Read the values of variables, which are checked against their nodes."""
    from spinup.utils.tf import tf

    prefix = folder / "variables" / "variables"
    values = []
    try:
        size = _size_of_variables(folder / "variables")
        saved = read_index(f"{prefix}.index")
        reader = tf.train.load_checkpoint(str(prefix))
        for node in nodes:
            shared = node.attr["shared_name"].s.decode(errors="replace")
            key = next((key for key in (node.name, shared) if key in saved), None)
            dtype = tf.as_dtype(node.attr["dtype"].type)
            if key is None or saved[key].dtype != dtype.as_datatype_enum or not _is_number(dtype):
                raise ValueError(f"it has no variable {node.name} of the type in the graph")
            shape, expected = list(saved[key].shape), node.attr["shape"].shape
            sizes = [dim.size for dim in expected.dim]
            if not expected.unknown_rank and -1 not in sizes and shape != sizes:
                raise ValueError(f"{key} has the shape {shape} and not {sizes}")
            # Checked before memory is allocated.
            if dtype.size * math.prod(shape) > size:
                raise ValueError(f"{key} cannot have the shape {shape}")
            values.append(np.asarray(reader.get_tensor(key)))
    except (tf.errors.OpError, OSError, ValueError, RuntimeError, TypeError, KeyError) as error:
        why = getattr(error, "strerror", None) or reason(error)
        raise SpinupError(
            f"the variables in {folder} cannot be read ({why}): use another save"
        ) from error
    return values


def _size_of_variables(folder: Path) -> int:
    """Return the bytes of all files; raise `OSError` if one of them is not a regular file."""
    size = 0
    for name in os.listdir(folder):
        with open_regular(folder / name, VARIABLES_LIMIT - size) as file:
            size += os.fstat(file.fileno()).st_size
    return size


def reason(error: BaseException) -> str:
    """Return the line of one of TensorFlow's errors that says what is wrong."""
    text = str(error).strip()
    if "\nNode: " in text:  # preceded by what the node's stack would be, if it had one
        text = text.partition("\nNode: ")[2].partition("\n")[2]
    lines = text.splitlines()
    return f"{type(error).__name__}: {lines[0][:200] if lines else ''}"
