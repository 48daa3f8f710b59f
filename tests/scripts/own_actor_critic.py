"""An actor-critic of one's own, passed as a class and as a partial."""

from functools import partial

import gymnasium as gym
import numpy as np
import torch
import torch.nn as nn

import spinup.algos.pytorch.ppo.core as core
from spinup import ppo_pytorch


class WideCritic(nn.Module):
    def __init__(self, obs_dim, width):
        super().__init__()
        self.net = core.mlp([obs_dim, width, 1], nn.Tanh)

    def forward(self, obs):
        return torch.squeeze(self.net(obs), -1)


class MyActorCritic(nn.Module):
    def __init__(self, observation_space, action_space, actor=None, width=16):
        super().__init__()
        obs_dim = observation_space.shape[0]
        if isinstance(action_space, core.Box):
            self.pi = actor(obs_dim, action_space.shape[0], (width,), nn.Tanh)
        elif isinstance(action_space, core.Discrete):
            self.pi = core.MLPCategoricalActor(obs_dim, action_space.n, (width,), nn.Tanh)
        self.v = WideCritic(obs_dim, width)

    def step(self, obs):
        with torch.no_grad():
            pi = self.pi._distribution(obs)
            a = pi.sample()
            logp_a = self.pi._log_prob_from_distribution(pi, a)
            v = self.v(obs)
        return a.numpy(), v.numpy(), logp_a.numpy()

    def act(self, obs):
        return self.step(obs)[0]


for i, (env_id, network) in enumerate(
    [
        ("CartPole-v1", MyActorCritic),
        ("Pendulum-v1", partial(MyActorCritic, actor=core.MLPGaussianActor)),
    ]
):
    ppo_pytorch(
        lambda env_id=env_id: gym.make(env_id),
        actor_critic=network,
        ac_kwargs=dict(width=8),
        steps_per_epoch=100,
        epochs=1,
        logger_kwargs=dict(output_dir=f"data/own{i}"),
    )

from spinup.utils.test_policy import load_policy_and_env  # noqa: E402

env, get_action = load_policy_and_env(
    "data/own1", actor_critic=partial(MyActorCritic, actor=core.MLPGaussianActor)
)
o, _ = env.reset()
assert np.shape(get_action(o)) == (1,)
