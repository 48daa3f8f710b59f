"""Asking a trained agent: what is this observation worth, and what would you do?

`Answers` reads the object that a training function returned (`v`, `q`, `q1`, `q2`, `pi`, `act`),
an adapter's pair of functions, or a saved policy. Whatever it cannot ask, it leaves open (None).
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium import spaces


class Answers:
    """What a trained agent says about observations.

    Args:
        agent: the returned object, a pair (value, act) of functions, or None.
        space: the environment's action space.
    """

    def __init__(self, agent: Any, space: spaces.Space) -> None:
        self.space = space
        self.pair = agent if isinstance(agent, tuple) and len(agent) == 2 else None
        self.agent = None if self.pair else getattr(agent, "net", agent)
        self.whole = agent  # with its own normalizer and selection of columns
        self._get_action: Callable[[Any], Any] | None = None

    # ---- values --------------------------------------------------------------------------------

    def values(self, obs: Any) -> np.ndarray | None:
        """Return what every critic says about `obs`: V, or Q of several actions; None if unknown.

        One row per critic, one column per action (one column for V).
        """
        if self.pair:
            value = self.pair[0]
            return None if value is None else np.array([[_float(value(obs))]])
        v = getattr(self.agent, "v", None)
        if callable(v):
            found = self._call(v, obs)
            return None if found is None else found.reshape(1, 1)
        return self.q_values(obs, self.some_actions())

    def q_values(self, obs: Any, actions: Any) -> np.ndarray | None:
        """Return Q(obs, a) of every critic for these actions; None if there is no critic."""
        critics = (getattr(self.agent, name, None) for name in ("q", "q1", "q2"))
        rows = [self._q_row(q, obs, actions) for q in critics if callable(q)]
        known = [row for row in rows if row is not None]
        return np.array(known) if known else None

    def _q_row(self, q: Callable[..., Any], obs: Any, actions: Any) -> np.ndarray | None:
        if isinstance(self.space, spaces.Discrete):
            row = self._call(q, obs)
            if row is not None and row.size == self.space.n:
                return row.reshape(-1)[np.asarray(actions, dtype=int) - int(self.space.start)]
            return None
        found = [self._call(q, obs, np.asarray(a, np.float32)) for a in actions]
        return None if any(x is None for x in found) else np.array([_float(x) for x in found])

    def some_actions(self) -> Any:
        """Return a few actions: all of a Discrete space, or a few across a Box."""
        if isinstance(self.space, spaces.Discrete):
            return np.arange(self.space.n) + self.space.start
        assert isinstance(self.space, spaces.Box)
        low, high = self.space.low, self.space.high
        return [low + f * (high - low) for f in (0.1, 0.5, 0.9)]

    # ---- actions -------------------------------------------------------------------------------

    def action(self, obs: Any) -> np.ndarray | None:
        """Return the agent's best action at `obs`; None if it has no policy that can be asked."""
        if self._get_action is None:
            self._get_action = self._make_get_action()
        if self._get_action is None:
            return None
        a = np.asarray(self._get_action(obs))
        if isinstance(self.space, spaces.Discrete) and not self.space.contains(int(a.item())):
            a = a + self.space.start
        return a

    def _make_get_action(self) -> Callable[[Any], Any] | None:
        if self.pair:
            return self.pair[1]
        if self.whole is None:
            return None
        if hasattr(self.whole, "parameters"):
            from spinup.algos.pytorch.common.acting import make_get_action

            return make_get_action(self.whole, True, action_space=_from_zero(self.space))
        act = getattr(self.whole, "act", None)
        if not callable(act):
            return None
        if "deterministic" in inspect.signature(act).parameters:
            return lambda obs: act(obs, deterministic=True)
        return act

    def probs(self, obs: Any) -> np.ndarray | None:
        """Return the probabilities of Discrete actions, if the policy is a distribution."""
        probs = getattr(self._distribution(obs), "probs", None)
        return None if probs is None else np.asarray(probs.detach().cpu()).reshape(-1)

    def samples(self, obs: Any, n: int) -> np.ndarray | None:
        """Draw `n` actions of a stochastic policy whose `pi(obs)` returns (actions, ...)."""
        pi = getattr(self.agent, "pi", None)
        if not callable(pi) or not hasattr(self.agent, "parameters"):
            return None
        import torch

        rows = torch.as_tensor(np.repeat(np.asarray(obs, np.float32)[None], n, 0))
        with torch.no_grad(), torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            out = pi(rows)
        a = out[0] if isinstance(out, tuple) else out
        return np.asarray(a) if isinstance(a, torch.Tensor) else None

    def _distribution(self, obs: Any) -> Any:
        pi = getattr(self.agent, "pi", None)
        if not callable(pi) or not hasattr(self.agent, "parameters"):
            return None
        out = self._raw(getattr(pi, "_distribution", pi), obs)
        return out[0] if isinstance(out, tuple) else out

    # ---- calling -------------------------------------------------------------------------------

    def _raw(self, f: Callable[..., Any], *arrays: Any) -> Any:
        """Call a network with a batch of one; None if it cannot be called so."""
        if not hasattr(self.agent, "parameters"):
            with contextlib.suppress(TypeError, ValueError):
                return f(*arrays)
            return None
        import torch

        inputs = [torch.as_tensor(np.asarray(x, np.float32))[None] for x in arrays]
        with torch.no_grad(), contextlib.suppress(TypeError, ValueError, RuntimeError):
            return f(*inputs)
        return None

    def _call(self, f: Callable[..., Any], *arrays: Any) -> np.ndarray | None:
        out = self._raw(f, *arrays)
        if isinstance(out, tuple):
            out = out[0]
        if out is None:
            return None
        return np.asarray(out.detach().cpu() if hasattr(out, "detach") else out, np.float64)


def _float(x: Any) -> float:
    return float(np.asarray(x, np.float64).reshape(-1)[0])


def _from_zero(space: spaces.Space) -> spaces.Space:
    if isinstance(space, spaces.Discrete) and space.start != 0:
        return spaces.Discrete(int(space.n))
    return space
