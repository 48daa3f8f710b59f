"""A training run: its directory, generators, environments, checkpoints and the way it stops.

This is what no paper's pseudocode has a line for. An algorithm opens a run, builds its networks,
names everything that must survive a stop with `track`, and loops over `epochs()`:

    with Run("ppo", locals()) as run:
        ...
        run.track(ac=ac, pi_optimizer=pi_optimizer)
        for epoch in run.epochs():
            rollouts = run.collect(policy)
            ...
            run.log(rollouts, info)

A checkpoint holds the whole of it: what is tracked, the generators, every environment in the middle
of its episode, a half-filled rollout, the position in `progress.txt`. A run killed at any instant
and resumed from its newest checkpoint repeats the same arithmetic, so it ends with the same bits.
"""

import contextlib
import json
import math
import os
import signal
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium import spaces
from threadpoolctl import threadpool_limits

from spinup import registry
from spinup.algos.common.collect import Policy, Rollout, collect
from spinup.envs.spaces import (
    DENSITIES,
    check_spaces,
    require_finite_bounds,
    require_width,
    space_to_json,
    transition_bytes,
)
from spinup.envs.streams import make_streams
from spinup.runs.arguments import check_domains
from spinup.runs.checkpoints import load_checkpoint, save_checkpoint
from spinup.runs.files import atomic_write
from spinup.runs.locks import RunLock
from spinup.runs.logger import EpochLogger
from spinup.runs.packing import FORGED
from spinup.utils.errors import SpinupError
from spinup.utils.memory import check_memory, keep_freed_memory
from spinup.utils.mpi_job import ID_VARIABLE, JOB_VARIABLE
from spinup.utils.mpi_tools import (
    Shards,
    abort,
    any_process,
    broadcast_object,
    gather_lists,
    in_a_run,
    most,
    num_procs,
    proc_id,
    sign_of_life,
)
from spinup.utils.progress import ProgressBar
from spinup.utils.seeding import Seeds, global_state, seed_globals, set_global_state
from spinup.utils.serialization_utils import convert_json

# Arguments that say how a run is carried out or how long it is; all others make up what it computes
# and must be the same when it is resumed.
_FREE_ON_RESUME = {
    "epochs",
    "save_freq",
    "logger_kwargs",
    "resume",
    "overwrite",
    "progress",
    "env_fn",
    "vector",
    "num_threads",
    "device",
    "shards",
    "compile",
}
# Arguments that change rounding: a resumed run uses the recorded ones. Not every algorithm has
# `compile`.
_RECORDED = ("num_threads", "device", "shards", "compile")
# What a checkpoint of a run holds, and of which kind it is.
_SAVED: Mapping[str, type] = types.MappingProxyType(
    {
        "algo": str,
        "fingerprint": dict,
        "env": dict,
        "recorded": dict,
        "epoch": int,
        "total_steps": int,
        "seconds": float,
        "tracked": dict,
        "shards": list,
        "globals": dict,
        "logger": dict,
    }
)
_CHECKPOINT_SECONDS = 60.0


class TrainingDiverged(SpinupError):
    """A loss, gradient statistic or parameter became infinite or NaN."""


class StopTraining(Exception):
    """Raised between two environment steps when the run was asked to stop."""


class Run:
    """One run of one algorithm; see the module's docstring for its life."""

    backend = "numpy"

    def __init__(self, algo: str, arguments: Mapping[str, Any]):
        """`arguments` are the algorithm's own, as `locals()` gives them on its first line."""
        self.algo = algo
        self.config = dict(arguments)
        # Now, not when saving: an environment among the arguments changes as it is used.
        self._arguments = self._fingerprint()
        for name in ("steps_per_epoch", "save_freq"):
            _check_whole(name, self.config[name], 1)
        if self.config["num_threads"] is not None:
            _check_whole("num_threads", self.config["num_threads"], 1)
        _check_whole("epochs", self.config["epochs"], 0)
        check_domains({**self.config.get("base_kwargs", {}), **self.config})
        compiled = self.config.get("compile")
        if compiled is not None and not isinstance(compiled, bool):
            raise SpinupError(f"compile={compiled!r} must be True, False or None")
        self.seeds = Seeds(self.config["seed"])
        self.epoch = 0
        self.total_steps = 0
        self._saved_steps = 0
        self.tracked: dict[str, Any] = {}
        self._signal: int | None = None
        self._closers: list[Callable[[], Any]] = []

    # ---- opening and closing -------------------------------------------------------------------

    def __enter__(self) -> "Run":
        try:
            self._open()
        except BaseException:
            self._close()
            raise
        return self

    def _open(self) -> None:
        config = self.config
        in_a_run(True)
        self._closers.append(lambda: in_a_run(False))
        logger_kwargs = dict(config["logger_kwargs"])
        output_dir = logger_kwargs.get("output_dir")
        if output_dir is not None and broadcast_object(_is_of_this_job(Path(str(output_dir)))):
            # the launcher started us again after a process was lost
            config.update(resume=True, overwrite=False)
        resume = config["resume"]
        if resume and output_dir is None:
            raise SpinupError("resume=True needs logger_kwargs with the output_dir to continue")
        if resume and config["overwrite"]:
            raise SpinupError("resume=True and overwrite=True contradict each other: choose one")
        saved: dict[str, Any] | None = None
        if resume:
            # Process 0 alone locks and reads; the others may not even see its disk.
            loaded = self._load(Path(str(output_dir))) if proc_id() == 0 else None
            loaded = broadcast_object(loaded)
            if loaded is not None:
                saved, where = loaded
                self._apply_recorded(saved, where)
        self._saved = saved
        self._choose_device()
        self.shards = Shards(config["shards"])
        if self.shards.count > 1 and not registry.get(self.algo).mpi:
            raise SpinupError(
                f"{self.algo} learns from one replay buffer and cannot be split into "
                f"{self.shards.count} shards: use one process and num_envs"
            )
        self._per_shard = self.shards.split("steps_per_epoch", config["steps_per_epoch"])

        # Everything wrong with the environment shows before a run directory is touched.
        self._make_streams()
        if not registry.get(self.algo).on_policy:
            self._check_replay()
        if saved is not None:
            self._check_same_env(saved)

        self.logger = EpochLogger(
            **{"quiet": config["progress"], **logger_kwargs},
            resume=resume,
            overwrite=config["overwrite"],
        )
        self._closers.append(self.logger.close)
        self.output_dir = Path(str(broadcast_object(self.logger.output_dir)))
        _sign_for_this_job(self.output_dir)
        self._limit_threads()
        keep_freed_memory()
        self.logger.save_config(self._config_record())
        seed_globals(self.seeds.integer("global"))
        self._catch_signals()
        self.bar = ProgressBar(
            config["epochs"] * config["steps_per_epoch"],
            enabled=bool(config["progress"]) and proc_id() == 0,
            initial=0 if saved is None else saved["total_steps"],
        )
        self._closers.append(self.bar.close)
        self._start_time = self._saved_time = time.time()
        if resume:
            where_from = "its beginning: it has no checkpoint yet" if saved is None else f"{where}"
            self.logger.log(f"Resuming {self.output_dir} from {where_from}.")

    def _load(self, output_dir: Path) -> tuple[dict[str, Any], Path] | None:
        """The newest checkpoint of a run to continue, read while nobody else can write there."""
        if not output_dir.is_dir():
            return None
        try:
            self._closers.append(RunLock.shared(output_dir).release)
        except OSError as error:
            raise SpinupError(
                f"cannot write in {output_dir} ({error.strerror}): choose another output_dir"
            ) from error
        loaded = load_checkpoint(output_dir / "checkpoints")
        if loaded is not None:
            _check_saved(*loaded)
        progress = output_dir / "progress.txt"
        # The first epoch is always saved, so that a run without a checkpoint has a row at most.
        if loaded is None and progress.is_file() and progress.read_bytes().count(b"\n") > 2:
            raise SpinupError(
                f"{output_dir} holds results but no checkpoint to continue from: leave resume out "
                "to keep them aside and start anew, or choose another output_dir"
            )
        return loaded

    def _choose_device(self) -> None:
        """Check that the configured device exists (backends know how)."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> None:
        try:
            if isinstance(error, StopTraining):
                self.save()
                any_process(False)  # nobody leaves while process 0 still writes
        finally:
            self._close()
        if isinstance(error, StopTraining) and proc_id() == 0:
            self._say_how_to_resume()
        if isinstance(error, SystemExit) and num_procs() > 1:
            # Leaving alone is no way out of a job: the others would wait.
            text = "".join(traceback.format_exception(kind, error, trace))
            abort(f"Rank {proc_id()} of {num_procs()} left its run:\n{text}", 1)
        if self._signal is not None and (error is None or isinstance(error, StopTraining)):
            if self._signal == signal.SIGUSR1 and JOB_VARIABLE in os.environ:
                raise SystemExit(0) from None  # our launcher knows why, and says so by its status
            if self._signal == signal.SIGINT and num_procs() == 1:
                raise KeyboardInterrupt from None
            raise SystemExit(128 + self._signal) from None

    def _close(self) -> None:
        for close in reversed(self._closers):
            close()
        self._closers = []

    def _say_how_to_resume(self) -> None:
        print(
            f"Stopped and saved after {self._saved_steps} steps. To continue exactly from "
            f"here, call {self.algo} again with resume=True (command line: add --resume) for "
            f"{self.output_dir}",
            file=sys.stderr,
            flush=True,
        )

    def _catch_signals(self) -> None:
        """SIGINT and SIGTERM finish the step, save and stop; a second one stops at once."""
        if threading.current_thread() is not threading.main_thread():
            return

        def handler(number: int, frame: Any) -> None:
            self._signal = number
            restore()
            if signal.SIGUSR1 in before:  # not a user's impatience: it may come once a machine
                signal.signal(signal.SIGUSR1, signal.SIG_IGN)

        def restore() -> None:
            for number, old in before.items():
                signal.signal(number, old)

        stops = [signal.SIGINT, signal.SIGTERM]
        if num_procs() > 1:
            stops.append(signal.SIGUSR1)  # how the launcher passes the others on
        before = {n: signal.getsignal(n) for n in stops}
        for number in before:
            signal.signal(number, handler)
        self._closers.append(restore)

    def _limit_threads(self) -> None:
        limits = threadpool_limits(self.num_threads)
        self._closers.append(limits.restore_original_limits)

    @property
    def num_threads(self) -> int:
        """Threads of the run; one while `num_threads=None` has not been decided yet."""
        return self.config["num_threads"] or 1

    # ---- configuration -------------------------------------------------------------------------

    def _apply_recorded(self, saved: dict[str, Any], where: Path) -> None:
        """Refuse to continue a different run; take over what decides rounding."""
        now, then = self._arguments, saved["fingerprint"]
        differing = sorted(k for k in {*now, *then} if now.get(k) != then.get(k))
        if saved["algo"] != self.algo:
            raise SpinupError(f"{where} belongs to a run of {saved['algo']}, not of {self.algo}")
        if differing:
            changes = ", ".join(f"{k}: {then.get(k)!r} -> {now.get(k)!r}" for k in differing)
            raise SpinupError(
                f"cannot resume exactly, because arguments differ from the saved run ({changes}): "
                "use the same ones, or another output_dir"
            )
        for name in (k for k in _RECORDED if k in self.config):
            given, recorded = self.config[name], saved["recorded"].get(name, False)
            if name in ("shards", "num_threads", "compile") and given is None:
                self.config[name] = recorded
            elif given != recorded:
                if name == "shards":
                    raise SpinupError(f"the saved run has shards={recorded}, not {given}")
                if proc_id() == 0:
                    print(f"{name}={recorded} is re-applied from the saved run (asked: {given})")
                self.config[name] = recorded

    def _check_same_env(self, saved: dict[str, Any]) -> None:
        """Refuse to continue in another environment than the one of the saved run."""
        now, then = self._env_fingerprint(), saved["env"]
        differing = sorted(k for k in now if k not in then or now[k] != then[k])
        if differing:
            changes = ", ".join(f"{k}: {then.get(k)!r} -> {now[k]!r}" for k in differing)
            raise SpinupError(
                "cannot resume exactly, because the environment differs from that of the saved run "
                f"({changes}): use the same one, or another output_dir"
            )

    def _env_fingerprint(self) -> dict[str, Any]:
        """What tells one environment from another, as JSON would hold it."""
        record = self.env_record
        shown = {
            "id": record["id"],
            "class": record["class"],
            "kwargs": record["kwargs"] if record["exact_kwargs"] else None,
            "max_episode_steps": record["max_episode_steps"],
            "observation_space": space_to_json(self.observation_space),
            "action_space": space_to_json(self.action_space),
        }
        return json.loads(json.dumps(convert_json(shown), sort_keys=True, allow_nan=False))

    def _fingerprint(self) -> dict[str, Any]:
        """The arguments that make up what a run computes, as JSON would hold them."""
        record = {k: v for k, v in self.config.items() if k not in _FREE_ON_RESUME}
        if record.get("anneal_lr"):
            record["epochs"] = self.config["epochs"]  # the schedule ends with the run
        return json.loads(json.dumps(convert_json(record), sort_keys=True, allow_nan=False))

    def _config_record(self) -> dict[str, Any]:
        """What `config.json` says: every argument, and what explains the run later."""
        from spinup import __version__

        return {
            **self.config,
            "algo": self.algo,
            "backend": self.backend,
            "shards": self.shards.count,
            "env": self.env_record,
            "spinup_version": __version__,
            "numpy_version": np.__version__,
            "python_version": sys.version.split()[0],
        }

    # ---- environments --------------------------------------------------------------------------

    def _make_streams(self) -> None:
        """The environments of this process's shards, each with its own generators."""
        config = self.config
        self.streams, self.rollouts, self.explore_rngs = [], [], []
        self.minibatch_rngs = []
        row = registry.get(self.algo)
        for shard in self.shards.local:
            streams = make_streams(
                config["env_fn"],
                config["num_envs"],
                lambda i, shard=shard: self.seeds.sequence("env", shard, i),  # type: ignore[misc]
                config["max_ep_len"],
                config["vector"],
            )
            self._closers.append(streams.close)
            check_spaces(
                self.algo, streams.observation_space, streams.action_space, row.action_spaces
            )
            if not row.on_policy and isinstance(streams.action_space, spaces.Box):
                # noise is in units of the range, and first actions are uniform within it
                require_finite_bounds(self.algo, streams.action_space)
                if self.algo in DENSITIES:
                    require_width(self.algo, streams.action_space)
            n = streams.num_envs
            if self._per_shard % n:
                each = self.shards.count * n
                raise SpinupError(
                    f"steps_per_epoch={config['steps_per_epoch']} does not divide among {each} "
                    f"environments (shards x num_envs): use a multiple of {each}"
                )
            self.streams.append(streams)
            if row.on_policy:
                self.rollouts.append(Rollout(streams, self._per_shard // n))
            self.explore_rngs.append(self.seeds.generator("explore", shard))
            self.minibatch_rngs.append(self.seeds.generator("minibatch", shard))
        self.observation_space = self.streams[0].observation_space
        self.action_space = self.streams[0].action_space
        self.env_record = self.streams[0].record()

    def _check_replay(self) -> None:
        """Refuse a replay buffer that cannot be, and test episodes that cannot be played."""
        config = self.config
        if not self.streams[0].has_single_envs and config["num_test_episodes"]:
            raise SpinupError(
                "test episodes need single environments, and env_fn makes a vector environment "
                "that has none: use num_test_episodes=0"
            )
        planned = min(int(config["replay_size"]), config["epochs"] * config["steps_per_epoch"])
        each = transition_bytes(self.observation_space, self.action_space)
        check_memory(f"a replay buffer of {planned} transitions", planned * each)

    def collect(self, policy: Policy) -> list[Rollout]:
        """Run the policy for an epoch: one rollout for each of this process's shards."""
        interrupted = False
        try:
            for rollout, streams, rng in zip(
                self.rollouts, self.streams, self.explore_rngs, strict=True
            ):
                if rollout.t < rollout.steps:
                    collect(rollout, streams, policy, rng, self._poll)
        except StopTraining:
            interrupted = True
        # A signal may reach one process and not another, but saving takes them all.
        if any_process(interrupted):
            self._signal = most(self._signal or 0)
            raise StopTraining
        return self.rollouts

    def _poll(self) -> None:
        sign_of_life()
        if self._signal is not None:
            raise StopTraining

    # ---- epochs, logs, checkpoints -------------------------------------------------------------

    def track(self, **objects: Any) -> None:
        """Name what a resumed run must get back: anything with `state_dict`/`load_state_dict`."""
        self.tracked.update(objects)

    def epochs(self) -> Iterator[int]:
        """The numbers of the epochs still to do; saves after each one that is due."""
        if self._saved is not None:
            self._restore(self._saved)
            self._saved = None
        elif self.config["resume"]:
            self.logger.load_state_dict(None)
        last = self.config["epochs"] - 1
        while self.epoch <= last:
            epoch = self.epoch
            yield epoch
            self.epoch += 1
            for rollout in self.rollouts:
                rollout.clear()
            elapsed = time.time() - self._saved_time
            due = epoch % self.config["save_freq"] == 0 or epoch == last
            if self._signal is not None and epoch < last and num_procs() == 1:
                raise StopTraining
            if due or any_process(elapsed > _CHECKPOINT_SECONDS):
                self.save()
        if last < 0:
            self.save()  # no epoch did: the policy as it was made
        self.logger.mark_finished()

    def log(self, rollouts: list[Rollout], info: Mapping[str, Any], val: Any = None) -> None:
        """Write this epoch's row: episodes, values, then everything the update measured."""
        logger = self.logger
        self.total_steps += int(
            self.shards.sum([np.array(float(rollout.valid.sum())) for rollout in rollouts])
        )
        numbers = {key: float(value) for key, value in info.items()}
        for key, value in numbers.items():
            self.check_finite(key, value)
        for rollout in rollouts:
            logger.store(EpRet=rollout.ep_rets, EpLen=rollout.ep_lens)
        ep_ret = logger.get_stats("EpRet")[0]
        logger.log_tabular("Epoch", self.epoch)
        logger.log_tabular("EpRet", with_min_and_max=True)
        logger.log_tabular("EpLen", average_only=True)
        if val is not None:
            for shard_val in val:
                logger.store(VVals=shard_val)
            logger.log_tabular("VVals", with_min_and_max=True)
        logger.log_tabular("TotalEnvInteracts", self.total_steps)
        for key, value in numbers.items():
            logger.log_tabular(key, value)
        logger.log_tabular("Time", time.time() - self._start_time)
        logger.dump_tabular()
        self.bar.update(self.total_steps, ep_ret, self.epoch)

    def check_finite(self, name: str, value: float) -> None:
        """Stop the run by name when `value` is not a number; what was saved before stays."""
        if not math.isfinite(value):
            raise TrainingDiverged(
                f"{name} became {value} in epoch {self.epoch}, so {self.algo} stopped; the last "
                f"good checkpoint is kept in {self.output_dir}: try a smaller learning rate, or "
                "look at the rewards and observations of the environment"
            )

    def check_parameters(self) -> None:
        """Raise `TrainingDiverged` unless every parameter is finite (backends know how)."""

    def seed_backend(self, rng: np.random.Generator) -> None:
        """Give the backend's global generator, if it has one, a seed drawn from `rng`."""

    def to_array(self, parts: Sequence[Any]) -> np.ndarray:
        """Numbers that updates measured, joined into one vector (backends know their tensors)."""
        return np.concatenate([np.zeros(0, np.float32), *(np.reshape(p, -1) for p in parts)])

    def total_steps_now(self) -> int:
        """Environment steps taken, those of the unfinished epoch included."""
        if not self.rollouts:
            return self.total_steps
        ours = sum(int(r.valid[: r.t].sum()) for r in self.rollouts)
        parts = [np.array(float(ours))] + [np.array(0.0)] * (len(self.shards.local) - 1)
        return self.total_steps + int(self.shards.sum(parts))

    def save(self) -> None:
        """Save the policy as it is after the last update, and everything this run is made of."""
        self.check_parameters()
        self.logger.save_state({}, None)
        state, self._saved_steps = self._state(), self.total_steps_now()
        if proc_id() == 0:
            save_checkpoint(self.output_dir / "checkpoints", state, self._saved_steps)
        self._saved_time = time.time()

    def _state(self) -> dict[str, Any]:
        return {
            "algo": self.algo,
            "backend": self.backend,
            "fingerprint": self._arguments,
            "env": self._env_fingerprint(),
            "recorded": {
                **{k: self.config[k] for k in _RECORDED if k in self.config},
                "shards": self.shards.count,
            },
            "epoch": self.epoch,
            "total_steps": self.total_steps,
            "seconds": time.time() - self._start_time,
            "tracked": {name: obj.state_dict() for name, obj in self.tracked.items()},
            "shards": gather_lists([self._shard_state(i) for i in range(len(self.streams))]),
            "globals": self._global_state(),
            "logger": self.logger.state_dict(),
        }

    def _shard_state(self, i: int) -> dict[str, Any]:
        return {
            "streams": self.streams[i].state_dict(),
            "rollout": self.rollouts[i].state_dict() if self.rollouts else None,
            "explore": self.explore_rngs[i].bit_generator.state,
            "minibatch": self.minibatch_rngs[i].bit_generator.state,
        }

    def _restore(self, state: dict[str, Any]) -> None:
        missing = sorted(set(self.tracked) ^ set(state["tracked"]))
        if missing:
            raise SpinupError(
                f"the checkpoint does not match this version of {self.algo}: {missing}"
            )
        with _in_one_sentence(self.algo):
            for name, obj in self.tracked.items():
                obj.load_state_dict(state["tracked"][name])
            for i, shard in enumerate(self.shards.local):
                saved = state["shards"][shard]
                if self.rollouts:
                    self.rollouts[i].load_state_dict(saved["rollout"])
                self.explore_rngs[i].bit_generator.state = saved["explore"]
                self.minibatch_rngs[i].bit_generator.state = saved["minibatch"]
        fresh: list[tuple[int, int]] = []
        for i, shard in enumerate(self.shards.local):
            saved = state["shards"][shard]
            for env in self.streams[i].load_state_dict(saved["streams"]):
                fresh.append((shard, env))
                if self.rollouts:  # the old episode was cut here
                    self.rollouts[i].end_path(env, False, saved["streams"]["obs"][env])
        self.epoch = state["epoch"]
        self.total_steps = state["total_steps"]
        self._start_time = time.time() - state["seconds"]
        with _in_one_sentence(self.algo):
            self.logger.load_state_dict(state["logger"])
        for shard, env in gather_lists(fresh):
            where = f"{env} of shard {shard}" if self.shards.count > 1 else f"{env}"
            self.logger.log(f"Environment {where} could not be restored: fresh episode.", "yellow")
        with _in_one_sentence(self.algo):
            self._set_global_state(state["globals"])

    def _global_state(self) -> dict[str, Any]:
        return global_state()

    def _set_global_state(self, state: dict[str, Any]) -> None:
        set_global_state(state)

    def policy_meta(self) -> dict[str, Any]:
        """What a saved policy says about itself: enough to rebuild network and environment."""
        return {
            "algo": self.algo,
            "backend": self.backend,
            "observation_space": space_to_json(self.observation_space),
            "action_space": space_to_json(self.action_space),
            "ac_kwargs": convert_json(dict(self.config["ac_kwargs"])),
            "env": self.env_record,
            "max_ep_len": self.config["max_ep_len"],
        }


def _check_saved(saved: Any, where: Path) -> None:
    """Refuse a checkpoint that is whole but was not made by a run."""
    held = saved if isinstance(saved, dict) else {}
    wrong = [k for k, kind in _SAVED.items() if type(held.get(k)) is not kind]
    wrong += [] if wrong else [k for k in ("epoch", "total_steps") if saved[k] < 0]
    if not wrong:
        threads, device, shards = (saved["recorded"].get(name, "") for name in _RECORDED[:3])
        counts = (1 if threads is None else threads, shards)
        whole = all(type(n) is int and 1 <= n <= 2**15 for n in counts)
        compiled = saved["recorded"].get("compile", False)
        sound = whole and type(device) is str and device and type(compiled) is bool
        wrong = [] if sound else ["recorded"]
    if wrong:
        raise SpinupError(
            f"{where} holds no checkpoint of a run ({wrong[0]!r} is missing or of another kind): "
            "restore it from a backup, or start the run again with overwrite=True"
        )


@contextlib.contextmanager
def _in_one_sentence(algo: str) -> Iterator[None]:
    """What makes our own code stumble over a checkpoint is a fault of the checkpoint."""
    try:
        yield
    except SpinupError:
        raise
    except FORGED as error:
        first = str(error).strip().splitlines() or [""]
        raise SpinupError(
            f"the checkpoint does not hold what this version of {algo} saves "
            f"({type(error).__name__}: {first[0][:200]}): restore it from a backup, or start the "
            "run again with overwrite=True"
        ) from error


class Scalar:
    """A number that a run tracks."""

    def __init__(self, value: float):
        self.value = float(value)

    def state_dict(self) -> dict[str, float]:
        """The number, for a checkpoint."""
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, float]) -> None:
        """The number, from a checkpoint."""
        self.value = float(state["value"])


# The file in a run directory that says which job (of those that may be started again) writes it.
_JOB_FILE = ".mpi_job"


def _is_of_this_job(output_dir: Path) -> bool:
    """Whether an earlier start of this same job has opened the run in `output_dir`.

    Anything else there is an older run, which a job that lost a process must not continue.
    """
    job, path = os.environ.get(ID_VARIABLE), output_dir / _JOB_FILE
    return job is not None and path.is_file() and path.read_text() == job


def _sign_for_this_job(output_dir: Path) -> None:
    job = os.environ.get(ID_VARIABLE)
    if job is not None and proc_id() == 0:
        atomic_write(output_dir / _JOB_FILE, job.encode())


def _check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise SpinupError(f"{name}={value!r} must be a whole number, at least {least}")
