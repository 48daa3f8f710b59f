"""Running a policy in its environments: one call for one line of pseudocode.

While the policy is fixed, acting needs only actions. Values and log-probabilities of all the states
and actions of an epoch come from one batched call afterwards, which is what makes this fast.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from gymnasium import spaces

from spinup.envs.spaces import act_dtype, action_shape, stored_dtype
from spinup.envs.streams import Streams

if TYPE_CHECKING:
    from spinup.envs.vector import VectorStreams


class Policy(Protocol):
    """What `collect` needs: actions, and the estimates that came with them if there are any."""

    def begin(self, rng: np.random.Generator) -> None:
        """Called before the first step of an epoch; parameters stay as they are until the next."""

    def __call__(self, obs: np.ndarray, rng: np.random.Generator) -> tuple[Any, Any, Any]:
        """Actions for a batch of observations, with `val` and `logp` or None for both."""


class Path:
    """A piece of an episode within one rollout: rows `start` to `stop` of stream `i`."""

    def __init__(
        self, i: int, start: int, stop: int, terminated: bool, final_obs: np.ndarray | None
    ):
        self.i, self.start, self.stop = i, start, stop
        self.terminated = terminated
        self.final_obs = final_obs  # where a path that was only cut would have gone on


class Rollout:
    """What one shard gathers in an epoch: `steps` rows of `num_envs` transitions each."""

    def __init__(self, streams: "Streams | VectorStreams", steps: int):
        n = streams.num_envs
        shape, space = tuple(streams.observation_space.shape or ()), streams.action_space
        self.steps, self.num_envs = steps, n
        self.t = 0  # rows filled so far
        self.obs = np.zeros((steps, n, *shape), stored_dtype(streams.observation_space))
        self.act = np.zeros((steps, n, *action_shape(space)), act_dtype(space))
        self.rew = np.zeros((steps, n))
        self.valid = np.ones((steps, n), dtype=bool)
        self.val: np.ndarray | None = None  # filled where the policy estimates while it acts
        self.logp: np.ndarray | None = None
        self.paths: list[Path] = []
        self.ep_rets = np.zeros(0)
        self.ep_lens = np.zeros(0)
        self._start = [0] * n

    def clear(self) -> None:
        """Make room for the next epoch."""
        self.t = 0
        self.paths = []
        self._start = [0] * self.num_envs
        self.valid[:] = True

    def end_path(self, i: int, terminated: bool, final_obs: np.ndarray | None) -> None:
        """The path of stream i ends with the row written last."""
        if self.t > self._start[i]:
            self.paths.append(Path(i, self._start[i], self.t, terminated, final_obs))
        self._start[i] = self.t

    def flat(self, x: np.ndarray) -> np.ndarray:
        """The valid entries of a (steps, num_envs, ...) array, joined into one batch axis."""
        return x[self.valid] if not self.valid.all() else x.reshape(-1, *x.shape[2:])

    def state_dict(self) -> dict[str, Any]:
        """What has been gathered so far in this epoch."""
        t = self.t
        return {
            "t": t,
            "obs": self.obs[:t].copy(),
            "act": self.act[:t].copy(),
            "rew": self.rew[:t].copy(),
            "valid": self.valid[:t].copy(),
            "val": None if self.val is None else self.val[:t].copy(),
            "logp": None if self.logp is None else self.logp[:t].copy(),
            "start": list(self._start),
            "paths": [[p.i, p.start, p.stop, p.terminated, p.final_obs] for p in self.paths],
            "ep_rets": self.ep_rets,
            "ep_lens": self.ep_lens,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue an epoch that was interrupted."""
        t = self.t = state["t"]
        for name in ("obs", "act", "rew", "valid"):
            getattr(self, name)[:t] = state[name]
        for name in ("val", "logp"):
            if state[name] is not None:
                self._keep_estimates()
                getattr(self, name)[:t] = state[name]
        self._start = list(state["start"])
        self.paths = [Path(*path) for path in state["paths"]]
        self.ep_rets, self.ep_lens = state["ep_rets"], state["ep_lens"]

    def _keep_estimates(self) -> None:
        if self.val is None or self.logp is None:
            self.val = np.zeros((self.steps, self.num_envs), np.float32)
            self.logp = np.zeros((self.steps, self.num_envs), np.float32)

    def store(self, act: Any, rew: np.ndarray, val: Any, logp: Any, valid: Any) -> None:
        """Write everything but the observation into the current row and move on to the next."""
        t = self.t
        self.act[t] = act if self.act.ndim <= 3 else np.reshape(act, self.act.shape[1:])
        self.rew[t] = rew
        if valid is not None:
            self.valid[t] = valid
        if val is not None:
            self._keep_estimates()
            self.val[t], self.logp[t] = np.reshape(val, -1), np.reshape(logp, -1)  # type: ignore[index]
        self.t = t + 1


def collect(
    rollout: Rollout,
    streams: "Streams | VectorStreams",
    policy: Policy,
    rng: np.random.Generator,
    poll: Callable[[], None] = lambda: None,
) -> None:
    """Fill `rollout` with steps of `policy`; continues where an interrupted call left off.

    Episodes go on from one epoch to the next. A path ends where its episode does, or is cut at the
    end of the rollout; every path that did not terminate keeps the observation to bootstrap from.
    `poll` is called before every step and may raise to interrupt.
    """
    streams.start()
    to_env = env_actions(streams.action_space)
    if rollout.t == 0:
        policy.begin(rng)
    while rollout.t < rollout.steps:
        poll()
        obs = rollout.obs[rollout.t]
        obs[:] = streams.obs
        act, val, logp = policy(obs, rng)
        next_obs, rew, terminated, _ = streams.step(to_env(act))
        rollout.store(act, rew, val, logp, streams.valid)
        if streams.valid is not None:
            for i in np.flatnonzero(~streams.valid).tolist():
                rollout._start[i] = rollout.t  # a reset row belongs to no path
        for i in streams.ended:
            died = bool(terminated[i])
            rollout.end_path(i, died, None if died else next_obs[i].copy())
    for i in range(rollout.num_envs):
        rollout.end_path(i, False, streams.obs[i].copy())
    rollout.ep_rets, rollout.ep_lens = streams.pop_finished()


def env_actions(space: spaces.Space[Any]) -> Callable[[Any], Sequence[Any]]:
    """A function from a policy's batch of actions to what the environments are sent.

    Continuous actions are clipped here, and only here: the buffer keeps the raw action, because
    that is the one whose probability the policy can compute.
    """
    if isinstance(space, spaces.Box):
        low, high, shape, dtype = space.low, space.high, space.shape, space.dtype

        def clip(act: np.ndarray) -> Any:
            if act.dtype != dtype:
                act = act.astype(dtype)
            if act.ndim != 2 or len(shape) != 1:
                act = act.reshape(-1, *shape)
            return act.clip(low, high)

        return clip
    start = np.asarray(getattr(space, "start", 0))
    if isinstance(space, spaces.Discrete):
        if not start:
            return lambda act: act
        return lambda act: act + start
    sizes, kind = action_shape(space), space.dtype
    return lambda act: (np.reshape(act, (-1, *sizes)) + start).astype(kind)
