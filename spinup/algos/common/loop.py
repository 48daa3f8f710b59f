"""The loop between a policy and its environments, shared by all algorithms.

It works the same way for one environment or many, one shard or many, on-policy or off-policy: the
algorithm acts, steps and stores, and follows its pseudocode when an episode or an epoch ends.
A process's shards take turns: each takes all its steps of an epoch before the next one starts.
The loop is part of the checkpoint, so a run that was stopped between two steps continues with the
next step.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from spinup.envs.spaces import env_actions, random_actions
from spinup.parallel.mpi import any_process
from spinup.runs.run import Run, TrainingDiverged
from spinup.runs.signals import StopTraining

Transition = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]

# Measurements are joined after this many updates: garbage collection visits every small tensor.
_JOIN_EVERY = 100


class Policy(Protocol):
    """The interface that `Loop.act` needs from a policy."""

    def begin(self, rng: np.random.Generator) -> None:
        """Prepare for the first action after the parameters may have changed."""

    def renew(self) -> None:
        """Copy the current parameters without drawing a random number."""

    def __call__(self, obs: np.ndarray, rng: np.random.Generator) -> Any:
        """Return actions, one row per environment; on-policy, (actions, values, log-probs)."""


class PathEnd(NamedTuple):
    """The end of environment `i`'s path; `last_obs` is None if its episode terminated."""

    i: int
    last_obs: np.ndarray | None


class Loop:
    """Steps a run's environments, runs test episodes, and keeps counters and measurements.

    Args:
        run: the run, which saves and restores the loop.
        values: names of the quantities that an update measures for every row of its batch; the log
            shows their average, standard deviation, maximum and minimum.
        losses: names of the quantities that an update measures once; the log shows their average
            over the epoch.
        target: function of a batch that returns what the critics learn to predict, one number per
            row, for `diagnostics.txt`.
    """

    def __init__(
        self,
        run: Run,
        values: Sequence[str] = (),
        losses: Sequence[str] = (),
        target: Callable[..., Any] | None = None,
    ):
        self.run, self.values, self.losses = run, tuple(values), tuple(losses)
        self.on_policy = run.row.on_policy
        self.shard = 0  # which of this process's shards is taking its turn
        self.streams = run.streams[0]  # that shard's environments
        self.num_envs = self.streams.num_envs
        self.ended: list[int] = []  # environments whose episode ended in the last step
        self.took: np.ndarray | None = None  # False where that step was a reset; None if none was
        self.t = 0  # environment steps taken; on-policy, by this process in this epoch
        self.updates = 0  # gradient steps taken
        self._rows = [0] * len(run.streams)  # each shard's steps in this epoch
        self._rows_per_epoch = run.steps_per_shard // self.num_envs
        self._before = 0  # the value of `t` before the last step
        self._changed = True  # whether the parameters may have changed since the last action
        self._restored = False
        self._update_rng = run.seeds.generator("update")
        self._measured: dict[str, list[Any]] = {name: [] for name in (*self.values, *self.losses)}
        self._joined: dict[str, list[Any]] = {name: [] for name in self._measured}
        self._tests: dict[str, np.ndarray] = {}
        # What `diagnostics.txt` describes:
        self.target = target
        self.buffer: Any = None  # the epoch's data (on-policy)
        self.tested: list[Any] = []  # the epoch's test episodes
        self.deaths = 0  # number of episodes that terminated (off-policy)
        self._to_env = env_actions(self.streams.action_space)
        self._terminated = self._next_obs = np.zeros(0)
        run.loop = self
        if not self.on_policy:  # on-policy, the rollouts contain all the state to save
            run.track(loop=self)

    # ---- acting --------------------------------------------------------------------------------

    def steps(self) -> Iterator[int]:
        """Yield `t` before each remaining step of this epoch; a step moves every environment."""
        run, interrupted = self.run, False
        for self.shard, self.streams in enumerate(run.streams):
            self.streams.start()
            self._check_finite("observation", self.streams.obs)
            if self.on_policy and self._rows[self.shard] == 0:
                self._changed = True  # every shard starts its epoch with `policy.begin`
            while self._rows[self.shard] < self._rows_per_epoch and not interrupted:
                if run.signals.poll():
                    interrupted = True
                else:
                    yield self.t
        # A signal may reach only one process, but all processes must save together.
        if any_process(interrupted):
            run.signals.agree()
            raise StopTraining

    def act(self, policy: Policy, start_steps: int = 0) -> Any:
        """Return the policy's output for the current observations.

        During the first `start_steps` steps, actions are instead drawn uniformly from the action
        space.
        """
        streams, rng = self.streams, self.run.explore_rngs[self.shard]
        n_random = int(start_steps) - self.t
        if n_random >= self.num_envs:
            return random_actions(streams.action_space, self.num_envs, rng)
        if self._changed:
            policy.begin(rng)
            self._changed = False
        elif self._restored:
            policy.renew()
        self._restored = False
        act = policy(streams.obs, rng)
        if n_random > 0:  # the first environments to step take the remaining random actions
            which = streams.stepping()[:n_random]
            drawn = random_actions(streams.action_space, self.num_envs, rng)
            act[which] = drawn[which].reshape(act[which].shape)
        return act

    def step(self, act: np.ndarray) -> Transition:
        """Take the actions and return `obs, act, rew, obs2, done`, one row per environment.

        `done` is True only if the episode terminated in `obs2`. If it was truncated, `done` is
        False and `obs2` is its final observation. `ended` lists the environment in both cases.
        The environments receive `act` clipped to their bounds; it is returned unclipped, because
        the policy's log-probability is that of the unclipped action. Environments that used the
        step for a reset have no row.
        """
        streams = self.streams
        obs = streams.obs.copy()
        obs2, rew, terminated, _ = streams.step(self._to_env(act))
        self._next_obs, self._terminated, self.ended = obs2, terminated, streams.ended
        took = self.took = streams.valid
        if took is not None and not took.all():
            obs, act, obs2 = obs[took], act[took], obs2[took]
            rew, terminated = rew[took], terminated[took]
        if not self.on_policy:  # on-policy, the epoch's losses are checked instead
            self._check_finite("reward", rew)
            self._check_finite("observation", streams.obs)
            if self.ended:  # streams.obs already belongs to the next episodes
                self._check_finite("observation", obs2)
                self.deaths += int(terminated.sum())
        self._rows[self.shard] += 1
        self._before = self.t
        self.t += len(rew)
        return obs, act, rew, obs2, terminated

    @property
    def paths(self) -> Sequence[PathEnd]:
        """The paths that ended with the last step, each with the observation to bootstrap from.

        A terminated episode has zero value after its last step, so its `last_obs` is None. A path
        truncated by a time limit or by the end of the epoch bootstraps from `last_obs`.
        """
        if self._rows[self.shard] == self._rows_per_epoch:  # the epoch's end truncates every path
            ends: Sequence[int] = range(self.num_envs)
        elif not self.ended:
            return ()
        else:
            ends = self.ended
        return [PathEnd(i, None if self._terminated[i] else self._next_obs[i]) for i in ends]

    def _check_finite(self, what: str, values: np.ndarray) -> None:
        if not self.on_policy and not np.isfinite(values).all():
            self._measured_arrays()  # a NaN loss leads to NaN actions: report that first, if any
            raise TrainingDiverged(
                f"the environment returned a non-finite {what} in epoch {self.run.epoch}, so "
                f"{self.run.algo} stopped; {self.run.kept()}"
            )

    # ---- learning ------------------------------------------------------------------------------

    def updates_due(
        self, update_after: int, update_every: int, updates_per_step: float = 1.0
    ) -> int:
        """Return the number of gradient steps to take now.

        It is zero before `update_after` environment steps. After that,
        gradient steps are due whenever another `update_every` environment steps are complete:
        `updates_per_step` for each of them.
        """
        due = self.t // update_every
        before = self._before // update_every
        if due == before or self.t < update_after:
            return 0
        ratio = update_every * updates_per_step
        return math.floor(due * ratio + 1e-9) - math.floor(before * ratio + 1e-9)

    def sample(self, buffer: Any, n: int, batch_size: int, **options: Any) -> Iterator[Any]:
        """Yield `n` batches from `buffer`, one per gradient step; none if the buffer is empty.

        The backend's RNG is seeded first, so that the noise in these gradient steps does not
        depend on how many random numbers the policy drew before.
        """
        if n:
            self.run.seed_backend(self._update_rng)
        if n and len(buffer):
            yield from buffer.sample_batches(n, batch_size, **options)

    def record(self, info: Mapping[str, Any]) -> None:
        """Count a gradient step and keep its measurements for this epoch's row."""
        self.updates += 1
        self._changed = True
        for name, value in info.items():
            self._measured[name].append(value)
        if self.updates % _JOIN_EVERY == 0:
            for name, values in self._measured.items():
                if values:
                    self._joined[name].append(self.run.join(values))
                    values.clear()

    # ---- test episodes -------------------------------------------------------------------------

    def evaluate(self, get_action: Callable[[Any], Any], num_test_episodes: int) -> None:
        """Run `num_test_episodes` episodes in a separate environment, without affecting training.

        Their seeds depend only on the epoch. Networks and global RNGs are restored afterwards.
        """
        if num_test_episodes:
            from spinup.algos.common.evaluation import play_tests

            self._tests = play_tests(self, get_action, int(num_test_episodes))

    def test_episode(
        self, env: Any, get_action: Callable[[Any], Any], seed: int
    ) -> dict[str, float]:
        """Run one episode; return its return and its length."""
        from spinup.algos.common.evaluation import play_test

        return play_test(env, get_action, seed, self.run.config["max_ep_len"])

    # ---- logging -------------------------------------------------------------------------------

    def log(self, info: Mapping[str, Any] | None = None, **per_step: Sequence[Any]) -> None:
        """Write this epoch's row: episodes, test episodes, update measurements, then `info`.

        `info` contains single numbers; `per_step` contains one value per step, one array per shard.
        """
        run, logger = self.run, self.run.logger
        numbers = {name: float(value) for name, value in (info or {}).items()}
        for name, value in numbers.items():
            run.check_finite(name, value)
        ended = 0
        for streams in run.streams:
            ep_ret, ep_len = streams.pop_finished()
            logger.store(EpRet=ep_ret, EpLen=ep_len)
            ended += len(ep_len)
        logger.store(**self._tests, **self._measured_arrays())
        tested = "TestEpRet" in self._tests
        average = logger.get_stats("TestEpRet" if tested else "EpRet")[0]
        logger.log_tabular("Epoch", run.epoch)
        logger.log_tabular("EpRet", with_min_and_max=True)
        if tested:
            logger.log_tabular("TestEpRet", with_min_and_max=True)
        logger.log_tabular("EpLen", average_only=True)
        if tested:
            logger.log_tabular("TestEpLen", average_only=True)
        for name, arrays in per_step.items():
            for array in arrays:
                logger.store(**{name: array})
            logger.log_tabular(name, with_min_and_max=True)
        run.total_steps = self.total_steps()
        logger.log_tabular("TotalEnvInteracts", run.total_steps)
        for name in self.values:
            logger.log_tabular(name, with_min_and_max=True)
        for name in self.losses:
            logger.log_tabular(name, average_only=True)
        for name, value in numbers.items():
            logger.log_tabular(name, value)
        logger.log_tabular("Time", run.seconds())
        row = dict(logger.log_current_row)
        logger.dump_tabular()
        for values in (*self._measured.values(), *self._joined.values()):
            values.clear()
        if run.diagnostics is not None:
            from spinup.algos.common.diagnostics import write_row

            write_row(self, ended)
        self._tests, self.tested, self.deaths = {}, [], 0
        if run.bar is not None:
            run.bar.update(run.total_steps, average, run.epoch)
        run.after_row(row)

    def total_steps(self) -> int:
        """Return all processes' environment steps, including those in the unfinished epoch."""
        if not self.on_policy:
            return self.t
        # count this process's steps once, however many shards it has
        parts = [np.array(float(self.t))] + [np.array(0.0)] * (len(self._rows) - 1)
        return self.run.total_steps + int(self.run.shards.sum(parts))

    def begin_epoch(self) -> None:
        """Reset the epoch's step counters."""
        self._rows = [0] * len(self._rows)
        if self.on_policy:
            self.t = 0

    def _measured_arrays(self) -> dict[str, np.ndarray]:
        """Return what this epoch's updates measured; stop the run if a value is not finite."""
        arrays = {
            name: self.run.to_array(self._joined[name] + self._measured[name])
            for name in self._measured
        }
        for name, array in arrays.items():
            if array.size:
                self.run.check_finite(name, float(array.mean()))
        return arrays

    # ---- resuming ------------------------------------------------------------------------------

    def continue_from(self, rows: Sequence[int], t: int) -> None:
        """Continue in the middle of an epoch, after `rows` of each shard and `t` steps in total."""
        self._rows, self.t, self._changed, self._restored = list(rows), t, False, True

    def state_dict(self) -> dict[str, Any]:
        """Return the counters, the RNG and this epoch's measurements so far (off-policy)."""
        return {
            "t": self.t,
            "before": self._before,
            "rows": self.run.epoch * self._rows_per_epoch + self._rows[0],
            "updates": self.updates,
            "deaths": self.deaths,
            "acted_after": -1 if self._changed else self.updates,
            "update_rng": self._update_rng.bit_generator.state,
            "measured": self._measured_arrays(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the last saved step."""
        self.continue_from([state["rows"] - self.run.epoch * self._rows_per_epoch], state["t"])
        self._before, self.updates = state["before"], state["updates"]
        self.deaths = state.get("deaths", 0)  # older checkpoints have none
        self._changed = state["acted_after"] != self.updates
        self._update_rng.bit_generator.state = state["update_rng"]
        self._joined = {k: [v] if v.size else [] for k, v in state["measured"].items()}
