"""All exercises, by id. Loading them imports no framework."""

from __future__ import annotations

from functools import cache

from spinup.utils.errors import SpinupError, nearest, printable
from spinup_lab.exercises import bugs, content
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
    """Return the exercises of all files in `sets`: by set, and within a set by kind."""
    found: dict[str, Task] = {}
    for path in sorted(content.FOLDER.glob("set*.toml")):
        found |= content.read_set(path, found)
    found |= bugs.read(content.FOLDER / "bugs.toml", found)
    order = sorted(found.values(), key=lambda task: (task.set, "FBE".index(task.kind)))
    return {task.id: task for task in order}


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
