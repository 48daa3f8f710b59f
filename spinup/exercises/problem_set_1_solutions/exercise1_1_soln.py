"""The path of version 0.1 for `spinup.exercises.tf1.problem_set_1_solutions.exercise1_1_soln`."""

from spinup.utils.forwarding import forward

__getattr__, __dir__ = forward("spinup.exercises.tf1.problem_set_1_solutions.exercise1_1_soln")
