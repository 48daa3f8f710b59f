"""A training run: its directory, RNGs, environments and checkpoints, and how it ends.

No paper's pseudocode covers this part. An algorithm opens a run, builds its networks, registers
with `track` everything that must survive a stop, and loops over `epochs()`:

    with TorchRun("ppo") as run:
        ac = run.build(actor_critic, ac_kwargs)
        run.track(pi_optimizer=pi_optimizer)
        loop = Loop(run)
        for epoch in run.epochs():
            ...

A checkpoint contains the whole run: the tracked objects, the RNGs, every environment in the middle
of its episode, a half-filled rollout, and the position in `progress.txt`. A run that is killed at
any instant and resumed from its newest checkpoint repeats the same arithmetic, so its results are
bit-identical.
"""

import inspect
import math
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from threadpoolctl import threadpool_limits

from spinup import __version__, registry
from spinup.envs.make_streams import make_streams
from spinup.envs.spaces import check_spaces
from spinup.parallel.mpi import (
    Shards,
    abort,
    any_process,
    broadcast_object,
    in_a_run,
    num_procs,
    proc_id,
)
from spinup.runs.arguments.table import check_arguments, check_sizes, current_call
from spinup.runs.logger import EpochLogger
from spinup.runs.signals import Signals, StopTraining
from spinup.utils.errors import SpinupError
from spinup.utils.seeding import Seeds, global_state, seed_globals, set_global_state

_CHECKPOINT_SECONDS = 60.0


class TrainingDiverged(SpinupError):
    """A loss, gradient statistic or parameter became infinite or NaN."""


class Run:
    """One run of one algorithm; the module's docstring shows how to use it.

    An algorithm, its networks and its buffers see `build`, `track`, `epochs`, `arguments_for`,
    `action_space`, `observation_space`, `device`, `ac`, `streams`, `shards`, `seeds`,
    `minibatch_rngs` and `planned_steps`; in a graph, also `batch` and `noise`. No more than that.
    """

    backend = "numpy"
    device: Any  # set by the backend, and so are the networks
    ac: Any

    def __init__(self, algo: str):
        from spinup.runs.arguments.config import fingerprint

        self.call = call = current_call()
        self.config = dict(call.arguments)
        self.algo, self.row = algo, registry.row_of_run(algo, self.config)
        # Record now, not when saving: an environment among the arguments changes with use.
        self.fingerprint = fingerprint(self.config)
        self.defaults = fingerprint(call.defaults)
        check_arguments(self.config)
        # What a command line says: `resume_with`, the words that continue this run, and `source`,
        # where its hyperparameters come from, unless the command line prints that itself.
        self.config["logger_kwargs"] = logger_kwargs = dict(self.config["logger_kwargs"])
        self.origin: dict[str, Any] = logger_kwargs.pop("origin", {})
        self.seeds = Seeds(self.config["seed"])
        self.epoch = 0
        self.total_steps = 0  # on-policy: only the steps of finished epochs
        self.tracked: dict[str, Any] = {}
        self.rollouts: list[Any] = []  # an on-policy epoch's data, one rollout per local shard
        self.loop: Any = None
        self.diagnostics: Any = None  # the table `diagnostics.txt`, if the run writes one
        self.ended_early = False  # whether `on_epoch` returned True
        if self.config.get("save_best"):
            from spinup.runs.resuming import Scalar

            self.track(best=Scalar(-math.inf))  # the highest return so far
        self.signals = Signals()
        self.bar: Any = None
        self.test_env: Any = None  # the environment of test episodes,
        self.test_kept: Any = None  # what it keeps between them,
        self.test_state: dict[str, Any] | None = None  # and what a resumed run's had kept
        self._saved_steps = 0
        self.closers: list[Callable[[], Any]] = []  # called at the end, the last one first

    # ---- opening and closing -------------------------------------------------------------------

    def __enter__(self) -> "Run":
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def _open(self) -> None:
        from spinup.envs.first_steps import check_first_steps
        from spinup.runs.diagnostics import open_diagnostics
        from spinup.runs.storage.directory import is_of_this_job, sign_for_this_job
        from spinup.runs.storage.policies import save_env
        from spinup.utils.memory import keep_freed_memory

        config = self.config
        in_a_run(True)
        self.closers.append(lambda: in_a_run(False))
        logger_kwargs = dict(config["logger_kwargs"])
        output_dir = logger_kwargs.get("output_dir")
        if output_dir is not None and broadcast_object(is_of_this_job(Path(str(output_dir)))):
            # the launcher restarted this job after a process was lost
            config.update(resume=True, overwrite=False)
        resume, threads = config["resume"], config["num_threads"]
        if resume and output_dir is None:
            raise SpinupError("resume=True needs logger_kwargs with the output_dir to continue")
        if resume and config["overwrite"]:
            raise SpinupError("resume=True and overwrite=True contradict each other: choose one")
        saved = where = None
        if resume:
            from spinup.runs.resuming import load_into

            saved, where = load_into(self, Path(str(output_dir)))
        self.saved = saved
        self._choose_device()
        self.shards = Shards(config["shards"])
        if self.shards.count > 1 and not self.row.mpi:
            raise SpinupError(
                f"{self.algo} learns from one replay buffer and cannot be split into "
                f"{self.shards.count} shards: use one process and num_envs"
            )
        self.steps_per_shard = self.shards.split("steps_per_epoch", config["steps_per_epoch"])

        # Detect any problem with the environment before touching the run directory.
        self._make_streams(threads)
        check_sizes(config, self.shards.count, self.streams[0].num_envs)
        self._check_replay()
        if saved is not None:
            from spinup.runs.resuming import check_same_env

            check_same_env(self, saved["env"])

        quiet = logger_kwargs.pop("quiet", None)
        self.logger = EpochLogger(
            **logger_kwargs, quiet=True, resume=resume, overwrite=config["overwrite"]
        )
        self.closers.append(self.logger.close)
        self.output_dir = Path(str(broadcast_object(self.logger.output_dir)))
        self.logger.quiet = config["progress"] if quiet is None else quiet
        self.diagnostics = open_diagnostics(self, saved)
        if "source" in self.origin and proc_id() == 0:
            print(f"Hyperparameters: {self.origin['source']}", flush=True)
        if not quiet and proc_id() == 0:
            from spinup.runs.screen import announcement

            print(announcement(self), flush=True)
        sign_for_this_job(self.output_dir)
        self._limit_threads()
        keep_freed_memory()
        self.save_config()
        env = self.streams[0].local_env
        if proc_id() == 0 and env is not None and not (self.output_dir / "vars.pkl").exists():
            save_env(self.logger, env)  # before its first reset
        check_first_steps(self.streams, self.env_record["class"].rpartition(":")[2])
        seed_globals(self.seeds.integer("global"))
        self.signals.catch(self._stop_soon)
        self.closers.append(self.signals.release)
        if config["progress"] and proc_id() == 0:
            from spinup.runs.progress import ProgressBar

            done = 0 if saved is None else saved["total_steps"]
            self.bar = ProgressBar(self.planned_steps, enabled=True, initial=done)
            self.closers.append(self.bar.close)
        self.start_time = self._saved_time = time.monotonic()
        if resume:
            where_from = "its beginning: it has no checkpoint yet" if saved is None else f"{where}"
            self.logger.log(f"Resuming {self.output_dir} from {where_from}.")

    def _choose_device(self) -> None:
        """Check that the configured device exists; implemented by backends."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        stopped = isinstance(error, StopTraining)
        try:
            if stopped:
                self.save()
                any_process(False)  # all processes wait until process 0 has finished writing
        finally:
            self._close()
        if stopped and proc_id() == 0:
            from spinup.runs.screen import how_to_continue

            print(how_to_continue(self, self._saved_steps), file=sys.stderr, flush=True)
        if isinstance(error, SystemExit) and num_procs() > 1:
            # If only this process exited, the others would wait for it forever.
            text = "".join(traceback.format_exception(kind, error, trace))
            abort(f"Rank {proc_id()} of {num_procs()} left its run:\n{text}", 1)
        if error is None or stopped:
            self.signals.leave()

    def _close(self) -> None:
        for close in reversed(self.closers):
            close()
        self.closers = []

    def _stop_soon(self) -> None:
        """Called by the signal handler: do not wait forever for environments in other processes."""
        for streams in self.streams:
            streams.stop_soon()

    def _limit_threads(self) -> None:
        limits = threadpool_limits(self.num_threads)
        self.closers.append(limits.restore_original_limits)

    @property
    def num_threads(self) -> int:
        """Number of threads; 1 until `num_threads=None` has been resolved."""
        return self.config["num_threads"] or 1

    def arguments_for(self, function: Callable[..., Any]) -> dict[str, Any]:
        """Return those of this run's arguments that `function` also takes as options, by name."""
        parameters = inspect.signature(function).parameters.values()
        options = [
            p.name for p in parameters if p.kind is p.KEYWORD_ONLY or p.default is not p.empty
        ]
        return {name: self.config[name] for name in options if name in self.config}

    def save_config(self) -> None:
        """Write `config.json`: every argument, the environment and the software versions."""
        self.logger.write_config(self._config_record())

    def _config_record(self) -> dict[str, Any]:
        from spinup.runs.screen import command

        words = command(self)
        return {
            **self.config,
            **({} if words is None else {"resume_with": words}),
            **({"algo_argument": self.config["algo"]} if "algo" in self.config else {}),  # TRPO's
            "algo": self.algo,
            "backend": self.backend,
            "shards": self.shards.count,
            "env": self.env_record,
            "spinup_version": __version__,
            "numpy_version": np.__version__,
            "python_version": sys.version.split()[0],
        }

    # ---- environments --------------------------------------------------------------------------

    def _make_streams(self, threads: int | None) -> None:
        """Create the environments of this process's shards, each with its own RNGs."""
        config, row = self.config, self.row
        self.streams, self.explore_rngs, self.minibatch_rngs = [], [], []
        for shard in self.shards.local:
            streams = make_streams(
                config["env_fn"],
                config["num_envs"],
                lambda i, shard=shard: self.seeds.sequence("env", shard, i),  # type: ignore[misc]
                config["max_ep_len"],
                config["vector"],
                threads,
            )
            self.closers.append(streams.close)
            check_spaces(
                self.algo, streams.observation_space, streams.action_space, row.action_spaces
            )
            if not row.on_policy and isinstance(streams.action_space, spaces.Box):
                from spinup.envs.bounds import check_bounds

                # noise is in units of the action range, and initial actions are uniform within it
                check_bounds(self.algo, streams.action_space)
            if self.steps_per_shard % streams.num_envs:
                each = self.shards.count * streams.num_envs
                raise SpinupError(
                    f"steps_per_epoch={config['steps_per_epoch']} does not divide among {each} "
                    f"environments (shards x num_envs): use a multiple of {each}"
                )
            self.streams.append(streams)
            self.explore_rngs.append(self.seeds.generator("explore", shard))
            self.minibatch_rngs.append(self.seeds.generator("minibatch", shard))
        self.observation_space = self.streams[0].observation_space
        self.action_space = self.streams[0].action_space
        self.env_record = self.streams[0].record()
        if config["max_ep_len"] == self.call.defaults.get("max_ep_len"):
            # a game may be longer than the default
            config["max_ep_len"] = self.env_record.get("max_ep_len", config["max_ep_len"])
            for streams in self.streams:
                streams.max_ep_len = config["max_ep_len"]

    def _check_replay(self) -> None:
        """Reject test episodes that cannot run, and a replay buffer that cannot fit in memory."""
        if not self.streams[0].has_single_envs and self.config.get("num_test_episodes"):
            raise SpinupError(
                "test episodes need single environments, but env_fn makes a vector environment "
                "that has none: use num_test_episodes=0"
            )
        if self.row.on_policy:
            return
        from spinup.envs.stacks import transition_bytes
        from spinup.utils.memory import check_memory

        planned = min(int(self.config["replay_size"]), self.planned_steps)
        stack = self.streams[0].frame_stack
        each = transition_bytes(self.observation_space, self.action_space, stack)
        check_memory(f"a replay buffer of {planned} transitions", planned * each)

    @property
    def planned_steps(self) -> int:
        """The number of environment steps in the whole run."""
        return int(self.config["epochs"] * self.config["steps_per_epoch"])

    def evaluating(self) -> AbstractContextManager[None]:
        """Return a context for test episodes; backends put the networks in evaluation mode."""
        return nullcontext()

    # ---- epochs and checkpoints ----------------------------------------------------------------

    def track(self, **objects: Any) -> None:
        """Add objects, which need `state_dict` and `load_state_dict`, to the checkpoints."""
        self.tracked.update(objects)

    def epochs(self) -> Iterator[int]:
        """Yield the number of each remaining epoch; save after an epoch if a save is due."""
        if self.saved is not None:
            from spinup.runs.resuming import restore

            restore(self, self.saved)
            self.saved = None
        elif self.config["resume"]:
            self.logger.load_state_dict(None)
        last = self.config["epochs"] - 1
        while self.epoch <= last:
            epoch = self.epoch
            yield epoch
            last = epoch if self.ended_early else last
            self.epoch += 1
            self.loop.begin_epoch()
            for rollout in self.rollouts:
                rollout.clear()
            elapsed = time.monotonic() - self._saved_time
            due = epoch % self.config["save_freq"] == 0 or epoch == last
            if self.signals.received is not None and epoch < last and num_procs() == 1:
                raise StopTraining
            if due or any_process(elapsed > _CHECKPOINT_SECONDS):
                self.save()
        if last < 0:
            self.save()  # no epochs at all: save the initial policy
        self.logger.mark_finished()

    def seconds(self) -> float:
        """Return the training time so far in seconds, including time before a stop."""
        return time.monotonic() - self.start_time

    def after_row(self, row: dict[str, Any]) -> None:
        """Keep the best policy and call the user's `on_epoch`, if the run asks for them."""
        if self.config.get("save_best") or self.config.get("on_epoch") is not None:
            from spinup.runs.hooks import after_row

            self.ended_early = after_row(self, row)

    def check_finite(self, name: str, value: float) -> None:
        """Stop the run with an error about `name` if `value` is not finite; keep earlier saves."""
        if not math.isfinite(value):
            from spinup.envs.first_steps import cause_of

            cause, advice = cause_of(self.rollouts)
            raise TrainingDiverged(
                f"{name} became {value} in epoch {self.epoch}{cause}, so {self.algo} stopped; "
                f"{self.kept()}: {advice}"
            )

    def kept(self) -> str:
        """Say where the last good checkpoint is, if there is one."""
        if any((self.output_dir / "checkpoints").glob("step-*")):
            return f"the last good checkpoint is in {self.output_dir}"
        return "it had saved no checkpoint yet"

    def check_parameters(self) -> None:
        """Raise `TrainingDiverged` if a parameter is not finite; implemented by backends."""

    def gauges(self) -> Any:
        """Return what measures the networks for `diagnostics.txt`; implemented by backends."""

    def seed_backend(self, rng: np.random.Generator) -> None:
        """Seed the backend's global RNG, if it has one, with a number drawn from `rng`."""

    def join(self, parts: Sequence[Any]) -> Any:
        """Join numbers that updates measured into one vector, on the device where they are."""
        return self.to_array(parts)

    def to_array(self, parts: Sequence[Any]) -> np.ndarray:
        """Join the numbers that updates measured into one vector; backends also accept tensors."""
        return np.concatenate([np.zeros(0, np.float32), *(np.reshape(p, -1) for p in parts)])

    def save(self) -> None:
        """Save the policy as of the last update, and a checkpoint of the whole run."""
        from spinup.runs.resuming import state_of
        from spinup.runs.storage.checkpoints import save_checkpoint

        self.check_parameters()
        self.logger.save_state({}, None)
        state, self._saved_steps = state_of(self), self.loop.total_steps()
        if proc_id() == 0:
            with self.logger.writing("checkpoints"):
                save_checkpoint(self.logger.path("checkpoints"), state, self._saved_steps)
            self.logger.check_owner()  # writing a large replay buffer takes a while
        self._saved_time = time.monotonic()

    def global_state(self) -> dict[str, Any]:
        """Return the states of the global RNGs, which user code may use."""
        return global_state()

    def set_global_state(self, state: dict[str, Any]) -> None:
        """Restore the global RNGs."""
        set_global_state(state)

    def policy_meta(self) -> dict[str, Any]:
        """Return the metadata from which a policy's network and environment are rebuilt."""
        from spinup.runs.storage.policies import policy_meta

        return policy_meta(self)
