"""Policies, values and critics of a few numbers, whose losses and gradients follow by hand."""

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical


class TablePi(nn.Module):
    """One row of logits a state; observations are the numbers of states."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(torch.as_tensor(np.array(logits), dtype=torch.float64))

    def forward(self, obs, act=None):
        pi = Categorical(logits=self.logits[obs])
        return pi, None if act is None else pi.log_prob(act)


class TableV(nn.Module):
    """One number a state."""

    def __init__(self, values):
        super().__init__()
        self.values = nn.Parameter(torch.as_tensor(np.array(values), dtype=torch.float64))

    def forward(self, obs):
        return self.values[obs]


class TableQ(TableV):
    """One row of numbers a state; with actions, those of the actions."""

    def forward(self, obs, act=None):
        return self.values[obs] if act is None else self.values[obs, act]


class TableAC(nn.Module):
    """`pi` from probabilities and `v` from values, in double precision."""

    def __init__(self, probs, values=(0.0, 0.0)):
        super().__init__()
        self.pi = TablePi(np.log(probs))
        self.v = TableV(values)


def table_batch(obs, act, adv, ret=None, p_old=None, val=None):
    """A batch as the updates take it; `p_old` are the old probabilities of the actions."""
    n = len(obs)
    floats = {
        "adv": adv,
        "ret": np.zeros(n) if ret is None else ret,
        "logp": np.zeros(n) if p_old is None else np.log(p_old),
        "val": np.zeros(n) if val is None else val,
    }
    batch = {k: torch.tensor(np.asarray(x, dtype=np.float64)) for k, x in floats.items()}
    return {"obs": torch.tensor(obs), "act": torch.tensor(act), **batch}


def score(probs, obs, act):
    """Gradient of log p(act | obs) with respect to all logits, one row a sample: onehot - p."""
    probs = np.asarray(probs)
    out = np.zeros((len(obs), *probs.shape))
    for i, (s, a) in enumerate(zip(obs, act, strict=True)):
        out[i, s] = -probs[s]
        out[i, s, a] += 1
    return out


class LinearQ(nn.Module):
    """Q(o, a) = w0 + w1 o + w2 a."""

    def __init__(self, *weights):
        super().__init__()
        self.w = nn.Parameter(torch.tensor(weights, dtype=torch.float64))

    def forward(self, obs, act):
        return self.w[0] + self.w[1] * obs[:, 0] + self.w[2] * act[:, 0]


class LinearPi(nn.Module):
    """pi(o) = k0 + k1 o."""

    def __init__(self, *weights):
        super().__init__()
        self.k = nn.Parameter(torch.tensor(weights, dtype=torch.float64))

    def forward(self, obs):
        return self.k[0] + self.k[1] * obs


class NetworksOf(nn.Module):
    """An actor-critic with the given networks."""

    def __init__(self, **networks):
        super().__init__()
        for name, network in networks.items():
            setattr(self, name, network)


def transitions(obs, act, rew, obs2, done):
    """A batch of float64 transitions of one-dimensional observations and actions."""
    rows = {"obs": obs, "act": act, "rew": rew, "obs2": obs2, "done": done}
    batch = {k: torch.tensor(v, dtype=torch.float64) for k, v in rows.items()}
    return {k: v if k in ("rew", "done") else v.unsqueeze(-1) for k, v in batch.items()}


def same(one, other):
    """Whether two networks have the same parameters, bit for bit."""
    return all(torch.equal(p, q) for p, q in zip(one.parameters(), other.parameters(), strict=True))


def default_networks(cls, action_space):
    """An actor-critic in double precision, its targets, and a batch of six transitions."""
    torch.manual_seed(3)
    obs_space = spaces.Box(-1, 1, (3,), np.float32)
    ac, ac_targ = (cls(obs_space, action_space, hidden_sizes=(6, 5)).double() for _ in range(2))
    n = 6
    batch = {k: torch.randn(n, 3, dtype=torch.float64) for k in ("obs", "obs2")}
    act = torch.rand(n, 2, dtype=torch.float64)
    is_box = isinstance(action_space, spaces.Box)
    batch["act"] = act if is_box else torch.tensor([0, 1, 2, 2, 1, 0])
    batch["rew"] = torch.randn(n, dtype=torch.float64)
    batch["done"] = torch.tensor([0.0, 1, 0, 0, 1, 0], dtype=torch.float64)
    return ac, ac_targ.requires_grad_(False), batch


def assert_gradients(loss, net, rtol=1e-5, atol=1e-8):
    """The gradient of loss() is that of finite differences, which is returned."""
    grads = torch.autograd.grad(loss(), list(net.parameters()))
    want = finite_differences(lambda: loss().detach(), net)
    np.testing.assert_allclose(torch.cat([g.reshape(-1) for g in grads]), want, rtol, atol)
    return want


def finite_differences(f, module, eps=1e-6):
    """The gradient of f() with respect to all parameters of a float64 module, as one vector."""
    grad = []
    with torch.no_grad():
        for p in module.parameters():
            flat = p.view(-1)
            for i in range(flat.numel()):
                keep = flat[i].item()
                flat[i] = keep + eps
                up = float(f())
                flat[i] = keep - eps
                grad.append((up - float(f())) / (2 * eps))
                flat[i] = keep
    return np.array(grad)
