"""Networks as users write them, by the names in a run's description.

They have no base class of ours and sample from torch's global generator; some count their calls or
drop out, so that a resumed run differs if anything of them is lost.
"""

import functools

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from torch.distributions import Categorical, Normal


class OwnActorCritic(nn.Module):
    """What a user writes: no base class, size-1 arrays, samples from torch's global generator."""

    def __init__(self, observation_space, action_space, width=8):
        super().__init__()
        self.discrete = isinstance(action_space, spaces.Discrete)
        out = int(action_space.n) if self.discrete else action_space.shape[0]
        dim = observation_space.shape[0]
        self.policy_net = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, out))
        self.value_net = nn.Sequential(nn.Linear(dim, width), nn.Dropout(0.1), nn.Linear(width, 1))
        self.log_std = nn.Parameter(torch.zeros(out))
        self.pi, self.v = OwnPi(self), OwnV(self)

    def step(self, obs):
        with torch.no_grad():
            dist, _ = self.pi(obs)
            a = dist.sample()
            return a.numpy(), self.v(obs).numpy().reshape(1), self.pi(obs, a)[1].numpy()

    def act(self, obs):
        return self.step(obs)[0]


class OwnPi(nn.Module):
    def __init__(self, ac):
        super().__init__()
        self.net, self.log_std, self.discrete = ac.policy_net, ac.log_std, ac.discrete

    def forward(self, obs, act=None):
        out = self.net(obs)
        dist = Categorical(logits=out) if self.discrete else Normal(out, self.log_std.exp())
        if act is None:
            return dist, None
        logp = dist.log_prob(act)
        return dist, logp if self.discrete else logp.sum(-1)


class OwnV(nn.Module):
    def __init__(self, ac):
        super().__init__()
        self.net = ac.value_net

    def forward(self, obs):
        return self.net(obs).squeeze(-1)


class Counting(OwnActorCritic):
    """Counts its calls in buffers, one changed in place and one replaced, and acts on them."""

    batches = True

    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space)
        self.register_buffer("calls", torch.zeros(1))
        self.register_buffer("mean", torch.zeros(observation_space.shape))

    def step(self, obs):
        self.calls += 1
        self.mean = 0.9 * self.mean + 0.1 * obs.reshape(-1, len(self.mean)).mean(0)
        with torch.no_grad():
            dist, _ = self.pi(obs - self.mean)
            a = dist.sample()
            value = self.calls + obs.sum(-1) if self.batches else self.calls
            return a.numpy(), value.numpy(), self.pi(obs, a)[1].numpy()


class CountingOneByOne(Counting):
    """The same for one observation at a time."""

    batches = False


class PlainEnv:
    """An environment with no base class, whose attributes change as it is used."""

    def __init__(self):
        self.resets = 0
        self.observation_space, self.action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)

    def reset(self, seed=None, options=None):
        self.resets += 1
        return np.zeros(2, np.float32), {}


class GivenAnEnvironment(OwnActorCritic):
    """Asks an environment for something whenever it acts, as some user classes do."""

    def __init__(self, observation_space, action_space, env):
        super().__init__(observation_space, action_space)
        self.env = env

    def step(self, obs):
        self.env.reset()
        return super().step(obs)


class OwnQ(nn.Module):
    def __init__(self, dim, width, out=1):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, width), nn.Dropout(0.1), nn.Linear(width, out))

    def forward(self, *inputs):
        out = self.net(torch.cat(inputs, -1))
        return out.squeeze(-1) if len(inputs) == 2 else out


class OwnDDPG(nn.Module):
    """What a user writes for ddpg and td3; it explores by itself, and its critics drop out."""

    def __init__(self, observation_space, action_space, width=8):
        super().__init__()
        dim, out = observation_space.shape[0], action_space.shape[0]
        self.pi = self.make_pi(dim, width, out)
        self.q, self.q1, self.q2 = (OwnQ(dim + out, width) for _ in range(3))

    def make_pi(self, dim, width, out):
        return nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, out), nn.Tanh())

    def act(self, obs):
        with torch.no_grad():
            a = self.pi(obs)
            return (a + 0.1 * torch.randn_like(a)).numpy()


class CountingDDPG(OwnDDPG):
    """Acts on a count of its calls."""

    def __init__(self, observation_space, action_space):
        super().__init__(observation_space, action_space)
        self.register_buffer("calls", torch.zeros(1))

    def act(self, obs):
        self.calls += 1
        with torch.no_grad():
            return torch.tanh(self.pi(obs) + torch.sin(self.calls)).numpy()


class OwnSAC(OwnDDPG):
    """What a user writes for sac; not even its test episodes are without noise."""

    def make_pi(self, dim, width, out):
        return OwnSquashed(dim, width, out)

    def act(self, obs, deterministic=False):
        with torch.no_grad():
            return self.pi(obs)[0].numpy()


class OwnSquashed(nn.Module):
    def __init__(self, dim, width, out):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(dim, width), nn.ReLU(), nn.Linear(width, out))

    def forward(self, obs):
        pi = Normal(self.net(obs), 0.5)
        u = pi.rsample()
        a = torch.tanh(u)
        return a, (pi.log_prob(u) - torch.log(1 - a**2 + 1e-6)).sum(-1)


class OwnDQN(nn.Module):
    """What a user writes for dqn; it sometimes acts at random, too."""

    def __init__(self, observation_space, action_space, width=8):
        super().__init__()
        self.q = OwnQ(observation_space.shape[0], width, int(action_space.n))

    def act(self, obs):
        with torch.no_grad():
            values = self.q(obs)
            return (values + 0.1 * torch.randn_like(values)).argmax(-1).numpy()


ACTOR_CRITICS = {
    "own_ddpg": OwnDDPG,
    "own_td3": OwnDDPG,
    "own_sac": OwnSAC,
    "own_dqn": OwnDQN,
    "own": OwnActorCritic,
    "counting": Counting,
    "counting_one_by_one": CountingOneByOne,
    "counting_ddpg": CountingDDPG,
    "partial": functools.partial(OwnActorCritic, width=6),
    "with_env": GivenAnEnvironment,
}
