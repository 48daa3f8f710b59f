"""What the off-policy algorithms share in torch: target networks, gradient steps, exploration."""

import contextlib
import copy

import torch

from spinup.algos.pytorch.common.compiling import minimize_in_graph
from spinup.algos.pytorch.common.qnets import bounds
from spinup.utils.mpi_pytorch import laid_out_as


def target_copy(ac):
    """A copy of the network that no gradient reaches: it changes by `polyak_update` alone."""
    return copy.deepcopy(ac).requires_grad_(False)


def polyak_update(ac, ac_targ, polyak):
    """ac_targ <- polyak * ac_targ + (1 - polyak) * ac, all parameters in one call."""
    with torch.no_grad():
        if torch.compiler.is_compiling():
            for p_targ, p in zip(ac_targ.parameters(), ac.parameters(), strict=True):
                p_targ.lerp_(p, 1 - polyak)
            return
        torch._foreach_lerp_(list(ac_targ.parameters()), list(ac.parameters()), 1 - polyak)


def minimize(loss, optimizer, max_grad_norm=None):
    """One step of `optimizer` down the gradient of `loss`, with respect to its parameters only.

    Parameters that are frozen, or that the loss does not depend on, stay as they are. A gradient
    longer than `max_grad_norm` is shortened to it first.
    """
    if torch.compiler.is_compiling():
        minimize_in_graph(loss, optimizer, max_grad_norm)
        return
    params = [p for group in optimizer.param_groups for p in group["params"]]
    free = [p for p in params if p.requires_grad]
    grads = torch.autograd.grad(loss, free, allow_unused=True)
    for p in params:
        p.grad = None  # what another optimizer left there, where networks share parameters
    for p, grad in zip(free, grads, strict=True):
        p.grad = None if grad is None else laid_out_as(p, grad)
    if max_grad_norm is not None:
        torch.nn.utils.clip_grad_norm_(params, max_grad_norm)
    optimizer.step()


def flat(values):
    """(B,) numbers of a batch.

    A user's network may give them as a column (B, 1), and a column minus a row would broadcast to
    a square without a word.
    """
    return values.reshape(-1)


def frozen(*modules):
    """Compute no gradient for the parameters of these modules; gradients pass through them."""
    # a graph holds what its results need and nothing else
    return contextlib.nullcontext() if torch.compiler.is_compiling() else _frozen(modules)


@contextlib.contextmanager
def _frozen(modules):
    params = [p for module in modules for p in module.parameters() if p.requires_grad]
    for p in params:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in params:
            p.requires_grad_(True)


def action_limits(action_space, device):
    """(low, high) of every dimension of a Box, as flat float32 tensors."""
    ends = (action_space.low, action_space.high)
    return tuple(torch.tensor(x.reshape(-1), dtype=torch.float32, device=device) for x in ends)


class SampledPolicy:
    """A stochastic policy, which explores by itself."""

    def __init__(self, policy):
        self.policy = policy
        self.begin, self.renew = policy.begin, policy.renew

    def __call__(self, obs, rng):
        """Sampled actions."""
        return self.policy(obs, rng)[0]


class NoisyPolicy:
    """A deterministic policy plus Gaussian noise, in units of half the range of each dimension."""

    def __init__(self, policy, action_space, act_noise):
        self.policy = policy
        limit, _ = bounds(action_space)
        shape = action_space.shape
        self.std = act_noise * limit.numpy().reshape(shape)
        self.low, self.high = action_space.low, action_space.high
        self.begin, self.renew = policy.begin, policy.renew

    def __call__(self, obs, rng):
        """Actions within the bounds."""
        act = self.policy(obs, rng)[0].reshape(-1, *self.std.shape)
        noise = rng.standard_normal(act.shape, dtype="float32")
        noise *= self.std
        noise += act
        return noise.clip(self.low, self.high)
