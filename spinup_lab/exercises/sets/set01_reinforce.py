"""Set 1: REINFORCE."""

from __future__ import annotations

import numpy as np
import torch

from spinup_lab.exercises.exercise import Case
from spinup_lab.exercises.tables import TableActorCritic, networks, numbers, one_ratio

# -------------------------------------------------------------------------------- rewards to go


def to_go_cases() -> list[Case]:
    a = np.array
    many = (np.random.randn(40), [7, 8, 25, 40], [0.0, 1.5, 0.0, -2.0], 0.97)
    return [
        Case("one episode that died", (a([1.0, 1.0, 1.0]), [3], [0.0], 0.5)),
        Case("two episodes", (a([1.0, 1.0, 5.0, 5.0]), [2, 4], [0.0, 0.0], 0.5)),
        Case("a path that was cut", (a([1.0, 1.0]), [2], [8.0], 0.5)),
        Case("a death, then a cut", (a([1.0, 1.0, 1.0]), [1, 3], [0.0, 8.0], 0.5)),
        Case("a cut, then a death", (a([1.0, 1.0, 1.0]), [2, 3], [8.0, 0.0], 0.5)),
        Case("an episode of one step", (a([3.0]), [1], [0.0], 0.9)),
        Case("gamma = 1", (a([1.0, 2.0, 3.0]), [3], [4.0], 1.0)),
        Case("gamma = 0", (a([1.0, 2.0, 3.0]), [3], [4.0], 0.0)),
        Case("whole numbers", (a([1, 0, 1, 1]), [2, 4], [0.0, 0.0], 0.5)),
        Case("four paths of 40 random steps", many),
    ]


# ------------------------------------------------------------------------------------ advantages


def normalize_cases() -> list[Case]:
    def case(name: str, *values: float) -> Case:
        return Case(name, (torch.tensor(values, dtype=torch.float64),))

    many = torch.randn(300, dtype=torch.float64)
    return [
        case("three returns", 1.0, 2.0, 3.0),
        case("two returns", -1.0, 1.0),
        case("a large mean", 101.0, 102.0, 106.0),
        case("large returns", -300.0, 0.0, 600.0, 100.0),
        case("all equal", 5.0, 5.0, 5.0),
        case("a batch of one", 3.0),
        case("negative returns", -4.0, -2.0, -9.0),
        Case("300 returns", (3 * many + 7,)),
    ]


# ------------------------------------------------------------------------------------------ loss


def loss_cases() -> list[Case]:
    """Cases for a policy gradient's loss: by hand, then with the library's networks."""

    def case(name: str, adv: float) -> Case:
        ac, batch = one_ratio(1.0, adv)
        show = f"probability of the action=[0.4], adv=[{adv}]"
        return Case(name, (ac, batch), grad=("ac.pi",), show=show)

    two = TableActorCritic([[0.5, 0.5], [0.1, 0.9]])
    batch = {
        "obs": torch.tensor([0, 1]),
        "act": torch.tensor([1, 0]),
        "adv": numbers(1.0, -2.0),
        "ret": numbers(3.0, 1.0),
        "val": numbers(0.0, 0.0),
        "logp": numbers(0.5, 0.1).log(),
    }
    show = "probabilities of the actions=[0.5, 0.1], adv=[1.0, -2.0]"
    moved = "old probability=[0.4], probability now=[0.6], adv=[1.0]"
    far = "a network that has moved since"
    return [
        case("one good action", 1.0),
        case("one bad action", -1.0),
        case("an action that made no difference", 0.0),
        case("a very good action", 10.0),
        Case("two states", (two, batch), grad=("ac.pi",), show=show),
        *(
            Case(name, networks(*args, far=0.0), grad=("ac.pi",), show=name)
            for name, args in {
                "a network and 16 discrete actions": (16, True),
                "a network and 16 continuous actions": (16, False),
                "a network and a batch of one": (1, False),
            }.items()
        ),
        Case("a policy that has moved since", one_ratio(1.5, 1.0), grad=("ac.pi",), show=moved),
        Case(far, networks(16, False), grad=("ac.pi",), show=far),
    ]
