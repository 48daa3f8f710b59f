"""The arguments of training functions: their table, their domains, and other libraries' words."""

from spinup.runs.arguments.table import training_function as training_function
