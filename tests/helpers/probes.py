"""Probe environments, and the settings with which they are learned in seconds."""

import numpy as np

from spinup.envs import make_env

GAMMA = 0.5
OFF_POLICY = {
    "gamma": GAMMA,
    "steps_per_epoch": 400,
    "start_steps": 300,
    "update_after": 100,
    "update_every": 10,
    "batch_size": 64,
    "polyak": 0.8,
    "max_ep_len": 100,
    "num_envs": 2,
    "num_test_episodes": 0,
}
DDPG = {"pi_lr": 1e-3, "q_lr": 0.03, "act_noise": 0.3}
RATES = {"ddpg": DDPG, "td3": {**DDPG, "pi_lr": 2e-3}, "sac": {"lr": 0.02, "alpha": 0.02}}


def observations(env_id):
    """All observations from which an action is chosen, in order."""
    seen = set()
    env = make_env(env_id)
    env.action_space.seed(0)
    for seed in range(8):
        o, _ = env.reset(seed=seed)
        over = False
        while not over:
            seen.add(float(o[0]))
            o, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated
    return [np.array([x], np.float32) for x in sorted(seen)]
