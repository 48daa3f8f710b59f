"""Which arguments a training function gets in a probe: small networks, few steps, high rates.

A function gets only those that its signature has. The values are chosen so that a correct
algorithm learns every probe within three seconds; `tests/lab/probe` and `make probe` check that.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

__all__ = ["family", "settings"]

# On-policy: every epoch, fit the values anew and take some steps with the policy.
ON = {
    "steps_per_epoch": 64,
    "epochs": 20,
    "num_envs": 2,
    "vf_lr": 0.02,
    "train_v_iters": 40,
    "lam": 0.9,
    "pi_lr": 0.01,
    "train_pi_iters": 5,
    "target_kl": None,
    "delta": 0.01,
    "lr": 0.02,
    "ent_coef": 0.0,
    "num_test_episodes": 0,
}
# To learn an action, the policy moves faster.
ON_ACT = {
    "steps_per_epoch": 128,
    "num_envs": 8,
    "train_v_iters": 10,
    "pi_lr": 0.03,
    "train_pi_iters": 10,
    "delta": 0.1,
    "epochs": 25,
}
# A Gaussian must find its mean and lose its width.
ON_BOX = {"steps_per_epoch": 256, "num_envs": 16, "pi_lr": 0.02, "epochs": 40, "anneal_lr": True}
OFF = {
    "steps_per_epoch": 200,
    "epochs": 2,
    "num_envs": 2,
    "start_steps": 250,
    "update_after": 100,
    "update_every": 10,
    "updates_per_step": 1.0,
    "batch_size": 64,
    "replay_size": 10000,
    "polyak": 0.8,
    "target_update_every": 1,
    "pi_lr": 1e-3,
    "q_lr": 0.02,
    "lr": 0.01,
    "alpha": 0.02,
    "act_noise": 0.3,
    "eps_start": 1.0,
    "eps_end": 0.2,
    "eps_steps": 150,
    "n_step": 1,
    "loss": "squared",
    "anneal_lr": True,
    "num_test_episodes": 0,
}
ACER = {
    "num_envs": 4,
    "n_steps": 5,
    "steps_per_epoch": 160,
    "epochs": 8,
    "pi_lr": 0.03,
    "q_lr": 0.05,
    "ent_coef": 0.0,
    "polyak": 0.9,
}
GOAL = {
    "polyak": 0.95,
    "lr": 3e-3,
    "k": 4,
    "start_steps": 200,
    "update_after": 200,
    "batch_size": 128,
    "steps_per_epoch": 400,
    "epochs": 4,
    "base_kwargs": {"eps_steps": 1000, "eps_end": 0.2},
}
EVERY = {"max_ep_len": 100, "save_freq": 10**6, "num_threads": 1, "device": "cpu"}


def family(parameters: Collection[str]) -> str:
    """Return which kind of algorithm has these parameters: 'on', 'off', 'acer' or 'goal'."""
    if "replay_size" not in parameters and "buffer_size" not in parameters:
        return "on"
    if "strategy" in parameters and "k" in parameters:
        return "goal"
    return "acer" if "replay_ratio" in parameters else "off"


def settings(kind: str, parameters: Collection[str], box: bool, acts: bool) -> dict[str, Any]:
    """Return the arguments of a probe for an algorithm of some family.

    `box`: whether the actions are continuous. `acts`: whether there is a best action to learn.
    """
    chosen: dict[str, Any] = {**EVERY}
    if kind == "on":
        chosen |= ON
        if "train_v_iters" not in parameters:  # one gradient step per epoch, or the function's own
            chosen["epochs"] = 60
        if acts:
            chosen |= ON_ACT
            if "train_pi_iters" not in parameters and "delta" not in parameters:
                chosen |= {"pi_lr": 0.05, "epochs": 40}
            if box:
                chosen |= ON_BOX
                if "train_pi_iters" not in parameters:
                    chosen |= {"epochs": 80 if "delta" not in parameters else 40}
    else:
        chosen |= OFF
        if kind == "acer":
            chosen |= ACER
        if kind == "goal":
            chosen |= GOAL
        if box and acts and kind != "acer":
            # A sampling policy needs fewer updates than a deterministic one, and longer for each.
            chosen |= {"updates_per_step": 1.0 if "alpha" in parameters else 2.0, "epochs": 3}
    return chosen
