"""Adapter of Stable-Baselines3 for `spinup probe --adapter examples/probe_adapters/sb3.py`.

SB3=PPO (the default), SAC or DQN in the environment chooses the algorithm.
"""

import os

import stable_baselines3 as sb3
import torch

NAME = os.environ.get("SB3", "PPO")
SMALL = {"policy_kwargs": {"net_arch": [16], "activation_fn": torch.nn.Tanh}, "device": "cpu"}
REPLAY = {"learning_starts": 100, "batch_size": 64, "train_freq": 1, "learning_rate": 0.01}
SETTINGS = {
    "PPO": {"n_steps": 64, "batch_size": 64, "n_epochs": 20, "learning_rate": 0.01},
    "SAC": {**REPLAY, "tau": 0.2, "ent_coef": 0.02},
    "DQN": {**REPLAY, "target_update_interval": 20, "exploration_final_eps": 0.2},
}


def train(env_fn, gamma, steps, seed):
    torch.set_num_threads(1)
    agent_class = getattr(sb3, NAME)
    agent = agent_class("MlpPolicy", env_fn(), gamma=gamma, seed=seed, **SMALL, **SETTINGS[NAME])
    agent.learn(steps)

    def value(obs):
        x = torch.as_tensor(obs)[None]
        with torch.no_grad():
            if NAME == "PPO":
                return float(agent.policy.predict_values(x))
            if NAME == "DQN":
                return float(agent.q_net(x).max())
            a = torch.as_tensor(agent.predict(obs, deterministic=True)[0])[None]
            return float(torch.stack(agent.critic(x, a)).mean())

    return value, lambda obs: agent.predict(obs, deterministic=True)[0]
