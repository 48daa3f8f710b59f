"""A whole gradient update as one compiled graph.

With small networks an update spends as long on calling its operations, one by one, as on computing.
`torch.compile` turns the update functions of the off-policy algorithms, as they are written, into
one piece of machine code: losses, gradients, Adam and target networks. That takes about a minute at
the start, so it is for long runs. Compiled arithmetic rounds differently; which of the two a run
uses is decided before it starts, recorded, and used again when it is resumed.
"""

import os
import shutil

import torch

from spinup.utils.errors import SpinupError

LONG = 200_000  # gradient steps from which `compile=None` compiles
OPTIONS = {"cpp_wrapper": True, "fallback_random": True}  # torch's own generator, as without it


def compiled(run, update, *optimizers):
    """An update function such as `sac_update`, compiled if `run` asks for it or is long.

    `optimizers` are those it uses; None stands for one that is not there.
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
    """Settle `compile=None`, and refuse a `True` that is impossible."""
    if "compile" not in run.config:
        return False
    asked = run.config["compile"]
    reason, missing = _why_not(run), _missing()
    if asked and reason:
        raise SpinupError(f"compile=True cannot be used here: {reason}")
    steps = run.planned_steps * run.config["updates_per_step"]
    wanted = asked if asked is not None else steps >= LONG and not reason
    if wanted and missing and run.resuming:
        raise SpinupError(f"the saved run was compiled, and here {missing}: it cannot be continued")
    if wanted and missing:
        run.logger.log(f"Not compiled: {missing}.", "yellow")
    if asked != (wanted and not missing):
        run.config["compile"] = wanted and not missing
        run.save_config()
    return run.config["compile"]


def _or_fall_back(run, fast, update, optimizer):
    """`fast`, or `update` where the first call shows that it cannot be compiled here.

    A run that has taken compiled steps, as the state of `optimizer` tells, cannot do without.
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
                    f"the saved run was compiled, which fails here ({why}): it cannot be continued"
                ) from error
            run.logger.log(f"Not compiled, because that failed ({why}).", "yellow")
            run.config["compile"], fast = False, update
            run.save_config()
            return update(*args, **kwargs)

    return call


def _why_not(run):
    """What keeps this run from being compiled; '' if nothing does."""
    if run.device.type != "cpu":
        return "it is for device='cpu'"
    if not type(run.ac).__module__.startswith("spinup."):
        return "it knows the library's own networks only"
    # one brings arrays into the batch, the other a new constant every epoch
    options = [name for name in ("prioritized", "anneal_lr") if run.config.get(name)]
    return f"it does not know {options[0]}=True" if options else ""


def _missing():
    """What compiling needs and this machine lacks; '' if nothing is missing."""
    if not hasattr(torch._dynamo.config, "trace_autograd_ops"):
        return f"torch {torch.__version__} cannot compile gradients"
    if not (os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++")):
        return "there is no C++ compiler"
    return ""


def _prepare(optimizer):
    """The state that Adam makes at its first step; a graph needs it before."""
    for group in optimizer.param_groups:
        for p in group["params"]:
            if p not in optimizer.state:
                optimizer.state[p] = {
                    "step": torch.tensor(0.0),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
