"""Problem set 9: ACER."""

from __future__ import annotations

import torch

from spinup_lab.exercises.exercise import Case


def _batch(rew, done, ended=None):
    ended = done if ended is None else ended
    return {
        name: torch.as_tensor(x, dtype=torch.float64)
        for name, x in (("rew", rew), ("done", done), ("ended", ended))
    }


def _random(*shape):
    return torch.randn(*shape, dtype=torch.float64)


# ----------------------------------------------------------------------------------------- retrace


def retrace_cases():
    def column(*numbers):
        return torch.tensor(numbers, dtype=torch.float64)[:, None]

    def zeros(n):
        return [[0.0]] * n

    two = "two steps, rewards 1 and 2, Q = (1, 3), V of the next state = (2, 4), gamma = 0.5"
    q, v2 = column(1, 3), column(2, 4)
    cases = [
        Case(
            "two steps on the current policy",
            (q, v2, column(1, 1), _batch([[1.0], [2.0]], zeros(2)), 0.5),
            show=f"{two}, ratios 1 and 1",
        ),
        Case(
            "the second action is unlikely now",
            (q, v2, column(1, 0.5), _batch([[1.0], [2.0]], zeros(2)), 0.5),
            show=f"{two}, ratios 1 and 0.5",
        ),
        Case(
            "the first action is unlikely now",
            (q, v2, column(0.5, 1), _batch([[1.0], [2.0]], zeros(2)), 0.5),
            show=f"{two}, ratios 0.5 and 1",
        ),
        Case(
            "ratios above one",
            (q, v2, column(3, 4), _batch([[1.0], [2.0]], zeros(2)), 0.5),
            show=f"{two}, ratios 3 and 4",
        ),
    ]
    for name, steps, streams, gamma, lam, done_at, ended_at in (
        ("five steps of three streams", 5, 3, 0.99, 1.0, [], []),
        ("one step", 1, 4, 0.99, 1.0, [], []),
        ("an episode terminates in the middle", 6, 2, 0.9, 1.0, [2], [2]),
        ("an episode is cut in the middle", 6, 2, 0.9, 1.0, [], [3]),
        ("an episode terminates at the end", 4, 2, 0.9, 1.0, [3], [3]),
        ("lambda = 0.5", 6, 2, 0.9, 0.5, [], []),
        ("lambda = 0", 6, 2, 0.9, 0.0, [], []),
        ("all of it", 20, 4, 0.99, 0.95, [4], [4, 11]),
    ):
        done, ended = torch.zeros(steps, streams), torch.zeros(steps, streams)
        done[done_at, 0] = 1
        ended[ended_at, 0] = 1
        rho = _random(steps, streams).exp()
        batch = _batch(_random(steps, streams), done, ended)
        args = (_random(steps, streams), _random(steps, streams), rho, batch, gamma, lam)
        cases.append(Case(name, args))
    return cases


# ----------------------------------------------------------------------------------------- loss_pi


def loss_pi_cases():
    def case(name, phi, q, q_ret, act, mu, c=10.0, ent_coef=0.0, show=""):
        phi = phi.clone().requires_grad_()
        batch = {"act": act, "logmu": mu.log()}
        return Case(name, (phi, q, q_ret, batch, c, ent_coef), grad=("phi",), show=show)

    def simple(name, mu, q_ret, c):
        phi = torch.zeros(1, 1, 2, dtype=torch.float64)
        q = torch.tensor([[[1.0, 3.0]]], dtype=torch.float64)
        behavior = torch.tensor([[mu]], dtype=torch.float64)
        show = (
            f"pi = (0.5, 0.5), Q = (1, 3), Qret = {q_ret:g}, the action 0 was drawn from "
            f"mu = {tuple(mu)}, c = {c:g}"
        )
        ret = torch.tensor([[q_ret]], dtype=torch.float64)
        return case(name, phi, q, ret, torch.tensor([[0]]), behavior, c, show=show)

    cases = [
        simple("one state, on the current policy", [0.5, 0.5], 4.0, 10.0),
        simple("the old policy disliked the action", [0.1, 0.9], 4.0, 10.0),
        simple("the ratio is truncated", [0.1, 0.9], 4.0, 2.0),
    ]
    for name, steps, streams, n, c, ent_coef in (
        ("a random batch", 5, 3, 4, 10.0, 0.0),
        ("c = 1", 5, 3, 4, 1.0, 0.0),
        ("c = 0.5: much is truncated", 6, 2, 3, 0.5, 0.0),
        ("with an entropy bonus", 5, 3, 4, 10.0, 0.1),
        ("one step", 1, 1, 2, 10.0, 0.0),
        ("all of it", 10, 4, 6, 1.5, 0.01),
    ):
        mu = (_random(steps, streams, n) * 1.5).softmax(-1)
        act = torch.randint(n, (steps, streams))
        phi, q = _random(steps, streams, n), _random(steps, streams, n)
        cases.append(case(name, phi, q, _random(steps, streams), act, mu, c, ent_coef))
    return cases


# ------------------------------------------------------------------------------------ trust region


def trust_cases():
    def case(name, g, k, delta):
        g, k = (torch.as_tensor(x, dtype=torch.float64) for x in (g, k))
        return Case(name, (g, k, delta))

    return [
        case("the step is fine", [[[1.0, 0.0]]], [[[0.5, 0.0]]], 1.0),
        case("the step is too long", [[[4.0, 1.0]]], [[[1.0, 0.0]]], 1.0),
        case("the step lowers the divergence", [[[-4.0, 1.0]]], [[[1.0, 0.0]]], 1.0),
        case("k = 0", [[[4.0, 1.0]]], [[[0.0, 0.0]]], 1.0),
        case("delta = 0", [[[4.0, 1.0]]], [[[1.0, 1.0]]], 0.0),
        case("exactly at the limit", [[[2.0, 0.0]]], [[[0.5, 0.0]]], 1.0),
        case("several states, some bent", _random(5, 3, 4) * 2, _random(5, 3, 4), 1.0),
        case("many states", _random(20, 4, 6) * 3, _random(20, 4, 6), 0.1),
        case("a long k", _random(4, 2, 3), _random(4, 2, 3) * 100, 1.0),
    ]
