"""Set 2: the vanilla policy gradient."""

from __future__ import annotations

from typing import Any

import torch

from spinup.algos.pytorch.vpg.vpg import compute_loss_pi, compute_loss_v
from spinup_lab.exercises.exercise import Case
from spinup_lab.exercises.tables import TableActorCritic, networks, numbers, one_value

# ------------------------------------------------------------------------------------ value loss


def value_cases() -> list[Case]:
    """Cases for the loss of a value function."""

    def case(name: str, val: float, ret: float) -> Case:
        show = f"V=[{val}], ret=[{ret}]"
        return Case(name, one_value(val, val, ret), grad=("ac.v",), show=show)

    two = TableActorCritic([[0.5, 0.5], [0.5, 0.5]], [1.0, -1.0])
    batch = {
        "obs": torch.tensor([0, 1]),
        "act": torch.tensor([0, 1]),
        "ret": numbers(2.0, 1.0),
        "adv": numbers(0.5, -0.5),
        "val": numbers(1.0, -1.0),
        "logp": numbers(0.5, 0.5).log(),
    }
    show = "V=[1.0, -1.0], ret=[2.0, 1.0]"
    return [
        case("one value that is too low", 1.0, 4.0),
        case("one value that is too high", 4.0, 1.0),
        case("one value that is right", 2.0, 2.0),
        Case("two states", (two, batch), grad=("ac.v",), show=show),
        *(
            Case(name, networks(*args), grad=("ac.v",), show=name)
            for name, args in {
                "a network and a batch of one": (1, True),
                "a network and 7 steps": (7, True),
                "a network and 16 steps": (16, False),
                "a network and 100 steps": (100, False),
            }.items()
        ),
    ]


# ---------------------------------------------------------------------------------------- update


def update_cases() -> list[Case]:
    def case(name: str, made: Any, v_iters: int, lr: float = 0.1, old: bool = False) -> Case:
        ac, batch = made
        with torch.no_grad():  # the policy that collected the data is the current one
            batch["logp"] = ac.pi(batch["obs"], batch["act"])[1]
        if old:  # what an earlier update left behind
            for p in ac.parameters():
                p.grad = torch.ones_like(p)
        pi_optimizer = torch.optim.SGD(ac.pi.parameters(), lr=lr)
        vf_optimizer = torch.optim.SGD(ac.v.parameters(), lr=lr)
        args = (ac, pi_optimizer, vf_optimizer, batch, compute_loss_pi, compute_loss_v, v_iters)
        show = f"{name}, v_iters={v_iters}, both learning rates {lr}"
        return Case(name, args, changes=("ac",), show=show)

    return [
        case("one state, one step, V = 0, ret = 4", one_value(0.0, 0.0, 4.0), 1),
        case("two steps of the value function", one_value(0.0, 0.0, 4.0), 2),
        case("no step of the value function", one_value(0.0, 0.0, 4.0), 0),
        case("gradients of an earlier update", one_value(0.0, 0.0, 4.0), 1, old=True),
        case("a network, discrete actions", networks(12, True), 3),
        case("a network, continuous actions", networks(12, False), 3),
        case("a network with old gradients", networks(12, False), 5, old=True),
        case("a larger learning rate", networks(12, True), 2, lr=0.3),
    ]
