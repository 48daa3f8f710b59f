"""Deciding how a run executes its gradient updates: one operation after another, or as a whole.

With small networks, calling an update's operations takes longer than computing them. So an
off-policy algorithm's update function, unchanged, can become one piece of machine code with
losses, gradients, Adam and target networks (`compile=True`, `graphs.py`), or, on a GPU, one CUDA
graph of all its kernels (`compile='graph'`, `cuda_graphs.py`). A GPU does both with `compile=True`.
Compiling takes about a minute at the start, so it pays off only for long runs; recording a CUDA
graph takes a few trial updates. These ways round differently. Which one a run uses is decided
before it starts, recorded, and kept when it is resumed.
"""

import os
import shutil

import torch

from spinup.utils.errors import SpinupError

LONG = 200_000  # with `compile=None`, runs of at least this many gradient steps are compiled


def compiled(run, update, *optimizers):
    """Return `update` (such as `sac_update`), executed in the way that is right for `run`.

    `optimizers` are the ones that it uses; None stands for an optimizer that is not needed.
    """
    how = _decide(run)
    if not how:
        return update
    from spinup.algos.pytorch.common import graphs

    for optimizer in optimizers:
        if optimizer is not None:
            graphs.prepare(optimizer, annealed=run.config.get("anneal_lr", False))
    fast = graphs.compile_update(run, update) if how is True else update
    if run.device.type == "cuda":
        from spinup.algos.pytorch.common.cuda_graphs import GraphedUpdate

        fast = GraphedUpdate(fast)
    return graphs.or_fall_back(run, fast, update, optimizers[0])


def _decide(run):
    """Decide whether to compile: resolve `compile=None`, and reject what is impossible."""
    if "compile" not in run.config:
        return False
    asked, on_gpu = run.config["compile"], run.device.type == "cuda"
    reason, missing = _why_not(run, asked), _missing()
    if asked and reason:
        raise SpinupError(f"compile={asked!r} cannot be used here because {reason}")
    if asked is True and missing and run.saved is not None:
        raise SpinupError(
            f"the saved run was compiled, but here {missing}: resume it where it can be compiled"
        )
    long = run.planned_steps * run.config["updates_per_step"] >= LONG
    how = asked
    if asked is None:
        how = False if reason else True if long else "graph" if on_gpu else False
        if reason and on_gpu:
            run.logger.log(f"Updates run one operation after another, because {reason}.", "yellow")
    if how is True and missing:
        run.logger.log(f"Not compiled: {missing}.", "yellow")
        how = "graph" if on_gpu else False
    if asked != how:
        run.config["compile"] = how
        run.save_config()
    return how


def _why_not(run, asked):
    """Return why this run's update cannot be executed as a whole, or '' if it can."""
    kind = run.device.type
    if kind not in ("cpu", "cuda"):
        return f"it does not support device='{kind}': use compile=False"
    if asked == "graph" and kind == "cpu":
        return "CUDA graphs need device='cuda': use compile=True or False"
    if not type(run.ac).__module__.startswith("spinup."):
        return "it works only with the library's own networks: use compile=False"
    if run.config.get("prioritized") and kind == "cpu":  # puts NumPy arrays into the batch
        return "it does not support prioritized=True: use compile=False"
    return ""


def _missing():
    """Return what this machine lacks for compiling, or '' if nothing is missing."""
    if not hasattr(torch._dynamo.config, "trace_autograd_ops"):
        return f"torch {torch.__version__} cannot compile gradients"
    if not (os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")):
        return "there is no C++ compiler"
    return ""
