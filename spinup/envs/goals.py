"""Goal environments: the goals within an observation, and the reward for reaching a goal.

A goal environment, as in Gymnasium-Robotics, has observations that are a dict of `observation`,
`achieved_goal` and `desired_goal`. Its method `compute_reward(achieved_goal, desired_goal, info)`
returns the reward that a transition would have for any goal. `compute_terminated`, with the same
arguments, is optional.

    goals = Goals(env_fn())
    row[goals.desired]                    # the desired goal within a flattened observation
    goals.reward(achieved, desired)       # one number per row

`adapt_env` flattens the dict into one vector, which buffers store and policies see. `Goals` locates
the parts within that vector.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector import SyncVectorEnv, VectorEnv

from spinup.envs.adapter import adapt_env
from spinup.envs.layers import layers
from spinup.envs.space_adapter import SpaceAdapter
from spinup.utils.errors import SpinupError

__all__ = ["Goals"]

_KEYS = ("observation", "achieved_goal", "desired_goal")


class Goals:
    """The properties of a goal environment that relabeling needs.

    Args:
        env: the environment, as returned by `env_fn`.
        who: the algorithm that needs a goal environment, for the error message.

    Attributes:
        observation, achieved, desired: slices of the flattened observation.
        width: length of the flattened observation.

    Raises:
        SpinupError: `env` is not a goal environment.
    """

    def __init__(self, env: Any, who: str = "her") -> None:
        space = _dict_space(env, who)
        stops = np.cumsum([spaces.flatdim(part) for part in space.spaces.values()]).tolist()
        starts = [0, *stops[:-1]]
        columns = dict(zip(space.spaces, map(slice, starts, stops), strict=True))
        self.observation: slice = columns["observation"]
        self.achieved: slice = columns["achieved_goal"]
        self.desired: slice = columns["desired_goal"]
        self.width: int = stops[-1]
        goal_space, achieved_space = space["desired_goal"], space["achieved_goal"]
        if _kind(goal_space) != _kind(achieved_space):
            raise SpinupError(
                f"{who} replaces desired goals by achieved ones, but their spaces in this "
                f"environment differ ({achieved_space} and {goal_space}): give both the same space"
            )
        self._reward = _PerGoal(_method(env, "compute_reward"), goal_space)
        terminated = _method(env, "compute_terminated")
        self._terminated = None if terminated is None else _PerGoal(terminated, goal_space)

    def reward(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Return the environment's rewards for achieving one goal when another was desired.

        Shapes: (n, goal) and (n, goal) -> (n,). The environment receives an empty `info`.
        """
        return self._reward(achieved, desired).astype(np.float64)

    def terminated(
        self, achieved: np.ndarray, desired: np.ndarray, was_desired: np.ndarray, done: np.ndarray
    ) -> np.ndarray:
        """Return whether the episodes would have terminated with the goals `desired`.

        `done` contains whether they terminated with the goals `was_desired`. The answer comes from
        the environment's `compute_terminated`, if it has one. A termination that
        `compute_terminated` does not explain (for example, the robot fell over) is unrelated to the
        goal, so it is kept.
        """
        if self._terminated is None:
            return done.copy()
        other_reasons = done & ~self._terminated(achieved, was_desired).astype(bool)
        return self._terminated(achieved, desired).astype(bool) | other_reasons

    def success(self, rew: np.ndarray, desired: np.ndarray) -> np.ndarray:
        """Return whether the desired goal was reached: the reward equals that of the goal itself.

        This test is exact for sparse rewards (one number for success, another for everything else).
        """
        return rew >= self.reward(desired, desired) - 1e-6


class _PerGoal:
    """A function of single goals, applied to a whole batch in one call if possible."""

    def __init__(self, function: Callable[..., Any], space: spaces.Space):
        self.function, self.space = function, space
        # A flat array of numbers can be reshaped; one-hot vectors have to be unflattened.
        self.batched: bool | None = None if isinstance(space, _ARRAYS) else False

    def __call__(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        if self.batched is None and len(achieved):
            self.batched = self._takes_batches(achieved, desired)
        return (self._at_once if self.batched else self._one_by_one)(achieved, desired)

    def _at_once(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        shape, kind = self.space.shape, self.space.dtype
        goals = (x.reshape(len(x), *(shape or ())).astype(kind) for x in (achieved, desired))
        return np.asarray(self.function(*goals, {}))

    def _one_by_one(self, achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        answers = []
        for pair in zip(achieved, desired, strict=True):
            answer = self.function(*(spaces.unflatten(self.space, goal) for goal in pair), {})
            if np.size(answer) != 1:
                raise SpinupError(
                    f"{self.function.__name__} returned {np.size(answer)} numbers for one goal: "
                    "it must return one"
                )
            answers.append(np.asarray(answer).item())
        return np.array(answers)

    def _takes_batches(self, achieved: np.ndarray, desired: np.ndarray) -> bool:
        """Return whether a batch gives the same results as its rows one by one.

        The number of rows is chosen to differ from every dimension of a goal. A function that sums
        over the wrong axis then returns the wrong shape, even if its numbers happen to agree.
        """
        n = max(self.space.shape or (1,)) + 2
        achieved, desired = (np.resize(x, (n, x.shape[1])) for x in (achieved, desired))
        try:
            batch = self._at_once(achieved, desired)
        except Exception:
            # Catch everything: the function may be written for one goal at a time, which is
            # allowed. If a single goal fails too, the user sees that error.
            return False
        return batch.shape == (n,) and np.allclose(batch, self._one_by_one(achieved, desired))


_ARRAYS = (spaces.Box, spaces.MultiBinary)


def _kind(space: spaces.Space) -> tuple[Any, ...]:
    """Return the properties that two goal spaces must share to be interchangeable."""
    return type(space).__name__, space.shape, spaces.flatdim(space)


def _method(env: Any, name: str) -> Any:
    """Return the outermost method of this name, because a wrapper may change the reward."""
    found = (getattr(layer, name, None) for layer in layers(_single(env)))
    return next((method for method in found if callable(method)), None)


def _single(env: Any) -> Any:
    """Return the first environment of a vector environment, or `env` itself."""
    return env.envs[0] if isinstance(env, SyncVectorEnv) else env


def _dict_space(env: Any, who: str) -> spaces.Dict:
    single = adapt_env(_single(env))
    if isinstance(single, VectorEnv):
        raise SpinupError(
            f"{who} cannot look inside a {type(single).__name__}: let env_fn return a single "
            "environment and use num_envs"
        )
    space = (single.env if isinstance(single, SpaceAdapter) else single).observation_space
    if not isinstance(space, spaces.Dict):
        fault = "the observations are not a dict"
    else:
        missing = [key for key in _KEYS if key not in space.spaces]
        fault = f"the observations lack {' and '.join(missing)}" if missing else ""
    if not fault and _method(env, "compute_reward") is None:
        fault = "there is no compute_reward(achieved_goal, desired_goal, info)"
    if fault:
        raise SpinupError(
            f"{who} needs a goal environment, whose observations are a dict of observation, "
            f"achieved_goal and desired_goal, but here {fault}: use one such as spinup/BitFlip-v0 "
            "or Gymnasium-Robotics' FetchReach"
        )
    assert isinstance(space, spaces.Dict)
    return space
