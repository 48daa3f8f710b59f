"""Adapting environments with the old interface to Gymnasium's.

    env = adapt_interface(env)

In the old interface, `step` returns four values and `reset` takes no seed and returns only an
observation. `adapt_env` imports this module when it encounters a class that is not known to have
the new interface; Gymnasium's own environments never need it.
"""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from spinup.envs.layers import Adapter, defining_class, is_trusted, layers
from spinup.envs.spaces import name_of
from spinup.utils.errors import SpinupError

__all__ = ["InterfaceAdapter", "adapt_interface", "convert_space"]


def adapt_interface(env: Any) -> Any:
    """Return `env` if it certainly has Gymnasium's interface, else an adapter around it."""
    if not isinstance(env, gymnasium.Env):
        return InterfaceAdapter(env)
    _adapt_below_wrappers(env)
    return env if _keeps_interface(type(env)) else InterfaceAdapter(env)


# ---------------------------------------------------------------------------------------------
# Which classes certainly have the new interface
# ---------------------------------------------------------------------------------------------


def _adapt_below_wrappers(env: gymnasium.Env) -> None:
    """Insert an adapter under every wrapper whose inner environment may have the old interface.

    Methods inherited from Gymnasium's wrappers call `reset(seed=..., options=...)` and unpack five
    values. Both fail on an old environment, so converting the wrapper's results would be too late.
    """
    for layer in layers(env):
        if not isinstance(layer, gymnasium.Wrapper):
            continue
        inner, cls = layer.env, type(layer)
        if isinstance(inner, InterfaceAdapter) or _keeps_interface(type(inner)):
            continue
        step_owner = defining_class(cls, "step")
        if is_trusted(step_owner) or _returns_tuples_of(vars(step_owner)["step"], 5):
            layer.env = InterfaceAdapter(inner)
        elif is_trusted(defining_class(cls, "reset")):
            layer.env = _ResetAdapter(inner)


def _keeps_interface(cls: type) -> bool:
    """Return whether this class's `reset` and `step` certainly have the new interface.

    A method's results are known only when it is called, which must not happen here. A user's class
    is therefore considered certain if, in its source, every `return` of `reset` has two values and
    every `return` of `step` has five. Answering False is always safe: the only effect is a wrapper,
    which inspects the results.
    """
    for method, size, names in (("reset", 2, ("seed", "options")), ("step", 5, ())):
        owner = defining_class(cls, method)
        function = vars(owner)[method]
        if not is_trusted(owner) and not (
            _returns_tuples_of(function, size) and all(_accepts(function, name) for name in names)
        ):
            return False
    return True


def _returns_tuples_of(function: Any, size: int) -> bool:
    """Return whether the source of `function` is available and every `return` has `size` values."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return False
    returns = [node.value for node in _own_returns(tree.body[0])]
    return bool(returns) and all(
        isinstance(value, ast.Tuple)
        and len(value.elts) == size
        and not any(isinstance(element, ast.Starred) for element in value.elts)
        for value in returns
    )


def _own_returns(node: ast.AST) -> Iterator[ast.Return]:
    """Yield a function's `return` statements, except those of nested functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Return):
            yield child
        elif not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from _own_returns(child)


def _accepts(function: Callable, name: str) -> bool:
    """Return whether `name=...` may be passed; False if the signature cannot be read."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    return any(
        p.kind is p.VAR_KEYWORD or (p.name == name and p.kind is not p.POSITIONAL_ONLY)
        for p in parameters
    )


# ---------------------------------------------------------------------------------------------
# The old interface
# ---------------------------------------------------------------------------------------------


_OLD = (
    "has the old environment interface and was adapted: the end of an episode counts as a "
    "termination unless info['TimeLimit.truncated'] is true"
)
_UNSEEDED = (
    "cannot be seeded, so its runs are not reproducible: give it reset(seed=None) or a method "
    "seed(n)"
)
_NO_OPTIONS = "takes no options in reset: they were ignored"


@functools.cache  # warns only once per class, however many environments and steps there are
def _warn_once(cls: Any, what: str) -> None:
    warnings.warn(f"{cls.__name__} {what}", stacklevel=2)


class InterfaceAdapter(Adapter, gymnasium.Env):
    """Provides Gymnasium's interface for an environment that may have the old one.

    It inspects the form of every result. Results of an environment with the new interface therefore
    pass through unchanged, and an environment that is only partly old also works.
    Attributes that are not part of the interface are taken from the wrapped environment.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_space = convert_space(env.observation_space)
        self.action_space = convert_space(env.action_space)
        self.metadata = getattr(env, "metadata", None) or {"render_modes": []}
        self.render_mode = getattr(env, "render_mode", None)
        self._takes = {name: _accepts(env.reset, name) for name in ("seed", "options")}
        if not isinstance(env, gymnasium.Env):
            self._warn(_OLD)

    def __getattr__(self, name: str) -> Any:
        # Called only when the normal lookup fails. Private names are never forwarded: copy and
        # pickle look up theirs before __init__ has run.
        if name.startswith("_") or "env" not in self.__dict__:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        return getattr(self.env, name)

    @property
    def unwrapped(self) -> Any:
        """The innermost environment, which need not be a `gymnasium.Env`."""
        return getattr(self.env, "unwrapped", self.env)

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """The wrapped environment's spec, if it has one."""
        return getattr(self.env, "spec", None)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Start an episode; always return `(observation, info)`.

        The seed is passed to the environment's `seed(n)` if it has one, and to `reset(seed=n)` if
        `reset` takes a seed. `seed(n)` receives it modulo 2**31, because old environments pass it
        to RNGs that accept no larger numbers.
        """
        result = self._seeded_reset(seed, options)
        if self._is_new_reset(result):
            return result
        self._warn(_OLD)
        return _as_observation(result, self.observation_space), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Take a step; always return `(observation, reward, terminated, truncated, info)`.

        For the old four values, `done` is a truncation if `info["TimeLimit.truncated"]` is true
        and a termination otherwise, never both.
        """
        result = self.env.step(action)
        values = len(result) if isinstance(result, tuple | list) else 0
        if values == 5:
            return result
        if values != 4:
            what = f"{values} values" if values else f"a {type(result).__name__}"
            raise SpinupError(
                f"{type(self.env).__name__}.step returned {what}: return observation, reward, "
                "terminated, truncated and info"
            )
        self._warn(_OLD)
        o, r, done, info = result
        info = info if isinstance(info, dict) else {} if info is None else {"info": info}
        done = bool(done)
        truncated = done and bool(info.get("TimeLimit.truncated", False))
        o = _as_observation(o, self.observation_space)
        return o, _as_reward(r), done and not truncated, truncated, info

    def render(self, *args: Any, **kwargs: Any) -> Any:
        """Return the result of the environment's `render`; None if it has none."""
        render = getattr(self.env, "render", None)
        return render(*args, **kwargs) if callable(render) else None

    def close(self) -> None:
        """Close the environment, if it has a `close` method."""
        close = getattr(self.env, "close", None)
        if callable(close):
            close()

    def _warn(self, what: str) -> None:
        cls: Any = type(self.env)
        _warn_once(cls, what)

    def _seeded_reset(self, seed: int | None, options: dict[str, Any] | None) -> Any:
        """Reset with those arguments that are accepted, and warn about the others.

        A wrapper with `reset(**kwargs)` accepts everything and passes it to an environment that may
        accept nothing.
        """
        given = {"seed": seed, "options": options}
        given = {name: value for name, value in given.items() if value is not None}
        seed_method = self._seed_method()
        if seed is not None and seed_method is not None:
            seed_method(int(seed) % 2**31)
        while True:
            if "options" in given and not self._takes["options"]:
                self._warn(_NO_OPTIONS)
            if "seed" in given and not self._takes["seed"] and seed_method is None:
                self._warn(_UNSEEDED)
            try:
                return self.env.reset(**{k: v for k, v in given.items() if self._takes[k]})
            except TypeError as error:
                refused = re.search(r"unexpected keyword argument '(\w+)'", str(error))
                if refused is None or not (refused[1] in given and self._takes[refused[1]]):
                    raise
            self._takes[refused[1]] = False

    def _seed_method(self) -> Callable[[int], Any] | None:
        """Return the outermost `seed` in the stack: Gymnasium's wrappers do not forward it."""
        methods = (getattr(layer, "seed", None) for layer in layers(self.env))
        return next((method for method in methods if callable(method)), None)

    def _is_new_reset(self, result: Any) -> bool:
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], dict)):
            return False
        # A Tuple space's observation may itself be a pair that ends in a dict.
        space = self.observation_space
        return not (isinstance(space, spaces.Tuple) and space.contains(result))


class _ResetAdapter(InterfaceAdapter):
    """Passes the seed to an old environment below an old wrapper, without converting results.

    A wrapper that unpacks four values but inherits Gymnasium's `reset` needs exactly this; the
    adapter around the wrapper converts its results.
    """

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return self._seeded_reset(seed, options)

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        return self.env.step(action)


def _as_observation(o: Any, space: spaces.Space) -> Any:
    """Convert to an array if the space is a Box; old environments also return lists and scalars.

    What does not fit is returned unchanged: `spinup.envs.first_steps` says what is wrong with it.
    """
    if isinstance(space, spaces.Box) and not isinstance(o, np.ndarray | None):
        try:
            return np.asarray(o, dtype=space.dtype).reshape(space.shape)
        except (TypeError, ValueError):
            return o
    return o


def _as_reward(r: Any) -> Any:
    """Convert to a float; old environments return arrays with one element."""
    array = np.asarray(r)
    return float(array.item()) if array.size == 1 and array.dtype.kind in "biuf" else r


# ---------------------------------------------------------------------------------------------
# Spaces from other libraries
# ---------------------------------------------------------------------------------------------


def convert_space(space: Any) -> spaces.Space:
    """Create a Gymnasium space from any object with a space's attributes (old `gym`, user classes).

    The attributes `nvec`, `low` and `high`, `spaces`, or `n` determine the kind of space.
    Gymnasium's own spaces are returned unchanged.
    """
    if isinstance(space, spaces.Space):
        return space
    if hasattr(space, "nvec"):
        # Old MultiDiscrete spaces have no start.
        start = getattr(space, "start", None)
        nvec = np.asarray(space.nvec, dtype=np.int64)
        return spaces.MultiDiscrete(nvec, start=None if start is None else np.asarray(start))
    if hasattr(space, "low") and hasattr(space, "high"):
        dtype = np.dtype(getattr(space, "dtype", None) or np.float32)
        low, high = np.array(space.low, dtype), np.array(space.high, dtype)
        shape = getattr(space, "shape", None)
        shape = np.broadcast_shapes(low.shape, high.shape) if shape is None else tuple(shape)
        low, high = (np.broadcast_to(end, shape).copy() for end in (low, high))
        return spaces.Box(low, high, shape=shape, dtype=dtype.type)
    if hasattr(space, "spaces"):
        if hasattr(space.spaces, "items"):
            return spaces.Dict([(key, convert_space(sub)) for key, sub in space.spaces.items()])
        return spaces.Tuple([convert_space(sub) for sub in space.spaces])
    if hasattr(space, "n"):
        # A MultiBinary has a shape with dimensions; a Discrete has no shape, or ().
        if type(space).__name__ == "MultiBinary" or getattr(space, "shape", None):
            n = space.n
            return spaces.MultiBinary(int(n) if np.ndim(n) == 0 else [int(i) for i in n])
        return spaces.Discrete(int(space.n), start=int(getattr(space, "start", 0)))
    raise SpinupError(
        f"{name_of(space)} (a {type(space).__name__}) is not a space: give the environment spaces "
        "from gymnasium.spaces"
    )
