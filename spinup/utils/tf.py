"""TensorFlow's graph-mode interface (`tensorflow.compat.v1`), imported without its messages.

    from spinup.utils.tf import tf

Nothing global is changed: eager code of the same program keeps working.
"""

import contextlib
import importlib.util
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from spinup.utils.errors import SpinupError

# Where files are that can be run as programs, with `python -m`.
_PROGRAMS = ("spinup.algos.", "spinup.exercises.", "spinup.examples.")


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Discard what libraries write directly to standard error, such as TensorFlow's greeting."""
    sys.stderr.flush()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)


def _import() -> Any:
    if importlib.util.find_spec("tensorflow") is None:
        missing = "TensorFlow is not installed: run pip install 'spinup[tf]'"
        started = getattr(sys.modules["__main__"], "__spec__", None)
        if started is not None and started.name.startswith(_PROGRAMS):
            # `python -m`: no command line would catch the error
            print(f"spinup: {missing}", file=sys.stderr)
            sys.exit(2)
        raise SpinupError(missing)
    if "TF_CPP_MIN_LOG_LEVEL" in os.environ:  # the user decides what to see
        import tensorflow.compat.v1 as tf
    else:
        os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"  # warnings; read once, at the import
        try:
            with _silent():
                import tensorflow.compat.v1 as tf
        finally:
            del os.environ["TF_CPP_MIN_LOG_LEVEL"]  # a child process silences itself as well
    return tf


tf = _import()


def flat_concat(xs: Sequence[Any]) -> Any:
    """Concatenate all elements of the tensors or variables in `xs` into one vector."""
    return tf.concat([tf.reshape(x, (-1,)) for x in xs], axis=0)


def split_like(flat: Any, like: Sequence[Any]) -> list[Any]:
    """Split a vector into tensors shaped like those in `like`; inverts `flat_concat`."""
    sizes = [x.shape.num_elements() for x in like]
    if None in sizes:
        name = like[sizes.index(None)].name
        raise SpinupError(f"the shape of variable {name} is not known: give it a full shape")
    pieces = zip(tf.split(flat, sizes), like, strict=True)
    return [tf.reshape(piece, x.shape) for piece, x in pieces]
