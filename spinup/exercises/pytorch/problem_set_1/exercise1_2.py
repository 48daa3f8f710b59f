"""Exercise 1.2: a Gaussian policy for PPO.

    python -m spinup.exercises.pytorch.problem_set_1.exercise1_2
    python -m spinup.exercises.pytorch.problem_set_1.exercise1_2 --train

Write `mlp`, `DiagonalGaussianDistribution.sample` and `MLPGaussianActor.__init__`, then run this
file. Log-likelihoods come from your answer to exercise 1.1. The answer is judged by numbers, in
seconds; `--train` then also trains it with PPO. About half an hour.
"""

import math

import torch  # noqa: F401 (for your code)
from torch import nn

from spinup.exercises.pytorch.problem_set_1 import exercise1_1


def mlp(sizes, activation, output_activation=nn.Identity):
    """Build a multi-layer perceptron.

    Args:
        sizes: number of units of each layer, from the input to the output: [3, 64, 2] is a network
            with 3 inputs, one hidden layer of 64 units, and 2 outputs.
        activation: class of the activation after each hidden layer, such as `nn.Tanh`.
        output_activation: class of the activation after the last layer.

    Returns:
        An `nn.Sequential`.
    """
    raise NotImplementedError("mlp is still to be written")  # your code here


class DiagonalGaussianDistribution:
    """A Gaussian with independent dimensions: means `mu`, standard deviations exp(`log_std`)."""

    def __init__(self, mu, log_std):
        self.mu = mu
        self.log_std = log_std

    def sample(self):
        """Return one sample per row of `mu`, a tensor of the same shape."""
        raise NotImplementedError("sample is still to be written")  # your code here

    # ---- given

    def log_prob(self, value):
        """Return the log-likelihood of each row of `value`."""
        return exercise1_1.gaussian_likelihood(value, self.mu, self.log_std)

    def entropy(self):
        """Return the entropy, summed over the dimensions."""
        return (self.log_std + 0.5 * math.log(2 * math.pi * math.e)).sum(dim=-1)


class MLPGaussianActor(nn.Module):
    """A policy whose means depend on the observation, and whose standard deviations do not."""

    def __init__(self, obs_dim, act_dim, hidden_sizes, activation):
        """Create two attributes.

        self.mu_net: an MLP from observations to means, with the given hidden layers and no
            activation after the last one.
        self.log_std: a parameter of shape [act_dim] that starts at -0.5 everywhere. Gradients
            must reach it, and optimizers must find it.
        """
        super().__init__()
        raise NotImplementedError("MLPGaussianActor.__init__ is still to be written")

    # ---- given

    def forward(self, obs, act=None):
        """Return the distribution at `obs` and, if actions are given, their log-likelihoods."""
        pi = DiagonalGaussianDistribution(self.mu_net(obs), self.log_std)
        return pi, None if act is None else pi.log_prob(act)


if __name__ == "__main__":
    from spinup.exercises.common import exit_with
    from spinup.exercises.pytorch import judges

    exit_with(lambda: judges.exercise1_2(mlp, DiagonalGaussianDistribution, MLPGaussianActor))
