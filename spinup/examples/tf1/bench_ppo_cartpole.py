"""A small benchmark: PPO on CartPole with two network sizes and two activations.

    python -m spinup.examples.tf1.bench_ppo_cartpole --cpu 4 --num_runs 3
    spinup plot data/ppo-tf1-bench

It shows `ExperimentGrid`: which arguments vary, and what the runs are called. An empty shorthand
leaves just the value in a name (`ppo-tf1-bench_cartpole-v0_hid32_tanh`).
"""

import argparse

from spinup import ppo_tf1
from spinup.utils.run_utils import ExperimentGrid
from spinup.utils.tf import tf


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cpu", type=int, default=4, help="processes per run (default: 4)")
    parser.add_argument("--num_runs", type=int, default=3, help="seeds per setting (default: 3)")
    parser.add_argument("--epochs", type=int, default=10, help="epochs per run (default: 10)")
    parser.add_argument("--steps", type=int, default=4000, help="steps per epoch (default: 4000)")
    args = parser.parse_args(argv)

    eg = ExperimentGrid(name="ppo-tf1-bench")
    eg.add("env_name", "CartPole-v0", "", True)
    eg.add("seed", [10 * i for i in range(args.num_runs)])
    eg.add("epochs", args.epochs)
    eg.add("steps_per_epoch", args.steps)
    eg.add("ac_kwargs:hidden_sizes", [(32,), (64, 64)], "hid")
    eg.add("ac_kwargs:activation", [tf.tanh, tf.nn.relu], "")
    eg.run(ppo_tf1, num_cpu=args.cpu)


if __name__ == "__main__":
    main()
