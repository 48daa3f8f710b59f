"""Compiling a gradient update; only runs that `compiling.py` decides to compile import this."""

import torch

from spinup.utils.errors import SpinupError

OPTIONS = {"cpp_wrapper": True, "fallback_random": True}  # use torch's usual RNG


def compile_update(run, update, optimizers):
    """Return `update`, compiled at its first use; `optimizers` may contain None."""
    for optimizer in optimizers:
        if optimizer is not None:
            prepare(optimizer, annealed=run.config.get("anneal_lr", False))
    torch._dynamo.config.trace_autograd_ops = True
    run.logger.log("Compiling the update at its first use; this takes about a minute.")
    fast = torch.compile(update, fullgraph=True, dynamic=False, options=OPTIONS)
    return _or_fall_back(run, fast, update, optimizers[0])


def _or_fall_back(run, fast, update, optimizer):
    """Return `fast`, which falls back to `update` if compiling fails in the first call.

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
            group["lr"] = torch.tensor(float(group["lr"]))
        for p in group["params"]:
            if p not in optimizer.state:
                optimizer.state[p] = {
                    "step": torch.tensor(0.0),
                    "exp_avg": torch.zeros_like(p),
                    "exp_avg_sq": torch.zeros_like(p),
                }
