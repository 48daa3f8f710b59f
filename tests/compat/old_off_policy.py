"""A user's off-policy program in the manner of 2020: a deterministic policy and a replay buffer."""

from copy import deepcopy

import gym
import numpy as np
import torch
from torch.optim import Adam

import spinup.algos.pytorch.ddpg.core as core
from spinup.algos.pytorch.ddpg.ddpg import ReplayBuffer
from spinup.utils.logx import EpochLogger


class Scaled(gym.RewardWrapper):
    def reward(self, reward):
        return 0.1 * reward


torch.manual_seed(0)
np.random.seed(0)
env, test_env = Scaled(gym.make("Pendulum-v0")), gym.make("Pendulum-v0")
env.seed(0)
test_env.seed(1)
obs_dim, act_dim = env.observation_space.shape, env.action_space.shape[0]
act_limit = env.action_space.high[0]
logger = EpochLogger(output_dir="data/old_ddpg", exp_name="old_ddpg")
ac = core.MLPActorCritic(env.observation_space, env.action_space, hidden_sizes=(16, 16))
ac_targ = deepcopy(ac)
for p in ac_targ.parameters():
    p.requires_grad = False
buf = ReplayBuffer(obs_dim=obs_dim, act_dim=act_dim, size=int(1e4))
pi_optimizer, q_optimizer = Adam(ac.pi.parameters(), lr=1e-3), Adam(ac.q.parameters(), lr=1e-3)
logger.setup_pytorch_saver(ac)


def get_action(o, noise_scale):
    a = ac.act(torch.as_tensor(o, dtype=torch.float32))
    a += noise_scale * np.random.randn(act_dim)
    return np.clip(a, -act_limit, act_limit)


def update(data):
    o, a, r, o2, d = (data[k] for k in ("obs", "act", "rew", "obs2", "done"))
    with torch.no_grad():
        backup = r + 0.99 * (1 - d) * ac_targ.q(o2, ac_targ.pi(o2))
    q_optimizer.zero_grad()
    loss_q = ((ac.q(o, a) - backup) ** 2).mean()
    loss_q.backward()
    q_optimizer.step()
    pi_optimizer.zero_grad()
    loss_pi = -ac.q(o, ac.pi(o)).mean()
    loss_pi.backward()
    pi_optimizer.step()
    logger.store(LossQ=loss_q.item(), LossPi=loss_pi.item())
    with torch.no_grad():
        for p, p_targ in zip(ac.parameters(), ac_targ.parameters(), strict=True):
            p_targ.data.mul_(0.99)
            p_targ.data.add_(0.01 * p.data)


o, ep_ret, ep_len = env.reset(), 0, 0
for t in range(600):
    a = get_action(o, 0.1) if t > 200 else env.action_space.sample()
    o2, r, d, _ = env.step(a)
    ep_ret, ep_len = ep_ret + r, ep_len + 1
    d = False if ep_len == env._max_episode_steps else d
    buf.store(o, a, r, o2, d)
    o = o2
    if d or ep_len == env._max_episode_steps:
        logger.store(EpRet=ep_ret, EpLen=ep_len)
        o, ep_ret, ep_len = env.reset(), 0, 0
    if t >= 300 and t % 50 == 0:
        for _ in range(10):
            update(buf.sample_batch(32))
    if (t + 1) % 300 == 0:
        epoch = (t + 1) // 300
        logger.save_state({"env": env}, epoch)
        o_test, done, test_ret = test_env.reset(), False, 0
        while not done:
            o_test, r, done, _ = test_env.step(get_action(o_test, 0))
            test_ret += r
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("EpRet", with_min_and_max=True)
        logger.log_tabular("TestEpRet", test_ret)
        logger.log_tabular("LossQ", average_only=True)
        logger.log_tabular("LossPi", average_only=True)
        logger.dump_tabular()
assert buf.size == buf.ptr == 600 and buf.obs_buf.shape == (10000, 3)
