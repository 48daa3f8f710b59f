"""What environments keep from one episode to the next, saved so that a resumed run has it, too.

A resumed run restores an episode by repeating its actions after the same reset. That is exact only
if the environment is first brought to the state that it had before that reset. Three kinds of state
survive a reset and can be saved: the statistics of Gymnasium's own wrappers, whatever a wrapper or
an environment offers through `get_state`/`set_state` or `state_dict`/`load_state_dict`, and the
global RNGs, for environments that draw from them.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections import OrderedDict, deque
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorWrapper
from gymnasium.wrappers import vector

from spinup.envs.layers import layers
from spinup.utils.seeding import global_state, same_global_state, set_global_state

__all__ = ["Kept"]

# Gymnasium's wrappers that keep something, and the attributes that a reset does not set.
_KEEPERS = tuple(
    getattr(module, name)
    for module in (gymnasium.wrappers, vector)
    for name in ("NormalizeObservation", "NormalizeReward", "RecordEpisodeStatistics")
)
_ATTRIBUTES = (
    *("obs_rms", "return_rms", "discounted_reward", "accumulated_reward"),
    *("_update_running_mean", "_prev_dones"),
    *("episode_count", "return_queue", "length_queue", "time_queue"),
)
_METHODS = (("get_state", "set_state"), ("state_dict", "load_state_dict"))
# Copying the global RNGs takes as long as several steps of a small environment, so it stops after
# this many episodes unless the RNGs changed in one of them.
_WATCHED_EPISODES = 3


class Kept:
    """The state of one environment at its last `mark`, which precedes every reset.

    Args:
        env: an environment, or a vector environment.
        watch_globals: save the global RNGs, too, if they change. This makes sense only if no other
            environment draws from them.
        watch_torch: include torch's global RNG, which networks use as well; for worker processes.
    """

    def __init__(self, env: Any, watch_globals: bool = False, watch_torch: bool = False):
        self._env = env
        self._layers = [_Layer(layer) for layer in _all_layers(env) if _is_keeper(layer)]
        self._watched = _WATCHED_EPISODES if watch_globals else 0
        self._draws = False  # whether the global RNGs have changed during an episode
        self._torch = sys.modules.get("torch") if watch_torch else None
        self._marked: list[list[Any]] | None = None
        self._globals: dict[str, Any] | None = None

    def mark(self) -> None:
        """Remember the current state; called before every reset."""
        early = self._marked is None  # an environment may have no state before its first reset
        self._marked = [[layer.name, layer.read(early)] for layer in self._layers]
        if self._draws or self._watched:
            now, before = global_state(self._torch), self._globals
            self._draws |= before is not None and not same_global_state(now, before)
            self._watched = max(self._watched - 1, 0)
            self._globals = now
        else:
            self._globals = None

    def state(self) -> dict[str, Any] | None:
        """Return the state at the last `mark` as plain data, or None if there is nothing to save.

        The global RNGs are part of it only if something has drawn from them.
        """
        drawn = self._globals is not None and (
            self._draws or not same_global_state(global_state(self._torch), self._globals)
        )
        if not self._marked and not drawn:
            return None
        return {"layers": self._marked or [], "globals": self._globals if drawn else None}

    def restore(self, state: dict[str, Any] | None, seed: int = 0) -> str:
        """Bring the environment to a state returned by `state`; return why it failed, or ''."""
        if state is None:
            return ""
        try:
            try:
                self._write(state)
            except Exception:
                # Some environments accept a state only after their first reset.
                self._env.reset(seed=seed)
                self._write(state)
        except Exception as error:  # a user's method, or a damaged file, may raise anything
            return f"its saved state was rejected ({type(error).__name__}: {error})"
        return ""

    def _write(self, state: dict[str, Any]) -> None:
        saved = [(str(name), value) for name, value in state["layers"]]
        for layer in self._layers:
            for i, (name, value) in enumerate(saved):
                if name == layer.name:  # the same class may be there twice, in this order
                    layer.write(value)
                    del saved[i]
                    break
        if state["globals"] is not None and (self._watched or self._draws):
            set_global_state(state["globals"], self._torch)
            self._draws = True


class _Layer:
    """A wrapper or environment that keeps state, and how to read and write that state."""

    def __init__(self, layer: Any):
        self.layer, self.name = layer, type(layer).__name__
        self.methods = _methods(layer)
        self.attributes = [] if self.methods else [n for n in _ATTRIBUTES if n in vars(layer)]
        self.works = True

    def read(self, early: bool) -> Any:
        """Return a copy of the state, or None if it cannot be saved (reported once).

        If `early`, a failure counts as having no state yet.
        """
        if not self.works:
            return None
        try:
            return _copy(self._read())
        except Exception as error:  # a user's method may raise anything
            if early:
                return None
            self.works = False
            warnings.warn(
                f"the state that {self.name} keeps between episodes cannot be saved "
                f"({type(error).__name__}: {error}), so a resumed run may differ",
                stacklevel=2,
            )
            return None

    def _read(self) -> Any:
        if self.methods is not None:
            return getattr(self.layer, self.methods[0])()
        state = {}
        for name in self.attributes:
            value = getattr(self.layer, name)
            if isinstance(value, gymnasium.wrappers.utils.RunningMeanStd):
                value = {"mean": value.mean, "var": value.var, "count": value.count}
            state[name] = list(value) if isinstance(value, deque) else value
        return state

    def write(self, state: Any) -> None:
        """Restore a state that `read` returned."""
        if state is None:
            return
        state = _copy(state)  # the layer may change what it is given
        if self.methods is not None:
            getattr(self.layer, self.methods[1])(state)
            return
        for name in (name for name in self.attributes if name in state):
            old, new = getattr(self.layer, name), state[name]
            if isinstance(old, deque):
                old.clear()
                old.extend(new)
            elif isinstance(old, gymnasium.wrappers.utils.RunningMeanStd):
                _check_shape(name, old.mean, new["mean"])
                _check_shape(name, old.var, new["var"])
                old.mean, old.var, old.count = new["mean"], new["var"], new["count"]
            else:
                _check_shape(name, old, new)
                setattr(self.layer, name, new)


def _all_layers(env: Any) -> Iterator[Any]:
    while isinstance(env, VectorWrapper):
        yield env
        env = env.env
    yield from layers(env)


def _is_keeper(layer: Any) -> bool:
    return isinstance(layer, _KEEPERS) or _methods(layer) is not None


def _methods(layer: Any) -> tuple[str, str] | None:
    """Return the names of the methods that read and write a layer's state, or None."""
    for get, put in _METHODS:
        # Look at the class: a wrapper may forward unknown attributes to what it wraps.
        if _takes(type(layer), get, 1) and _takes(type(layer), put, 2):
            return get, put
    return None


def _takes(cls: type, name: str, count: int) -> bool:
    """Return whether a class has a method that can be called with `count` arguments (and self)."""
    method = getattr(cls, name, None)
    if not callable(method):
        return False
    try:
        inspect.signature(method).bind(*[None] * count)
    except (TypeError, ValueError):  # another method of this name, such as MuJoCo's set_state
        return False
    return True


def _copy(value: Any) -> Any:
    """Copy a state that consists of plain values and arrays; raise TypeError for any other."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str, bytes):
        return value
    if isinstance(value, np.generic) or kind is np.ndarray:
        if value.dtype.hasobject:
            raise TypeError("it contains an array of Python objects")
        return value.copy()
    if kind in (dict, OrderedDict):
        return kind((_copy(k), _copy(v)) for k, v in value.items())
    if kind in (list, tuple):
        return kind(_copy(v) for v in value)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(value, torch.Tensor):
        return value.detach().clone()
    raise TypeError(f"it contains a {kind.__name__}: use numbers, strings, arrays, lists and dicts")


def _check_shape(name: str, old: Any, new: Any) -> None:
    if np.shape(old) != np.shape(new):
        raise ValueError(f"{name} has shape {np.shape(new)}, not {np.shape(old)}")
