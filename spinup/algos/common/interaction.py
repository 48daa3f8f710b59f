"""Learning while acting: the loop around an algorithm that learns from replayed transitions.

An on-policy algorithm collects a whole epoch, then learns. An off-policy one takes a step in each
of its environments, keeps the transition, and now and then does some gradient steps:

    loop = Interaction(run, ("QVals",), ("LossPi", "LossQ"))
    for _epoch in run.epochs():
        for _t in loop.steps():
            a = loop.act(policy, start_steps)
            buffer.store_many(*loop.step(a))
            for batch in buffer.sample_batches(loop.updates_due(...), batch_size):
                loop.record(update(batch))
        loop.evaluate(...)
        loop.log()

Everything here is counted in environment steps, over all environments. The loop is part of the
checkpoint, so a run that was stopped between two steps continues with the next one.
"""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

from spinup.algos.common.collect import env_actions
from spinup.algos.common.replay import check_count as check_count
from spinup.envs.adapter import adapt_env
from spinup.runs.run import Run, TrainingDiverged

Transition = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]


class Explorer(Protocol):
    """What `Interaction.act` needs: actions for a batch of observations."""

    def begin(self, rng: np.random.Generator) -> None:
        """Called before the first action after the parameters changed."""

    def renew(self) -> None:
        """Take over the current parameters, and draw nothing."""

    def __call__(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Actions, one row an environment."""


class Interaction:
    """Steps the environments of a run and keeps its counters, measurements and test episodes.

    Args:
        run: the run; the loop tracks itself there.
        values: names of what an update measures for every row of its batch; the log has average,
            standard deviation, largest and smallest.
        losses: names of what an update measures once; the log has the average over the epoch.
    """

    def __init__(self, run: Run, values: Sequence[str], losses: Sequence[str]):
        self.run, self.values, self.losses = run, tuple(values), tuple(losses)
        self.streams = run.streams[0]
        self.num_envs = self.streams.num_envs
        self.t = 0  # environment steps taken
        self.updates = 0  # gradient steps taken
        self._rows = 0  # steps of all environments side by side
        self._rng = run.explore_rngs[0]
        self._update_rng = run.seeds.generator("update")
        self._before = 0  # the value of `t` before the last step
        self._acted_after = -1  # the value of `updates` when the policy was last renewed
        self._restored = False
        self._measured: dict[str, list[Any]] = {name: [] for name in (*self.values, *self.losses)}
        self._tests: dict[str, np.ndarray] = {}
        self._to_env = env_actions(self.streams.action_space)
        self._sent_is_stored = isinstance(self.streams.action_space, spaces.Box)
        self._test_env: Any = None
        run.track(loop=self)

    # ---- acting --------------------------------------------------------------------------------

    def steps(self) -> Iterator[int]:
        """The rest of this epoch, a step of every environment at a time: steps taken so far."""
        run = self.run
        until = (run.epoch + 1) * run.config["steps_per_epoch"] // self.num_envs
        self.streams.start()
        self._check_finite("observation", self.streams.obs)
        while self._rows < until:
            run._poll()
            yield self.t

    def act(self, policy: Explorer, start_steps: int = 0) -> np.ndarray:
        """Actions for the current observations; uniformly random in the first `start_steps`."""
        n_random = min(int(start_steps) - self.t, self.num_envs)
        if n_random >= self.num_envs:
            return self.random_actions()
        if self._acted_after != self.updates:
            policy.begin(self._rng)
            self._acted_after = self.updates
        elif self._restored:
            policy.renew()
        self._restored = False
        act = policy(self.streams.obs, self._rng)
        if n_random > 0:  # the last random steps fall among the first that take a step
            which = self.streams.stepping()[:n_random]
            act[which] = self.random_actions()[which].reshape(act[which].shape)
        return act

    def random_actions(self) -> np.ndarray:
        """One action for each environment, uniformly from the action space."""
        space, rng = self.streams.action_space, self._rng
        if isinstance(space, spaces.Box):
            shape = (self.num_envs, *space.shape)
            return rng.uniform(space.low, space.high, shape).astype(np.float32)
        return rng.integers(space.n, size=self.num_envs)  # type: ignore[union-attr]

    def step(self, act: np.ndarray) -> Transition:
        """Take the actions: `obs, act, rew, obs2, done`, one row an environment.

        `done` is True where the episode terminated in `obs2`. Where it was only cut, `obs2` is the
        observation it was cut at, and `streams.ended` lists the environment all the same.
        """
        streams = self.streams
        obs = streams.obs.copy()
        sent = self._to_env(act)
        obs2, rew, terminated, _ = streams.step(sent)
        if self._sent_is_stored:
            act = np.asarray(sent, dtype=np.float32)
        valid = streams.valid
        if valid is not None and not valid.all():  # the others were resets
            obs, act, obs2 = obs[valid], act[valid], obs2[valid]
            rew, terminated = rew[valid], terminated[valid]
        self._check_finite("reward", rew)
        self._check_finite("observation", streams.obs)
        if streams.ended:  # where these are the first ones of the next episodes
            self._check_finite("observation", obs2)
        self._before = self.t
        self._rows += 1
        self.t += len(rew)
        self.run.total_steps = self.t
        return obs, act, rew, obs2, terminated

    def _check_finite(self, what: str, values: np.ndarray) -> None:
        if not np.isfinite(values).all():
            self._measured_arrays()  # no environment has an answer to an action that is NaN
            raise TrainingDiverged(
                f"the environment returned a {what} that is not finite in epoch "
                f"{self.run.epoch}, so {self.run.algo} stopped; the last good checkpoint is kept "
                f"in {self.run.output_dir}"
            )

    # ---- learning ------------------------------------------------------------------------------

    def updates_due(
        self, update_after: int, update_every: int, updates_per_step: float = 1.0
    ) -> int:
        """How many gradient steps to do now.

        None before `update_after` environment steps; then, whenever another `update_every` steps
        have been taken, `updates_per_step` for each of them.
        """
        due = self.t // update_every
        before = self._before // update_every
        if due == before or self.t < update_after:
            return 0
        ratio = update_every * updates_per_step
        n = math.floor(due * ratio + 1e-9) - math.floor(before * ratio + 1e-9)
        if n:
            self.run.seed_backend(self._update_rng)
        return n

    def record(self, info: Mapping[str, Any]) -> None:
        """Count a gradient step and keep what it measured for this epoch's row."""
        self.updates += 1
        for name, value in info.items():
            self._measured[name].append(value)

    # ---- test episodes -------------------------------------------------------------------------

    def evaluate(self, get_action: Callable[[Any], Any], num_test_episodes: int) -> None:
        """Play whole episodes in an environment of their own; nothing in training notices.

        Their seeds depend on the epoch alone, and the global generators, which some environments
        and networks draw from, are put back afterwards.
        """
        if not num_test_episodes:
            return
        run = self.run
        globals_before = run._global_state()  # making an environment may draw from them, too
        env = self._make_test_env()
        training = getattr(self.streams, "envs", ())
        shared = any(_same(env, other) for other in training)
        episodes = self.streams.state_dict() if shared else None
        rng = run.seeds.generator("eval", run.epoch)
        for name in ("action_space", "observation_space"):  # some environments draw from these
            if not any(getattr(env, name) is getattr(other, name) for other in training):
                getattr(env, name).seed(int(rng.integers(2**31 - 1)))
        seeds = rng.integers(2**31 - 1, size=int(num_test_episodes))
        results = []
        try:
            for seed in seeds.tolist():
                run._poll()
                results.append(self._episode(env, get_action, seed))
        finally:
            if episodes is not None:  # env_fn gave the training environment once more
                self.streams.load_state_dict(episodes)
            run._set_global_state(globals_before)
        self._tests = {name: np.array([r[name] for r in results]) for name in results[0]}

    def _episode(self, env: Any, get_action: Callable[[Any], Any], seed: int) -> dict[str, float]:
        o, _ = env.reset(seed=seed)
        ret, length, over = 0.0, 0, False
        while not over:
            o, r, terminated, truncated, _ = env.step(get_action(o))
            ret, length = ret + float(r), length + 1
            over = terminated or truncated or length >= self.run.config["max_ep_len"]
        return {"TestEpRet": ret, "TestEpLen": float(length)}

    def _make_test_env(self) -> Any:
        if self._test_env is None:
            env = self.run.config["env_fn"]()
            if isinstance(env, AsyncVectorEnv):
                env_fn = env.env_fns[0]
                env.close()
                env = env_fn()
            elif isinstance(env, SyncVectorEnv):
                env = env.envs[0]
            self._test_env = adapt_env(env)
        return self._test_env

    # ---- logging -------------------------------------------------------------------------------

    def log(self, **more: float) -> None:
        """Write this epoch's row: episodes, tests, what the updates measured, and `more`."""
        run, logger = self.run, self.run.logger
        arrays = self._measured_arrays()
        ep_ret, ep_len = self.streams.pop_finished()
        logger.store(EpRet=ep_ret, EpLen=ep_len, **self._tests, **arrays)
        average = logger.get_stats("EpRet")[0]
        logger.log_tabular("Epoch", run.epoch)
        logger.log_tabular("EpRet", with_min_and_max=True)
        if self._tests:
            average = logger.get_stats("TestEpRet")[0]
            logger.log_tabular("TestEpRet", with_min_and_max=True)
        logger.log_tabular("EpLen", average_only=True)
        if self._tests:
            logger.log_tabular("TestEpLen", average_only=True)
        logger.log_tabular("TotalEnvInteracts", self.t)
        for name in self.values:
            logger.log_tabular(name, with_min_and_max=True)
        for name in self.losses:
            logger.log_tabular(name, average_only=True)
        for name, value in more.items():
            run.check_finite(name, float(value))
            logger.log_tabular(name, float(value))
        logger.log_tabular("Time", time.time() - run._start_time)
        logger.dump_tabular()
        self._measured = {name: [] for name in self._measured}
        self._tests = {}
        run.bar.update(self.t, average, run.epoch)

    def _measured_arrays(self) -> dict[str, np.ndarray]:
        """What the updates of this epoch measured; stops the run by name if it is not finite."""
        arrays = {name: self.run.to_array(parts) for name, parts in self._measured.items()}
        for name, array in arrays.items():
            if array.size:
                self.run.check_finite(name, float(array.mean()))
        return arrays

    # ---- resuming ------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Counters, generator and what this epoch has measured so far."""
        return {
            "t": self.t,
            "before": self._before,
            "rows": self._rows,
            "updates": self.updates,
            "acted_after": self._acted_after,
            "update_rng": self._update_rng.bit_generator.state,
            "measured": self._measured_arrays(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the step that was the last one."""
        self.t, self._before, self._rows = state["t"], state["before"], state["rows"]
        self.updates, self._acted_after = state["updates"], state["acted_after"]
        self._update_rng.bit_generator.state = state["update_rng"]
        self._measured = {k: [v] if v.size else [] for k, v in state["measured"].items()}
        self._restored = True


def _same(a: Any, b: Any) -> bool:
    return getattr(a, "unwrapped", a) is getattr(b, "unwrapped", b)
