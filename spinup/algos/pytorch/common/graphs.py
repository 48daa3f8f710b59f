"""Compiling a gradient update; only runs that `compiling.py` decides to compile import this."""

import torch

from spinup.utils.errors import SpinupError


def compile_update(run, update):
    """Return `update`, compiled at its first use."""
    torch._dynamo.config.trace_autograd_ops = True
    run.logger.log("Compiling the update at its first use; this takes about a minute.")
    options = {"fallback_random": True}  # use torch's usual RNG
    if run.device.type == "cpu":
        options["cpp_wrapper"] = True
    return torch.compile(update, fullgraph=True, dynamic=False, options=options)


def or_fall_back(run, fast, update, optimizer):
    """Return `fast`, which falls back to `update` if its first call fails to compile or record it.

    A run that has already taken compiled steps (as `optimizer` shows) must not fall back.
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


def prepare(optimizer, annealed=False):
    """Create Adam's state before its first step, because a graph needs it earlier.

    A learning rate that changes becomes a tensor: a number would be a constant of the graph.
    """
    for group in optimizer.param_groups:
        if annealed:
            group["lr"] = torch.tensor(float(group["lr"]), device=group["params"][0].device)
        for p in group["params"]:
            if p not in optimizer.state:
                optimizer.state[p] = {
                    "step": torch.zeros((), device=p.device),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
