"""Networks that the off-policy algorithms share: action-value functions, actors within bounds.

Actions live in a Box whose bounds may differ by dimension and need not be symmetric. An actor
computes in (-1, 1) and its output is scaled by half the width of the range and moved to its middle.
"""

import math

import torch
from torch import nn
from torch.distributions import Normal
from torch.nn.functional import softplus

from spinup.algos.pytorch.common.nets import Tanh, flat, mlp

LOG_STD_MIN, LOG_STD_MAX = -20, 2
LOG_2, HALF_LOG_2PI = math.log(2), 0.5 * math.log(2 * math.pi)


def bounds(action_space):
    """(half the width, middle) of every dimension of a Box, as flat float32 tensors."""
    low, high = (torch.as_tensor(x.reshape(-1)) for x in (action_space.low, action_space.high))
    return ((high - low) / 2).float(), ((high + low) / 2).float()


def action_limits(action_space, device):
    """(low, high) of every dimension of a Box, as flat float32 tensors."""
    ends = (action_space.low, action_space.high)
    return tuple(torch.tensor(x.reshape(-1), dtype=torch.float32, device=device) for x in ends)


class MLPQFunction(nn.Module):
    """Q(s, a). The output layer is linear: values may be negative."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        self.q = mlp([obs_dim + act_dim, *hidden_sizes, 1], activation)

    def inputs(self, obs, act):
        """What the network reads: (..., obs), (..., act) -> (..., obs + act)."""
        obs = self.obs_filter(obs)
        if act.ndim != obs.ndim:  # actions with several axes
            act = act.flatten(obs.ndim - 1)
        return torch.cat([obs, act], -1)

    def forward(self, obs, act):
        """(..., obs), (..., act) -> (...,)."""
        return self.q(self.inputs(obs, act)).squeeze(-1)


def twin_q(ac, obs, act):
    """Both critics of a batch, (B,) each."""
    return flat(ac.q1(obs, act)), flat(ac.q2(obs, act))


class MLPDiscreteQFunction(nn.Module):
    """Q(s, .) of all discrete actions at once, or of the given ones."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        self.q = mlp([obs_dim, *hidden_sizes, act_dim], activation)

    def forward(self, obs, act=None):
        """(..., obs) -> (..., n); with integer actions (...,) -> (...,)."""
        q = self.q(self.obs_filter(obs))
        return q if act is None else q.gather(-1, act.unsqueeze(-1)).squeeze(-1)


class BoundedActor(nn.Module):
    """What actors within bounds have in common: scale and middle of every dimension.

    `act_limit` is half the width of the range, one number or one a dimension; `act_center` is its
    middle.
    """

    def __init__(self, act_dim, act_limit, act_center=0.0, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        for name, value in (("act_limit", act_limit), ("act_center", act_center)):
            filled = torch.as_tensor(value, dtype=torch.float32).expand(act_dim).clone()
            self.register_buffer(name, filled)

    def scale(self, squashed):
        """From (-1, 1) to the bounds."""
        return self.act_center + self.act_limit * squashed

    def numpy_scale(self):
        """The same as a function on NumPy arrays."""
        limit, center = (x.cpu().numpy() for x in (self.act_limit, self.act_center))
        return lambda squashed: center + limit * squashed


class MLPActor(BoundedActor):
    """A deterministic policy: the tanh of the last layer, scaled to the bounds."""

    def __init__(
        self,
        obs_dim,
        act_dim,
        hidden_sizes,
        activation,
        act_limit,
        act_center=0.0,
        obs_filter=None,
    ):
        super().__init__(act_dim, act_limit, act_center, obs_filter)
        self.pi = mlp([obs_dim, *hidden_sizes, act_dim], activation, Tanh)

    def forward(self, obs):
        """(..., obs) -> (..., act)."""
        return self.scale(self.pi(self.obs_filter(obs)))


class SquashedGaussianMLPActor(BoundedActor):
    """A Gaussian whose mean and width depend on the state, squashed by tanh into the bounds."""

    def __init__(
        self,
        obs_dim,
        act_dim,
        hidden_sizes,
        activation,
        act_limit,
        act_center=0.0,
        obs_filter=None,
    ):
        super().__init__(act_dim, act_limit, act_center, obs_filter)
        self.net = mlp([obs_dim, *hidden_sizes], activation, activation)
        width = [obs_dim, *hidden_sizes][-1]
        self.mu_layer = nn.Linear(width, act_dim)
        self.log_std_layer = nn.Linear(width, act_dim)

    def forward(self, obs, deterministic=False, with_logprob=True):
        """Actions (..., act) and their log-probabilities (...,), or None for those."""
        h = self.net(self.obs_filter(obs))
        mu, log_std = self.mu_layer(h), self.log_std_layer(h).clamp(LOG_STD_MIN, LOG_STD_MAX)
        # u = mu + std * noise: the gradient passes through the sample (reparameterisation).
        noise = torch.zeros_like(mu) if deterministic else torch.randn_like(mu)
        u = mu + log_std.exp() * noise
        logp = squashed_log_prob(noise, log_std, u, self.act_limit) if with_logprob else None
        return self.scale(torch.tanh(u)), logp


class MLPScaledGaussianActor(BoundedActor):
    """A Gaussian of fixed width around a mean; both in units of half the range of each dimension.

    Unlike the squashed one it may sample outside of the bounds, where actions are clipped.
    """

    def __init__(
        self,
        obs_dim,
        act_dim,
        hidden_sizes,
        activation,
        act_limit,
        act_center=0.0,
        obs_filter=None,
        std=0.3,
    ):
        super().__init__(act_dim, act_limit, act_center, obs_filter)
        self.mu_net = mlp([obs_dim, *hidden_sizes, act_dim], activation)
        self.std = std

    def forward(self, obs, act=None):
        """The distribution, and the log-probabilities (...,) of actions where they are given."""
        mean = self.scale(self.mu_net(self.obs_filter(obs)))
        pi = Normal(mean, (self.std * self.act_limit).expand_as(mean), validate_args=False)
        return pi, None if act is None else pi.log_prob(act).sum(-1)

    def mode(self, pi):
        """The mean."""
        return pi.mean


def squashed_log_prob(noise, log_std, u, act_limit):
    """Log-density of the action c + s tanh(u), u = mu + std * noise, (..., act) -> (...,).

    The change of variables subtracts log(s (1 - tanh(u)^2)) a dimension. 1 - tanh^2 rounds to zero
    where u is large; 2 (log 2 - u - softplus(-2u)) is its logarithm without that.
    """
    gaussian = -0.5 * noise.square() - log_std - HALF_LOG_2PI
    log_slope = 2 * (LOG_2 - u - softplus(-2 * u)) + act_limit.log()
    return (gaussian - log_slope).sum(-1)


class MLPDuelingQ(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean over actions of A(s, .) (Wang et al. 2016, eq. 9).

    The last hidden layer exists twice, once for V and once for A; those before it are shared.
    """

    def __init__(self, obs_dim, n_actions, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        shared, last = [obs_dim, *hidden_sizes[:-1]], hidden_sizes[-1:]
        self.net = mlp(shared, activation, activation) if shared[1:] else nn.Sequential()
        self.v_net = mlp([shared[-1], *last, 1], activation)
        self.a_net = mlp([shared[-1], *last, n_actions], activation)

    def forward(self, obs):
        """(..., obs) -> (..., actions)."""
        h = self.net(self.obs_filter(obs))
        a = self.a_net(h)
        return self.v_net(h) + a - a.mean(-1, keepdim=True)
