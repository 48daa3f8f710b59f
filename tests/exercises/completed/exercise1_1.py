"""A student's answer, for the tests: it says that it was used."""

import numpy as np
import torch


def gaussian_likelihood(x, mu, log_std):
    gaussian_likelihood.used = True
    squared = ((x - mu) / torch.exp(log_std)) ** 2 + 2 * log_std + np.log(2 * np.pi)
    return -0.5 * torch.sum(squared, dim=-1)


gaussian_likelihood.used = False

if __name__ == "__main__":
    from spinup.exercises.common import print_result
    from spinup.exercises.pytorch.problem_set_1_solutions import exercise1_1_soln

    rows, std = torch.rand(32, 10), torch.rand(10)
    yours = gaussian_likelihood(rows, rows + 1, std).numpy()
    print_result(
        np.allclose(yours, exercise1_1_soln.gaussian_likelihood(rows, rows + 1, std).numpy())
    )
