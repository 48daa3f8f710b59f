"""Right answers to exercises whose function the library has only inside a larger one.

Each says which lines of the library it stands for.
"""

import numpy as np
import torch


class ReplayBuffer:
    """A ring of the newest `size` transitions. The library's is `spinup.algos.common.replay`."""

    def __init__(self, obs_dim, act_dim, size):
        self.obs = np.zeros((size, obs_dim))
        self.act = np.zeros((size, act_dim))
        self.rew = np.zeros(size)
        self.obs2 = np.zeros((size, obs_dim))
        self.done = np.zeros(size)
        self.next, self.count, self.max_size = 0, 0, size

    def store(self, obs, act, rew, obs2, done):
        """Store one transition; in a full ring, it replaces the oldest one."""
        self.obs[self.next] = obs
        self.act[self.next] = act
        self.rew[self.next] = rew
        self.obs2[self.next] = obs2
        self.done[self.next] = done
        self.next = (self.next + 1) % self.max_size
        self.count = min(self.count + 1, self.max_size)

    def sample(self, batch_size, rng):
        """Return random transitions, drawn with replacement: a dict of arrays."""
        rows = rng.integers(self.count, size=batch_size)
        return {
            "obs": self.obs[rows],
            "act": self.act[rows],
            "rew": self.rew[rows],
            "obs2": self.obs2[rows],
            "done": self.done[rows],
        }


def rewards_to_go(rew, ends, last_vals, gamma):
    """Return the discounted rewards that followed each step of several paths, an array like rew."""
    ret = np.zeros(len(rew))
    start = 0
    for end, last_val in zip(ends, last_vals, strict=True):
        following = last_val
        for t in reversed(range(start, end)):
            following = rew[t] + gamma * following
            ret[t] = following
        start = end
    return ret


def normalize_advantages(adv):
    """Return advantages with mean 0 and standard deviation 1; zeros if they are all equal."""
    mean = adv.mean()
    std = adv.std(correction=0)
    return (adv - mean) / (std + 1e-8)


def step_length(x, hx, delta):
    """Return the factor by which TRPO multiplies the direction x = H^-1 g; hx is H x."""
    return torch.sqrt(2 * delta / (x @ hx + 1e-8))


def minibatches(batch, size, rng):
    """Return a list of minibatches that together contain each row once, in random order."""
    rows = len(batch["obs"])
    order = rng.permutation(rows)
    pieces = []
    for start in range(0, rows, size):
        pieces.append({name: x[order[start : start + size]] for name, x in batch.items()})
    return pieces


def train_policy(loss_and_kl, optimizer, train_pi_iters, target_kl):
    """Take at most `train_pi_iters` steps of PPO's policy; return how many were taken."""
    steps = 0
    for _ in range(train_pi_iters):
        loss_pi, kl = loss_and_kl()
        if kl > 1.5 * target_kl:
            break  # before the step: the policy has already moved too far
        optimizer.zero_grad()
        loss_pi.backward()
        optimizer.step()
        steps += 1
    return steps


def vpg_update(ac, pi_optimizer, vf_optimizer, batch, compute_loss_pi, compute_loss_v, v_iters):
    """One epoch's update of VPG on one batch: what `vpg_update` does, without shards."""
    with torch.no_grad():
        loss_pi_old, _ = compute_loss_pi(ac, batch)
        loss_v_old = compute_loss_v(ac, batch)

    pi_optimizer.zero_grad()
    loss_pi, _ = compute_loss_pi(ac, batch)
    loss_pi.backward()
    pi_optimizer.step()

    for _ in range(v_iters):
        vf_optimizer.zero_grad()
        loss_v = compute_loss_v(ac, batch)
        loss_v.backward()
        vf_optimizer.step()

    with torch.no_grad():
        _, info = compute_loss_pi(ac, batch)
    return {"LossPi": loss_pi_old, "LossV": loss_v_old, "KL": info["KL"]}


def gaussian_kl(mu_old, log_std_old, mu, log_std):
    """Return the mean over a batch of KL(old || new) of diagonal Gaussians."""
    var_old, var = torch.exp(2 * log_std_old), torch.exp(2 * log_std)
    kl = log_std - log_std_old + (var_old + (mu_old - mu) ** 2) / (2 * var) - 0.5
    return kl.sum(-1).mean()


def hessian_vector_product(kl, params, v, damping_coeff):
    """Return (H + damping_coeff I) v, where H is the Hessian of kl with respect to params."""
    grads = torch.autograd.grad(kl, params, create_graph=True)
    grad = torch.cat([g.reshape(-1) for g in grads])
    products = torch.autograd.grad(grad @ v, params)
    return torch.cat([h.reshape(-1) for h in products]) + damping_coeff * v


def line_search(loss_and_kl, params, full_step, delta, backtrack_iters, backtrack_coeff):
    """Return the parameters after the longest acceptable step, and how often it was shortened."""
    loss_old, _ = loss_and_kl(params)
    for j in range(backtrack_iters):
        new = params - backtrack_coeff**j * full_step
        loss, kl = loss_and_kl(new)
        if kl <= delta and loss <= loss_old:
            return new, j
    return params, backtrack_iters
