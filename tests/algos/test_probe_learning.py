"""Every algorithm learns every probe: the value where it has one, the action where it matters.

The first probe that is not learned names the fault; see `spinup/envs/probes.py`. All runs go
through the real training functions.
"""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup.algos.pytorch.common.policies import make_get_action
from spinup.envs import PROBES, adapt_env, make_env

VALUES = [p for p in PROBES if not p.learns_action]
ACTIONS = [p for p in PROBES if p.learns_action]
GAMMA = 0.5
NET = {"hidden_sizes": (16,)}


def observations(probe):
    """All observations from which an action is chosen."""
    seen = set()
    env = make_env(probe.id)
    env.action_space.seed(0)
    for seed in range(8):
        o, _ = env.reset(seed=seed)
        over = False
        while not over:
            seen.add(float(o[0]))
            o, _, terminated, truncated, _ = env.step(env.action_space.sample())
            over = terminated or truncated
    return [np.array([x], np.float32) for x in sorted(seen)]


@pytest.mark.parametrize("probe", VALUES, ids=lambda p: p.id)
@pytest.mark.parametrize("algo", ["ppo", "vpg", "trpo"])
def test_the_value_of_a_probe_is_learned(train, algo, probe):
    run = train(
        algo,
        probe.id,
        ac_kwargs=NET,
        gamma=GAMMA,
        steps_per_epoch=40,
        num_envs=2,
        epochs=12,
        vf_lr=0.02,
        train_v_iters=40,
        max_ep_len=100,
    )
    env = make_env(probe.id).unwrapped
    for o in observations(probe):
        value = float(run.ac.v(torch.as_tensor(o)).detach())
        assert value == pytest.approx(env.true_value(o, GAMMA), abs=0.1), f"V({o})"


SETTINGS = {
    "ppo": {"pi_lr": 0.03, "train_pi_iters": 10, "target_kl": None, "epochs": 15},
    "trpo": {"delta": 0.1, "epochs": 25},
    "vpg": {"pi_lr": 0.05, "epochs": 30},
    "reinforce": {"pi_lr": 0.05, "epochs": 30},
}
# A Gaussian must find its mean and lose its width, through the clipping of its actions.
BOX = {
    "ppo": {"pi_lr": 0.02, "anneal_lr": True, "epochs": 30, "steps_per_epoch": 256},
    "trpo": {},
    "vpg": {"pi_lr": 0.02, "epochs": 80},
    "reinforce": {"pi_lr": 0.02, "epochs": 80},
}


@pytest.mark.parametrize("probe", ACTIONS, ids=lambda p: p.id)
@pytest.mark.parametrize("algo", list(SETTINGS))
def test_the_best_action_of_a_probe_is_learned(train, algo, probe):
    env = make_env(probe.id)
    is_box = isinstance(env.action_space, spaces.Box)
    settings = {"steps_per_epoch": 128, **SETTINGS[algo], **(BOX[algo] if is_box else {})}
    if algo != "reinforce":
        settings |= {"train_v_iters": 5, "vf_lr": 0.02}
    run = train(algo, probe.id, ac_kwargs=NET, num_envs=16, **settings)
    get_action = make_get_action(run.ac, True, action_space=adapt_env(env).action_space)
    start = getattr(env.action_space, "start", 0)
    for o in observations(probe):
        best = np.asarray(env.unwrapped.optimal_action(o))
        got = np.asarray(get_action(o)) + start
        np.testing.assert_allclose(got, best, atol=0.2 if is_box else 0)
