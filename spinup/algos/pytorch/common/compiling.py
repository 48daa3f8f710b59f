"""Deciding whether to compile a whole gradient update into one graph (`graphs.py`).

With small networks, calling an update's operations takes as long as computing them.
`torch.compile` turns an off-policy algorithm's update function, unchanged, into one piece of
machine code: losses, gradients, Adam and target networks. Compiling takes about a minute at the
start, so it pays off only for long runs. Compiled and eager updates round differently. Whether to
compile a run is decided before it starts, recorded, and kept when it is resumed.
"""

import os
import shutil

import torch

from spinup.utils.errors import SpinupError

LONG = 200_000  # with `compile=None`, runs of at least this many gradient steps are compiled


def compiled(run, update, *optimizers):
    """Return `update` (such as `sac_update`), compiled if `run` requests it or is long.

    `optimizers` are the ones that it uses; None stands for an optimizer that is not needed.
    """
    if not _decide(run):
        return update
    from spinup.algos.pytorch.common.graphs import compile_update

    return compile_update(run, update, optimizers)


def _decide(run):
    """Decide whether to compile: resolve `compile=None`, and reject `True` if it is impossible."""
    if "compile" not in run.config:
        return False
    asked = run.config["compile"]
    reason, missing = _why_not(run), _missing()
    if asked and reason:
        raise SpinupError(f"compile=True cannot be used here because {reason}: use compile=False")
    steps = run.planned_steps * run.config["updates_per_step"]
    wanted = asked if asked is not None else steps >= LONG and not reason
    if wanted and missing and run.resuming:
        raise SpinupError(
            f"the saved run was compiled, but here {missing}: resume it where it can be compiled"
        )
    if wanted and missing:
        run.logger.log(f"Not compiled: {missing}.", "yellow")
    if asked != (wanted and not missing):
        run.config["compile"] = wanted and not missing
        run.save_config()
    return run.config["compile"]


def _why_not(run):
    """Return why this run cannot be compiled, or '' if it can."""
    if run.device.type != "cpu":
        return "it works only with device='cpu'"
    if not type(run.ac).__module__.startswith("spinup."):
        return "it works only with the library's own networks"
    if run.config.get("prioritized"):  # puts NumPy arrays into the batch
        return "it does not support prioritized=True"
    return ""


def _missing():
    """Return what this machine lacks for compiling, or '' if nothing is missing."""
    if not hasattr(torch._dynamo.config, "trace_autograd_ops"):
        return f"torch {torch.__version__} cannot compile gradients"
    if not (os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")):
        return "there is no C++ compiler"
    return ""
