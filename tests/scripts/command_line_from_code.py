"""The command line from code: every value is text, as in a shell."""

import os
import sys

import spinup.run
from spinup.run import parse_and_execute_grid_search

words = "--env CartPole-v1 --epochs 1 --steps_per_epoch 100 --seed 0 10 --gamma[g] 0.98 0.99"
parse_and_execute_grid_search("vpg_pytorch", [*words.split(), "--exp_name", "cl"])
assert os.path.isdir("data/cl_g0-99/cl_g0-99_s10")

sys.argv = ["spinup.run", "vpg", "--hid", "[8,8]", "--act", "torch.nn.ELU", "--env", "CartPole-v1"]
sys.argv += ["--exp_name", "installtest", "--epochs", "1", "--steps_per_epoch", "100"]
assert spinup.run.main() == 0
sys.argv = ["spinup.run", "plot", "data/installtest/installtest_s0", "--value", "Performance"]
assert spinup.run.main() == 0
sys.argv = ["spinup.run", "test_policy", "data/installtest/installtest_s0", "-n", "1", "--norender"]
assert spinup.run.main() == 0
