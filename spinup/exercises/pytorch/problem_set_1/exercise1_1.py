"""Exercise 1.1: the log-likelihood of a diagonal Gaussian.

    python -m spinup.exercises.pytorch.problem_set_1.exercise1_1

A Gaussian policy is trained through log pi(a|s), so this formula is in every policy gradient with
continuous actions. With k dimensions, means mu_i and standard deviations sigma_i, it is

    log p(x) = -1/2 * ( sum_i [ (x_i - mu_i)^2 / sigma_i^2 + 2 log sigma_i ] + k log(2 pi) )

Write `gaussian_likelihood`, then run this file. About ten minutes.
"""

import torch


def gaussian_likelihood(x, mu, log_std):
    """Return the log-likelihood of each row of `x`.

    Args:
        x: tensor of shape [batch, dim].
        mu: the means, of shape [batch, dim].
        log_std: logarithms of the standard deviations, of shape [batch, dim] or [dim].

    Returns:
        A tensor of shape [batch].
    """
    # Your code here, in place of the next line.
    return torch.zeros(1)


if __name__ == "__main__":
    from spinup.exercises.common import exit_with
    from spinup.exercises.pytorch import judges

    exit_with(lambda: judges.exercise1_1(gaussian_likelihood))
