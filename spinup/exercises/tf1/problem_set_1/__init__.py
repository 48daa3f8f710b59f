"""Problem set 1: a log-likelihood, a Gaussian policy, and TD3's losses."""

from spinup.exercises.common import beside_the_program

__path__ = beside_the_program(__path__)
