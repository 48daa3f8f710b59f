"""n-step returns: combining single transitions into transitions over up to n steps."""

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np


class NStep:
    """Converts the transitions of `num_envs` streams to n-step transitions.

    A step taken at `obs` becomes a row once n rewards have followed it, or when its episode ends.
    The row contains `rew = r_1 + gamma r_2 + ... + gamma^(m-1) r_m` over the m <= n steps taken,
    the resulting observation `obs2`, whether the episode terminated there (`done`), and
    `discount = gamma^m`, the factor on the value of `obs2`. A truncated episode is not `done`: its
    last rows bootstrap from its final observation, each after as many steps as remain.

    Rows are returned stream by stream, oldest first.
    """

    def __init__(self, n: int, gamma: float, num_envs: int = 1):
        self.n, self.gamma = n, gamma
        # Each stream's steps that are still waiting for rewards: [obs, act, rewards so far, m].
        self._waiting: list[deque[list[Any]]] = [deque() for _ in range(num_envs)]
        self._last_obs: list[Any] = [None] * num_envs  # observed after the newest of these steps
        self._powers = [gamma**m for m in range(n + 1)]

    def add(
        self,
        obs: Any,
        act: Any,
        rew: Any,
        obs2: Any,
        done: Any,
        ended: Collection[int] = (),
        streams: Iterable[int] | None = None,
    ) -> dict[str, np.ndarray]:
        """Add one step of several streams; return the rows that are now complete, or {}.

        `ended` lists the streams whose episode ended with this step, terminated or truncated.
        `streams` contains the stream of each row; by default there is one row per stream. A
        stream that does not continue from its last observation was resumed without its old
        episode, which is then treated as truncated at that observation.
        """
        rows: list[tuple[Any, ...]] = []
        for k, i in enumerate(range(len(self._waiting)) if streams is None else streams):
            waiting = self._waiting[i]
            if waiting and not np.array_equal(obs[k], self._last_obs[i]):
                rows += self._flush(i, False)
            waiting.append([np.array(obs[k]), np.array(act[k]), 0.0, 0])
            r = float(rew[k])
            for step in waiting:
                step[2] += self._powers[step[3]] * r
                step[3] += 1
            self._last_obs[i] = np.array(obs2[k])
            if i in ended:
                rows += self._flush(i, bool(done[k]))
            elif len(waiting) == self.n:
                rows.append(self._row(waiting.popleft(), self._last_obs[i], False))
        names = ("obs", "act", "rew", "obs2", "done", "discount")
        columns = zip(*rows, strict=True)
        return {name: np.array(column) for name, column in zip(names, columns, strict=False)}

    def _flush(self, i: int, done: bool) -> list[tuple[Any, ...]]:
        rows = [self._row(step, self._last_obs[i], done) for step in self._waiting[i]]
        self._waiting[i].clear()
        return rows

    def _row(self, step: list[Any], obs2: Any, done: bool) -> tuple[Any, ...]:
        obs, act, ret, m = step
        return obs, act, ret, obs2, done, self._powers[m]

    def state_dict(self) -> dict[str, Any]:
        """Return the waiting steps."""
        return {
            "waiting": [[list(step) for step in waiting] for waiting in self._waiting],
            "last_obs": list(self._last_obs),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the waiting steps."""
        self._waiting = [deque(list(step) for step in waiting) for waiting in state["waiting"]]
        self._last_obs = list(state["last_obs"])
