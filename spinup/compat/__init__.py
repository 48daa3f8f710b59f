"""Running programs that were written for the original Spinning Up and the old `gym`.

`spinup.compat.gym` has the interface of `gym` 0.21 and runs on Gymnasium. Use it in one of three
ways, from the least to the most convenient:

    import spinup.compat.gym as gym       # instead of `import gym`

    import spinup.compat
    spinup.compat.install()               # from here on, `import gym` finds it, in any module

    python -m spinup.compat my_ppo.py --env CartPole-v0     # the program itself stays unchanged
"""

from __future__ import annotations

import sys
from types import ModuleType

from spinup.utils.errors import SpinupError

__all__ = ["install"]


def install() -> ModuleType:
    """Make `import gym`, in any module, import `spinup.compat.gym`; return that module.

    Call this before anything imports `gym`. It changes only this process.
    """
    from spinup.compat import gym

    if sys.modules.get("gym", gym) is not gym:
        raise SpinupError(
            "gym is already imported: call spinup.compat.install() before anything imports it"
        )
    for name, module in gym.MODULES.items():
        sys.modules[f"gym.{name}"] = module
    sys.modules["gym"] = gym
    return gym
