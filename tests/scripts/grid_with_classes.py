"""An ExperimentGrid whose values are tuples and classes."""

import torch

from spinup import ppo_pytorch
from spinup.utils.run_utils import ExperimentGrid

if __name__ == "__main__":
    eg = ExperimentGrid(name="ppo-pyt-bench")
    eg.add("env_name", "CartPole-v1", "", True)
    eg.add("seed", [10 * i for i in range(2)])
    eg.add("epochs", 1)
    eg.add("steps_per_epoch", 100)
    eg.add("ac_kwargs:hidden_sizes", [(32,), (8, 8)], "hid")
    eg.add("ac_kwargs:activation", [torch.nn.Tanh, torch.nn.ReLU], "")
    eg.run(ppo_pytorch, num_cpu=1)

    import os

    assert sorted(name for name in os.listdir("data") if "cartpole" in name) == [
        "ppo-pyt-bench_cartpole-v1_hid32_relu",
        "ppo-pyt-bench_cartpole-v1_hid32_tanh",
        "ppo-pyt-bench_cartpole-v1_hid8-8_relu",
        "ppo-pyt-bench_cartpole-v1_hid8-8_tanh",
    ]
