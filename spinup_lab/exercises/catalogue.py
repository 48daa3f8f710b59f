"""All exercises, by id. Loading them imports no framework."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from spinup.utils.errors import SpinupError, nearest, printable
from spinup_lab.exercises import sets
from spinup_lab.exercises.exercise import Task

SETS = {
    0: "tools",
    1: "REINFORCE",
    2: "VPG",
    3: "TRPO",
    4: "PPO",
    5: "DDPG",
    6: "TD3",
    7: "SAC",
    8: "DQN",
    9: "ACER",
    10: "HER",
    11: "workflow",
}


@cache
def load() -> dict[str, Task]:
    """Return all exercises: those listed in `EXERCISES` of the modules in `sets`, by set."""
    found: list[Task] = []
    for module in pkgutil.iter_modules(sets.__path__):
        found += getattr(importlib.import_module(f"{sets.__name__}.{module.name}"), "EXERCISES", ())
    order = {"F": 0, "B": 1, "E": 2}
    found.sort(key=lambda task: (task.set, order.get(task.kind, 3)))
    table = {task.id: task for task in found}
    if len(table) < len(found):
        raise AssertionError("two exercises have the same id")
    return table


def find(name: str) -> Task:
    """Return an exercise by its id, or raise an error that names the nearest one."""
    table = load()
    if name not in table:
        raise SpinupError(
            f"there is no exercise '{printable(name)}': 'spinup exercise list' shows them"
            f"{nearest(name, table)}"
        )
    return table[name]


def set_number(text: str) -> int:
    """Return the number of a set, given by number or name."""
    names = {name.lower(): number for number, name in SETS.items()}
    names |= {str(number): number for number in SETS}
    if text.lower() not in names:
        raise SpinupError(
            f"there is no set '{printable(text)}': the sets are "
            f"{', '.join(f'{number} ({name})' for number, name in SETS.items())}"
        )
    return names[text.lower()]
