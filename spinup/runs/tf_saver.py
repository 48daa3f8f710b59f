"""Saving a TensorFlow graph (``tf1_save/``) and restoring it into a session."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spinup.runs.files import TMP_PREFIX, atomic_write, json_bytes
from spinup.utils.errors import SpinupError
from spinup.utils.own_files import delete, fsync_folder
from spinup.utils.reading import read_json


def save_graph(folder: str, saved: Mapping[str, Any], info: Mapping[str, Any]) -> None:
    """Write a SavedModel to ``folder``, with the names of its tensors in ``model_info.json``.

    Args:
        folder: the folder to write; an existing one is replaced as a whole.
        saved: the ``session``, and the tensors that are its ``inputs`` and ``outputs``.
        info: the names of those tensors.
    """
    tf = _tensorflow()
    final = Path(folder)
    tmp = final.with_name(f"{TMP_PREFIX}{final.name}")
    with contextlib.suppress(FileNotFoundError):
        delete(tmp)  # left by a killed process; if it is a link, it must not be followed
    try:
        with saved["session"].graph.as_default():
            tf.saved_model.simple_save(
                saved["session"], str(tmp), saved["inputs"], saved["outputs"]
            )
        atomic_write(tmp / "model_info.json", json_bytes(info))
    except BaseException:
        shutil.rmtree(tmp, ignore_errors=True)
        raise
    with contextlib.suppress(FileNotFoundError):
        delete(final)
    os.rename(tmp, final)
    fsync_folder(final.parent)


def restore_tf_graph(sess: Any, fpath: str | os.PathLike[str]) -> dict[str, Any]:
    """Load a ``tf1_save[itr]`` folder into ``sess``; return its inputs and outputs by name."""
    tf = _tensorflow()
    try:
        info = read_json(Path(fpath, "model_info.json"))
    except (OSError, ValueError) as error:
        raise SpinupError(
            f"cannot read model_info.json in {os.fspath(fpath)} ({error}); pass a tf1_save folder"
        ) from error
    tf.saved_model.loader.load(sess, [tf.saved_model.tag_constants.SERVING], os.fspath(fpath))
    graph = sess.graph
    names = {**info["inputs"], **info["outputs"]}
    return {key: graph.get_tensor_by_name(name) for key, name in names.items()}


def _tensorflow() -> Any:
    try:
        import tensorflow.compat.v1 as tf
    except ImportError as error:
        raise SpinupError("TensorFlow is not installed; run pip install 'spinup[tf]'") from error
    return tf
