"""Exercise 2.2: a silent bug in DDPG.

    python -m spinup.exercises.pytorch.problem_set_2.exercise2_2
    spinup plot data --select ex2-2_ddpg --value Performance AverageQVals LossQ

This file trains DDPG with two actor-critics: the library's, and the one below, which has a bug.
Nothing crashes and nothing warns. Run it, plot the curves, and answer three questions: does the bug
matter? Which line is it? Why does the wrong loss still have a minimum, and where? There is no code
to write.

The library itself would notice this bug and correct it. So both variants compute the critic's loss
with the function in this file, which is what the formula looks like without that correction.
"""

import functools

import torch
from torch import nn

from spinup.algos.pytorch.ddpg import ddpg as library
from spinup.algos.pytorch.ddpg.core import MLPActorCritic, mlp
from spinup.exercises.common import losses
from spinup.exercises.programs import compare_ddpg


class BuggedMLPActor(nn.Module):
    """A deterministic policy: observations -> actions in [-act_limit, act_limit]."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation, act_limit):
        super().__init__()
        self.pi = mlp([obs_dim, *hidden_sizes, act_dim], activation, nn.Tanh)
        self.act_limit = act_limit

    def forward(self, obs):
        return self.act_limit * self.pi(obs)


class BuggedMLPQFunction(nn.Module):
    """A critic: observations and actions -> values."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation):
        super().__init__()
        self.q = mlp([obs_dim + act_dim, *hidden_sizes, 1], activation)

    def forward(self, obs, act):
        return self.q(torch.cat([obs, act], dim=-1))


class BuggedMLPActorCritic(nn.Module):
    """A policy `pi` and a critic `q`; one of this file's classes has a bug."""

    def __init__(
        self, observation_space, action_space, hidden_sizes=(256, 256), activation=nn.ReLU
    ):
        super().__init__()
        obs_dim, act_dim = observation_space.shape[0], action_space.shape[0]
        act_limit = float(action_space.high[0])
        self.pi = BuggedMLPActor(obs_dim, act_dim, hidden_sizes, activation, act_limit)
        self.q = BuggedMLPQFunction(obs_dim, act_dim, hidden_sizes, activation)

    def act(self, obs):
        with torch.no_grad():
            return self.pi(obs).cpu().numpy()


def compute_loss_q(ac, ac_targ, batch, gamma):
    """DDPG's critic loss: the mean squared error against the target networks' backup."""
    o, a, r, o2, d = (batch[k] for k in ("obs", "act", "rew", "obs2", "done"))
    with torch.no_grad():
        backup = r + gamma * (1 - d) * ac_targ.q(o2, ac_targ.pi(o2))
    q = ac.q(o, a)
    return ((q - backup) ** 2).mean(), {"QVals": q.detach()}


@functools.wraps(library.ddpg)
def ddpg(*args, **kwargs):
    """Train with DDPG and the loss above; the arguments are those of the library's `ddpg`."""
    with losses(library, compute_loss_q=compute_loss_q):
        return library.ddpg(*args, **kwargs)


def train(bugged, **kwargs):
    """Train with the buggy actor-critic or with the library's."""
    # imported by its path, so that saved models can be opened elsewhere
    from spinup.exercises.pytorch.problem_set_2 import exercise2_2

    actor_critic = exercise2_2.BuggedMLPActorCritic if bugged else MLPActorCritic
    return exercise2_2.ddpg(actor_critic=actor_critic, **kwargs)


def main(argv=None):
    return compare_ddpg(__doc__.splitlines()[0], argv, train)


if __name__ == "__main__":
    from spinup.exercises.common import exit_with

    exit_with(main)
