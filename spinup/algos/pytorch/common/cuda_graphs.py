"""Repeating a whole gradient update on a GPU with a single call; only runs on CUDA import this.

With small networks, an update is hundreds of kernels that take a few microseconds each, and Python
launches them more slowly than the GPU computes them. A CUDA graph records the launches of one
update and then repeats all of them at once, on the same memory: new batches are copied into it, and
parameters are changed in place.
"""

import contextlib
import functools

import torch
from torch import nn

from spinup.algos.pytorch.common.gradients import parameters
from spinup.algos.pytorch.common.graphs import batch_and_key
from spinup.utils.errors import SpinupError

WARM_UP = 3  # calls before a recording
MOST_GRAPHS = 8


class GraphedUpdate:
    """Calls `update` through one CUDA graph for each combination of its arguments.

    An update such as `sac_update` takes one dict of tensors, the batch, which is new in every call.
    Its other arguments, modules, optimizers, tensors, numbers and flags, come in few combinations.
    It may draw random numbers from torch's CUDA generator. A graph is recorded at the first call of
    each combination. That leaves no trace: the parameters, the optimizers and the generator are
    restored afterwards, so that every step of a run, resumed or not, is a repetition of a graph.
    """

    def __init__(self, update):
        self.update = update
        self.graphs = {}  # key of a call -> function of a batch that repeats the call

    def __call__(self, *args, **kwargs):
        """Take one step; return what `update` returns, in new tensors."""
        batch, key = batch_and_key(args, kwargs)
        if key not in self.graphs:
            if len(self.graphs) == MOST_GRAPHS:
                raise SpinupError(
                    "the arguments of the update change too often for CUDA graphs: use "
                    "compile=False"
                )
            self.graphs[key] = self.record(batch, args, kwargs)
        return self.graphs[key](batch)

    def record(self, batch, args, kwargs):
        """Return a function of a batch that repeats this call."""
        inputs = {name: x.clone() for name, x in batch.items() if isinstance(x, torch.Tensor)}
        args = [inputs if a is batch else a for a in args]
        step = functools.partial(self.update, *args, **kwargs)
        with unchanged(args):
            warm_up(step)
        for tensor in tensors_of(args):
            tensor.grad = None  # the graph allocates its own
        graph, (results, rebuild) = capture(lambda: pack(step()))
        into = list(inputs.values())

        def replay(batch):
            torch._foreach_copy_(into, [batch[name] for name in inputs])
            graph.replay()
            return rebuild(results.clone())

        replay.arguments = args, kwargs  # kept, so that no other object gets the same id
        return replay


def warm_up(step):
    """Call `step` a few times, so that libraries allocate their workspaces before a recording."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            step()
    torch.cuda.current_stream().wait_stream(stream)


def capture(step):
    """Record the kernels that `step` launches, without executing them; return graph and result."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = step()
    return graph, result


@contextlib.contextmanager
def unchanged(args):
    """Restore all modules, optimizers and tensors among `args`, and the CUDA generator."""
    tensors = tensors_of(args)
    saved, rng = [x.detach().clone() for x in tensors], torch.cuda.get_rng_state()
    try:
        yield
    finally:
        with torch.no_grad():
            for tensor, before in zip(tensors, saved, strict=True):
                tensor.copy_(before)
        torch.cuda.set_rng_state(rng)


def tensors_of(args):
    """Return every tensor that an update may change: parameters, buffers, optimizers' states."""
    found = []
    for arg in args:
        if isinstance(arg, nn.Module):
            found += [*arg.parameters(), *arg.buffers()]
        elif isinstance(arg, torch.optim.Optimizer):
            for p in parameters(arg):
                found += arg.state[p].values()
        elif isinstance(arg, torch.Tensor):
            found.append(arg)
    return found


def pack(results):
    """Join an update's results in one vector; return it and a function that takes it apart again.

    Results are a dict of tensors, or a tuple of such a dict and a tensor. One vector is copied with
    a single launch.
    """
    info, *others = results if isinstance(results, tuple) else (results,)
    tensors = [*info.values(), *others]
    vector = torch.cat([x.detach().reshape(-1) for x in tensors])
    sizes = [x.numel() for x in tensors]

    def rebuild(vector):
        parts = vector.split(sizes)
        found = dict(zip(info, parts, strict=False))
        return (found, *parts[len(info) :]) if others else found

    return vector, rebuild
