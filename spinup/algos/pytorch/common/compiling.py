"""A whole gradient update as one compiled graph.

With small networks, an update spends as much time on calling its operations as on computing them.
`torch.compile` turns the update function of an off-policy algorithm, unchanged, into one piece of
machine code: losses, gradients, Adam and target networks. That takes about a minute at the start,
so it pays only for long runs. Compiled arithmetic rounds differently. Whether a run is compiled is
decided before it starts, recorded, and kept when it is resumed.
"""

import os
import shutil

import torch

from spinup.utils.errors import SpinupError

LONG = 200_000  # with `compile=None`, runs of at least this many gradient steps are compiled
OPTIONS = {"cpp_wrapper": True, "fallback_random": True}  # draw from torch's usual generator


def compiled(run, update, *optimizers):
    """An update function such as `sac_update`, compiled if `run` asks for it or is long.

    `optimizers` are those that it uses; None stands for an optimizer that is not needed.
    """
    if not _decide(run):
        return update
    for optimizer in optimizers:
        if optimizer is not None:
            _prepare(optimizer)
    torch._dynamo.config.trace_autograd_ops = True
    run.logger.log("Compiling the update at its first use; this takes about a minute.")
    fast = torch.compile(update, fullgraph=True, dynamic=False, options=OPTIONS)
    return _or_fall_back(run, fast, update, optimizers[0])


def _decide(run):
    """Whether to compile: resolves `compile=None` and refuses `True` if it is impossible."""
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


def _or_fall_back(run, fast, update, optimizer):
    """`fast`, or `update` if the first call shows that compiling fails here.

    A run that has already taken compiled steps, as `optimizer` shows, must not fall back.
    """
    tried = False

    def call(*args, **kwargs):
        nonlocal fast, tried
        if tried:
            return fast(*args, **kwargs)
        tried = True
        try:
            return fast(*args, **kwargs)
        except (RuntimeError, OSError) as error:  # nothing has been computed yet
            why = str(error).strip().partition("\n")[0][:200]
            if any(state["step"] > 0 for state in optimizer.state.values()):
                raise SpinupError(
                    f"the saved run was compiled, but compiling fails here ({why}): resume it "
                    "where it can be compiled"
                ) from error
            run.logger.log(f"Not compiled, because compiling failed ({why}).", "yellow")
            run.config["compile"], fast = False, update
            run.save_config()
            return update(*args, **kwargs)

    return call


def _why_not(run):
    """Why this run cannot be compiled; '' if it can."""
    if run.device.type != "cpu":
        return "it works only with device='cpu'"
    if not type(run.ac).__module__.startswith("spinup."):
        return "it works only with the library's own networks"
    # one puts NumPy arrays into the batch, the other changes a constant every epoch
    options = [name for name in ("prioritized", "anneal_lr") if run.config.get(name)]
    return f"it does not support {options[0]}=True" if options else ""


def _missing():
    """What this machine lacks for compiling; '' if nothing is missing."""
    if not hasattr(torch._dynamo.config, "trace_autograd_ops"):
        return f"torch {torch.__version__} cannot compile gradients"
    if not (os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")):
        return "there is no C++ compiler"
    return ""


def _prepare(optimizer):
    """Create the state that Adam otherwise creates at its first step; a graph needs it earlier."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p not in optimizer.state:
                optimizer.state[p] = {
                    "step": torch.tensor(0.0),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
