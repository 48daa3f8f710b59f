"""Checking what an environment returns, in the first reset and steps of every run.

    check_first_steps([streams], "GridWorld")

Until `STEPS` steps have been checked, two attributes stand in for an environment's `reset`
and `step`. Then they are deleted, so that the rest of the run costs nothing. `spinup.envs.checking`
looks at a whole environment; this module catches what would end in a traceback, or in a loss that
is not a number.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from spinup.envs.adapter import is_trusted
from spinup.envs.space_adapter import SpaceAdapter
from spinup.envs.spaces import name_of
from spinup.utils.errors import SpinupError
from spinup.utils.serialization_utils import short_repr

__all__ = ["STEPS", "ReturnFault", "cause_of", "check_first_steps", "hook"]

STEPS = 100


class ReturnFault(SpinupError):
    """An environment returned something that no algorithm can learn from."""


def check_first_steps(streams: Sequence[Any], name: str, steps: int = STEPS) -> None:
    """Check what the environments of `streams` return until each has taken `steps` steps.

    `name` is the environment's class, for messages.
    """
    warned: set[str] = set()  # one warning of a kind is enough, however many environments there are
    for stream in streams:
        for env in getattr(stream, "envs", None) or [stream.env]:
            hook(env, name, steps, warned)


def hook(env: Any, name: str, steps: int, warned: set[str]) -> None:
    """Replace an environment's `reset` and `step` by checked ones, for `steps` steps."""
    inner = env.env if isinstance(env, SpaceAdapter) else env  # see what the user's code returns
    if not hasattr(inner, "__dict__") or {"reset", "step"} & set(vars(inner)):
        return
    checked = _FirstSteps(inner, name, steps, warned)
    vars(inner).update(reset=checked.reset, step=checked.step)


class _FirstSteps:
    """Stands in for the methods of one environment; a class, so that the pair can be pickled."""

    def __init__(self, env: Any, name: str, steps: int, warned: set[str]):
        self.env, self.name, self.left, self.warned = env, name, steps, warned
        self.taken = 0
        self.count = getattr(env, "num_envs", None)  # of a vector environment
        # Nobody can mend the bounds of Gymnasium's own environments; some of them exceed theirs.
        self.strict = not is_trusted(type(getattr(env, "unwrapped", env)))

    def reset(self, **kwargs: Any) -> Any:
        """Reset the environment and check the result."""
        result = type(self.env).reset(self.env, **kwargs)
        self._check_pair(result)
        return result

    def step(self, action: Any) -> Any:
        """Step the environment and check the result; after the last check, stop checking."""
        result = type(self.env).step(self.env, action)
        self.taken += 1
        if np.isfinite(np.asarray(action, dtype=np.float64)).all():  # else the policy is at fault
            self._check_step(result)
        if self.taken >= self.left:
            for method in ("reset", "step"):
                vars(self.env).pop(method, None)
        return result

    def _check_pair(self, result: Any) -> None:
        said = f"{self.name}.reset returned"
        if not isinstance(result, tuple | list) or len(result) != 2:
            raise ReturnFault(
                f"{said} {_shown(result)}: return an observation and a dict, as in obs, {{}}"
            )
        self._check_obs(said, result[0])
        self._check_info(said, result[1])

    def _check_step(self, result: Any) -> None:
        said = f"{self.name}.step (step {self.taken}) returned"
        if not isinstance(result, tuple | list) or len(result) != 5:
            raise ReturnFault(
                f"{said} {_shown(result)}: return obs, reward, terminated, truncated, info"
            )
        obs, rew, terminated, truncated, info = result
        self._check_obs(said, obs)
        fault = _reward_fault(rew, self.count)
        fault = fault or _flag_fault("terminated", terminated, self.count)
        fault = fault or _flag_fault("truncated", truncated, self.count)
        if fault:
            raise ReturnFault(f"{said} {fault}")
        self._check_info(said, info)

    def _check_obs(self, said: str, obs: Any) -> None:
        found = list(observation_faults(self.env.observation_space, obs))
        for fault in found:
            if fault.serious:
                raise ReturnFault(f"{said} {fault.text}")
        if found and self.strict:
            self._warn("observation", f"{said} {found[0].text}")

    def _check_info(self, said: str, info: Any) -> None:
        if not isinstance(info, dict):
            text = f"{said} an info that is {_shown(info)}: return a dict, such as {{}}"
            self._warn("info", text)

    def _warn(self, kind: str, text: str) -> None:
        if kind not in self.warned:
            self.warned.add(kind)
            warnings.warn(text, stacklevel=4)


# ---------------------------------------------------------------------------------------------
# Faults, as the end of a sentence that begins with "X.step returned"
# ---------------------------------------------------------------------------------------------


class Fault(NamedTuple):
    """What is wrong with an observation; if it is not `serious`, training can continue."""

    text: str
    serious: bool = True


def observation_faults(space: Any, obs: Any, what: str = "an observation") -> Iterator[Fault]:
    """Yield what is wrong with an observation; `what` names it, or a part of one."""
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict) or set(obs) != set(space.spaces):
            given = f"a dict of {sorted(map(str, obs))}" if isinstance(obs, dict) else _shown(obs)
            yield Fault(f"{what} that is {given}: return a dict of {sorted(space.spaces)}")
            return
        for key, part in space.spaces.items():
            yield from observation_faults(part, obs[key], f"{what} whose {key!r} is")
    elif isinstance(space, spaces.Tuple):
        if not isinstance(obs, tuple | list) or len(obs) != len(space.spaces):
            yield Fault(f"{what} that is {_shown(obs)}: return a tuple of {len(space.spaces)}")
            return
        for i, part in enumerate(space.spaces):
            yield from observation_faults(part, obs[i], f"{what} whose element {i} is")
    elif isinstance(space, spaces.Box):
        fault = _box_fault(space, obs, what)
        if fault is not None:
            yield fault
    elif not _contains(space, obs):
        yield Fault(f"{what} {_value(obs)}, which is not in {name_of(space)}: correct one of them")


def _contains(space: Any, obs: Any) -> bool:
    """Return whether an observation, or the array made of it, is in a space."""
    try:
        return bool(space.contains(obs) or space.contains(np.asarray(obs, dtype=space.dtype)))
    except (TypeError, ValueError, OverflowError):
        return False


def _box_fault(space: spaces.Box, obs: Any, what: str) -> Fault | None:
    if obs is None:
        return Fault(f"None as {what}: return an array of shape {space.shape}")
    try:
        array = np.asarray(obs)
    except (TypeError, ValueError):  # rows of different lengths
        array = np.asarray(None)
    if array.dtype.kind not in "biuf":
        return Fault(
            f"{what} that is {_shown(obs)}, which is not an array of numbers: return an array of "
            f"shape {space.shape}"
        )
    if array.shape != space.shape:
        return Fault(
            f"{what} of shape {array.shape}, but the observation_space has the shape "
            f"{space.shape}: make the two agree",
            serious=not _can_be_copied(array, space.shape),
        )
    return _value_fault(space, array, what) or _bound_fault(space, array, what)


def _can_be_copied(array: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Return whether NumPy copies all of `array` into an array of `shape`, as (1, 4) into (4,).

    NumPy also fills (4,) with one number, which is not what an environment means.
    """
    if shape == ():
        return array.size == 1
    return array.size == math.prod(shape) and array.shape[-len(shape) :] == shape


def _value_fault(space: spaces.Box, array: np.ndarray, what: str) -> Fault | None:
    """Return the first value that is not finite, or that the space's dtype cannot hold."""
    bad = np.argwhere(~np.isfinite(array))
    if len(bad):
        place = "" if array.ndim == 0 else f" in element {_index(bad[0])}"
        return Fault(
            f"{what} with {array[tuple(bad[0])]}{place}: look for a division by zero, or for a "
            "value that is never set"
        )
    if np.issubdtype(space.dtype, np.floating):
        return None
    with np.errstate(invalid="ignore"):
        lost = np.argwhere(array.astype(space.dtype) != array)
    if not len(lost):
        return None
    return Fault(
        f"{what} with the {array.dtype} value {array[tuple(lost[0])]:g}, which the "
        f"observation_space's dtype {space.dtype} cannot hold: give the space dtype=np.float32 "
        "and its bounds"
    )


def _bound_fault(space: spaces.Box, array: np.ndarray, what: str) -> Fault | None:
    with np.errstate(over="ignore"):
        wide = array.astype(np.float64)
        slack = 1e-5 * np.maximum(1.0, np.abs(wide))
        outside = np.argwhere((wide < space.low - slack) | (wide > space.high + slack))
    if not len(outside):
        return None
    i = tuple(outside[0])
    return Fault(
        f"{what} outside its space: element {_index(outside[0])} is {wide[i]:g}, and the space has "
        f"[{space.low[i]:g}, {space.high[i]:g}] there: correct the bounds, because wrappers and "
        "readers rely on them (training continues)",
        serious=False,
    )


def _index(place: np.ndarray) -> str:
    numbers = [str(int(i)) for i in place]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"


def _reward_fault(rew: Any, count: int | None) -> str | None:
    if rew is None:
        return "the reward None: return a number, such as 0.0"
    try:
        array = np.asarray(rew, dtype=np.float64)
    except (TypeError, ValueError):
        return f"the reward {_value(rew)}, which is not a number: return one, such as 0.0"
    if count is None and array.size != 1:
        return f"a reward of shape {array.shape}: return one number, such as its sum"
    if count is not None and array.shape != (count,):
        return f"rewards of shape {array.shape}: return one per environment, of shape ({count},)"
    if not np.isfinite(array).all():
        return f"the reward {_value(rew)}: return a finite number"
    return None


def _flag_fault(name: str, flag: Any, count: int | None) -> str | None:
    array = np.asarray(flag)
    if count is not None:
        if array.shape == (count,) and array.dtype.kind == "b":
            return None
        return f"{name}={_value(flag)}: return an array of {count} booleans"
    if array.size == 1 and (
        array.dtype.kind == "b" or (array.dtype.kind in "iu" and array in (0, 1))
    ):
        return None
    return f"{name}={_value(flag)}: return True or False"


def _value(value: Any) -> str:
    text = short_repr(value) if not isinstance(value, str) else repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _shown(value: Any) -> str:
    """Describe a value that has the wrong type."""
    if value is None:
        return "None"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)} values"
    return f"a value of the type {type(value).__name__}"


# ---------------------------------------------------------------------------------------------
# Later in a run
# ---------------------------------------------------------------------------------------------


def cause_of(rollouts: Sequence[Any]) -> tuple[str, str]:
    """Return why an epoch's losses are not finite (a clause, or '') and what to do about it.

    Data that follows a NaN action is the policy's fault, not the environment's.
    """
    found = next(filter(None, map(_not_finite, rollouts)), None)
    if found is None:
        return "", "try a smaller learning rate or smaller rewards"
    return f" because the environment returned {found}", "correct the environment"


def _not_finite(rollout: Any) -> str | None:
    for row in range(rollout.t):
        if not np.isfinite(rollout.obs[row]).all():
            return f"an observation that is not finite in step {row} of the epoch"
        if not np.isfinite(rollout.act[row]).all():
            return None
        if not np.isfinite(rollout.rew[row]).all():
            return f"a reward that is not finite in step {row + 1} of the epoch"
    for path in rollout.paths:
        if path.last_obs is not None and not np.isfinite(path.last_obs).all():
            return f"an observation that is not finite in step {path.stop} of the epoch"
    return None
