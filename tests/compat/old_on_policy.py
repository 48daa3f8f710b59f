"""A user's policy-gradient program in the manner of 2020: the old gym, and spinup's own parts.

It clips the ratio, averages gradients over processes and saves through the logger.
"""

import argparse
import time

import gym
import numpy as np
import torch
from gym.spaces import Box, Discrete
from torch.optim import Adam

import spinup.algos.pytorch.ppo.core as core
from spinup.algos.pytorch.ppo.ppo import PPOBuffer
from spinup.utils.logx import EpochLogger
from spinup.utils.mpi_pytorch import mpi_avg_grads, setup_pytorch_for_mpi, sync_params
from spinup.utils.mpi_tools import mpi_avg, mpi_fork, num_procs, proc_id
from spinup.utils.run_utils import setup_logger_kwargs


def train(env_fn, seed, steps, epochs, hidden_sizes, logger_kwargs):
    setup_pytorch_for_mpi()
    logger = EpochLogger(**logger_kwargs)
    logger.save_config(locals())
    torch.manual_seed(seed + 10000 * proc_id())
    np.random.seed(seed + 10000 * proc_id())
    env = env_fn()
    env.seed(seed)
    assert isinstance(env.action_space, (Box, Discrete))
    ac = core.MLPActorCritic(
        env.observation_space, env.action_space, hidden_sizes=hidden_sizes, activation=torch.nn.ReLU
    )
    sync_params(ac)
    counts = tuple(core.count_vars(part) for part in (ac.pi, ac.v))
    logger.log("\nParameters: \t pi: {}, \t v: {}\n".format(*counts))
    mine = int(steps / num_procs())
    buf = PPOBuffer(env.observation_space.shape, env.action_space.shape, mine, 0.99, 0.97)
    pi_optimizer, v_optimizer = Adam(ac.pi.parameters(), 1e-2), Adam(ac.v.parameters(), 1e-2)
    logger.setup_pytorch_saver(ac)

    def update():
        data = buf.get()
        for stop_iter in range(10):  # noqa: B007
            pi_optimizer.zero_grad()
            pi, logp = ac.pi(data["obs"], data["act"])
            ratio = torch.exp(logp - data["logp"])
            clipped = torch.clamp(ratio, 0.8, 1.2) * data["adv"]
            loss_pi = -torch.min(ratio * data["adv"], clipped).mean()
            kl = mpi_avg((data["logp"] - logp).mean().item())
            if kl > 0.03:
                break
            loss_pi.backward()
            mpi_avg_grads(ac.pi)
            pi_optimizer.step()
        for _ in range(10):
            v_optimizer.zero_grad()
            loss_v = ((ac.v(data["obs"]) - data["ret"]) ** 2).mean()
            loss_v.backward()
            mpi_avg_grads(ac.v)
            v_optimizer.step()
        entropy = pi.entropy().mean().item()
        logger.store(
            LossPi=loss_pi.item(), LossV=loss_v.item(), Entropy=entropy, StopIter=stop_iter
        )

    start = time.time()
    o, ep_ret, ep_len = env.reset(), 0, 0
    for epoch in range(epochs):
        for t in range(mine):
            a, v, logp = ac.step(torch.as_tensor(o, dtype=torch.float32))
            next_o, r, d, info = env.step(a)
            ep_ret += r
            ep_len += 1
            buf.store(o, a, r, v, logp)
            logger.store(VVals=v)
            o = next_o
            if d or t == mine - 1:
                cut = not d or info.get("TimeLimit.truncated", False)
                last = ac.step(torch.as_tensor(o, dtype=torch.float32))[1] if cut else 0
                buf.finish_path(last)
                if d:
                    logger.store(EpRet=ep_ret, EpLen=ep_len)
                o, ep_ret, ep_len = env.reset(), 0, 0
        if epoch % 2 == 0 or epoch == epochs - 1:
            logger.save_state({"env": env}, None)
        update()
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("EpRet", with_min_and_max=True)
        logger.log_tabular("EpLen", average_only=True)
        logger.log_tabular("VVals", with_min_and_max=True)
        logger.log_tabular("TotalEnvInteracts", (epoch + 1) * steps)
        for key in ("LossPi", "LossV", "Entropy", "StopIter"):
            logger.log_tabular(key, average_only=True)
        logger.log_tabular("Time", time.time() - start)
        logger.dump_tabular()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--env", type=str, default="CartPole-v0")
    parser.add_argument("--seed", "-s", type=int, default=0)
    parser.add_argument("--cpu", type=int, default=1)
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--exp_name", type=str, default="old")
    args = parser.parse_args()

    mpi_fork(args.cpu)
    train(
        lambda: gym.make(args.env),
        seed=args.seed,
        steps=args.steps,
        epochs=args.epochs,
        hidden_sizes=[32] * 2,
        logger_kwargs=setup_logger_kwargs(args.exp_name, args.seed),
    )
