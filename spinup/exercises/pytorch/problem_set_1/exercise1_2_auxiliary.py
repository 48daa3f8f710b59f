"""The part of exercise 1.2 that is given: a critic, and an actor-critic for your policy."""

import numpy as np
import torch
from torch import nn

from spinup.exercises.pytorch.fallback import use_answer_if_unwritten
from spinup.exercises.pytorch.problem_set_1_solutions import exercise1_2_soln
from spinup.utils.errors import SpinupError


def mlp(sizes, activation, output_activation=nn.Identity):
    """Return a multi-layer perceptron, for the critic; writing one is part of the exercise."""
    return exercise1_2_soln.mlp(sizes, activation, output_activation)


class MLPCritic(nn.Module):
    """A value function: observations [batch, obs_dim] -> values [batch]."""

    def __init__(self, obs_dim, hidden_sizes, activation):
        super().__init__()
        self.v_net = mlp([obs_dim, *hidden_sizes, 1], activation)

    def forward(self, obs):
        return self.v_net(obs).squeeze(-1)


class ExerciseActorCritic(nn.Module):
    """An actor-critic for VPG, TRPO and PPO whose policy is of the class `actor`.

    Use it as `functools.partial(ExerciseActorCritic, actor=MLPGaussianActor)`. `actor` is called
    with (obs_dim, act_dim, hidden_sizes, activation); None means the answer to exercise 1.2.
    """

    def __init__(
        self,
        observation_space,
        action_space,
        hidden_sizes=(64, 64),
        activation=nn.Tanh,
        actor=None,
    ):
        super().__init__()
        obs_dim, act_dim = int(np.prod(observation_space.shape)), int(np.prod(action_space.shape))
        use_answer_if_unwritten()
        actor = exercise1_2_soln.MLPGaussianActor if actor is None else actor
        self.pi = actor(obs_dim, act_dim, hidden_sizes, activation)
        _require_written(self.pi)
        self.v = MLPCritic(obs_dim, hidden_sizes, activation)

    def step(self, obs):
        """Return a sampled action, the value and the action's log-likelihood, as arrays."""
        with torch.no_grad():
            pi, _ = self.pi(obs)
            a = pi.sample()
            if a is None:
                raise SpinupError("sample() returned None: it is still to be written")
            return a.cpu().numpy(), self.v(obs).cpu().numpy(), pi.log_prob(a).cpu().numpy()

    def act(self, obs):
        """Return a sampled action, as an array."""
        return self.step(obs)[0]


def _require_written(actor):
    """Raise an error that names what an exercise's policy still lacks."""
    name = type(actor).__name__
    if not list(actor.parameters()):
        raise SpinupError(f"{name} has no parameters: its __init__ is still to be written")
    if getattr(actor, "mu_net", actor) is None:
        raise SpinupError(f"{name}.mu_net is None: mlp is still to be written")
