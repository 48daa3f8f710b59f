"""What ACER does the same way for discrete and continuous actions (Wang et al. 2017)."""

import torch


def retrace(q, v2, rho, batch, gamma=0.99, lam=1.0):
    """The Retrace targets Qret (eq. 5) of N trajectories of T steps, (T, N).

    `q` are the Q(s_t, a_t), `v2` the V of what followed each step, `rho` the pi / mu of its action.
    Nothing is worth anything after a step that terminated its episode. One that was cut continues
    with V, and so does the last one of a trajectory; the episode that comes next has no say.
    """
    delta = batch["rew"] + gamma * (1 - batch["done"]) * v2 - q  # (T, N)
    trace = gamma * lam * rho[1:].clamp(max=1) * (1 - batch["ended"][:-1])  # (T - 1, N)
    correction = [delta[-1]]  # Qret - Q, beginning with the last step
    for t in reversed(range(len(trace))):
        correction.append(delta[t] + trace[t] * correction[-1])
    return q + torch.stack(correction[::-1])


def compute_loss_q(q, q_ret):
    """Squared errors of Q(s_t, a_t) against the Retrace targets (eq. 6), (T, N)."""
    return (q - q_ret) ** 2


def trust_region(g, k, delta):
    """The z nearest to g under which the divergence grows by at most `delta` (eq. 11 and 12).

    `g` and `k` are the gradients of the objective and of the KL divergence from the average policy
    at the outputs of the policy network, (T, N, A). Every state has a constraint k.z <= delta.
    """
    excess = (k * g).sum(-1, keepdim=True) - delta
    norm = k.square().sum(-1, keepdim=True).clamp(min=1e-20)  # k = 0 holds nothing back
    return g - (excess / norm).clamp(min=0) * k


def policy_step(phi, compute_losses, delta, weight, pi_optimizer):
    """One step of the policy; `compute_losses(phi)` gives its loss and KL(average || pi), (T, N).

    Both are differentiated at the outputs `phi` of the policy network. Only what the trust region
    leaves of that gradient is passed on to the parameters.
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
