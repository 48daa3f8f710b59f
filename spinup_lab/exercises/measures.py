"""What the experiments measure without training: each function returns rows for a log.

All of them take a seed and the settings of an arm. Larger is better in the column that an
experiment compares, as it is for returns.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def advantage_error(
    seed: int, lam: float, steps: int = 20, gamma: float = 0.95, critic_error: float = 4.0
) -> list[dict[str, Any]]:
    """Estimate an advantage that is known exactly, with many noisy episodes and wrong critics.

    Every step of a chain pays 1 plus standard normal noise, whatever the action. So V is known, and
    the true advantage of the first step is the noise of its own reward. Each of 60 critics is wrong
    by random amounts of size `critic_error`, except in the first state; each sees 60 episodes.
    """
    from spinup.algos.common.returns import gae

    rng = np.random.default_rng(seed)
    values = (1 - gamma ** np.arange(steps, 0, -1)) / (1 - gamma)
    errors = np.empty((60, 60))
    for critic in errors:
        wrong = critic_error * rng.standard_normal(steps)
        wrong[0] = 0.0
        for i in range(len(critic)):
            noise = rng.standard_normal(steps)
            adv, _ = gae(1.0 + noise, values + wrong, 0.0, gamma, lam)
            critic[i] = adv[0] - noise[0]
    rmse = float(np.sqrt((errors**2).mean()))
    return [
        {
            "Epoch": 1,
            "Bias": float(np.sqrt((errors.mean(1) ** 2).mean())),
            "Std": float(np.sqrt(errors.var(1).mean())),
            "RMSE": rmse,
            "Accuracy": -rmse,
        }
    ]


def gradient_noise(seed: int, baseline: str, steps: int = 10) -> list[dict[str, Any]]:
    """Measure the variance of REINFORCE's gradient, with three baselines.

    The policy chooses between two actions in each of `steps` states, with probability 1/2 each. An
    action pays 5 plus noise, and the second action pays 0.5 more. Rewards are not discounted.
    """
    rng = np.random.default_rng(seed)
    episodes = 2000
    act = rng.integers(2, size=(episodes, steps))
    rew = 5.0 + 0.5 * act + rng.standard_normal((episodes, steps))
    to_go = rew[:, ::-1].cumsum(1)[:, ::-1]
    exact = 5.25 * np.arange(steps, 0, -1)  # V of each state
    b = {"none": 0.0, "constant": exact.mean(), "value": exact}[baseline]
    score = act - 0.5  # the gradient of log pi with respect to the logit of the second action
    gradient = score * (to_go - b)  # (episodes, steps)
    variance = float(gradient.var(0).sum())
    return [
        {
            "Epoch": 1,
            "MeanGradient": float(gradient.mean()),
            "Variance": variance,
            "MinusLogVariance": -float(np.log10(variance)),
        }
    ]


def overestimate(seed: int, actions: int, states: int = 2000) -> list[dict[str, Any]]:
    """Measure how far the maximum of noisy values is above the true value of zero.

    All actions have the value 0, and each estimate is wrong by a standard normal number. Double
    Q-learning evaluates the action that looks best with a second, independent estimate.
    """
    rng = np.random.default_rng(seed)
    q, other = rng.standard_normal((2, states, actions))
    best = q.argmax(1)
    return [
        {
            "Epoch": 1,
            "Overestimate": float(q.max(1).mean()),
            "DoubleQ": float(other[np.arange(states), best].mean()),
        }
    ]


def power(seed: int, seeds: int, trials: int = 60) -> list[dict[str, Any]]:
    """Measure how often a real difference of one standard deviation is found, at the 5 % level.

    In each trial, two algorithms have `seeds` runs each, with normal scores of standard deviation
    1 and means that differ by 1. A permutation test decides.
    """
    from spinup.analysis.stats import permutation_p

    rng = np.random.default_rng(seed)
    found = 0
    for _ in range(trials):
        x, y = 1.0 + rng.standard_normal(seeds), rng.standard_normal(seeds)
        found += permutation_p([x], [y], 500, rng) <= 0.05
    return [{"Epoch": 1, "Power": found / trials}]
