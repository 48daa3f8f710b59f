"""A loop of one's own that saves by number, and test_policy on what it saved."""

import gymnasium as gym
import torch

import spinup.algos.pytorch.vpg.core as core
from spinup.algos.pytorch.vpg.vpg import VPGBuffer
from spinup.utils.logx import EpochLogger
from spinup.utils.mpi_pytorch import mpi_avg_grads, setup_pytorch_for_mpi, sync_params
from spinup.utils.mpi_tools import mpi_fork, num_procs, proc_id
from spinup.utils.run_utils import setup_logger_kwargs

mpi_fork(1)
setup_pytorch_for_mpi()
env = gym.make("CartPole-v1")
ac = core.MLPActorCritic(env.observation_space, env.action_space, hidden_sizes=(8,))
sync_params(ac)
steps = 100 // num_procs()
buf = VPGBuffer(env.observation_space.shape, env.action_space.shape, steps, 0.99, 0.97)
optimizer = torch.optim.Adam(ac.parameters(), lr=1e-2)
logger = EpochLogger(**setup_logger_kwargs("mine", 0))
logger.setup_pytorch_saver(ac)
o, _ = env.reset(seed=proc_id())
for epoch in range(3):
    for _ in range(steps):
        a, v, logp = ac.step(torch.as_tensor(o, dtype=torch.float32))
        o2, r, terminated, truncated, _ = env.step(a)
        buf.store(o, a, r, v, logp)
        o = o2
        if terminated or truncated:
            buf.finish_path(0)
            o, _ = env.reset()
    buf.finish_path(ac.step(torch.as_tensor(o, dtype=torch.float32))[1])
    data = buf.get()
    pi, logp = ac.pi(data["obs"], data["act"])
    loss = -(logp * data["adv"]).mean() + ((ac.v(data["obs"]) - data["ret"]) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    mpi_avg_grads(ac)
    optimizer.step()
    logger.log_tabular("Epoch", epoch)
    logger.log_tabular("Loss", loss.item())
    logger.dump_tabular()
    logger.save_state({"env": env}, epoch)

from spinup.utils.test_policy import load_policy_and_env, run_policy  # noqa: E402

for itr in ("last", 0, 1, 2):
    again, get_action = load_policy_and_env("data/mine/mine_s0", itr, trust_pickle=True)
    run_policy(again, get_action, num_episodes=1, render=False)
