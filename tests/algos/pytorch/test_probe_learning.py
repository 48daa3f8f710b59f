"""Every algorithm learns every probe: the value where it has one, the action where it matters.

The first probe that is not learned names the fault; see
`spinup_lab/probe/environments.py`. All runs go through the real training functions.
"""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from spinup.algos.pytorch.common.acting import make_get_action
from spinup.envs import PROBES, adapt_env, make_env
from tests.helpers.probes import GAMMA, OFF_POLICY, RATES, observations

VALUES = [p for p in PROBES if not p.learns_action]
ACTIONS = [p for p in PROBES if p.learns_action]
NET = {"hidden_sizes": (16,)}


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
    for o in observations(probe.id):
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
    for o in observations(probe.id):
        best = np.asarray(env.unwrapped.optimal_action(o))
        got = np.asarray(get_action(o)) + start
        np.testing.assert_allclose(got, best, atol=0.2 if is_box else 0)


# ---- off-policy: values of actions -----------------------------------------------------------

NETWORKS = {"hidden_sizes": (16,), "activation": torch.nn.Tanh}
OFF = {**OFF_POLICY, "ac_kwargs": NETWORKS, "num_threads": 1}


def learns(algo, probe):
    """Whether the algorithm has something to learn there."""
    discrete = ("Discrete", "DiscreteFrom5") if algo == "sac" else ()
    return probe.actions in ("Box", "Asymmetric", *discrete)


def q_values(ac, o, act):
    """What each critic of `ac` says about some actions at `o`."""
    obs, act = torch.as_tensor(o).expand(len(act), -1), torch.as_tensor(np.asarray(act))
    critics = (getattr(ac, name) for name in ("q", "q1", "q2") if hasattr(ac, name))
    return [q(obs, act).detach().numpy() for q in critics]


@pytest.mark.parametrize(
    ("algo", "probe"),
    [(algo, probe) for algo in RATES for probe in VALUES if learns(algo, probe)],
    ids=lambda x: getattr(x, "id", x),
)
def test_the_value_of_every_action_of_a_value_probe_is_learned(train, algo, probe):
    env = make_env(probe.id).unwrapped
    ends = getattr(env, "end", None) == "terminated"  # the one with many observations
    run = train(algo, probe.id, **OFF, **RATES[algo], updates_per_step=1.5 if ends else 0.5)
    actions = [0, 1] if probe.actions == "Discrete" else np.float32([[-0.9], [0.0], [0.9]])
    for o in observations(probe.id):
        for q in q_values(run.ac, o, actions):
            want = env.true_value(o, GAMMA)  # whatever the action
            np.testing.assert_allclose(q, want, atol=0.2, err_msg=f"Q({o}, .)")


@pytest.mark.parametrize(
    ("algo", "probe"),
    [(algo, probe) for algo in RATES for probe in ACTIONS if learns(algo, probe)],
    ids=lambda x: getattr(x, "id", x),
)
def test_the_best_action_of_a_probe_and_its_value_are_learned(train, algo, probe):
    env = make_env(probe.id)
    is_box = isinstance(env.action_space, spaces.Box)
    updates = {"updates_per_step": 2.0 if is_box else 0.5}
    run = train(algo, probe.id, **OFF, **RATES[algo], **updates)
    get_action = make_get_action(run.ac, True, action_space=adapt_env(env).action_space)
    start = getattr(env.action_space, "start", 0)
    for o in observations(probe.id):
        best = np.asarray(env.unwrapped.optimal_action(o))
        got = np.asarray(get_action(o)) + start
        if probe.actions == "Asymmetric":
            # The second dimension is worth 0.16 at most; an untrained policy loses 2.3.
            assert env.unwrapped.true_q(o, got, GAMMA) > -0.5
        else:
            np.testing.assert_allclose(got, best, atol=0.2 if is_box else 0)
        actions = [best] if is_box else np.arange(2)
        want = [env.unwrapped.true_q(o, a + (0 if is_box else start), GAMMA) for a in actions]
        for q in q_values(run.ac, o, actions):
            np.testing.assert_allclose(q, want, atol=0.5 if probe.actions == "Asymmetric" else 0.2)


@pytest.mark.parametrize("name", ["TwoStep", "Truncation"])
def test_the_values_of_sac_include_the_entropy_of_later_steps(train, name):
    # Both actions are worth the same, so the policy stays near uniform, with the entropy log 2.
    alpha = 0.5
    run = train("sac", f"spinup/Probe{name}-v0", **OFF, lr=0.01, alpha=alpha)
    bonus = alpha * np.log(2)
    # Q = r + gamma * (Q' + bonus), where an episode goes on
    want = {
        "TwoStep": {0.0: GAMMA * (1 + bonus), 1.0: 1.0},
        "Truncation": {0.0: (1 + GAMMA * bonus) / (1 - GAMMA)},
    }
    for o, value in want[name].items():
        for q in q_values(run.ac, np.float32([o]), [0, 1]):
            np.testing.assert_allclose(q, value, atol=0.05)
