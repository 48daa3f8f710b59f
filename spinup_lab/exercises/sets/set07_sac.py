"""Problem set 7: SAC."""

from __future__ import annotations

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete

from spinup_lab.exercises.exercise import Case
from spinup_lab.exercises.networks import (
    GivenPolicy,
    LinearCritic,
    Networks,
    batch_of,
    box,
    networks,
    transition,
)


def _simple():
    ac = Networks(pi=GivenPolicy(0.5, -1.0), q1=LinearCritic(1.0, 2.0), q2=LinearCritic(2.0, 1.0))
    return ac, Networks(q1=LinearCritic(3.0, 1.0), q2=LinearCritic(1.0, 4.0))


# -------------------------------------------------------------------------------------- soft_value


def soft_value_cases():
    nets = "the policy samples a = 0.5 o with log pi = -o; Q1 = 3o + a, Q2 = o + 4a"
    cases = []
    for name, o, alpha in (
        ("one observation", 2.0, 0.5),
        ("the other critic is smaller", -2.0, 0.5),
    ):
        ac, ac_q = _simple()
        cases.append(
            Case(
                name,
                (ac, ac_q, torch.tensor([[o]], dtype=torch.float64), alpha),
                show=f"{nets}; o = {o:g}, alpha = {alpha:g}",
            )
        )
    for name, space, rows, alpha in (
        ("continuous actions, a batch of 6", box(2), 6, 0.2),
        ("alpha = 0", box(2), 6, 0.0),
        ("a batch of one", box(2), 1, 0.2),
        ("bounds from 2 to 6", box(1, 2.0, 6.0), 5, 1.0),
        ("discrete actions, a batch of 6", Discrete(4), 6, 0.2),
        ("discrete actions, alpha = 0", Discrete(3), 6, 0.0),
        ("discrete actions, a batch of one", Discrete(2), 1, 1.0),
        ("discrete actions, a large alpha", Discrete(4), 4, 5.0),
    ):
        _, ac, ac_q = networks("sac", space)
        o = torch.randn(rows, 3, dtype=torch.float64)
        cases.append(Case(name, (ac, ac_q, o, alpha), grad=("ac.pi",)))
    return cases


# ------------------------------------------------------------------------------------------ loss_q


def loss_q_cases():
    nets = (
        "Q1 = o + 2a, Q2 = 2o + a; target critics Q1 = 3o + a, Q2 = o + 4a; the policy samples "
        "a = 0.5 o with log pi = -o; gamma = 0.5, alpha = 0.1"
    )
    cases = []
    for name, o2, d in (
        ("one transition", 2.0, 0.0),
        ("the other critic has the smaller target", -2.0, 0.0),
        ("a terminal transition", 2.0, 1.0),
    ):
        cases.append(
            Case(
                name,
                (*_simple(), transition(1.0, 0.5, 1.0, o2, d), 0.5, 0.1),
                show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = {o2:g}, d = {d:g}",
            )
        )
    for name, space, rows, done, gamma, alpha in (
        ("random networks", box(2), 8, None, 0.99, 0.2),
        ("alpha = 0", box(2), 8, None, 0.99, 0.0),
        ("a batch of one", box(2), 1, False, 0.99, 0.2),
        ("every transition is terminal", box(2), 5, True, 0.99, 0.2),
        ("gamma = 0", box(2), 6, None, 0.0, 0.2),
        ("bounds from 2 to 6", box(1, 2.0, 6.0), 6, None, 0.9, 1.0),
    ):
        _, ac, ac_targ = networks("sac", space)
        batch = batch_of(rows, space, done=done)
        cases.append(Case(name, (ac, ac_targ, batch, gamma, alpha), grad=("ac", "ac_targ.q1")))
    return cases


# ----------------------------------------------------------------------------------------- loss_pi


def loss_pi_cases():
    cases = [
        Case(
            "one observation",
            (_simple()[0], transition(2.0, 7.0, 1.0, 3.0), 0.5),
            grad=("ac.pi",),
            show="the policy samples a = 0.5 o with log pi = -o; Q1 = o + 2a, Q2 = 2o + a; o = 2, "
            "alpha = 0.5",
        )
    ]
    for name, space, rows, alpha in (
        ("a batch of 8", box(2), 8, 0.2),
        ("a batch of one", box(2), 1, 0.2),
        ("alpha = 0", box(2), 6, 0.0),
        ("a large alpha", box(2), 6, 10.0),
        ("bounds from 2 to 6", box(1, 2.0, 6.0), 6, 0.2),
        ("discrete actions", Discrete(4), 8, 0.2),
        ("two discrete actions, a batch of one", Discrete(2), 1, 0.5),
    ):
        _, ac, _ = networks("sac", space)
        cases.append(Case(name, (ac, batch_of(rows, space), alpha), grad=("ac.pi",)))
    return cases


# -------------------------------------------------------------------------------------- loss_alpha


def loss_alpha_cases():
    def case(name, log_alpha, logp, target, show=""):
        log_alpha = torch.tensor(log_alpha, dtype=torch.float64, requires_grad=True)
        logp = torch.as_tensor(logp, dtype=torch.float64)
        return Case(name, (log_alpha, logp, target), grad=("log_alpha",), show=show)

    return [
        case("entropy below its target", 0.0, [2.0], -1.0),
        case("entropy above its target", 0.0, [0.5], -1.0),
        case("entropy at its target", 0.0, [1.0], -1.0),
        case("alpha = 0.2", -1.6094379, [2.0, -1.0, 0.5], -1.0),
        case("a large alpha", 2.0, [2.0, -1.0, 0.5], -3.0),
        case("a target of a discrete policy", -1.0, [-0.3, -0.6], 0.5),
        case("a batch of 50", 0.3, torch.randn(50) * 2, -6.0),
        case("a very small alpha", -12.0, torch.randn(10), -2.0),
    ]


# ---------------------------------------------------------------------------------- target entropy


def target_entropy_cases():
    def box(low, high):
        return Box(np.array(low, np.float32), np.array(high, np.float32))

    return [
        Case("two discrete actions", (Discrete(2),), show="Discrete(2)"),
        Case("18 discrete actions", (Discrete(18),), show="Discrete(18)"),
        Case("one discrete action", (Discrete(1),), show="Discrete(1)"),
        Case("one dimension, bounds -1 and 1", (box([-1], [1]),), show="Box(-1, 1, (1,))"),
        Case("six dimensions", (box([-1] * 6, [1] * 6),), show="Box(-1, 1, (6,))"),
        Case("bounds -2 and 2", (box([-2], [2]),), show="Box(-2, 2, (1,))"),
        Case("bounds 0 and 1", (box([0, 0], [1, 1]),), show="Box(0, 1, (2,))"),
        Case("bounds of different width", (box([-1, 0, 5], [1, 10, 5.5]),)),
        Case("actions with two axes", (Box(-3.0, 3.0, (2, 3)),), show="Box(-3, 3, (2, 3))"),
    ]
