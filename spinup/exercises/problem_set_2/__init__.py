"""The path of version 0.1; the files are in `spinup/exercises/tf1/problem_set_2`."""
