"""Gradient steps: torch's usual idiom, on one shard or many.

    q_optimizer.zero_grad()
    loss_q.backward()
    q_optimizer.step()

On-policy updates average the gradients of all shards before the step. `over_shards` clears `.grad`,
yields one loss per shard on which to call `backward`, and leaves the average in `.grad`:

    for loss_pi in over_shards(losses, ac.pi, shards):
        loss_pi.backward()
    pi_optimizer.step()
"""

import contextlib
import math

import torch

from spinup.parallel.pytorch import flatten, unflatten


class Adam(torch.optim.Adam):
    """torch's Adam, which can also be part of a compiled update (`graphs.py`)."""

    def __init__(self, params, lr, fused=True):
        super().__init__(params, lr=lr, fused=fused)
        if parameters(self)[0].is_cuda:
            for group in self.param_groups:
                # keeps the step count on the GPU, so that a CUDA graph can increase it
                group["fused"] = group["capturable"] = True

    def zero_grad(self, set_to_none=True):
        """Clear all gradients."""
        for p in parameters(self):
            p.grad = None

    def set_lr(self, lr):
        """Change the learning rate. A compiled update reads it from a tensor (`graphs.prepare`)."""
        for group in self.param_groups:
            if isinstance(group["lr"], torch.Tensor):
                group["lr"].fill_(lr)
            else:
                group["lr"] = lr

    def load_state_dict(self, state_dict):
        """Restore a saved state; a learning rate in a tensor stays in that tensor."""
        rates = [group["lr"] for group in self.param_groups]
        super().load_state_dict(state_dict)
        for group, rate in zip(self.param_groups, rates, strict=True):
            if isinstance(rate, torch.Tensor):
                group["lr"] = rate.fill_(float(group["lr"]))

    def step(self, closure=None):
        """Take a step using the gradients."""
        return self._step_in_graph() if torch.compiler.is_compiling() else super().step(closure)

    step.hooked = True  # keeps torch from adding its profiler hook, which a graph cannot contain

    def _step_in_graph(self):
        """Take a step inside a graph: the same formula, written out."""
        (group,) = self.param_groups
        beta1, beta2 = group["betas"]
        with torch.no_grad():
            steps = [self.state[p]["step"] for p in group["params"]]
            torch._foreach_add_(steps, 1)  # on a GPU, one kernel for all of them
            # All parameters have taken equally many steps. Written with exp, beta ** t is computed
            # once; the compiler would compute a power again for every single weight.
            t = steps[0].double()
            step_size = (group["lr"] / (1 - torch.exp(t * math.log(beta1)))).float()
            v_scale = (1 - torch.exp(t * math.log(beta2))).rsqrt().float()
            for p in group["params"]:
                state, g = self.state[p], p.grad
                m, v = state["exp_avg"], state["exp_avg_sq"]
                m.lerp_(g, 1 - beta1)
                v.mul_(beta2).addcmul_(g, g, value=1 - beta2)
                p.sub_(step_size * m / (v.sqrt() * v_scale + group["eps"]))
                p.grad = None  # otherwise, the graph would have to return it


def parameters(optimizer):
    """Return all parameters that an optimizer updates."""
    return [p for group in optimizer.param_groups for p in group["params"]]


def shard_mean(parts, shards):
    """Average one vector per local shard over all shards, in shard order."""
    if shards.count == 1:
        return parts[0]
    arrays = [p.detach().cpu().numpy() for p in parts]
    return torch.as_tensor(shards.mean(arrays)).to(parts[0].device)


def over_shards(losses, module, shards):
    """Yield each local shard's loss, to call `backward` on; leave the mean gradient in `.grad`.

    Gradients are summed in shard order, so that the bits do not depend on the number of processes.
    With one shard, this is a plain backward pass.
    """
    params = [p for p in module.parameters() if p.requires_grad]
    parts = []
    for loss in losses:
        module.zero_grad()
        yield loss
        for p in params:
            if p.grad is None:  # the loss does not depend on it
                p.grad = torch.zeros_like(p)
        if shards.count > 1:
            parts.append(flatten([p.grad for p in params]))
    if parts:
        mean = shard_mean(parts, shards)  # one message
        for p, grad in zip(params, unflatten(mean, params), strict=True):
            p.grad.copy_(grad)  # preserves the strides of p, on which fused Adam relies


def evaluate(compute_loss, batches, shards):
    """Compute loss and info over all shards, without gradients.

    `compute_loss(batch)` returns a loss, or a loss and a dict of 0-d tensors (info).
    """
    parts, names = [], []
    with torch.no_grad():
        for batch in batches:
            result = compute_loss(batch)
            loss, info = result if isinstance(result, tuple) else (result, {})
            names = list(info)
            parts.append(torch.stack([loss, *info.values()]))
    mean = shard_mean(parts, shards)
    return mean[0], dict(zip(names, mean[1:], strict=True))


def clip_grad_norm(optimizer, max_grad_norm):
    """Clip the global norm of all of `optimizer`'s gradients; None disables clipping."""
    if max_grad_norm is None:
        return
    params = parameters(optimizer)
    if torch.compiler.is_compiling():
        _clip_in_graph(params, max_grad_norm)
    else:
        torch.nn.utils.clip_grad_norm_(params, max_grad_norm)


def _clip_in_graph(params, max_grad_norm):
    with torch.no_grad():
        norm = torch.stack([p.grad.square().sum() for p in params]).sum().sqrt()
        for p in params:
            p.grad = p.grad * (max_grad_norm / (norm + 1e-6)).clamp(max=1.0)


@contextlib.contextmanager
def frozen(*modules):
    """Skip gradients for these modules' parameters, but let gradients pass through the modules."""
    params = [p for module in modules for p in module.parameters() if p.requires_grad]
    grads = [p.grad for p in params]
    compiling = torch.compiler.is_compiling()  # a graph computes only what is used
    for p in params:
        if not compiling:
            p.requires_grad_(False)
    try:
        yield
    finally:
        for p, grad in zip(params, grads, strict=True):
            p.grad = grad
            if not compiling:
                p.requires_grad_(True)
