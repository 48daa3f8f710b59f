"""Exercise 1.2 without exercise 1.1."""

import torch

from spinup.exercises.pytorch.problem_set_1_solutions import exercise1_1_soln


def use_answer_if_unwritten():
    """If `gaussian_likelihood` of exercise 1.1 is still the stub, let 1.2 use its answer."""
    from spinup.exercises.pytorch.problem_set_1 import exercise1_1

    zeros = torch.zeros(2, 1)
    found = exercise1_1.gaussian_likelihood(zeros, zeros, zeros[0])
    if found is None or found.shape == (1,):
        print("gaussian_likelihood of exercise 1.1 is still to be written; using its answer.")
        exercise1_1.gaussian_likelihood = exercise1_1_soln.gaussian_likelihood
