"""TRPO's networks and linear algebra, and the names that user code imports from here."""

import torch
from gymnasium.spaces import Box, Discrete
from torch.distributions import Categorical, Normal
from torch.func import functional_call

from spinup.algos.common.returns import discount_cumsum
from spinup.algos.pytorch.common.advantages import PathBuffer as GAEBuffer
from spinup.algos.pytorch.common.gradients import shard_mean
from spinup.algos.pytorch.common.nets import (
    Actor,
    MLPActorCritic,
    MLPCategoricalActor,
    MLPCritic,
    MLPGaussianActor,
    combined_shape,
    count_vars,
    mlp,
)
from spinup.parallel.pytorch import flatten, unflatten


def trainable(module):
    """Return the parameters that an update may change."""
    return [p for p in module.parameters() if p.requires_grad]


def flat_params(module):
    """Return all trainable parameters as one vector (a copy)."""
    return flatten([p.detach() for p in trainable(module)])


def set_flat_params(module, flat):
    """Overwrite all trainable parameters from one vector."""
    params = trainable(module)
    with torch.no_grad():
        for p, value in zip(params, unflatten(flat, params), strict=True):
            p.copy_(value)


def flat_grad(module):
    """Return all gradients as one vector."""
    return flatten([p.grad for p in trainable(module)])


def with_old_policy(ac, batches):
    """Return the batches with `pi_old` added: the distributions before the update, as constants.

    They are computed from a copy of the parameters. A distribution may contain a parameter itself
    (a log standard deviation), and would otherwise change with it during the line search.
    """
    frozen = {name: p.detach().clone() for name, p in ac.pi.named_parameters()}
    with torch.no_grad():
        return [
            {**b, "pi_old": functional_call(ac.pi, frozen, (b["obs"], b["act"]))[0]}
            for b in batches
        ]


def hessian_vector_product(kl, module, batches, shards, damping_coeff):
    """Return a function v -> (H + damping I) v; H is the Hessian of `kl`, averaged over shards.

    H is never formed: H v is the gradient of (gradient . v). The first gradient is computed once,
    so each product costs one backward pass.
    """
    params = trainable(module)
    grads = []
    for batch in batches:
        first = torch.autograd.grad(kl(batch), params, create_graph=True, allow_unused=True)
        filled = [
            torch.zeros_like(p) if g is None else g for g, p in zip(first, params, strict=True)
        ]
        grads.append(flatten(filled))

    def product(v):
        parts = []
        for grad in grads:
            second = torch.autograd.grad(grad @ v, params, retain_graph=True, allow_unused=True)
            filled = [
                torch.zeros_like(p) if h is None else h for h, p in zip(second, params, strict=True)
            ]
            parts.append(flatten(filled))
        return shard_mean(parts, shards) + damping_coeff * v

    return product


def conjugate_gradient(product, b, iters):
    """Solve A x = b approximately from products `product(v)` = A v; A is positive definite."""
    x = torch.zeros_like(b)
    r = b.clone()  # residual b - A x at x = 0
    p = r.clone()
    rr = r @ r
    for _ in range(iters):
        if rr < 1e-20:
            break  # solved; another iteration would divide by zero
        z = product(p)
        alpha = rr / (p @ z)
        x += alpha * p
        r -= alpha * z
        rr_new = r @ r
        p = r + (rr_new / rr) * p
        rr = rr_new
    return x
