"""Saving a TensorFlow graph and its policy in a folder `tf1_save[itr]/`.

The folder contains:

- `saved_model.pb` and `variables/`: a SavedModel, which TensorFlow's own tools can load.
- `model_info.json`: the names of its inputs and outputs, the policy's metadata and the hashes of
  the files. `spinup.policies.tf_loader` reads it.
- `model_info.pkl`: the same names as a pickle, for notebooks that open it with joblib. This
  library never opens it without being asked to.
- `policy.json` and `policy.safetensors`, for the library's own networks only: the layers as
  arrays, for acting without TensorFlow.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import pickle
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from spinup.runs.storage.policies import GRAPH_FORMAT, OLD, write_policy
from spinup.utils.files import (
    TMP_PREFIX,
    delete,
    fsync_folder,
    json_bytes,
    removed_on_error,
    self_hash,
    write_durably,
)
from spinup.utils.reading import sha256_file
from spinup.utils.serialization_utils import convert_json
from spinup.utils.tf import tf

# Errors of the disk that TensorFlow reports with their text alone.
_DISK_ERRORS = tuple(
    getattr(errno, name)
    for name in ("ENOSPC", "EDQUOT", "EFBIG", "EIO", "EROFS", "EACCES", "EPERM", "ENOENT")
    if hasattr(errno, name)
)


class GraphSaver:
    """Saves a session's graph and variables as a policy.

    Args:
        sess: the session.
        inputs: tensors by name: `x` takes observations.
        outputs: tensors by name: `pi` is the action, `mu` the most likely one.
        policy_meta: the metadata from which the policy's environment is rebuilt; None if unknown.
        actor: a function that returns the policy as a description and arrays (see
            `spinup.algos.common.numpy_actor`), from which it is loaded without TensorFlow; None
            for a graph that only TensorFlow can compute.
    """

    def __init__(
        self,
        sess: Any,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        policy_meta: Mapping[str, Any] | None = None,
        actor: Callable[[], tuple[dict[str, Any], dict[str, np.ndarray]]] | None = None,
    ) -> None:
        self.sess, self.inputs, self.outputs = sess, dict(inputs), dict(outputs)
        self.meta, self.actor = policy_meta, actor
        self.names = {
            "inputs": {key: tensor.name for key, tensor in self.inputs.items()},
            "outputs": {key: tensor.name for key, tensor in self.outputs.items()},
        }
        self._saver: Any = None
        self._saved_names: list[str] = []
        self._graph_version, self._graph_bytes = -1, b""

    def save(self, folder: str, meta: Mapping[str, Any] | None = None) -> None:
        """Write `folder`, or replace it as a whole: a crash leaves the old save or the new one.

        `meta` replaces the `policy_meta` for this save.
        """
        final = Path(folder)
        old = final.with_name(f"{final.name}{OLD}")
        # A process was killed between the two renames below.
        if os.path.lexists(old) and not os.path.lexists(final):
            os.rename(old, final)
        tmp = final.with_name(f"{TMP_PREFIX}{final.name}-{secrets.token_hex(4)}")
        with removed_on_error(tmp):
            os.mkdir(tmp)
            self._write(tmp, self.meta if meta is None else meta)
            if os.path.lexists(old):
                delete(old)
            if os.path.lexists(final):
                os.rename(final, old)
            os.rename(tmp, final)
        fsync_folder(final.parent)
        with contextlib.suppress(FileNotFoundError):
            delete(old)

    def _write(self, folder: Path, meta: Mapping[str, Any] | None) -> None:
        """Write all files of a save, durably."""
        (folder / "variables").mkdir()
        self._write_variables(folder / "variables")
        write_durably(folder / "saved_model.pb", [self._model()])
        files = [folder / "saved_model.pb", *sorted((folder / "variables").iterdir())]
        info: dict[str, Any] = {
            **self.names,
            "format": GRAPH_FORMAT,
            "files": {path.relative_to(folder).as_posix(): sha256_file(path) for path in files},
        }
        if meta:
            info["policy"] = convert_json(dict(meta))
        info["sha256"] = self_hash(info)
        write_durably(folder / "model_info.json", [json_bytes(info)])
        write_durably(folder / "model_info.pkl", [pickle.dumps(self.names, protocol=2)])
        if self.actor is not None:
            description, arrays = self.actor()
            write_policy(str(folder), "", arrays, meta, actor=description)
        fsync_folder(folder / "variables")
        fsync_folder(folder)

    def _write_variables(self, folder: Path) -> None:
        with self.sess.graph.as_default():
            variables = [*tf.global_variables(), *tf.get_collection(tf.GraphKeys.SAVEABLE_OBJECTS)]
            if not variables:
                return
            names = [variable.name for variable in variables]
            if names != self._saved_names:  # each new Saver adds its operations to the graph
                self._saver, self._saved_names = tf.train.Saver(variables), names
            prefix = str(folder / "variables")
            try:
                self._saver.save(self.sess, prefix, write_meta_graph=False, write_state=False)
            except (tf.errors.OpError, ValueError) as error:
                code = next((c for c in _DISK_ERRORS if os.strerror(c) in str(error)), None)
                if code is None:
                    raise
                raise OSError(code, os.strerror(code), prefix) from error
        for path in folder.iterdir():
            with open(path, "rb") as file:
                os.fsync(file.fileno())

    def _model(self) -> bytes:
        """Return the graph as a serialized SavedModel; as long as it is the same, computed once."""
        graph = self.sess.graph
        if graph.version == self._graph_version:
            return self._graph_bytes
        with graph.as_default():
            meta_graph = tf.train.export_meta_graph(
                graph_def=graph.as_graph_def(add_shapes=True),
                saver_def=self._saver.saver_def if self._saver else None,
                # Others may contain objects that cannot be written.
                collection_list=[
                    tf.GraphKeys.GLOBAL_VARIABLES,
                    tf.GraphKeys.TRAINABLE_VARIABLES,
                ],
            )
        meta_graph.meta_info_def.tags.append(tf.saved_model.tag_constants.SERVING)
        key = tf.saved_model.signature_constants.DEFAULT_SERVING_SIGNATURE_DEF_KEY
        signature = meta_graph.signature_def[key]
        signature.method_name = tf.saved_model.signature_constants.PREDICT_METHOD_NAME
        for infos, tensors in (
            (signature.inputs, self.inputs),
            (signature.outputs, self.outputs),
        ):
            for name, tensor in tensors.items():
                infos[name].name = tensor.name
                infos[name].dtype = tensor.dtype.as_datatype_enum
                infos[name].tensor_shape.CopyFrom(tensor.shape.as_proto())
        saved_model = importlib.import_module("tensorflow.core.protobuf.saved_model_pb2").SavedModel
        model = saved_model(saved_model_schema_version=1, meta_graphs=[meta_graph])
        # The order of a protobuf's maps is otherwise random.
        data = model.SerializeToString(deterministic=True)
        self._graph_version, self._graph_bytes = graph.version, data
        return data
