"""Networks that the on-policy algorithms share: actors, a critic, and both together.

The spaces determine the sizes of inputs and outputs: `MLPActorCritic(observation_space,
action_space)` picks the matching actor. User-written classes only need the methods that the
algorithms call: `step`, `act`, `pi` and `v`.
"""

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Bernoulli, Categorical, Independent, Normal, kl_divergence

from spinup.algos.common import numpy_net
from spinup.algos.common.shapes import combined_shape as combined_shape

# Pickled networks name some of these by this module.
from spinup.algos.pytorch.common.layers import (
    Actor,
    MLPCategoricalActor,
    ReturnFilter,
    Tanh,
    flat,
    init_orthogonal,
    mlp,
    obs_layers,
    samples_pi,
    set_state,
)
from spinup.algos.pytorch.common.layers import ObsFilter as ObsFilter
from spinup.algos.pytorch.common.layers import count_vars as count_vars


class DiagonalNormal(Normal):
    """Independent normal distributions, given by their means and log standard deviations.

    A `torch.distributions.Normal` that stores `log_std`: recomputing the logarithm for a whole
    batch would cost as much as the network.
    """

    HALF_LOG_2PI = 0.5 * float(np.log(2 * np.pi))

    def __init__(self, mean, log_std):
        super().__init__(mean, log_std.exp(), validate_args=False)
        self.log_std = log_std

    def log_prob(self, value):
        """Return the log-density of each dimension, (..., act_dim)."""
        z = (value - self.loc) / self.scale
        return -0.5 * z.square() - self.log_std - self.HALF_LOG_2PI

    def entropy(self):
        """Return the entropy of each dimension, (..., act_dim)."""
        return (self.log_std + 0.5 + self.HALF_LOG_2PI).expand(self.loc.shape)

    def kl(self, other):
        """Return KL(self || other), summed over dimensions."""
        distance = self.scale.square() + (self.loc - other.loc).square()
        ratio = other.log_std - self.log_std
        return (ratio + 0.5 * distance * torch.exp(-2 * other.log_std) - 0.5).sum(-1)


class MLPGaussianActor(Actor):
    """Box: a diagonal Gaussian whose standard deviation does not depend on the state."""

    __setstate__ = set_state

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))
        self.mu_net = mlp([obs_dim, *hidden_sizes, act_dim], activation)

    def _distribution(self, obs):
        return DiagonalNormal(self.mu_net(self.obs_filter(obs)), self.log_std)

    def _log_prob_from_distribution(self, pi, act):
        # The joint log-density of an action is the sum over its independent dimensions.
        return pi.log_prob(act.reshape(pi.mean.shape)).sum(-1)

    def mode(self, pi):
        """Return the mean."""
        return pi.mean

    def in_numpy(self):
        """Return, for acting, the layers and (sample, mode), which map their outputs to actions."""
        std = self.log_std.detach().exp().cpu().numpy()
        return self.mu_net, *numpy_net.gaussian(std)


class MultiCategorical:
    """Independent categorical distributions, one for each component of an action."""

    def __init__(self, logits, nvec):
        self.parts = [Categorical(logits=x, validate_args=False) for x in logits.split(nvec, -1)]

    def sample(self):
        """Sample (..., k) integers."""
        return torch.stack([p.sample() for p in self.parts], -1)

    def log_prob(self, act):
        """Return the log-probability of the whole action, the sum over its components."""
        act = act.reshape(*act.shape[: self.parts[0].logits.ndim - 1], len(self.parts))
        return sum(p.log_prob(a) for p, a in zip(self.parts, act.unbind(-1), strict=True))

    def entropy(self):
        """Return the entropy, summed over the components."""
        return sum(p.entropy() for p in self.parts)

    def kl(self, other):
        """Return KL(self || other), summed over the components."""
        pairs = zip(self.parts, other.parts, strict=True)
        return sum(kl_divergence(p, q) for p, q in pairs)


class MLPMultiCategoricalActor(Actor):
    """MultiDiscrete: one softmax for each component, from one network."""

    def __init__(self, obs_dim, nvec, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.nvec = [int(n) for n in nvec]
        self.obs_filter = obs_filter or nn.Identity()
        self.logits_net = mlp([obs_dim, *hidden_sizes, sum(self.nvec)], activation)

    def _distribution(self, obs):
        return MultiCategorical(self.logits_net(self.obs_filter(obs)), self.nvec)

    def _log_prob_from_distribution(self, pi, act):
        return pi.log_prob(act)

    def mode(self, pi):
        """Return the most likely value of each component."""
        return torch.stack([p.logits.argmax(-1) for p in pi.parts], -1)

    def in_numpy(self):
        """Return, for acting, the layers and (sample, mode), which map their outputs to actions."""
        return self.logits_net, *numpy_net.multicategorical(self.nvec)


class MLPBernoulliActor(Actor):
    """MultiBinary: independent Bernoulli variables, one logit each."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        self.logits_net = mlp([obs_dim, *hidden_sizes, act_dim], activation)

    def _distribution(self, obs):
        logits = self.logits_net(self.obs_filter(obs))
        return Independent(Bernoulli(logits=logits, validate_args=False), 1, validate_args=False)

    def _log_prob_from_distribution(self, pi, act):
        return pi.log_prob(act.reshape(pi.base_dist.logits.shape).to(pi.base_dist.logits.dtype))

    def mode(self, pi):
        """Return the more likely value of each bit."""
        return (pi.base_dist.logits > 0).long()

    def in_numpy(self):
        """Return, for acting, the layers and (sample, mode), which map their outputs to actions."""
        return self.logits_net, *numpy_net.bernoulli()


class MLPCritic(nn.Module):
    """V(s), with a linear output layer, because values may be negative."""

    __setstate__ = set_state

    def __init__(self, obs_dim, hidden_sizes, activation, obs_filter=None):
        super().__init__()
        self.obs_filter = obs_filter or nn.Identity()
        self.v_net = mlp([obs_dim, *hidden_sizes, 1], activation)

    def forward(self, obs):
        """Return values: (..., obs) -> (...,)."""
        return self.v_net(self.obs_filter(obs)).squeeze(-1)


def make_actor(observation_space, action_space, hidden_sizes, activation, obs_filter=None):
    """Create the actor that matches the action space."""
    obs_dim = getattr(obs_filter, "features", int(np.prod(observation_space.shape)))
    args = (hidden_sizes, activation, obs_filter)
    if isinstance(action_space, spaces.Discrete):
        return MLPCategoricalActor(obs_dim, int(action_space.n), *args)
    if isinstance(action_space, spaces.Box):
        return MLPGaussianActor(obs_dim, int(np.prod(action_space.shape)), *args)
    if isinstance(action_space, spaces.MultiDiscrete):
        return MLPMultiCategoricalActor(obs_dim, action_space.nvec.ravel(), *args)
    if isinstance(action_space, spaces.MultiBinary):
        return MLPBernoulliActor(obs_dim, int(np.prod(action_space.shape)), *args)
    raise TypeError(f"no actor for action space {action_space}")


class MLPActorCritic(nn.Module):
    """A policy `pi` and a value function `v`, two separate networks of the same shape.

    Args:
        observation_space: a Box of any shape. Images get an encoder; all others are flattened.
        action_space: Box, Discrete, MultiDiscrete or MultiBinary.
        hidden_sizes: widths of the hidden layers. Wider layers can fit more and are slower;
            (32, 32) to (256, 256) are usual. None means (64, 64), or none after an encoder.
        activation: activation class of the hidden layers.
        normalize_obs: subtract the running mean of observations and divide by their running
            standard deviation. Helps if components differ in scale.
        normalize_ret: divide rewards by the running standard deviation of discounted returns before
            they are used. Helps if returns are large.
        orthogonal_init: initialize weights orthogonally, with gain 0.01 in the policy's last layer.
            None means only with a convolutional encoder.
        encoder: how images are read: 'nature' (from 36 pixels on), 'small', 'auto' (one of these),
            'flat' (no encoder), or a class that makes a module. `pi` and `v` each have their own.
        share_encoder: `v` reads images through the encoder of `pi`. Only PPO can train that: each
            of its steps then follows both losses.
        log_std_init: for a Box, the logarithm of the standard deviation that actions start with.
            Lower values explore less; -2 to 0 are usual. None means -0.5.
    """

    HIDDEN_SIZES = (64, 64)

    def __init__(
        self,
        observation_space,
        action_space,
        hidden_sizes=None,
        activation=Tanh,
        normalize_obs=False,
        normalize_ret=False,
        orthogonal_init=None,
        encoder="auto",
        share_encoder=False,
        log_std_init=None,
    ):
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
        self.ret_filter = ReturnFilter() if normalize_ret else None
        obs_dim, hidden_sizes, make_filter = obs_layers(
            observation_space, encoder, hidden_sizes, self.HIDDEN_SIZES, normalize_obs
        )
        args = (hidden_sizes, activation)
        self.pi = make_actor(observation_space, action_space, *args, make_filter())
        self.v = MLPCritic(obs_dim, *args, make_filter())
        init_orthogonal(self.pi, output_gain=0.01, wanted=orthogonal_init)
        init_orthogonal(self.v, output_gain=1.0, wanted=orthogonal_init)
        if log_std_init is not None:
            nn.init.constant_(self.pi.log_std, log_std_init)
        self.share_encoder = share_encoder
        if share_encoder:
            from spinup.algos.pytorch.common.images import Shared, check_encoder

            check_encoder(observation_space, encoder, share_encoder=True)
            self.v.obs_filter = Shared(self.pi.obs_filter, trains=True)

    @samples_pi
    def step(self, obs):
        """Return action, value and log-probability for one observation or a batch, as arrays."""
        with torch.no_grad():
            pi = self.pi._distribution(obs)
            a = pi.sample()
            logp_a = self.pi._log_prob_from_distribution(pi, a)
            v = self.v(obs)
        return a.cpu().numpy(), v.cpu().numpy(), logp_a.cpu().numpy()

    def act(self, obs, deterministic=False):
        """Return an action as an array: sampled, or the most likely one."""
        with torch.no_grad():
            pi = self.pi._distribution(obs)
            return (self.pi.mode(pi) if deterministic else pi.sample()).cpu().numpy()


# ---- quantities that the losses compute from the networks
def pi_and_logp(ac, batch):
    """Return a batch's distributions and log-probabilities (B,): (pi, logp)."""
    pi, logp = ac.pi(batch["obs"], batch["act"])
    return pi, flat(logp)


def values(ac, batch):
    """Return a batch's values (B,)."""
    return flat(ac.v(batch["obs"]))


def entropy(pi):
    """Return a batch's mean entropy, summed over the dimensions of an action."""
    ent = pi.entropy()
    return (ent.sum(-1) if ent.ndim > 1 else ent).mean()


def approx_kl(logp_old, logp):
    """Estimate KL(old || new) from samples of old: mean of (ratio - 1) - log ratio (>= 0)."""
    log_ratio = logp - logp_old
    return (log_ratio.exp() - 1 - log_ratio).mean()


def mean_kl(pi_old, pi, logp_old, logp):
    """Return the mean KL(old || new), in closed form if available, otherwise from samples.

    The second derivative of the sample estimate at `old` is the empirical Fisher matrix, so a trust
    region also works with a user's own distribution, which needs only `entropy()`.
    """
    if isinstance(pi, (DiagonalNormal, MultiCategorical)):
        return pi_old.kl(pi).mean()
    try:
        kl = kl_divergence(pi_old, pi)
    except (NotImplementedError, TypeError):
        return approx_kl(logp_old, logp)
    return (kl.sum(-1) if kl.ndim > 1 else kl).mean()
