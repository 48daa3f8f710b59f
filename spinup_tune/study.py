"""A study: configurations, rungs of ordinary runs, fresh seeds for the best, and a record.

    <study>/study.json                       settings, configurations, rungs and decisions
    <study>/tuning/trial-03/trial-03_s0/     runs that choose; `default` takes part like a trial
    <study>/test/trial-03/trial-03_s1000/    runs of the best few and the default on fresh seeds
    <study>/report.md, report.json, rungs.png, preset.json

A rung is a grid of runs that pause after the same epoch; the next rung continues the best of them.
`study.json` is written atomically and only records what was decided: the decisions themselves
follow from the settings and the runs' tables, so the same command can be repeated at any time.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spinup.grids.cells import Cell, CellsFailed, Job, make_jobs
from spinup.grids.experiments import ExperimentGrid
from spinup.grids.summary import report_failures
from spinup.runs.arguments.config import as_json
from spinup.utils.errors import SpinupError
from spinup.utils.files import TMP_PREFIX, atomic_write, self_hash
from spinup.utils.reading import read_json
from spinup_tune import halving, runs, sampling
from spinup_tune.halving import DEFAULT
from spinup_tune.spaces import Dimension

FORMAT = "spinup-study-1"
TEST_SEED = 1000  # what is added to the first seed to get the first fresh one
_BATCHES = 4  # in which Optuna's samplers choose the configurations


@dataclass(frozen=True)
class Settings:
    """What a study does; the number of workers and where they run are not part of it.

    Attributes:
        algo: the training function's exported name, such as `ppo_pytorch`.
        base: the arguments of the default configuration that differ from the function's defaults.
        space: the dimensions of the search.
        trials: number of configurations, including the default.
        epochs: length of a full run.
        seeds: number of seeds for choosing: seed, seed + 1, ...
        seed: the first seed; it also seeds the sampler.
        eta: of this many configurations, one continues to the next rung.
        rungs: number of rungs.
        sampler: how configurations are chosen, see `sampling.SAMPLERS`.
        last: number of rows whose mean is a run's score.
        asynchronous: continue configurations as soon as they are among the best so far.
        finalists: how many of the best run on fresh seeds, besides the default.
        test_seeds: number of fresh seeds.
    """

    algo: str
    base: Mapping[str, Any]
    space: Sequence[Dimension]
    trials: int
    epochs: int
    seeds: int
    seed: int = 0
    eta: int = 3
    rungs: int = 3
    sampler: str = "sobol"
    last: int = 10
    asynchronous: bool = False
    finalists: int = 2
    test_seeds: int = 10

    @property
    def ends(self) -> list[int]:
        """The number of epochs at the end of each rung."""
        return halving.rung_epochs(self.epochs, self.rungs, self.eta)

    @property
    def tuning_seeds(self) -> list[int]:
        """The seeds of the runs that choose."""
        return [self.seed + i for i in range(self.seeds)]

    @property
    def fresh_seeds(self) -> list[int]:
        """The seeds of the runs that test, which no choice has seen."""
        return [self.seed + TEST_SEED + i for i in range(self.test_seeds)]

    def record(self) -> dict[str, Any]:
        """Return the settings as JSON."""
        plain = {k: v for k, v in vars(self).items() if k not in ("space", "base")}
        space = {d.key: d.text for d in self.space}
        found: dict[str, Any] = as_json({**plain, "base": dict(self.base), "space": space})
        return found


# Settings that may differ when a study continues: they only add runs after the choice.
_FREE = ("finalists", "test_seeds")


# Runs jobs, all of which are shown under a title; returns a message for each failed one. May raise
# `Waiting`. The third argument returns the jobs that a finished job allows (asynchronous halving).
Launch = Callable[[str, Sequence[Job], Callable[[Job], Sequence[Job]] | None], dict[str, str]]


def _say(line: str) -> None:
    print(line, flush=True)


def _anything(cells: Sequence[Cell]) -> None:
    """Refuse nothing."""


@dataclass
class Study:
    """One study in its folder; `run` does everything that is not done yet."""

    settings: Settings
    function: Callable[..., Any]
    folder: Path
    launch: Launch
    threads: int = 1
    command: str = ""
    origin: Mapping[str, Any] = field(default_factory=dict)  # of its runs: see `Run.origin`
    defaults: Mapping[str, Any] = field(default_factory=dict)  # of entries of dict arguments
    refuse: Callable[[Sequence[Cell]], None] = _anything  # raises for runs that cannot start
    say: Callable[[str], None] = _say
    trials: dict[str, dict[str, Any]] = field(default_factory=dict)  # name -> values
    rungs: list[dict[str, Any]] = field(default_factory=list)
    _launch_name: str = field(default_factory=lambda: secrets.token_hex(8))

    # ---- the record --------------------------------------------------------------------------

    @property
    def file(self) -> Path:
        """The study's record."""
        return self.folder / "study.json"

    def open(self) -> None:
        """Continue the study in the folder, or begin one; raise if another one is there."""
        settings = self.settings.record()
        if self.file.is_file():
            saved = _read(self.file)
            then = saved["settings"]
            keys = [k for k in {**settings, **then} if k not in _FREE]
            differing = [k for k in keys if settings.get(k) != then.get(k)]
            if differing:
                changes = ", ".join(
                    f"{k}: {then.get(k)!r} -> {settings.get(k)!r}" for k in differing
                )
                raise SpinupError(
                    f"{self.folder} contains a study with other settings ({changes}): use the "
                    "same ones, or another --exp_name"
                )
            self.trials = self._restored(saved["trials"])
            self.rungs = saved["rungs"]
            if not all(_is_rung(rung, list(self.trials)) for rung in self.rungs):
                raise self._wrong("a rung has other configurations")
            return
        if self.folder.is_dir() and any(
            not path.name.startswith(TMP_PREFIX) for path in self.folder.iterdir()
        ):
            raise SpinupError(
                f"{self.folder} is not empty and contains no study: use another --exp_name"
            )
        self.trials = {DEFAULT: {}}
        s, plain = self.settings, self.settings.sampler in sampling.PLAIN
        if not plain:
            sampling.need_optuna(s.sampler)
        count = s.trials if plain else self._batch
        first = s.sampler if plain else "sobol"
        self._add(sampling.sample(s.space, first, s.seed, count - 1, [self._default_values()]))

    @property
    def _batch(self) -> int:
        """The number of configurations that Optuna's samplers choose at a time."""
        return math.ceil(self.settings.trials / _BATCHES)

    def _restored(self, trials: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """Return recorded configurations as they were before they became JSON.

        They name folders and arguments, so any that this study cannot have chosen is refused.
        """
        if not 1 <= len(trials) <= self.settings.trials:
            raise self._wrong(f"there are {len(trials)} configurations")
        found: dict[str, dict[str, Any]] = {}
        for i, trial in enumerate(trials):
            name, values = self._name(i), trial["values"]
            if trial["name"] != name:
                raise self._wrong(f"configuration {i} has the name {trial['name']!r}, not {name!r}")
            space = self.settings.space if i else ()  # the default sets nothing
            if sorted(values) != sorted(d.key for d in space):
                raise self._wrong(f"{name} does not set the arguments of the space")
            found[name] = {}
            for d in space:
                try:
                    found[name][d.key] = d.restored(values[d.key])
                except ValueError as error:
                    raise self._wrong(f"{d.key} of {name} is not in {d.text}") from error
        return found

    def _wrong(self, why: str) -> SpinupError:
        return SpinupError(
            f"{self.file} is not what this study recorded ({why}): restore it, or use another "
            "--exp_name"
        )

    def _name(self, i: int) -> str:
        """Return the name of a configuration, of its folder and of its runs."""
        width = max(2, len(str(self.settings.trials - 1)))
        return f"trial-{i:0{width}d}" if i else DEFAULT

    def _add(self, configurations: Sequence[Mapping[str, Any]]) -> None:
        for values in configurations:
            self.trials[self._name(len(self.trials))] = dict(values)

    def _default_values(self) -> dict[str, Any]:
        """Return the default configuration's values of the arguments in the space."""
        parameters = inspect.signature(self.function).parameters
        known = {**{name: p.default for name, p in parameters.items()}, **self.defaults}
        found = {}
        for dimension in self.settings.space:
            key = dimension.key
            found[key] = self.settings.base.get(key, known.get(key))
        return found

    def values_of(self, name: str) -> dict[str, Any]:
        """Return a configuration's values of the arguments in the space."""
        return self._default_values() if name == DEFAULT else self.trials[name]

    def save(self, **more: Any) -> None:
        """Write the record."""
        record = {
            "format": FORMAT,
            "command": self.command,
            "settings": self.settings.record(),
            "trials": [
                {"name": name, "values": as_json(values)} for name, values in self.trials.items()
            ],
            "rungs": self.rungs,
            **more,
        }
        record["sha256"] = self_hash(record)
        atomic_write(self.file, (json.dumps(record, indent=1) + "\n").encode())

    # ---- runs ----------------------------------------------------------------------------------

    def cells(self, name: str, seeds: Sequence[int]) -> list[Cell]:
        """Return the runs of a configuration."""
        return self.cells_with(name, self.trials[name], seeds)

    def cells_with(self, name: str, values: Mapping[str, Any], seeds: Sequence[int]) -> list[Cell]:
        """Return runs with these values of the arguments in the space."""
        grid = ExperimentGrid(name=name)
        grid.origin = self.origin
        flat = {**self.settings.base, **values, "epochs": self.settings.epochs}
        for key, value in flat.items():
            grid.add(key, [value])
        grid.add("seed", list(seeds))
        return grid.cells(self.function)

    def jobs(
        self, part: str, names: Sequence[str], seeds: Sequence[int], until: int | None
    ) -> list[Job]:
        """Return the jobs that take configurations to an epoch, in `tuning` or `test`."""
        cells = [cell for name in names for cell in self.cells(name, seeds)]
        where = self.folder / part
        places = [str(self.run_of(part, cell.exp_name, cell.seed)) for cell in cells]
        jobs = make_jobs(cells, where / ".grid", places, self._launch_name, self.threads)
        return [dataclasses.replace(job, until=until) for job in jobs]

    def run_of(self, part: str, name: str, seed: int) -> Path:
        """Return a run directory."""
        return self.folder / part / name / f"{name}_s{seed}"

    def complete(self, title: str, jobs: Sequence[Job], epochs: int) -> None:
        """Run the jobs that are not at `epochs` yet; raise if one fails for want of anything."""
        todo = [job for job in jobs if not runs.is_over(job, epochs)]
        if not todo:
            return
        left = "" if len(todo) == len(jobs) else f", {len(todo)} of them not done yet"
        many = "1 run" if len(jobs) == 1 else f"{len(jobs)} runs"
        self.say(f"{title[0].upper()}{title[1:]}: {many}{left}.")
        failures = self.launch(title, todo, None)
        self.check(jobs, epochs, failures)

    def check(self, jobs: Sequence[Job], epochs: int, failures: Mapping[str, str]) -> None:
        """Raise unless every run has reached the epoch or diverged."""
        missing = [job for job in jobs if not runs.is_over(job, epochs)]
        if missing:
            why = {
                job.name: failures.get(job.name, "it ended before its epochs were done")
                for job in missing
            }
            raise CellsFailed(report_failures(why, jobs))

    # ---- rungs ---------------------------------------------------------------------------------

    def title(self, i: int, count: int) -> str:
        """Return the title of the live table of a rung."""
        many = "1 configuration" if count == 1 else f"{count} configurations"
        return f"rung {i + 1} of {self.settings.rungs}, {many} to epoch {self.settings.ends[i]}"

    def rung_entry(
        self, i: int, found: Mapping[str, float | None], keep: Sequence[str]
    ) -> dict[str, Any]:
        """Return the record of a rung, with the score of every run."""
        s, end = self.settings, self.settings.ends[i]
        return {
            "epochs": end,
            "rows": halving.window(end, s.epochs, s.last),
            "scores": {
                name: {"score": score, "seeds": self.seed_scores(name, end)}
                for name, score in found.items()
            },
            "continue": list(keep),
        }

    def forget(self, names: Sequence[str]) -> None:
        """Delete the saved replay buffers of dropped configurations."""
        for name in names:
            for seed in self.settings.tuning_seeds:
                runs.delete_replay(self.run_of("tuning", name, seed))

    def sample_in_batches(self) -> None:
        """Choose configurations with Optuna, each batch after the scores of the first rung."""
        s, end = self.settings, self.settings.ends[0]
        while len(self.trials) < s.trials:
            names = list(self.trials)
            jobs = self.jobs("tuning", names, s.tuning_seeds, end)
            self.complete(self.title(0, len(names)), jobs, end)
            found = {name: self.score(name, end) for name in names}
            worst = min((v for v in found.values() if v is not None), default=0.0)
            scored = [
                (self.values_of(name), worst if score is None else score)
                for name, score in found.items()
            ]
            count = min(self._batch, s.trials - len(names))
            chosen = sampling.suggest(s.space, s.sampler, s.seed, count, scored, self._can_start)
            if not chosen:
                return  # the space has no more
            self._add(chosen)
            self.save()

    def _can_start(self, values: Mapping[str, Any]) -> bool:
        """Return whether a configuration that a sampler proposes is possible; say if it is not."""
        try:
            self.refuse(self.cells_with("proposed", values, self.settings.tuning_seeds[:1]))
        except SpinupError as error:
            shown = ", ".join(f"{key}={value}" for key, value in as_json(dict(values)).items())
            self.say(f"Left out {shown}: {error}")
            return False
        return True

    # ---- scores --------------------------------------------------------------------------------

    def seed_scores(self, name: str, epoch: int, part: str = "tuning") -> dict[str, float | None]:
        """Return the score of each run of a configuration at an epoch; None if it diverged."""
        seeds = self.settings.tuning_seeds if part == "tuning" else self.settings.fresh_seeds
        return {str(seed): self.run_score(part, name, seed, epoch) for seed in seeds}

    def run_score(self, part: str, name: str, seed: int, epoch: int) -> float | None:
        """Return the score of a run at an epoch; None if it diverged.

        A run that has all its epochs, and no episode that ended, cannot be compared: an error.
        """
        values = runs.returns(self.run_of(part, name, seed))
        if len(values) < epoch:
            return None
        rows = halving.window(epoch, self.settings.epochs, self.settings.last)
        score = runs.score_at(values, epoch, rows)
        if score is None:
            raise SpinupError(
                f"no episode of {name} with seed {seed} ended in the first {epoch} epochs, so it "
                "has no return to compare: use more steps_per_epoch, fewer rungs or a smaller "
                "max_ep_len, and another exp_name"
            )
        return score

    def score(self, name: str, epoch: int) -> float | None:
        """Return a configuration's mean score over the seeds; None if one of them has none."""
        each = list(self.seed_scores(name, epoch).values())
        if any(value is None for value in each):
            return None
        return math.fsum(value for value in each if value is not None) / len(each)

    # ---- the test ------------------------------------------------------------------------------

    def chosen(self, found: Mapping[str, float | None]) -> tuple[str, list[str]]:
        """Return the winner, and the configurations to test: the best few and the default.

        The winner is the one with the highest tuning score. It is chosen before the test, so its
        test score is not the best of several.
        """
        order = halving.ranked(found)
        others = [name for name in order if name != DEFAULT and found[name] is not None]
        return order[0], [*others[: self.settings.finalists], DEFAULT]

    def test(self, names: Sequence[str]) -> dict[str, dict[str, float | None]]:
        """Run configurations on fresh seeds; return scores by name and seed, None if diverged."""
        s = self.settings
        if not s.test_seeds:
            return {}
        jobs = self.jobs("test", names, s.fresh_seeds, None)
        self.complete(f"test on fresh seeds ({s.test_seeds} each)", jobs, s.epochs)
        return {name: self.seed_scores(name, s.epochs, "test") for name in names}


def _read(path: Path) -> dict[str, Any]:
    try:
        saved = read_json(path)
        hashes = (None, self_hash(saved)) if isinstance(saved, dict) else ()
    except (OSError, ValueError, RecursionError) as error:
        raise SpinupError(
            f"{path} cannot be read ({error}): restore it, or use another --exp_name"
        ) from error
    whole = isinstance(saved, dict) and saved.get("format") == FORMAT
    kinds = {"settings": dict, "trials": list, "rungs": list}
    if whole and saved.get("sha256") not in hashes:  # earlier studies have none
        raise SpinupError(
            f"{path} was changed after the study wrote it (it does not match its hash): restore "
            "it, or use another --exp_name"
        )
    whole = whole and all(isinstance(saved.get(key), kind) for key, kind in kinds.items())
    if not whole or not all(map(_is_trial, saved["trials"])):
        raise SpinupError(f"{path} is not the record of a study: use another --exp_name")
    found: dict[str, Any] = saved
    return found


def _is_trial(trial: Any) -> bool:
    kinds = {"name": str, "values": dict}
    return isinstance(trial, dict) and all(isinstance(trial.get(k), v) for k, v in kinds.items())


def _is_rung(rung: Any, names: Sequence[str]) -> bool:
    """Return whether an entry of a record says which of these configurations continue."""
    kept = rung.get("continue") if isinstance(rung, dict) else None
    return isinstance(kept, list) and all(n in names and kept.count(n) == 1 for n in kept)
