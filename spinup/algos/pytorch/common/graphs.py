"""Compiling a gradient update; only runs that `compiling.py` decides to compile import this."""

import torch

from spinup.utils.errors import SpinupError


def compile_update(run, update):
    """Return `update`, compiled at its first use."""
    torch._dynamo.config.trace_autograd_ops = True
    # forget earlier runs in this process: torch keeps code for eight of them, then gives up
    torch._dynamo.reset_code(update.__code__)
    run.logger.log("Compiling the update at its first use; this takes about a minute.")
    if run.device.type == "cpu":
        return CompiledUpdate(update)
    options = {"fallback_random": True}  # use torch's usual RNG
    return torch.compile(update, fullgraph=True, dynamic=False, options=options)


class CompiledUpdate:
    """A compiled update on a CPU, whose machine code is called directly after the first time.

    In every call, `torch.compile` checks its assumptions and looks up the hundred tensors that the
    machine code works on. That takes a tenth of the time of SAC's update, although only the batch
    changes between calls. So the first call with certain arguments goes through `torch.compile`,
    and its tensors are recorded. Later calls with the same arguments only replace the batch.
    """

    options = {"cpp_wrapper": True, "size_asserts": False, "fallback_random": True}

    def __init__(self, update):
        self.compiled = torch.compile(update, fullgraph=True, dynamic=False, backend=self._backend)
        self.recorded = {}
        self._last = None  # the machine code, its inputs and its outputs

    def __call__(self, *args, **kwargs):
        """Take one step; the batch is the argument that is a dict."""
        batch, key = batch_and_key(args, kwargs)
        if key in self.recorded:
            return self.recorded[key](batch)
        result = self.compiled(*args, **kwargs)
        recorded = RecordedCall((args, kwargs), batch, *self._last, result)
        if recorded.complete:
            self.recorded[key] = recorded
        return result

    def _backend(self, graph, examples):
        from torch._inductor.compile_fx import compile_fx

        return compile_fx(graph, examples, self._generate, config_patches=self.options)

    def _generate(self, graph, examples, **kwargs):
        """Generate the machine code, the last step of compiling; return it as a function."""
        from torch._inductor.compile_fx import compile_fx_inner

        code = compile_fx_inner(graph, examples, **kwargs)

        def call(inputs):
            kept = list(inputs)
            outputs = code(inputs)  # empties the list
            self._last = code, kept, outputs
            return outputs

        call._boxed_call = True  # it takes a list
        return call


def batch_and_key(args, kwargs):
    """Return a call's batch, which is a dict, and what else must be equal to repeat the call."""
    arguments = (*args, *kwargs.values())
    batch = next(x for x in arguments if isinstance(x, dict))
    return batch, (*kwargs, *map(_identity, arguments))


def _identity(x):
    """Return what identifies an argument: of an object, its id.

    The batches of a run differ in their number of rows at most.
    """
    if isinstance(x, dict):
        return *x, *map(len, x.values())
    return x if isinstance(x, float | int | str) else id(x)


class RecordedCall:
    """A call of machine code that can be repeated with another batch."""

    def __init__(self, arguments, batch, code, inputs, outputs, result):
        self.arguments = arguments  # kept, so that no other object gets the same id
        self.code, self.inputs = code, list(inputs)
        places = {id(tensor): i for i, tensor in enumerate(inputs)}
        self.batch = {name: places.get(id(tensor)) for name, tensor in batch.items()}
        distinct = len(set(self.batch.values())) == len(batch)
        places = {id(tensor): i for i, tensor in enumerate(outputs)}
        self.result = _replace(result, lambda x: places.get(id(x)))
        found = [*self.batch.values()]
        _replace(self.result, found.append)
        self.complete = distinct and None not in found

    def __call__(self, batch):
        """Take one step."""
        for name, i in self.batch.items():
            self.inputs[i] = batch[name]
        with torch.no_grad():  # the gradients are part of the machine code
            outputs = self.code(self.inputs.copy())
        return _replace(self.result, outputs.__getitem__)


def _replace(result, function):
    """Apply `function` to everything in a result of dicts and tuples."""
    if isinstance(result, dict):
        return {name: _replace(x, function) for name, x in result.items()}
    if isinstance(result, tuple):
        return tuple(_replace(x, function) for x in result)
    return function(result)


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
