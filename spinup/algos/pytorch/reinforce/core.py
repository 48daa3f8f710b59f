"""REINFORCE's policy and rewards-to-go, and the names that user code imports from here."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import nn
from torch.distributions import Categorical, Normal

from spinup.algos.common.returns import combined_shape, discount_cumsum
from spinup.algos.pytorch.common.advantages import (
    actions,
    normalize_advantages,
    observations,
    tensor,
    wide,
)
from spinup.algos.pytorch.common.layers import (
    Actor,
    MLPCategoricalActor,
    Tanh,
    count_vars,
    init_orthogonal,
    mlp,
    obs_layers,
    samples_pi,
)
from spinup.algos.pytorch.common.nets import MLPGaussianActor, make_actor


class MLPPolicy(nn.Module):
    """A policy `pi`, without a value function.

    Args:
        observation_space: a Box of any shape. Images get an encoder; all others are flattened.
        action_space: Box, Discrete, MultiDiscrete or MultiBinary.
        hidden_sizes: widths of the hidden layers. None means (64, 64), or none after an encoder.
        activation: activation class of the hidden layers.
        normalize_obs: subtract the running mean of observations and divide by their running
            standard deviation.
        orthogonal_init: initialize weights orthogonally, with gain 0.01 in the last layer.
            None means only with a convolutional encoder.
        encoder: how images are read: 'nature' (from 36 pixels on), 'small', 'auto' (one of these),
            'flat' (no encoder), or a class that makes a module.
    """

    HIDDEN_SIZES = (64, 64)

    def __init__(
        self,
        observation_space,
        action_space,
        hidden_sizes=None,
        activation=Tanh,
        normalize_obs=False,
        orthogonal_init=None,
        encoder="auto",
    ):
        super().__init__()
        self.observation_space, self.action_space = observation_space, action_space
        _, hidden_sizes, make_filter = obs_layers(
            observation_space, encoder, hidden_sizes, self.HIDDEN_SIZES, normalize_obs
        )
        args = (hidden_sizes, activation, make_filter())
        self.pi = make_actor(observation_space, action_space, *args)
        init_orthogonal(self.pi, output_gain=0.01, wanted=orthogonal_init)

    @samples_pi
    def step(self, obs):
        """Return action, value (0) and log-probability for an observation or a batch, as arrays."""
        with torch.no_grad():
            pi = self.pi._distribution(obs)
            a = pi.sample()
            logp_a = self.pi._log_prob_from_distribution(pi, a)
        return a.cpu().numpy(), np.zeros(logp_a.shape, np.float32), logp_a.cpu().numpy()

    def act(self, obs, deterministic=False):
        """Return an action as an array: sampled, or the most likely one."""
        with torch.no_grad():
            pi = self.pi._distribution(obs)
            return (self.pi.mode(pi) if deterministic else pi.sample()).cpu().numpy()


def rewards_to_go(buffer, ac, gamma, baseline):
    """Compute the discounted rewards that followed each action, relative to their average.

    Returns one batch per local shard: `obs`, `act`, `ret`, `logp` and `adv`, which is `ret` minus
    its mean over all shards, divided by its standard deviation. Sets `baseline` to that mean.

    A path truncated by a time limit or the end of the epoch would have continued. There is no value
    function to estimate the rest of its return, so the previous epoch's baseline is used.
    """
    shards, device = buffer.shards, buffer.device
    batches = []
    for rollout in buffer.rollouts:
        ret = np.zeros(rollout.rew.shape)
        for path in rollout.paths:
            last_val = 0.0 if path.last_obs is None else baseline.value
            rewards = np.append(rollout.rew[path.rows], last_val)
            ret[path.rows] = discount_cumsum(rewards, gamma)[:-1]
        obs, act = observations(rollout, ac, device), actions(rollout, device)
        with torch.no_grad():
            logp = ac.pi(obs, act)[1].reshape(-1)
        ret = tensor(rollout.flat(ret), device)
        batches.append({"obs": obs, "act": act, "ret": ret, "logp": logp})
    shards.weigh([len(batch["obs"]) for batch in batches])
    rets = [batch["ret"] for batch in batches]
    buffer.keep([{**batch, "adv": batch["ret"]} for batch in batches])
    normalize_advantages(batches, rets, shards)
    count, total = shards.sum([np.array([x.numel(), float(wide(x).sum())]) for x in rets])
    baseline.value = float(total / count)
    return batches
