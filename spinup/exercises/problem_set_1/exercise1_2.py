"""The path of version 0.1 for `spinup.exercises.tf1.problem_set_1.exercise1_2`."""

import runpy

from spinup.utils.forwarding import forward

TARGET = "spinup.exercises.tf1.problem_set_1.exercise1_2"
__getattr__, __dir__ = forward(TARGET)

if __name__ == "__main__":
    runpy.run_module(TARGET, run_name="__main__")
