"""The programs around exercises 1.3 and 2.2, which are the same in both backends."""

import argparse
import sys

from spinup.utils.run_utils import ExperimentGrid, setup_logger_kwargs


def train_td3(description, judge, td3, solution, actor_critic):
    """Exercise 1.3: judge the losses, then train with them; return the exit code.

    Args:
        description: what `--help` says.
        judge: prints a verdict and returns an exit code.
        td3: trains with the losses of the exercise.
        solution: trains with the library's losses.
        actor_critic: the networks of both.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--env", default="Pendulum-v1", help="environment id")
    parser.add_argument("--seed", "-s", type=int, default=0)
    parser.add_argument("--exp_name", default="ex13-td3", help="name of the run")
    parser.add_argument("--use_soln", action="store_true", help="train with the library's losses")
    parser.add_argument("--check", action="store_true", help="judge only, without training")
    args = parser.parse_args()
    verdict = 0 if args.use_soln else judge()
    if verdict or args.check:
        return verdict
    sys.stdout.flush()
    name = f"{args.exp_name}-{args.env.lower()}"
    train = solution if args.use_soln else td3
    train(
        args.env,
        actor_critic=actor_critic,
        ac_kwargs={"hidden_sizes": [128, 128]},
        max_ep_len=150,
        seed=args.seed,
        logger_kwargs=setup_logger_kwargs(name, args.seed),
        epochs=10,
    )
    return 0


def compare_ddpg(description, argv, train):
    """Exercise 2.2: train with and without the bug, and return the exit code.

    `train(bugged, ...)` trains DDPG with one of the two actor-critics.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--env", default="Pendulum-v1", help="environment id")
    parser.add_argument("--h", type=int, default=300, help="width of the hidden layers")
    parser.add_argument("--l", type=int, default=1, help="number of hidden layers")
    parser.add_argument("--num_runs", "-n", type=int, default=3, help="seeds per variant")
    parser.add_argument("--steps_per_epoch", "-s", type=int, default=5000)
    parser.add_argument("--total_steps", "-t", type=int, default=50000)
    args = parser.parse_args(argv)

    def ddpg_with_actor_critic(bugged, **kwargs):
        return train(
            bugged,
            ac_kwargs={"hidden_sizes": [args.h] * args.l},
            start_steps=args.total_steps // 10,
            max_ep_len=150,
            batch_size=64,
            polyak=0.95,
            **kwargs,
        )

    eg = ExperimentGrid(name="ex2-2_ddpg")
    eg.add("replay_size", args.total_steps)
    eg.add("env_name", args.env, "", True)
    eg.add("seed", [10 * i for i in range(args.num_runs)])
    eg.add("epochs", args.total_steps // args.steps_per_epoch)
    eg.add("steps_per_epoch", args.steps_per_epoch)
    eg.add("bugged", [False, True])
    eg.run(ddpg_with_actor_critic, datestamp=True)
    return 0
