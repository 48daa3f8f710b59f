"""A user's own script: forks by itself, has its own actor-critic, and episodes that never end."""

import sys

import numpy as np
import torch
from gymnasium import Wrapper, make
from torch import nn

from spinup import ppo_pytorch as ppo
from spinup.utils.mpi_tools import mpi_fork, num_procs, proc_id


class MyActorCritic(nn.Module):
    """No more than what the contract asks for; its initial weights differ between processes."""

    def __init__(self, observation_space, action_space, width=8):
        super().__init__()
        n, m = observation_space.shape[0], action_space.shape[0]
        self.body = nn.Linear(n, m)
        self.value = nn.Sequential(nn.Linear(n, width), nn.Tanh(), nn.Linear(width, 1))
        with torch.no_grad():
            self.body.weight += proc_id()
        actor = self

        class Pi(nn.Module):
            def __init__(self):
                super().__init__()
                self.body = actor.body
                self.log_std = nn.Parameter(-0.5 * torch.ones(m))

            def forward(self, obs, act=None):
                pi = torch.distributions.Normal(self.body(obs), self.log_std.exp())
                return pi, None if act is None else pi.log_prob(act).sum(-1)

        class V(nn.Module):
            def __init__(self):
                super().__init__()
                self.net = actor.value

            def forward(self, obs):
                return self.net(obs).squeeze(-1)

        self.pi, self.v = Pi(), V()

    def step(self, obs):
        with torch.no_grad():
            pi, _ = self.pi(obs)
            a = pi.sample()
            return a.numpy(), self.v(obs).numpy(), pi.log_prob(a).sum(-1).numpy()

    def act(self, obs):
        return self.step(obs)[0]


class EndsOnOneRank(Wrapper):
    """Pendulum; on process 0 an episode may end in the second epoch, on the others none ever."""

    def step(self, action):
        o, r, _, truncated, info = self.env.step(action)
        self.steps = getattr(self, "steps", 0) + 1
        return o, r, proc_id() == 0 and self.steps == 30, truncated, info


if __name__ == "__main__":
    mpi_fork(2)
    ac = ppo(
        lambda: EndsOnOneRank(make("Pendulum-v1")),
        MyActorCritic,
        {"width": 4},
        0,
        40,
        3,
        train_pi_iters=2,
        train_v_iters=2,
        logger_kwargs={"output_dir": sys.argv[1], "quiet": True},
    )
    flat = np.concatenate([p.detach().numpy().ravel() for p in ac.parameters()])
    np.save(f"weights-{proc_id()}-of-{num_procs()}.npy", flat)
