"""The interface of the old `gym` (0.21), on top of Gymnasium.

    import spinup.compat.gym as gym

    env = gym.make("CartPole-v0")
    env.seed(0)
    o = env.reset()                          # an observation, without info
    o, r, done, info = env.step(action)      # four values

A time limit sets `info["TimeLimit.truncated"]`. Ids whose version Gymnasium has retired make the
newest version, with a warning. `env.render()` takes a mode. Classes that derive from `gym.Env` or
`gym.Wrapper` and have the old interface work as before, also after `gym.register`. The spaces are
Gymnasium's own, and `gym.wrappers` applies Gymnasium's wrappers.

Vector environments (`gym.vector`) and `gym.wrappers.Monitor` are not included.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import error as error
from gymnasium import register as register
from gymnasium import spaces as spaces
from gymnasium.spaces import Space as Space

from spinup.envs.layers import Adapter, layers
from spinup.envs.make import make_env
from spinup.envs.old_interface import adapt_interface

__version__ = "0.21.0"  # of the interface


# ----------------------------------------------------------------------------------- environments


class Env(gymnasium.Env):
    """The base class of environments with the old interface; subclasses define the methods.

    `reset()` returns an observation, and `step(action)` returns an observation, a reward, whether
    the episode is over, and a dict.
    """

    reward_range = (-float("inf"), float("inf"))

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode and return its first observation."""
        raise NotImplementedError(f"{type(self).__name__} must define reset()")

    def step(self, action: Any) -> Any:
        """Return `(observation, reward, done, info)`."""
        raise NotImplementedError(f"{type(self).__name__} must define step(action)")

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        """Draw the environment; `mode` is 'human', 'rgb_array' or 'ansi'."""
        raise NotImplementedError(f"{type(self).__name__} must define render(mode)")

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seed the environment's RNGs; by default, there are none."""
        return [seed]


class Wrapper(gymnasium.Wrapper, Env):
    """The base class of wrappers with the old interface, which passes everything on."""

    env: Any  # its interface is the old one

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The wrapped environment's spec."""
        return self.env.spec

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode and return its first observation."""
        return self.env.reset(**kwargs)

    def step(self, action: Any) -> Any:
        """Return `(observation, reward, done, info)`."""
        return self.env.step(action)

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        """Draw the wrapped environment."""
        return self.env.render(mode, **kwargs)

    def seed(self, seed: int | None = None) -> Any:
        """Seed the wrapped environment."""
        return self.env.seed(seed)

    @property
    def _max_episode_steps(self) -> int | None:
        """The time limit, which user code reads by this name."""
        found = (vars(layer).get("_max_episode_steps") for layer in layers(self.env))
        return next((limit for limit in found if limit is not None), None)


class ObservationWrapper(Wrapper):
    """A wrapper that changes observations: subclasses define `observation(observation)`."""

    def reset(self, **kwargs: Any) -> Any:
        return self.observation(self.env.reset(**kwargs))

    def step(self, action: Any) -> Any:
        o, r, done, info = self.env.step(action)
        return self.observation(o), r, done, info

    def observation(self, observation: Any) -> Any:
        """Return the changed observation."""
        raise NotImplementedError(f"{type(self).__name__} must define observation(observation)")


class RewardWrapper(Wrapper):
    """A wrapper that changes rewards: subclasses define `reward(reward)`."""

    def step(self, action: Any) -> Any:
        o, r, done, info = self.env.step(action)
        return o, self.reward(r), done, info

    def reward(self, reward: Any) -> Any:
        """Return the changed reward."""
        raise NotImplementedError(f"{type(self).__name__} must define reward(reward)")


class ActionWrapper(Wrapper):
    """A wrapper that changes actions: subclasses define `action(action)`."""

    def step(self, action: Any) -> Any:
        return self.env.step(self.action(action))

    def action(self, action: Any) -> Any:
        """Return the changed action."""
        raise NotImplementedError(f"{type(self).__name__} must define action(action)")


class OldInterface(Adapter, Wrapper):
    """Gives a Gymnasium environment the old interface."""

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self._seed: int | None = None  # for the next reset

    def seed(self, seed: int | None = None) -> list[int | None]:
        """Seed the next reset and the spaces; later episodes continue from there."""
        self._seed = seed
        if seed is not None:
            self.action_space.seed(seed)
            self.observation_space.seed(seed)
        return [seed]

    def reset(self, **kwargs: Any) -> Any:
        """Start an episode and return its first observation (with info if `return_info`)."""
        info_too = kwargs.pop("return_info", False)
        if self._seed is not None:
            kwargs.setdefault("seed", self._seed)
            self._seed = None
        o, info = self.env.reset(**kwargs)
        return (o, info) if info_too else o

    def step(self, action: Any) -> Any:
        """Return `(observation, reward, done, info)`."""
        o, r, terminated, truncated, info = self.env.step(action)
        if truncated:
            info = {**info, "TimeLimit.truncated": not terminated}
        return o, r, bool(terminated or truncated), info

    def render(self, mode: str = "human", **kwargs: Any) -> Any:
        """Draw the environment now; an array for mode 'rgb_array'."""
        base = self.env.unwrapped
        before = base.render_mode
        base.render_mode = mode  # it is fixed when the environment is made, but read when it draws
        try:
            return self.env.render()
        finally:
            base.render_mode = before


def make(id: str, **kwargs: Any) -> OldInterface:
    """Create an environment by its id, with the old interface."""
    return OldInterface(adapt_interface(make_env(id, kwargs)))


def spec(id: str) -> Any:
    """Return what is registered under this id."""
    return gymnasium.spec(id)


def _new(env: Any) -> Any:
    """Return an environment with Gymnasium's interface, for Gymnasium's wrappers."""
    return env.env if isinstance(env, OldInterface) else adapt_interface(env)


# --------------------------------------------------------------------------------------- modules


def _module(name: str, **contents: Any) -> ModuleType:
    module = ModuleType(f"{__name__}.{name}")
    vars(module).update(contents)
    return module


def _wrapper(name: str) -> Callable[..., OldInterface]:
    """Return a function that applies Gymnasium's wrapper `name` to an old environment."""
    if name.startswith("__") or not hasattr(gymnasium.wrappers, name):
        other = "; RecordVideo replaces it" if name == "Monitor" else ""
        raise AttributeError(f"Gymnasium has no wrapper {name!r}{other}")
    cls = getattr(gymnasium.wrappers, name)

    def wrap(env: Any, *args: Any, **kwargs: Any) -> OldInterface:
        return OldInterface(cls(_new(env), *args, **kwargs))

    return wrap


def _np_random(seed: int | None = None) -> tuple[np.random.RandomState, int]:
    """Return an RNG with the old methods (`rand`, `randint`, ...) and its seed."""
    if seed is None:
        seed = int(np.random.SeedSequence().generate_state(1)[0])
    return np.random.RandomState(seed), seed


def _set_level(level: int) -> None:
    gymnasium.logger.min_level = level


class _Registry:
    """The registered environments, under the old names."""

    env_specs = property(lambda self: gymnasium.registry)

    def all(self) -> list[Any]:
        """Return everything that is registered."""
        return list(gymnasium.registry.values())

    make, spec = staticmethod(make), staticmethod(spec)


wrappers = _module("wrappers", __getattr__=_wrapper)
_LEVELS = {"DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "DISABLED": 50}
_SAYS = {"warn": gymnasium.logger.warn, "error": gymnasium.logger.error}
logger = _module("logger", set_level=_set_level, **_SAYS, **_LEVELS)
utils = _module(
    "utils",
    seeding=_module("utils.seeding", np_random=_np_random),
    EzPickle=gymnasium.utils.EzPickle,
)
registry = _Registry()
registration = _module(
    "envs.registration", register=register, make=make, spec=spec, registry=registry
)
envs = _module("envs", registration=registration, registry=registry)
_CLASSES = (Env, Wrapper, ObservationWrapper, RewardWrapper, ActionWrapper)
core = _module("core", **{cls.__name__: cls for cls in _CLASSES})

# What `spinup.compat.install` makes importable as `gym.<name>`.
MODULES: dict[str, ModuleType] = {
    "core": core,
    "envs": envs,
    "envs.registration": registration,
    "error": error,
    "logger": logger,
    "spaces": spaces,
    "utils": utils,
    "utils.seeding": utils.seeding,
    "wrappers": wrappers,
    **{
        name.removeprefix("gymnasium."): module
        for name, module in list(sys.modules.items())
        if name.startswith("gymnasium.spaces.")
    },
}
