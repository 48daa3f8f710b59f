"""Run the rungs of a study: all configurations of a rung together, or one by one.

Asynchronous halving (`--asynchronous`) lets a configuration continue once it is among the best
1/eta of those that have finished its rung so far (Li et al., "A System for Massively Parallel
Hyperparameter Tuning", 2020). No worker ever waits for a slow run. In return, who continues depends
on which run ends first, so these decisions are recorded before they are carried out; a study that
is started again keeps to them.
"""

from __future__ import annotations

from collections.abc import Sequence

from spinup.grids.cells import Job
from spinup.grids.launching import check_place
from spinup_tune import halving, sampling
from spinup_tune.runs import is_over
from spinup_tune.study import Study


def tune(study: Study) -> dict[str, float | None]:
    """Run all rungs; return the scores of the last one, by name."""
    check_place(study.folder)
    study.save()
    if study.settings.sampler not in sampling.PLAIN:
        study.sample_in_batches()
    return _one_by_one(study) if study.settings.asynchronous else _together(study)


def _together(study: Study) -> dict[str, float | None]:
    s, names = study.settings, list(study.trials)
    sizes = halving.rung_sizes(len(names), s.rungs, s.eta)
    study.rungs = []
    found: dict[str, float | None] = {}
    for i, end in enumerate(s.ends):
        jobs = study.jobs("tuning", names, s.tuning_seeds, end)
        study.complete(study.title(i, len(names)), jobs, end)
        found = {name: study.score(name, end) for name in names}
        keep = names if i == s.rungs - 1 else halving.survivors(found, sizes[i + 1])
        study.rungs.append(study.rung_entry(i, found, keep))
        study.save()
        dropped = [name for name in names if name not in keep]
        study.forget(dropped)
        if dropped:
            best = halving.ranked(found)[0]
            shown = "diverged" if found[best] is None else f"{found[best]:.4g}"
            study.say(
                f"Rung {i + 1} of {s.rungs} (epoch {end}): {len(keep)} of {len(names)} "
                f"configurations continue; the best so far is {best} ({shown})."
            )
        names = keep
    return found


class Promotions:
    """Who has finished which rung of a study, and who continues from it, one by one."""

    def __init__(self, study: Study) -> None:
        self.study = study
        self.ends = study.settings.ends
        saved = [*study.rungs, *([{}] * len(self.ends))]
        self.promoted: list[list[str]] = [
            [n for n in rung.get("continue", []) if n in study.trials]
            for rung in saved[: len(self.ends)]
        ]
        self.finished: list[dict[str, float | None]] = [{} for _ in self.ends]

    def jobs(self, name: str, i: int) -> list[Job]:
        """Return the jobs that take a configuration to the end of rung `i`."""
        return self.study.jobs("tuning", [name], self.study.settings.tuning_seeds, self.ends[i])

    def left(self, name: str, i: int) -> list[Job]:
        """Return those of its jobs that are not done; if all are, note that it has finished."""
        left = [job for job in self.jobs(name, i) if not is_over(job, self.ends[i])]
        if not left:
            self.finished[i][name] = self.study.score(name, self.ends[i])
        return left

    def begin(self) -> list[Job]:
        """Return the jobs that every configuration needs where it is."""
        todo = [job for name in self.study.trials for job in self.left(name, 0)]
        for i, names in enumerate(self.promoted[:-1]):
            todo = [*(job for name in names for job in self.left(name, i + 1)), *todo]
        return [*self.promote(), *todo]

    def promote(self) -> list[Job]:
        """Let every configuration continue that may; return its jobs."""
        found: list[Job] = []
        new = True
        while new:
            new = False
            for i in reversed(range(len(self.ends) - 1)):
                for name in halving.promotable(
                    self.finished[i], self.promoted[i], self.study.settings.eta
                ):
                    new = True
                    self.promoted[i].append(name)
                    found += self.left(name, i + 1)
        self.record()
        return found

    def after(self, job: Job) -> Sequence[Job]:
        """Return the jobs that a finished job allows."""
        i = self.ends.index(job.until or self.ends[-1])
        return [] if self.left(job.cell.exp_name, i) else self.promote()

    def record(self) -> None:
        """Write who has finished and who continues."""
        last = len(self.ends) - 1
        self.study.rungs = [
            self.study.rung_entry(i, found, list(found) if i == last else self.promoted[i])
            for i, found in enumerate(self.finished)
        ]
        self.study.save()


def _one_by_one(study: Study) -> dict[str, float | None]:
    promotions = Promotions(study)
    failures: dict[str, str] = {}
    todo = promotions.begin()
    if todo:
        count = len({job.cell.exp_name for job in todo})
        study.say(f"Asynchronous halving: {count} configurations, {len(todo)} runs to begin with.")
        failures = study.launch(
            f"asynchronous, {study.settings.rungs} rungs", todo, promotions.after
        )
    for i, end in enumerate(promotions.ends):
        names = list(study.trials) if i == 0 else promotions.promoted[i - 1]
        jobs = [job for name in names for job in promotions.jobs(name, i)]
        study.check(jobs, end, failures)
        order = {name: n for n, name in enumerate(study.trials)}
        found = {name: study.score(name, end) for name in sorted(names, key=order.__getitem__)}
        promotions.finished[i] = found
    promotions.record()
    study.forget([name for name in study.trials if name not in found])
    return found
