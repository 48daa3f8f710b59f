"""The parts of ACER that discrete and continuous actions share (Wang et al. 2017)."""

import torch


def retrace(q, v2, rho, batch, gamma=0.99, lam=1.0):
    """Compute the Retrace targets Qret (eq. 5) of N trajectories of T steps, (T, N).

    `q` contains Q(s_t, a_t), `v2` the next state's value V, `rho` the probability ratio pi / mu of
    a_t. A terminated episode has zero value after its last step. A truncated episode bootstraps
    from V, and so does the last step of a trajectory; the following episode has no influence.
    """
    delta = batch["rew"] + gamma * (1 - batch["done"]) * v2 - q  # (T, N)
    trace = gamma * lam * rho[1:].clamp(max=1) * (1 - batch["ended"][:-1])  # (T - 1, N)
    correction = [delta[-1]]  # Qret - Q, starting with the last step
    for t in reversed(range(len(trace))):
        correction.append(delta[t] + trace[t] * correction[-1])
    return q + torch.stack(correction[::-1])


def compute_loss_q(q, q_ret):
    """Return squared errors of Q(s_t, a_t) against the Retrace targets (eq. 6), (T, N)."""
    return (q - q_ret) ** 2


def trust_region(g, k, delta):
    """Return the z closest to g that raises the KL divergence by at most `delta` (eq. 11 and 12).

    `g` and `k` are the gradients of the objective and of the KL divergence from the average policy
    with respect to the policy network's outputs, (T, N, A). The constraint k.z <= delta applies to
    each state.
    """
    excess = (k * g).sum(-1, keepdim=True) - delta
    norm = k.square().sum(-1, keepdim=True).clamp(min=1e-20)  # k = 0: z = g
    return g - (excess / norm).clamp(min=0) * k


def policy_step(phi, compute_losses, delta, weight, pi_optimizer):
    """Take a policy step; `compute_losses(phi)` returns its loss and KL(average || pi), (T, N).

    Both are differentiated with respect to the policy network's outputs `phi`. The trust region
    limits that gradient before it is propagated to the parameters. Returns the mean loss and KL,
    and the fraction of states where the trust region changed the gradient.
    """
    out = phi.detach().requires_grad_()
    loss_pi, kl = compute_losses(out)
    (g,), (k,) = (torch.autograd.grad(x.sum(), out) for x in (-loss_pi, kl))
    z = trust_region(g, k, delta)
    pi_optimizer.zero_grad()
    (-(weight * (z * phi).sum(-1)).mean()).backward()
    pi_optimizer.step()
    bent = (z != g).any(-1).float().mean()
    return (weight * loss_pi).mean().detach(), kl.mean().detach(), bent
