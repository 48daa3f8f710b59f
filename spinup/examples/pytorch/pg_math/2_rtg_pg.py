"""Policy gradient with rewards-to-go: every action is weighted by the rewards that follow it.

    python 2_rtg_pg.py --env CartPole-v1 --lr 1e-2

An action cannot change the rewards before it, so the gradient of the expected return is also
E[sum_t grad log pi(a_t | s_t) * sum_{t' >= t} r_t'], whose estimate is less noisy. This program
estimates it from the episodes of one epoch and takes one step of Adam. It has no baseline, no
value function and no discount. `torch.manual_seed(n)` before `train` makes it reproducible.
"""

import argparse
import itertools

import gymnasium as gym
import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn
from torch.distributions import Categorical
from torch.optim import Adam


def action_weights(rewards):
    """Return the weight of each action of an episode: the sum of the rewards from it on."""
    return np.cumsum(rewards[::-1])[::-1]


def make_policy(env, hidden_sizes):
    """Return a network that maps observations to the logits of discrete actions."""
    if not isinstance(env.observation_space, Box) or not isinstance(env.action_space, Discrete):
        raise SystemExit(f"{env.spec.id} needs Box observations and Discrete actions: try another")
    sizes = [env.observation_space.shape[0], *hidden_sizes, int(env.action_space.n)]
    layers = []
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.Tanh()]
    return nn.Sequential(*layers[:-1])  # the logits themselves are not squashed


def run_episode(env, policy):
    """Play one episode with sampled actions; return its observations, actions and rewards."""
    observations, actions, rewards = [], [], []
    o, over = env.reset()[0], False
    while not over:
        with torch.no_grad():
            a = Categorical(logits=policy(torch.as_tensor(o, dtype=torch.float32))).sample().item()
        observations.append(o)
        actions.append(a)
        o, r, terminated, truncated, _ = env.step(a)
        rewards.append(r)
        over = terminated or truncated
    return observations, actions, rewards


def train(
    env_name="CartPole-v0", hidden_sizes=[32], lr=1e-2, epochs=50, batch_size=5000, render=False
):
    """Train a policy and print one line per epoch; an epoch has at least `batch_size` steps."""
    env = gym.make(env_name)
    env.reset(seed=torch.initial_seed() % 2**31)
    window = gym.make(env_name, render_mode="human") if render else None
    policy = make_policy(env, hidden_sizes)
    optimizer = Adam(policy.parameters(), lr=lr)
    for epoch in range(epochs):
        if window is not None:
            run_episode(window, policy)
        obs, act, weights, returns, lengths = [], [], [], [], []
        while len(obs) < batch_size:
            observations, actions, rewards = run_episode(env, policy)
            obs += observations
            act += actions
            weights += list(action_weights(rewards))
            returns.append(sum(rewards))
            lengths.append(len(rewards))
        # Minus, because optimizers descend. Only the gradient of this "loss" has a meaning: unlike
        # a loss of supervised learning, its value says nothing about how good the policy is.
        logp = Categorical(logits=policy(torch.as_tensor(np.array(obs)).float())).log_prob(
            torch.as_tensor(act)
        )
        loss = -(logp * torch.as_tensor(np.array(weights)).float()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(
            f"epoch: {epoch:3d} \t loss: {loss.item():.3f} \t return: {np.mean(returns):.3f} "
            f"\t ep_len: {np.mean(lengths):.3f}",
            flush=True,
        )
    for made in (env, window):
        if made is not None:
            made.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env_name", "--env", default="CartPole-v0", help="Gymnasium id")
    parser.add_argument("--render", action="store_true", help="show one episode per epoch")
    parser.add_argument("--lr", type=float, default=1e-2, help="learning rate (default: 1e-2)")
    args = parser.parse_args()
    train(env_name=args.env_name, render=args.render, lr=args.lr)
