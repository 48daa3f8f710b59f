"""Answer to exercise 1.2."""

import itertools
import math

import torch
from torch import nn

from spinup.exercises.pytorch.problem_set_1_solutions.exercise1_1_soln import gaussian_likelihood


def mlp(sizes, activation, output_activation=nn.Identity):
    """Return a multi-layer perceptron: an `nn.Sequential` of linear layers and activations."""
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), activation()]
    layers[-1] = output_activation()
    return nn.Sequential(*layers)


class DiagonalGaussianDistribution:
    """A Gaussian with independent dimensions."""

    def __init__(self, mu, log_std):
        self.mu, self.log_std = mu, log_std

    def sample(self):
        """Return one sample per row of `mu`."""
        return self.mu + torch.exp(self.log_std) * torch.randn_like(self.mu)

    def log_prob(self, value):
        """Return the log-likelihood of each row of `value`."""
        return gaussian_likelihood(value, self.mu, self.log_std)

    def entropy(self):
        """Return the entropy, summed over the dimensions."""
        return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(dim=-1)


class MLPGaussianActor(nn.Module):
    """A Gaussian policy: the means come from a network, the standard deviations are parameters."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation):
        super().__init__()
        self.log_std = nn.Parameter(torch.full((act_dim,), -0.5))
        self.mu_net = mlp([obs_dim, *hidden_sizes, act_dim], activation)

    def forward(self, obs, act=None):
        """Return the distribution at `obs` and, if actions are given, their log-likelihoods."""
        pi = DiagonalGaussianDistribution(self.mu_net(obs), self.log_std)
        return pi, None if act is None else pi.log_prob(act)
