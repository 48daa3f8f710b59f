"""Problem set 5: DDPG."""

from __future__ import annotations

import numpy as np
from torch.optim import SGD

from spinup_lab.exercises.exercise import Case
from spinup_lab.exercises.networks import (
    LinearCritic,
    LinearPolicy,
    Networks,
    batch_of,
    box,
    networks,
    transition,
)


def _simple():
    ac = Networks(pi=LinearPolicy(0.5), q=LinearCritic(1.0, 2.0))
    ac_targ = Networks(pi=LinearPolicy(-1.0), q=LinearCritic(3.0, 1.0))
    return ac, ac_targ


def _networks(act_dim=2, low=-1.0, high=1.0, obs_dim=3):
    return networks("ddpg", box(act_dim, low, high), obs_dim)


# ------------------------------------------------------------------------------------------ loss_q


def loss_q_cases():
    grad = ("ac", "ac_targ")
    nets = "Q(o, a) = o + 2a, target networks pi(o) = -o and Q(o, a) = 3o + a"
    cases = [
        Case(
            "one transition, gamma = 0.5",
            (*_simple(), transition(1.0, 0.5, 1.0, 2.0), 0.5),
            show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = 2, d = 0",
        ),
        Case(
            "a terminal transition",
            (*_simple(), transition(1.0, 0.5, 1.0, 2.0, d=1.0), 0.5),
            show=f"{nets}; o = 1, a = 0.5, r = 1, o2 = 2, d = 1",
        ),
    ]
    for name, rows, done, gamma, options in (
        ("random networks, a batch of 8", 8, None, 0.99, {}),
        ("a batch of one", 1, False, 0.99, {}),
        ("every transition is terminal", 5, True, 0.99, {}),
        ("gamma = 0", 6, None, 0.0, {}),
        ("gamma = 1", 6, None, 1.0, {}),
        ("bounds from 2 to 6", 8, None, 0.9, {"low": 2.0, "high": 6.0}),
        ("one action dimension", 7, None, 0.95, {"act_dim": 1}),
    ):
        space, ac, ac_targ = _networks(**options)
        batch = batch_of(rows, space, done=done)
        cases.append(Case(name, (ac, ac_targ, batch, gamma), grad=grad))
    return cases


# ----------------------------------------------------------------------------------------- loss_pi


def loss_pi_cases():
    grad = ("ac.pi",)
    cases = [
        Case(
            "one observation",
            (_simple()[0], transition(2.0, 7.0, 1.0, 3.0)),
            grad=grad,
            show="pi(o) = 0.5 o, Q(o, a) = o + 2a; o = 2, and the stored action is 7",
        )
    ]
    for name, rows, options in (
        ("a batch of one", 1, {}),
        ("a batch of 8", 8, {}),
        ("a batch of 30", 30, {}),
        ("one action dimension", 6, {"act_dim": 1}),
        ("bounds from 2 to 6", 8, {"low": 2.0, "high": 6.0}),
        ("one observation dimension", 5, {"obs_dim": 1}),
        ("wide bounds", 5, {"low": -50.0, "high": 50.0}),
    ):
        space, ac, _ = _networks(**options)
        batch = batch_of(rows, space, options.get("obs_dim", 3))
        cases.append(Case(name, (ac, batch), grad=grad))
    return cases


# ------------------------------------------------------------------------------------ noisy action


def noisy_action(act, low, high, act_noise, rng):
    """Return exploring actions, as `NoisyPolicy` does."""
    import numpy as np
    from gymnasium.spaces import Box

    from spinup.algos.common.exploration import NoisyPolicy

    class Given:
        begin = renew = None

        def __call__(self, obs, rng):
            return (act,)

    policy = NoisyPolicy(Given(), Box(np.float32(low), np.float32(high)), act_noise)
    return policy(None, rng)


def noisy_cases():
    def rng():
        return np.random.default_rng(int(np.random.randint(1000)))

    def bounds(low, high):
        return np.array(low, np.float32), np.array(high, np.float32)

    def acts(*shape):
        return np.random.uniform(-0.5, 0.5, shape).astype(np.float32)

    symmetric, one = bounds([-1, -1], [1, 1]), bounds([-1], [1])
    wide, shifted = bounds([-2, -100], [2, 100]), bounds([0, 10], [1, 30])
    return [
        Case("bounds from -1 to 1", (acts(1, 1), *one, 0.1, rng())),
        Case("two dimensions, three environments", (acts(3, 2), *symmetric, 0.1, rng())),
        Case("no noise", (acts(4, 2), *symmetric, 0.0, rng())),
        Case("bounds of different width", (acts(4, 2), *wide, 0.2, rng())),
        Case("large noise is clipped", (acts(40, 2), *symmetric, 3.0, rng())),
        Case("bounds that are not symmetric", (acts(5, 2) + [[0, 20]], *shifted, 0.3, rng())),
        Case("an action on the bound", (np.ones((50, 1), np.float32), *one, 0.5, rng())),
        Case("many environments", (acts(64, 1), *one, 0.4, rng())),
    ]


def noise_absolute(act, low, high, act_noise, rng):
    noise = act_noise * rng.standard_normal(act.shape, dtype="float32")
    return (act + noise).clip(low, high)


def noise_full_range(act, low, high, act_noise, rng):
    noise = act_noise * (high - low) * rng.standard_normal(act.shape, dtype="float32")
    return (act + noise).clip(low, high)


def noise_unclipped(act, low, high, act_noise, rng):
    return act + act_noise * (high - low) / 2 * rng.standard_normal(act.shape, dtype="float32")


def noise_high_only(act, low, high, act_noise, rng):
    noise = act_noise * high * rng.standard_normal(act.shape, dtype="float32")
    return (act + noise).clip(-high, high)


# ------------------------------------------------------------------------------------------ update


def update_cases():
    cases = []
    for name, rows, gamma, polyak, options in (
        ("one transition", 0, 0.5, 0.9, None),
        ("a batch of 8", 8, 0.99, 0.995, {}),
        ("polyak = 0: the targets become copies", 8, 0.99, 0.0, {}),
        ("polyak = 1: the targets stay", 8, 0.99, 1.0, {}),
        ("a batch of one", 1, 0.99, 0.995, {}),
        ("one action dimension", 5, 0.9, 0.9, {"act_dim": 1}),
        ("bounds from 2 to 6", 5, 0.9, 0.9, {"low": 2.0, "high": 6.0}),
        ("gradients of an earlier step are still there", 6, 0.9, 0.9, {}),
    ):
        if options is None:
            (ac, ac_targ), batch = _simple(), transition(1.0, 0.5, 1.0, 2.0)
        else:
            space, ac, ac_targ = _networks(**options)
            batch = batch_of(rows, space)
        ac_targ.requires_grad_(False)
        if "earlier" in name:
            ac.q(batch["obs"], ac.pi(batch["obs"])).sum().backward()
        pi_optimizer = SGD(ac.pi.parameters(), lr=0.01)
        q_optimizer = SGD(ac.q.parameters(), lr=0.02)
        args = (ac, ac_targ, pi_optimizer, q_optimizer, batch, gamma, polyak)
        cases.append(Case(name, args, changes=("ac", "ac_targ", "pi_optimizer", "q_optimizer")))
    return cases


def update_call(function, case):
    """Return the losses; the judge compares the parameters as well."""
    info = function(*case.args)
    return {name: info[name] for name in ("LossQ", "LossPi")} if info else info
