"""Problem set 6: TD3."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium.spaces import Box
from torch.optim import SGD

from spinup_lab.exercises.exercise import Case
from spinup_lab.exercises.networks import (
    LinearCritic,
    LinearPolicy,
    Networks,
    batch_of,
    networks,
    transition,
)


def _simple():
    ac = Networks(pi=LinearPolicy(0.5), q1=LinearCritic(1.0, 2.0), q2=LinearCritic(2.0, 1.0))
    parts = {"q1": LinearCritic(3.0, 1.0), "q2": LinearCritic(1.0, 4.0)}
    return ac, Networks(pi=LinearPolicy(0.25), **parts)


def _limits(low, high):
    return tuple(torch.tensor(x, dtype=torch.float64) for x in (low, high))


def _networks(low=(-1.0, -1.0), high=(1.0, 1.0), obs_dim=3):
    return networks("td3", Box(np.float32(low), np.float32(high)), obs_dim)


# --------------------------------------------------------------------------------- smoothed_action


def smoothed_cases():
    def observations(rows, dim=3):
        return torch.randn(rows, dim, dtype=torch.float64)

    narrow, wide = _limits([-1.0], [1.0]), _limits([-2.0, -8.0], [2.0, 8.0])
    unit, shifted = _limits([-1.0, -1.0], [1.0, 1.0]), _limits([0.0, 3.0], [1.0, 9.0])
    _, simple = _simple()
    cases = [
        Case(
            "no noise, one observation",
            (simple, torch.tensor([[2.0]], dtype=torch.float64), 0.0, 0.5, *narrow),
            show="pi(o) = 0.25 o, o2 = 2, target_noise = 0, bounds -1 and 1",
        ),
        Case(
            "no noise, and the policy leaves the bounds",
            (simple, torch.tensor([[6.0]], dtype=torch.float64), 0.0, 0.5, *narrow),
            show="pi(o) = 0.25 o, o2 = 6, target_noise = 0, bounds -1 and 1",
        ),
    ]
    for name, rows, limits, noise, clip in (
        ("small noise", 5, unit, 0.1, 0.5),
        ("noise that is often clipped", 40, unit, 0.5, 0.2),
        ("bounds of different width", 20, wide, 0.2, 0.5),
        ("bounds that are not symmetric", 20, shifted, 0.2, 0.5),
        ("actions near the bounds", 30, unit, 0.4, 2.0),
        ("wide bounds and a tight clip", 30, wide, 1.0, 0.1),
        ("one observation", 1, unit, 0.2, 0.5),
    ):
        low, high = (x.tolist() for x in limits)
        _, _, ac_targ = _networks(low, high)
        cases.append(Case(name, (ac_targ, observations(rows), noise, clip, *limits)))
    return cases


# ------------------------------------------------------------------------------------------ loss_q


def loss_q_cases():
    grad = ("ac", "ac_targ")
    nets = (
        "Q1 = o + 2a, Q2 = 2o + a; targets pi(o) = 0.25 o, Q1 = 3o + a, Q2 = o + 4a; "
        "target_noise = 0, gamma = 0.5"
    )
    rest = (0.5, 0.0, 0.5, _limits([-1.0], [1.0]))
    cases = [
        Case(
            "one transition, without noise",
            (*_simple(), transition(1.0, 0.5, 1.0, 2.0), *rest),
            show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = 2, d = 0",
        ),
        Case(
            "the other critic has the smaller target",
            (*_simple(), transition(1.0, 0.5, 1.0, -2.0), *rest),
            show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = -2, d = 0",
        ),
        Case(
            "a terminal transition",
            (*_simple(), transition(1.0, 0.5, 1.0, 2.0, d=1.0), *rest),
            show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = 2, d = 1",
        ),
    ]
    for name, rows, done, gamma, noise, clip, low, high in (
        ("random networks, without noise", 8, None, 0.99, 0.0, 0.5, [-1.0, -1.0], [1.0, 1.0]),
        ("with noise", 8, None, 0.99, 0.2, 0.5, [-1.0, -1.0], [1.0, 1.0]),
        ("a batch of one", 1, False, 0.99, 0.2, 0.5, [-1.0, -1.0], [1.0, 1.0]),
        ("every transition is terminal", 5, True, 0.99, 0.2, 0.5, [-1.0, -1.0], [1.0, 1.0]),
        ("gamma = 0", 6, None, 0.0, 0.2, 0.5, [-1.0, -1.0], [1.0, 1.0]),
        ("bounds of different width", 8, None, 0.9, 0.2, 0.5, [-2.0, 0.0], [2.0, 10.0]),
    ):
        space, ac, ac_targ = _networks(low, high)
        batch = batch_of(rows, space, done=done)
        args = (ac, ac_targ, batch, gamma, noise, clip, _limits(low, high))
        cases.append(Case(name, args, grad=grad))
    return cases


# ----------------------------------------------------------------------------------------- loss_pi


def loss_pi_cases():
    cases = [
        Case(
            "one observation",
            (_simple()[0], transition(2.0, 7.0, 1.0, 3.0)),
            grad=("ac.pi",),
            show="pi(o) = 0.5 o, Q1 = o + 2a, Q2 = 2o + a; o = 2, and the stored action is 7",
        )
    ]
    for name, rows, low, high in (
        ("a batch of one", 1, [-1.0, -1.0], [1.0, 1.0]),
        ("a batch of 8", 8, [-1.0, -1.0], [1.0, 1.0]),
        ("a batch of 30", 30, [-1.0, -1.0], [1.0, 1.0]),
        ("one action dimension", 6, [-1.0], [1.0]),
        ("bounds that are not symmetric", 8, [2.0, 0.0], [6.0, 1.0]),
        ("three action dimensions", 5, [-1.0] * 3, [1.0] * 3),
        ("wide bounds", 5, [-50.0], [50.0]),
    ):
        space, ac, _ = _networks(low, high)
        cases.append(Case(name, (ac, batch_of(rows, space)), grad=("ac.pi",)))
    return cases


# ------------------------------------------------------------------------------------------ update


def update_cases():
    cases = []
    for name, rows, update_policy, noise, polyak, low, high in (
        ("the policy is not due", 6, False, 0.0, 0.9, [-1.0], [1.0]),
        ("the policy is due", 6, True, 0.0, 0.9, [-1.0], [1.0]),
        ("with noise in the target", 8, True, 0.2, 0.995, [-1.0, -1.0], [1.0, 1.0]),
        ("with noise, not due", 8, False, 0.2, 0.995, [-1.0, -1.0], [1.0, 1.0]),
        ("polyak = 0", 8, True, 0.2, 0.0, [-1.0, -1.0], [1.0, 1.0]),
        ("polyak = 0, not due", 8, False, 0.2, 0.0, [-1.0, -1.0], [1.0, 1.0]),
        ("a batch of one", 1, True, 0.2, 0.9, [-1.0, -1.0], [1.0, 1.0]),
        ("bounds that are not symmetric", 5, True, 0.2, 0.9, [2.0, 0.0], [6.0, 1.0]),
    ):
        space, ac, ac_targ = _networks(low, high)
        batch = batch_of(rows, space)
        ac_targ.requires_grad_(False)
        pi_optimizer = SGD(ac.pi.parameters(), lr=0.01)
        q_optimizer = SGD([*ac.q1.parameters(), *ac.q2.parameters()], lr=0.02)
        args = (ac, ac_targ, pi_optimizer, q_optimizer, batch, _limits(low, high))
        kwargs = {
            "update_policy": update_policy,
            "gamma": 0.9,
            "polyak": polyak,
            "target_noise": noise,
            "noise_clip": 0.5,
        }
        changes = ("ac", "ac_targ", "pi_optimizer", "q_optimizer")
        cases.append(Case(name, args, kwargs, changes=changes))
    return cases


def update_call(function, case):
    """Return the losses; the judge compares the parameters as well."""
    info = function(*case.args, **case.kwargs)
    names = ("LossQ", "LossPi") if case.kwargs["update_policy"] else ("LossQ",)
    return {name: info[name] for name in names} if info else info
