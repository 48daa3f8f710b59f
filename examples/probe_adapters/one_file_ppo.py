"""PPO in one file, in the style of scripts for reading, with an adapter for `spinup probe`.

It contains a common mistake on purpose: an episode that a time limit cuts counts as one that died.
`CUTS=bootstrap` in the environment mends it.
"""

import os

import numpy as np
import torch
from torch import nn
from torch.distributions import Categorical

BOOTSTRAP = os.environ.get("CUTS") == "bootstrap"


class Agent(nn.Module):
    def __init__(self, obs_dim, n_actions):
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(obs_dim, 16), nn.Tanh(), nn.Linear(16, n_actions))
        self.critic = nn.Sequential(nn.Linear(obs_dim, 16), nn.Tanh(), nn.Linear(16, 1))


def ppo(env, gamma, total_steps, seed, num_steps=64, lam=0.95, clip=0.2, lr=0.01, passes=20):
    torch.manual_seed(seed)
    agent = Agent(env.observation_space.shape[0], int(env.action_space.n))
    optimizer = torch.optim.Adam(agent.parameters(), lr=lr)
    obs = torch.as_tensor(env.reset(seed=seed)[0])
    for _ in range(total_steps // num_steps):
        rows = []
        for _ in range(num_steps):
            with torch.no_grad():
                dist, v = Categorical(logits=agent.actor(obs)), agent.critic(obs)[0]
            a = dist.sample()
            obs2, r, terminated, truncated, _ = env.step(int(a))
            after = torch.as_tensor(obs2)
            with torch.no_grad():
                rest = 0.0 if terminated else float(agent.critic(after)[0])
            if truncated and BOOTSTRAP:
                r += gamma * rest  # the value of what the cut left out
            done = terminated or truncated  # the mistake, unless the line above made up for it
            rows.append((obs, a, dist.log_prob(a), float(v), r, done))
            obs = torch.as_tensor(env.reset()[0]) if done else after
        with torch.no_grad():
            next_v, adv = float(agent.critic(obs)[0]), np.zeros(num_steps)
        last = 0.0
        for t in reversed(range(num_steps)):
            _, _, _, v, r, done = rows[t]
            delta = r + gamma * next_v * (not done) - v
            last = adv[t] = delta + gamma * lam * (not done) * last
            next_v = v
        o, a, logp_old = (torch.stack([row[i] for row in rows]) for i in range(3))
        ret = torch.as_tensor(adv + [row[3] for row in rows], dtype=torch.float32)
        adv_n = torch.as_tensor((adv - adv.mean()) / (adv.std() + 1e-8), dtype=torch.float32)
        for _ in range(passes):
            dist = Categorical(logits=agent.actor(o))
            ratio = (dist.log_prob(a) - logp_old).exp()
            loss_pi = -torch.min(ratio * adv_n, ratio.clamp(1 - clip, 1 + clip) * adv_n).mean()
            loss_v = ((agent.critic(o).squeeze(-1) - ret) ** 2).mean()
            optimizer.zero_grad()
            (loss_pi + 0.5 * loss_v).backward()
            optimizer.step()
    return agent


def train(env_fn, gamma, steps, seed):
    torch.set_num_threads(1)
    agent = ppo(env_fn(), gamma, steps, seed)

    def value(obs):
        return agent.critic(torch.as_tensor(obs)).item()

    return value, lambda obs: int(agent.actor(torch.as_tensor(obs)).argmax())
