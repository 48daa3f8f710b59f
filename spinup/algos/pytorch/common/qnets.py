"""Networks that the off-policy algorithms share: Q-functions, and actors with bounded actions.

Actions are in a Box whose bounds may differ by dimension and need not be symmetric. An actor
computes in (-1, 1); its output is scaled by half the width of the range and shifted to its center.
"""

import math

import numpy as np
import torch
from torch import nn
from torch.distributions import Normal
from torch.nn.functional import softplus

from spinup.algos.common import numpy_net
from spinup.algos.pytorch.common.layers import Tanh, flat, mlp, obs_layers, set_state

LOG_STD_MIN, LOG_STD_MAX = -20, 2
LOG_2, HALF_LOG_2PI = math.log(2), 0.5 * math.log(2 * math.pi)


def bounds(action_space):
    """Return (half the width, center) of every dimension of a Box, as flat float32 tensors."""
    low, high = (torch.as_tensor(x.reshape(-1)) for x in (action_space.low, action_space.high))
    return ((high - low) / 2).float(), ((high + low) / 2).float()


def action_limits(action_space, device):
    """Return (low, high) of every dimension of a Box, as flat float32 tensors."""
    ends = (action_space.low, action_space.high)
    return tuple(torch.tensor(x.reshape(-1), dtype=torch.float32, device=device) for x in ends)


class MLPQFunction(nn.Module):
    """Q(s, a), with a linear output layer, because values may be negative."""

    __setstate__ = set_state

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        self.q = mlp([obs_dim + act_dim, *hidden_sizes, 1], activation)

    def inputs(self, obs, act):
        """Build the network's input: (..., obs), (..., act) -> (..., obs + act)."""
        obs = self.obs_filter(obs)
        if act.ndim != obs.ndim:  # actions with several axes
            act = act.flatten(obs.ndim - 1)
        return torch.cat([obs, act], -1)

    def forward(self, obs, act):
        """Return Q-values: (..., obs), (..., act) -> (...,)."""
        return self.q(self.inputs(obs, act)).squeeze(-1)


def shared_layers(space, encoder, hidden_sizes, usual):
    """Return (width, hidden_sizes, filters): how a policy and its critics start.

    `filters` prepare observations for the policy, the first and the second critic. For images, all
    three share one encoder. Only the critics' loss trains it: a policy's gradient is large and
    noisy, and says little about what an image shows (README, "Images"). `usual` is the default of
    `hidden_sizes`, also after an encoder.
    """
    width, hidden_sizes, make = obs_layers(space, encoder, hidden_sizes, usual, after=usual)
    obs_filter = make()
    if not hasattr(obs_filter, "features"):
        return width, hidden_sizes, (obs_filter, obs_filter, obs_filter)
    from spinup.algos.pytorch.common.images import Shared

    filters = (Shared(obs_filter, trains=False), obs_filter, Shared(obs_filter, trains=True))
    return width, hidden_sizes, filters


def twin_q(ac, obs, act):
    """Return both critics' values for a batch, (B,) each."""
    return flat(ac.q1(obs, act)), flat(ac.q2(obs, act))


class MLPDiscreteQFunction(nn.Module):
    """Q(s, a) for all discrete actions at once, or for the given actions."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        self.q = mlp([obs_dim, *hidden_sizes, act_dim], activation)

    def forward(self, obs, act=None):
        """Return Q-values: (..., obs) -> (..., n), or (...,) for given integer actions (...,)."""
        q = self.q(self.obs_filter(obs))
        return q if act is None else q.gather(-1, act.unsqueeze(-1)).squeeze(-1)

    def in_numpy(self):
        """Return, for acting, the layers and functions (sample, mode) that pick the best action."""
        return self.q, lambda values, rng: values.argmax(-1), lambda values: values.argmax(-1)


class BoundedActor(nn.Module):
    """The base class of actors with bounded actions: each dimension's scale and center.

    `act_limit` is half the width of the range, one number or one per dimension; `act_center` is its
    center. Subclasses take these, and `obs_filter`, after an MLP's arguments.
    """

    def __init__(self, act_dim, act_limit, act_center=0.0, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        for name, value in (("act_limit", act_limit), ("act_center", act_center)):
            filled = torch.as_tensor(value, dtype=torch.float32).expand(act_dim).clone()
            self.register_buffer(name, filled)

    def __setstate__(self, state):
        set_state(self, state)
        if "act_center" not in self._buffers:  # the original has one limit for all dimensions
            head = self.mu_layer if "mu_layer" in self._modules else self.pi[-2]
            limit = torch.as_tensor(self.__dict__.pop("act_limit"), dtype=torch.float32)
            self.register_buffer("act_limit", limit.expand(head.out_features).clone())
            self.register_buffer("act_center", torch.zeros(head.out_features))

    def scale(self, squashed):
        """Map (-1, 1) to the bounds."""
        return self.act_center + self.act_limit * squashed

    def numpy_scale(self):
        """Return `scale` as a function of NumPy arrays."""
        limit, center = (x.cpu().numpy() for x in (self.act_limit, self.act_center))
        return lambda squashed: center + limit * squashed


class MLPActor(BoundedActor):
    """A deterministic policy: the tanh of the last layer, scaled to the bounds."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, *bounds, **named):
        super().__init__(act_dim, *bounds, **named)
        self.pi = mlp([obs_dim, *hidden_sizes, act_dim], activation, Tanh)

    def forward(self, obs):
        """Return actions: (..., obs) -> (..., act)."""
        return self.scale(self.pi(self.obs_filter(obs)))

    def in_numpy(self):
        """Return, for acting, the layers and (sample, mode), which map their outputs to actions."""
        return self.pi, *numpy_net.deterministic(self.numpy_scale())


class SquashedGaussianMLPActor(BoundedActor):
    """A Gaussian whose mean and standard deviation depend on the state, squashed by tanh."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, *bounds, **named):
        super().__init__(act_dim, *bounds, **named)
        self.net = mlp([obs_dim, *hidden_sizes], activation, activation)
        width = [obs_dim, *hidden_sizes][-1]
        self.mu_layer = nn.Linear(width, act_dim)
        self.log_std_layer = nn.Linear(width, act_dim)

    def forward(self, obs, deterministic=False, with_logprob=True):
        """Return actions (..., act) and log-probabilities (...,), None without `with_logprob`."""
        h = self.net(self.obs_filter(obs))
        mu, log_std = self.mu_layer(h), self.log_std_layer(h).clamp(LOG_STD_MIN, LOG_STD_MAX)
        # u = mu + std * noise: the gradient passes through the sample (reparameterization).
        noise = torch.zeros_like(mu) if deterministic else torch.randn_like(mu)
        u = mu + log_std.exp() * noise
        logp = squashed_log_prob(noise, log_std, u, self.act_limit) if with_logprob else None
        return self.scale(torch.tanh(u)), logp

    def in_numpy(self):
        """Return, for acting, the layers and (sample, mode), which map their outputs to actions.

        The last layer outputs the means and the log standard deviations side by side.
        """
        mu, log_std = self.mu_layer, self.log_std_layer
        with torch.no_grad():
            weight = torch.cat([mu.weight, log_std.weight])
            head = _linear(weight, torch.cat([mu.bias, log_std.bias]))
        limits = (LOG_STD_MIN, LOG_STD_MAX)
        acts = numpy_net.squashed_gaussian(len(self.act_limit), *limits, self.numpy_scale())
        return nn.Sequential(*self.net, head), *acts


class MLPScaledGaussianActor(BoundedActor):
    """A Gaussian with fixed standard deviation, in units of half of each dimension's range.

    Unlike the squashed Gaussian, it may sample actions outside the bounds, which are then clipped.
    """

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, *bounds, std=0.3, **named):
        super().__init__(act_dim, *bounds, **named)
        self.mu_net = mlp([obs_dim, *hidden_sizes, act_dim], activation)
        self.std = std

    def forward(self, obs, act=None):
        """Return (pi, logp): the distribution and, if `act` is given, log-probabilities (...,)."""
        mean = self.scale(self.mu_net(self.obs_filter(obs)))
        pi = Normal(mean, (self.std * self.act_limit).expand_as(mean), validate_args=False)
        return pi, None if act is None else pi.log_prob(act).sum(-1)

    def mode(self, pi):
        """Return the mean."""
        return pi.mean

    def in_numpy(self):
        """Return, for acting, the layers and (sample, mode), which map their outputs to actions."""
        scale = self.numpy_scale()

        def sample(mu, rng):
            return scale(mu + self.std * rng.standard_normal(mu.shape, np.float32))

        return self.mu_net, sample, scale


def squashed_log_prob(noise, log_std, u, act_limit):
    """Return the log-density of c + s tanh(u), u = mu + std * noise: (..., act) -> (...,).

    The change of variables subtracts log(s (1 - tanh(u)^2)) per dimension. For large u, 1 -
    tanh(u)^2 rounds to zero; 2 (log 2 - u - softplus(-2u)) is its numerically stable logarithm.
    """
    gaussian = -0.5 * noise.square() - log_std - HALF_LOG_2PI
    log_slope = 2 * (LOG_2 - u - softplus(-2 * u)) + act_limit.log()
    return (gaussian - log_slope).sum(-1)


class MLPDuelingQ(nn.Module):
    """Q(s, a) = V(s) + A(s, a) - mean over actions of A(s, .) (Wang et al. 2016, eq. 9).

    V and A each have their own last hidden layer; the layers before it are shared.
    """

    def __init__(self, obs_dim, n_actions, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        shared, last = [obs_dim, *hidden_sizes[:-1]], hidden_sizes[-1:]
        self.net = mlp(shared, activation, activation) if shared[1:] else nn.Sequential()
        self.v_net = mlp([shared[-1], *last, 1], activation)
        self.a_net = mlp([shared[-1], *last, n_actions], activation)

    def forward(self, obs):
        """Return Q-values: (..., obs) -> (..., actions)."""
        h = self.net(self.obs_filter(obs))
        a = self.a_net(h)
        return self.v_net(h) + a - a.mean(-1, keepdim=True)

    def in_numpy(self):
        """Return, for acting, the layers and functions (sample, mode) that pick the best action.

        The two streams are placed side by side. V + A - mean A is linear in their outputs, so a
        single final layer computes it.
        """
        (*v_hidden, v_out, _), (*a_hidden, a_out, _) = self.v_net, self.a_net
        with torch.no_grad():
            weight, bias = (x - x.mean(0, keepdim=True) for x in (a_out.weight, a_out.bias))
            if not v_hidden:
                layers = [_linear(v_out.weight + weight, v_out.bias + bias)]
            else:
                (v_in, act), (a_in, _) = v_hidden, a_hidden
                both = (torch.cat([v_in.weight, a_in.weight]), torch.cat([v_in.bias, a_in.bias]))
                weight = torch.cat([v_out.weight.expand(len(bias), -1), weight], 1)
                layers = [_linear(*both), act, _linear(weight, v_out.bias + bias)]
        net = nn.Sequential(*self.net, *layers)
        return net, lambda values, rng: values.argmax(-1), lambda values: values.argmax(-1)


def _linear(weight, bias):
    """Create a layer with these parameters."""
    # "meta" skips the initial weights, which would be drawn from torch's global RNG.
    linear = nn.Linear(*reversed(weight.shape), device="meta")
    linear.weight, linear.bias = nn.Parameter(weight), nn.Parameter(bias)
    return linear
