"""Report what a command line would do and what it would cost (`--dry_run`).

Memory is computed from the environment's spaces. Disk space and time come from a calibration: the
algorithm trains briefly in a temporary directory with the run's settings, and its log shows how
long an epoch takes. Nothing is written to the run directories.
"""

from __future__ import annotations

import contextlib
import io
import math
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from spinup import registry, user_config
from spinup.algos.common.replay import _CHUNK_BYTES
from spinup.cli.flags import arguments
from spinup.envs.adapter import adapt_env
from spinup.envs.record import env_record
from spinup.envs.spaces import act_dtype, action_shape, is_image, stored_dtype
from spinup.envs.stacks import frame_stack, transition_bytes
from spinup.grids.cells import Cell, Job, decide
from spinup.grids.experiments import env_maker, process_count
from spinup.runs.arguments.domains import Number
from spinup.runs.arguments.table import ARGUMENTS
from spinup.utils.errors import SpinupError
from spinup.utils.memory import available_memory, size_text
from spinup.utils.reading import count_rows

if TYPE_CHECKING:
    from spinup.cli.plan import Plan

# Arguments that do not change the cost of a step; runs that differ only in these arguments share a
# calibration. They are numbers that are not counts, and settings for durations and frequencies.
_OF_STEPS = {"updates_per_step", "replay_ratio", "target_kl"}
_NUMBERS = {n: a.domain for n, a in ARGUMENTS.items() if isinstance(a.domain, Number)}
_SAME_COST = {name for name, domain in _NUMBERS.items() if not domain.whole} - _OF_STEPS
_SAME_COST |= {"seed", "epochs", "save_freq", "start_steps", "update_after", "num_test_episodes"}
_SAME_COST |= {"resume", "overwrite", "progress", "logger_kwargs", "anneal_lr", "double_q"}
# Maximum seconds of calibration; any remaining settings are assumed to have the average cost.
_MOST_SECONDS = 60.0
_ROW_BYTES = 800  # per row of progress.txt and diagnostics.txt
_START_SECONDS = 2.0  # for imports, and for creating networks and environments


class Env(NamedTuple):
    """The properties of an environment that the estimate needs."""

    transition: int  # bytes per transition (o, a, r, o2, d) in a replay buffer
    rollout: int  # bytes per step in a rollout and in the batch built from it
    actions: int  # number of parameters of an action distribution
    limit: float  # maximum episode length
    step: float  # seconds per step with a random action
    image: bool = False  # whether observations are images
    max_ep_len: int | None = None  # what the default of this argument means here, if not itself


class Speed(NamedTuple):
    """The measurements of a calibration."""

    step: float  # seconds per environment step, with gradient steps unless they are in `update`
    act: float  # seconds per step of a test episode
    update: float  # seconds per gradient step
    save: float  # seconds per checkpoint
    disk: float  # size of a run directory in bytes, without its replay buffer
    taken: float  # seconds that the calibration took


class Cost(NamedTuple):
    """The cost of one run: bytes of buffers in memory, bytes on disk, and seconds."""

    memory: int
    disk: int
    seconds: float


# ------------------------------------------------------------------------------------- one run


def settings_of(cell: Cell, launch: Mapping[str, Any]) -> dict[str, Any]:
    """Return all arguments of a run, including defaults."""
    settings = {**_defaults(cell), **cell.kwargs}
    if _in_own_process(launch) and settings.get("num_threads") is None:
        settings["num_threads"] = launch.get("cpus_per_cell", 1)
    return settings


def _defaults(cell: Cell) -> dict[str, Any]:
    return {name: p.default for name, p in arguments(cell.thunk).items()}


def _in_own_process(launch: Mapping[str, Any]) -> bool:
    return launch.get("num_workers", 1) > 1 or launch.get("executor", "local") != "local"


def look_at(settings: Mapping[str, Any]) -> Env:
    """Create a run's environment and step it briefly to measure its speed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the run itself will warn
        env = adapt_env(env_maker(settings["env_name"], settings.get("env_kwargs"))())
    record = env_record(env)
    limit = record["max_episode_steps"] or math.inf
    o_space, a_space = env.observation_space, env.action_space
    obs = int(np.prod(o_space.shape)) * np.dtype(stored_dtype(o_space)).itemsize
    act = int(np.prod(action_shape(a_space))) * np.dtype(act_dtype(a_space)).itemsize
    image = is_image(o_space)  # stays bytes in a batch
    in_batch = act + (obs if image else 4 * int(np.prod(o_space.shape)))
    env.reset(seed=0)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < 0.1 or steps < 10:
        _, _, terminated, truncated, _ = env.step(a_space.sample())
        steps += 1
        if terminated or truncated:
            env.reset()
    step = (time.perf_counter() - start) / steps
    env.close()
    rollout = obs + act + 9 + in_batch + 16  # 9: reward, valid; 16: advantage, return, value, logp
    actions = int(getattr(a_space, "n", 1))
    transition = transition_bytes(o_space, a_space, frame_stack(env))
    return Env(transition, rollout, actions, limit, step, image, record.get("max_ep_len"))


def calibrate(algo: registry.Algorithm, cell: Cell, settings: dict[str, Any], env: Env) -> Speed:
    """Train briefly in a temporary directory and measure the speed."""
    at_once = settings["num_envs"]
    # A short epoch: an update on images may take minutes.
    if algo.on_policy:
        steps = min(settings["steps_per_epoch"], 64 if env.image else 4000, int(0.5 / env.step))
        small: dict[str, Any] = {"epochs": 3}
    else:
        most, ratio = 60 if env.image else 300, max(settings.get("updates_per_step", 1.0), 1e-3)
        steps = int(max(50, min(most, most / ratio, 0.5 / env.step)))
        small = {"epochs": 5, "replay_size": min(settings["replay_size"], 10000), "start_steps": 0}
        every = int(settings.get("update_every", settings.get("n_steps", 1) * at_once))
        small["update_every"] = min(every, steps) if "update_every" in settings else every
        at_once = math.lcm(at_once, small["update_every"])
    steps = max(1, steps // at_once) * at_once
    small["update_after"] = 3 * steps + 1  # epochs 0 to 2 without gradient steps, 3 and 4 with
    small["eps_start"] = settings.get("eps_end")  # so that actions come from the network
    small |= {"steps_per_epoch": steps, "max_ep_len": min(settings["max_ep_len"], max(steps, 100))}
    small |= {"seed": 0, "shards": None, "resume": False, "overwrite": False, "progress": False}
    small |= {"save_freq": 10**9, "num_test_episodes": 0, "save_best": False}
    given = {**settings, **{name: value for name, value in small.items() if name in settings}}
    env_fn = env_maker(given.pop("env_name"), given.pop("env_kwargs", None))
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        given["logger_kwargs"] = {"output_dir": folder, "quiet": True}
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            cell.thunk(env_fn=env_fn, **given)
        header, *rows = Path(folder, "progress.txt").read_text(encoding="utf-8").splitlines()
        place = header.split("\t").index("Time")
        times = np.diff([float(row.split("\t")[place]) for row in rows])
        disk = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    taken = time.perf_counter() - start
    # Checkpoints are saved after the first and last epochs, so the first is between rows 1 and 2.
    save = max(0.0, times[0] - times[1])
    if "update_after" not in settings:
        return Speed(times[-1] / steps, 2 * env.step, 0.0, save, disk, taken)
    stored = 5 * steps * (1 + settings.get("k", 0)) * env.transition
    updates = steps * settings["updates_per_step"]
    update = max(0.0, times[3] - times[1]) / updates if updates else 0.0
    return Speed(times[1] / steps, times[1] / steps, update, save, max(0, disk - stored), taken)


def cost(
    algo: registry.Algorithm, settings: Mapping[str, Any], env: Env, speed: Speed, processes: int
) -> Cost:
    """Estimate the cost of a whole run from its calibration."""
    epochs = settings["epochs"]
    total = epochs * settings["steps_per_epoch"]
    seconds = _START_SECONDS + speed.save * math.ceil(epochs / settings["save_freq"])
    if settings.get("num_test_episodes"):  # assumed to have their maximum length, or an epoch's
        longest = min(settings["max_ep_len"], env.limit)
        longest = settings["steps_per_epoch"] if math.isinf(longest) else longest
        seconds += epochs * settings["num_test_episodes"] * longest * speed.act
    disk = int(speed.disk) + _ROW_BYTES * epochs
    if algo.on_policy:
        seconds += total * speed.step / processes
        return Cost(settings["steps_per_epoch"] * env.rollout, disk, seconds)
    each = env.transition + (4 * env.actions if "n_steps" in settings else 0)
    memory = int(min(settings["replay_size"], total * (1 + settings.get("k", 0)))) * each
    updates = max(0, total - settings.get("update_after", 0)) * settings.get("updates_per_step", 1)
    seconds += total * speed.step + updates * speed.update
    return Cost(memory, disk + stored(memory), seconds)


def stored(memory: int) -> int:
    """Return the size of a replay buffer in a run directory.

    The two checkpoints share it, except for the part that changed between them.
    """
    return memory + min(memory, _CHUNK_BYTES)


# ---------------------------------------------------------------------------------- all runs


def report(algo: str, cells: Sequence[Cell], ready: Plan) -> str:
    """List a command line's runs: their directories, what would happen, and their cost."""
    where = Path(user_config.DEFAULT_DATA_DIR if ready.data_dir is None else ready.data_dir)
    jobs = ready.grid._jobs(cells, where, ready.datestamp, None)
    row = registry.find(algo)
    meter = None if row is None else Meter(row, max(1, process_count(ready.num_cpu)))
    table: list[tuple[str, ...]] = [("directory", "what happens", "memory", "disk", "time")]
    left: list[Cost] = []
    for job in jobs:
        action, done = _fate(job, ready.alone)
        shown = ("-", "-", "-")
        if meter is not None and done < 1:
            full = meter.cost(job.cell, settings_of(job.cell, ready.launch))
            left.append(full._replace(seconds=full.seconds * (1 - done)))
            shown = (size_text(full.memory), size_text(full.disk), duration(left[-1].seconds))
        table.append((job.output_dir, action, *shown))
    if meter is None:  # a custom function, whose arguments may mean anything
        below = [f"The cost of {algo} is unknown. Nothing was created."]
        table = [line[:2] for line in table]
    else:
        below = _summary(left, len(jobs), ready.launch, where, meter)
    return "\n".join([*_table(table), "", *below])


class Meter:
    """Estimates the cost of runs; runs with equal cost per step share a calibration."""

    def __init__(self, algo: registry.Algorithm, processes: int) -> None:
        self.algo, self.processes = algo, processes
        self.speeds: dict[str, Speed | None] = {}  # None: assumed to be the average of the others
        self.envs: dict[str, Env] = {}

    @property
    def measured(self) -> list[Speed]:
        """The results of all calibrations so far."""
        return [speed for speed in self.speeds.values() if speed is not None]

    @property
    def taken(self) -> float:
        """Seconds spent on calibration so far."""
        return sum(speed.taken for speed in self.measured)

    def basis(self) -> str:
        """Explain in one sentence where the numbers come from."""
        made, guessed = len(self.measured), len(self.speeds) - len(self.measured)
        times = "one calibration run" if made == 1 else f"{made} calibration runs"
        rest = f"; {guessed} more settings are assumed to cost the average of these"
        return (
            f"Disk and time are estimated from {times} ({self.taken:.1f} s) on this machine under "
            f"its current load{rest if guessed else ''}."
        )

    def cost(self, cell: Cell, settings: dict[str, Any]) -> Cost:
        """Estimate the cost of a run from its own calibration or a matching one."""
        env_key = repr((settings["env_name"], settings.get("env_kwargs")))
        if env_key not in self.envs:
            self.envs[env_key] = look_at(settings)
        env = self.envs[env_key]
        if env.max_ep_len and settings["max_ep_len"] == _defaults(cell).get("max_ep_len"):
            settings = {**settings, "max_ep_len": env.max_ep_len}  # as the run itself will do
        key = repr(sorted((k, repr(v)) for k, v in settings.items() if k not in _SAME_COST))
        if key not in self.speeds:
            enough = self.taken > _MOST_SECONDS
            self.speeds[key] = None if enough else calibrate(self.algo, cell, settings, env)
        known = self.measured
        average = Speed(*(sum(values) / len(known) for values in zip(*known, strict=True)))
        return cost(self.algo, settings, env, self.speeds[key] or average, self.processes)


def _fate(job: Job, alone: bool) -> tuple[str, float]:
    """Describe what would happen to a run, and return the fraction that is already done."""
    folder, kwargs = Path(job.output_dir), job.cell.kwargs
    there = (folder / "progress.txt").is_file()
    if alone:
        action = "resume" if kwargs.get("resume") and there else "fresh"
    else:
        action = decide(job).action
    if action == "skip":
        return "already done, skipped", 1.0
    if action == "resume" and there:
        epochs = {"epochs": 1, **_defaults(job.cell), **kwargs}["epochs"]
        try:
            done = min(epochs, count_rows(folder / "progress.txt"))
        except OSError as error:
            raise SpinupError(
                f"{folder / 'progress.txt'} cannot be read ({error.strerror}): restore the file, "
                "or use --overwrite"
            ) from error
        return f"resumes after {done} of {epochs} epochs", done / max(1, epochs)
    if there:
        overwrite = kwargs.get("overwrite")
        return f"starts; {'deletes the old run' if overwrite else 'old run moves to .old/'}", 0.0
    return "starts", 0.0


def _summary(
    left: Sequence[Cost], count: int, launch: Mapping[str, Any], where: Path, meter: Meter
) -> list[str]:
    if not left:
        return [f"Nothing to do: all {count} runs are already done."]
    workers, here = launch.get("num_workers", 1), launch.get("executor", "local") == "local"
    longest, total = max(c.seconds for c in left), sum(c.seconds for c in left)
    at_once = min(len(left), workers if here or workers > 1 else len(left))
    memory = sum(sorted((c.memory for c in left), reverse=True)[:at_once])
    disk = sum(c.disk for c in left)
    # Processes in excess of the number of cores take turns.
    wall = max(longest, total / (min(at_once, os.cpu_count() or 1) if here else at_once))
    how = f", {at_once} at a time" if at_once > 1 else ", one after another"
    return [
        f"{count} run{'s' * (count > 1)}, {len(left)} to do{how if len(left) > 1 else ''}: "
        f"{size_text(memory)} of buffers in memory, {size_text(disk)} on disk, "
        f"about {duration(wall)}.",
        *lacking(memory if here else 0, disk, where),
        meter.basis(),
        "Nothing was created.",
    ]


def lacking(memory: int, disk: float, where: Path) -> list[str]:
    """Return warnings about memory and disk space that this machine does not have."""
    available, free = available_memory(), shutil.disk_usage(_existing(where)).free
    lines = []
    if disk > free:
        lines.append(f"Warning: only {size_text(free)} is free on the disk of {where}.")
    if available is not None and memory > available:
        lines.append(f"Warning: only {size_text(available)} of memory is free.")
    return lines


def _existing(path: Path) -> Path:
    path = path.absolute()
    return next(p for p in (path, *path.parents) if p.exists())


def _table(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Align columns: the first two to the left, the numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        padded = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(padded).rstrip())
    return lines


def duration(seconds: float) -> str:
    """Format seconds with about two digits: `40 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours / 24:.1f} days"
