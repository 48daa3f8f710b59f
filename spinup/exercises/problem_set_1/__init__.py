"""The path of version 0.1; the files are in `spinup/exercises/tf1/problem_set_1`."""

from spinup.exercises.common import beside_the_program

__path__ = beside_the_program(__path__)
