"""A student's answer in the form of the original, for the tests: it is judged by training PPO."""

import numpy as np
import torch
import torch.nn as nn

from spinup.exercises.pytorch.problem_set_1 import exercise1_1, exercise1_2_auxiliary


def mlp(sizes, activation, output_activation=nn.Identity):
    layers = []
    for j in range(len(sizes) - 1):
        act = activation if j < len(sizes) - 2 else output_activation
        layers += [nn.Linear(sizes[j], sizes[j + 1]), act()]
    return nn.Sequential(*layers)


class DiagonalGaussianDistribution:
    def __init__(self, mu, log_std):
        self.mu = mu
        self.log_std = log_std

    def sample(self):
        return self.mu + torch.exp(self.log_std) * torch.randn_like(self.mu)

    def log_prob(self, value):
        return exercise1_1.gaussian_likelihood(value, self.mu, self.log_std)

    def entropy(self):
        return 0.5 + 0.5 * np.log(2 * np.pi) + self.log_std.sum(axis=-1)


class MLPGaussianActor(nn.Module):
    def __init__(self, obs_dim, act_dim, hidden_sizes, activation):
        super().__init__()
        self.log_std = nn.Parameter(-0.5 * torch.ones(act_dim))
        self.mu_net = mlp([obs_dim] + list(hidden_sizes) + [act_dim], activation)

    def forward(self, obs, act=None):
        pi = DiagonalGaussianDistribution(self.mu_net(obs), self.log_std)
        return pi, None if act is None else pi.log_prob(act)


if __name__ == "__main__":
    import os
    import tempfile
    import time
    from functools import partial

    import gymnasium as gym
    import pandas as pd
    import psutil  # noqa: F401 (such files import it)

    from spinup import ppo_pytorch as ppo
    from spinup.exercises.common import print_result

    logdir = os.path.join(tempfile.gettempdir(), f"experiments/{int(time.time())}")
    ppo(
        env_fn=lambda: gym.make("Pendulum-v1"),
        actor_critic=partial(exercise1_2_auxiliary.ExerciseActorCritic, actor=MLPGaussianActor),
        ac_kwargs=dict(hidden_sizes=(8,)),
        steps_per_epoch=200,
        epochs=2,
        logger_kwargs=dict(output_dir=logdir),
    )
    data = pd.read_table(os.path.join(logdir, "progress.txt"))
    print("own 1.1:", getattr(exercise1_1.gaussian_likelihood, "used", None))
    print_result(len(data) == 2 and np.isfinite(data["AverageEpRet"]).all())
