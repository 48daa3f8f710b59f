"""A grid over training functions: the thunk is the name of a key."""

import os

from spinup import trpo_pytorch, vpg_pytorch
from spinup.utils.run_utils import ExperimentGrid

eg = ExperimentGrid("compare")
eg.add("algo", [vpg_pytorch, trpo_pytorch], "", True)
eg.add("env_name", "CartPole-v1")
eg.add("epochs", 1)
eg.add("steps_per_epoch", 100)
eg.print()
print([eg.variant_name(v) for v in eg.variants()])
eg.run("algo", data_dir="results", num_cpu=1)

assert os.path.isfile("results/compare_vpg/compare_vpg_s0/progress.txt")
assert os.path.isfile("results/compare_trpo/compare_trpo_s0/progress.txt")
