"""ACER for continuous actions, where samples replace sums over all actions."""

import torch

from spinup.algos.pytorch.acer.core import gaussian, log_density
from spinup.algos.pytorch.acer.retrace import compute_loss_q, policy_step, retrace
from spinup.algos.pytorch.common.targets import polyak_update


def continuous_loss_pi(phi, mu, x, x1, q1, v, q_opc, c=5.0):
    """Return losses (T, N) whose gradients are the negated gradients of eq. 15 and 16.

    `phi` and `mu` are the means of the policy and of the behavior policy that took the actions `x`;
    `x1` are samples from the policy. All are (T, N, A), in units of the standard deviation. The
    samples and their values `q1` estimate the expectation over all actions. `q1`, `v` and `q_opc`
    (the values of `x`) are (T, N).
    """
    logp, logp1 = log_density(x, phi), log_density(x1, phi)  # (T, N)
    with torch.no_grad():
        rho, rho1 = torch.exp(logp - log_density(x, mu)), torch.exp(logp1 - log_density(x1, mu))
        beyond = (1 - c / rho1).clamp(min=0)
    return -(rho.clamp(max=c) * (q_opc - v) * logp + beyond * (q1 - v) * logp1)


def continuous_update(
    ac,
    pi_avg,
    pi_optimizer,
    q_optimizer,
    batch,
    gamma=0.99,
    lam=1.0,
    c=5.0,
    delta=1.0,
    polyak=0.99,
    dueling_samples=5,
):
    """Apply `acer_update` to continuous actions: a Gaussian policy, a stochastic dueling critic.

    Q~(s, a) = V(s) + A(s, a) - mean of A(s, u_i), with u_i ~ pi (eq. 13): Q shares what V learns.
    """
    o, a, o2 = batch["obs"], batch["act"], batch["obs2"]
    weight = batch["valid"] / batch["valid"].mean().clamp(min=1e-8)
    mean, std = gaussian(ac.pi, o)  # (T, N, A), (A,)
    phi, mu, x = mean / std, batch["mu"] / std, a / std
    with torch.no_grad():
        phi_avg = gaussian(pi_avg, o)[0] / std
        u = mean + std * torch.randn(dueling_samples, *mean.shape, device=mean.device)
        x1 = phi + torch.randn_like(phi)
        rho = torch.exp(log_density(x, phi) - log_density(x, mu))  # (T, N)
        v2, q1 = ac.q.v(o2), ac.q(o, x1 * std, u)

    q, v = ac.q(o, a, u), ac.q.v(o)  # (T, N)
    with torch.no_grad():
        # Density ratios shrink with the number of dimensions; taking the root compensates for that.
        q_ret = retrace(q, v2, rho ** (1 / a.shape[-1]), batch, gamma, lam)
        q_opc = retrace(q, v2, torch.ones_like(rho), batch, gamma)  # for the policy: uncut traces
        v_target = v + rho.clamp(max=1) * (q_ret - q)  # eq. 14
    loss_q = (weight * (compute_loss_q(q, q_ret) + (v - v_target) ** 2)).mean()
    q_optimizer.zero_grad()
    loss_q.backward()
    q_optimizer.step()

    def compute_losses(out):
        kl = (phi_avg - out).square().sum(-1) / 2  # KL(average || pi)
        return continuous_loss_pi(out, mu, x, x1, q1, v.detach(), q_opc, c), kl

    loss_pi, kl, bent = policy_step(phi, compute_losses, delta, weight, pi_optimizer)
    polyak_update(ac.pi, pi_avg, polyak)
    return {
        "QVals": q.detach(),
        "LossPi": loss_pi,
        "LossQ": loss_q.detach(),
        "KL": kl,
        "Entropy": torch.distributions.Normal(0.0, std).entropy().sum(),
        "ClipFrac": (rho > c).float().mean(),
        "TrustFrac": bent,
    }
