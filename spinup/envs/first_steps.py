"""Checking what an environment returns, in the first reset and steps of every run.

    check_first_steps([streams], "GridWorld")

Until `STEPS` steps have been checked, two attributes stand in for an environment's `reset`
and `step`. Then they are deleted, so that the rest of the run costs nothing. `spinup.envs.checking`
looks at a whole environment, and uses these checks; in a run, they catch what would end in a
traceback, or in a loss that is not a number.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from spinup.envs.findings import Finding, finding
from spinup.envs.layers import is_trusted
from spinup.envs.space_adapter import SpaceAdapter
from spinup.envs.spaces import name_of
from spinup.utils.errors import SpinupError
from spinup.utils.serialization_utils import short_repr

__all__ = ["STEPS", "ReturnFault", "cause_of", "check_first_steps", "hook", "unhook"]

STEPS = 100


class ReturnFault(SpinupError):
    """An environment returned something that no algorithm can learn from."""


def check_first_steps(streams: Sequence[Any], name: str, steps: int = STEPS) -> None:
    """Check what the environments of `streams` return until each has taken `steps` steps.

    `name` is the environment's class, for messages.
    """
    warned: set[str] = set()  # one warning per part is enough, however many environments there are
    for stream in streams:
        for env in getattr(stream, "envs", None) or [stream.env]:
            hook(env, name, steps, functools.partial(_stop_or_warn, warned))


def _stop_or_warn(warned: set[str], findings: Sequence[Finding]) -> None:
    """Report to a run: raise the first error, or warn."""
    for found in sorted(findings, key=lambda found: not found.serious):
        text = f"{found.sentence}: {found.advice[0].lower()}{found.advice[1:]}"
        if found.serious:
            raise ReturnFault(text)
        if found.part not in warned:
            warned.add(found.part)
            warnings.warn(text, stacklevel=4)


def hook(env: Any, name: str, steps: int, report: Callable[[list[Finding]], None]) -> None:
    """Replace an environment's `reset` and `step` by checked ones, for `steps` steps.

    `report` gets what is wrong with a result, and must raise an exception if there is an error.
    """
    inner = _hooked(env)
    if not hasattr(inner, "__dict__") or {"reset", "step"} & set(vars(inner)):
        return
    checked = _FirstSteps(inner, name, steps, report)
    vars(inner).update(reset=checked.reset, step=checked.step)


def unhook(env: Any) -> None:
    """Undo `hook`."""
    for method in ("reset", "step"):
        vars(_hooked(env)).pop(method, None)


def _hooked(env: Any) -> Any:
    return env.env if isinstance(env, SpaceAdapter) else env  # see what the user's code returns


class _FirstSteps:
    """Stands in for the methods of one environment; a class, so that the pair can be pickled."""

    def __init__(self, env: Any, name: str, steps: int, report: Callable[[list[Finding]], None]):
        self.env, self.name, self.left, self._report = env, name, steps, report
        self.taken = 0
        # Nobody can mend the bounds of Gymnasium's own environments; some of them exceed theirs.
        self.strict = not is_trusted(type(getattr(env, "unwrapped", env)))

    def reset(self, **kwargs: Any) -> Any:
        """Reset the environment and check the result."""
        result = type(self.env).reset(self.env, **kwargs)
        self._check(_check_reset(self.env, f"{self.name}.reset returned", result))
        return result

    def step(self, action: Any) -> Any:
        """Step the environment and check the result; after the last check, stop checking."""
        result = type(self.env).step(self.env, action)
        self.taken += 1
        if np.isfinite(np.asarray(action, dtype=np.float64)).all():  # else the policy is at fault
            said = f"{self.name}.step (step {self.taken}) returned"
            self._check(_check_step(self.env, said, result))
        if self.taken >= self.left:
            unhook(self.env)
        return result

    def _check(self, findings: Iterator[Finding]) -> None:
        self._report([f for f in findings if self.strict or f.serious or f.part == "info"])


# ---------------------------------------------------------------------------------------------
# What is wrong with a result. Each sentence begins with `said`, "X.step (step 3) returned".
# ---------------------------------------------------------------------------------------------


def _check_reset(env: Any, said: str, result: Any) -> Iterator[Finding]:
    if not isinstance(result, tuple | list) or len(result) != 2:
        yield finding("reset result", said=said, given=_shown(result))
        return
    obs, info = result
    yield from _check_observation(env.observation_space, said, obs)
    yield from _check_info(said, info)


def _check_step(env: Any, said: str, result: Any) -> Iterator[Finding]:
    if not isinstance(result, tuple | list) or len(result) != 5:
        yield finding("step result", said=said, given=_shown(result))
        return
    obs, rew, terminated, truncated, info = result
    count = getattr(env, "num_envs", None)  # of a vector environment
    yield from _check_observation(env.observation_space, said, obs)
    yield from _check_reward(said, rew, count)
    yield from _check_flag(said, "terminated", terminated, count)
    yield from _check_flag(said, "truncated", truncated, count)
    yield from _check_info(said, info)


def _check_info(said: str, info: Any) -> Iterator[Finding]:
    if not isinstance(info, dict):
        yield finding("info", said=said, given=_shown(info))


def _check_observation(
    space: Any, said: str, obs: Any, what: str = "an observation"
) -> Iterator[Finding]:
    """Yield what is wrong with an observation; `what` names it, or a part of one."""
    found = functools.partial(finding, said=said, what=what)
    if isinstance(space, spaces.Dict):
        if not isinstance(obs, dict) or set(obs) != set(space.spaces):
            given = f"a dict of {sorted(map(str, obs))}" if isinstance(obs, dict) else _shown(obs)
            yield found("keys", given=given, keys=sorted(space.spaces))
            return
        for key, part in space.spaces.items():
            yield from _check_observation(part, said, obs[key], f"{what} whose {key!r} is")
    elif isinstance(space, spaces.Tuple):
        if not isinstance(obs, tuple | list) or len(obs) != len(space.spaces):
            yield found("tuple", given=_shown(obs), count=len(space.spaces))
            return
        for i, part in enumerate(space.spaces):
            yield from _check_observation(part, said, obs[i], f"{what} whose element {i} is")
    elif isinstance(space, spaces.Box):
        yield from _check_array(space, obs, found)
    elif not _contains(space, obs):
        yield found("member", given=_value(obs), space=name_of(space))


def _contains(space: Any, obs: Any) -> bool:
    """Return whether an observation, or the array made of it, is in a space."""
    try:
        return bool(space.contains(obs) or space.contains(np.asarray(obs, dtype=space.dtype)))
    except (TypeError, ValueError, OverflowError):
        return False


def _check_array(space: spaces.Box, obs: Any, found: Callable[..., Finding]) -> Iterator[Finding]:
    shape = space.shape
    try:
        array = np.asarray(obs)
    except (TypeError, ValueError):  # rows of different lengths
        array = np.asarray(None)
    if obs is None:
        yield found("none", shape=shape)
    elif array.dtype.kind not in "biuf":
        yield found("numbers", given=_shown(obs), shape=shape)
    elif array.shape != shape:
        name = "copied" if _can_be_copied(array, shape) else "shape"
        yield found(name, given=array.shape, shape=shape)
    else:
        yield from _check_values(space, array, found)


def _can_be_copied(array: np.ndarray, shape: tuple[int, ...]) -> bool:
    """Return whether NumPy copies all of `array` into an array of `shape`, as (1, 4) into (4,).

    NumPy also fills (4,) with one number, which is not what an environment means.
    """
    if shape == ():
        return array.size == 1
    return array.size == math.prod(shape) and array.shape[-len(shape) :] == shape


def _check_values(
    space: spaces.Box, array: np.ndarray, found: Callable[..., Finding]
) -> Iterator[Finding]:
    """Yield the first value that is not finite, that the dtype cannot hold, or out of bounds."""
    with np.errstate(invalid="ignore", over="ignore"):
        wide = array.astype(np.float64)
        slack = 1e-5 * np.maximum(1.0, np.abs(wide))
        bad = np.argwhere(~np.isfinite(array))
        lost = np.argwhere(array.astype(space.dtype) != array)
        outside = np.argwhere((wide < space.low - slack) | (wide > space.high + slack))
    if len(bad):
        place = f" in element {_index(bad[0])}" if array.ndim else ""
        yield found("value", value=array[tuple(bad[0])], place=place)
    elif len(lost) and not np.issubdtype(space.dtype, np.floating):
        value = array[tuple(lost[0])]
        yield found("dtype", given=array.dtype, value=value, dtype=space.dtype)
    elif len(outside):
        i = tuple(outside[0])
        low, high = space.low[i], space.high[i]
        yield found("outside", place=_index(outside[0]), value=wide[i], low=low, high=high)


def _index(place: np.ndarray) -> str:
    numbers = [str(int(i)) for i in place]
    return numbers[0] if len(numbers) == 1 else f"({', '.join(numbers)})"


def _check_reward(said: str, rew: Any, count: int | None) -> Iterator[Finding]:
    """Yield what is wrong with a reward, or with those of a vector of `count` environments."""
    try:
        array = np.asarray(rew, dtype=np.float64)
    except (TypeError, ValueError):
        yield finding("no number", said=said, value=_value(rew))
        return
    if rew is None:
        yield finding("no reward", said=said)
    elif count is None and array.size != 1:
        yield finding("one reward", said=said, shape=array.shape)
    elif count is not None and array.shape != (count,):
        yield finding("rewards", said=said, shape=array.shape, count=count)
    elif not np.isfinite(array).all():
        yield finding("infinite reward", said=said, value=_value(rew))


def _check_flag(said: str, name: str, flag: Any, count: int | None) -> Iterator[Finding]:
    array = np.asarray(flag)
    if count is not None:
        if array.shape != (count,) or array.dtype.kind != "b":
            yield finding("flags", said=said, name=name, value=_value(flag), count=count)
    elif array.size != 1 or array.dtype.kind not in "biu" or array not in (0, 1):
        yield finding("flag", said=said, name=name, value=_value(flag))


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
