"""Buffers and core functions used directly."""

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

import spinup.algos.pytorch.ddpg.core as ddpg_core
import spinup.algos.pytorch.ppo.core as ppo_core
import spinup.algos.pytorch.sac.core as sac_core
from spinup.algos.pytorch.ppo.ppo import PPOBuffer
from spinup.algos.pytorch.td3.td3 import ReplayBuffer

assert ppo_core.combined_shape(5) == (5,) and ppo_core.combined_shape(5, (2, 3)) == (5, 2, 3)
np.testing.assert_allclose(ppo_core.discount_cumsum(np.array([1.0, 1, 1]), 0.5), [1.75, 1.5, 1])
net = ppo_core.mlp([3, 4, 2], torch.nn.Tanh, torch.nn.Identity)
assert ppo_core.count_vars(net) == 3 * 4 + 4 + 4 * 2 + 2
actor = ppo_core.MLPGaussianActor(3, 2, (8,), torch.nn.Tanh)
pi, logp = actor(torch.zeros(5, 3), torch.zeros(5, 2))
assert isinstance(pi, ppo_core.Normal) and logp.shape == (5,)
assert torch.allclose(actor.log_std, torch.tensor(-0.5)) and actor.mu_net is not None
critic = ppo_core.MLPCritic(3, (8,), torch.nn.Tanh)
assert critic(torch.zeros(5, 3)).shape == (5,) and critic.v_net is not None

buf = PPOBuffer((3,), (), 6, gamma=0.99, lam=0.95)
for i in range(6):
    buf.store(np.ones(3) * i, 1, 1.0, 0.5, -0.7)
    if i == 3:
        buf.finish_path(0)
buf.finish_path(last_val=0.5)
data = buf.get()
assert set(data) == {"obs", "act", "ret", "adv", "logp"} and abs(data["adv"].mean()) < 1e-6

replay = ReplayBuffer(obs_dim=3, act_dim=1, size=100)
for i in range(10):
    replay.store(np.ones(3) * i, [0.1], 1.0, np.ones(3), False)
batch = replay.sample_batch(batch_size=4)
assert batch["obs"].shape == (4, 3) and batch["done"].dtype == torch.float32
assert replay.size == 10 and replay.obs_buf[9, 0] == 9

box, act = Box(-1, 1, (3,)), Box(-2, 2, (1,))
ac = ddpg_core.MLPActorCritic(box, act, hidden_sizes=(8, 8), activation=torch.nn.ReLU)
assert ac.q(torch.zeros(4, 3), ac.pi(torch.zeros(4, 3))).shape == (4,)
mine = ddpg_core.MLPActor(3, 1, (8,), torch.nn.ReLU, 2.0)
assert mine(torch.zeros(4, 3)).abs().max() <= 2
squashed = sac_core.SquashedGaussianMLPActor(3, 1, (8,), torch.nn.ReLU, act.high[0])
a, logp = squashed(torch.zeros(4, 3))
assert a.shape == (4, 1) and logp.shape == (4,)
assert squashed(torch.zeros(4, 3), deterministic=True, with_logprob=False)[1] is None
ac = ppo_core.MLPActorCritic(box, Discrete(3))
assert [np.shape(x) for x in ac.step(torch.zeros(3))] == [(), (), ()]
