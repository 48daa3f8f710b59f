"""Rules that compare runs of one experiment with each other (S6, S7)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

import numpy as np

from spinup.utils.findings import Finding
from spinup_lab.doctor.record import Record

# What may differ between two runs of one experiment.
_OWN = (
    *("seed", "logger_kwargs", "resume", "overwrite", "progress", "exp_name", "data_dir", "env_fn"),
    *("resume_with", "save_freq", "save_best", "on_epoch"),
)


def experiment(run: Record) -> str:
    """Return what the runs of one experiment have in common."""
    kept: dict[str, Any] = {k: v for k, v in run.config.items() if k not in _OWN}
    return json.dumps(kept, sort_keys=True, default=str)


def s6_seeds(runs: list[Record]) -> Iterator[Finding]:
    for a, b in itertools.combinations(runs, 2):
        rows, seeds = min(a.rows, b.rows), (a.config.get("seed"), b.config.get("seed"))
        names = [n for n in a.columns if n in b.columns and n.startswith(("Average", "Loss"))]
        if rows < 3 or not names:
            continue
        equal = all(
            np.array_equal(a.columns[n][:rows], b.columns[n][:rows], equal_nan=True) for n in names
        )
        if equal and seeds[0] != seeds[1]:
            yield a.found(
                f"seeds {seeds[0]} and {seeds[1]} give the same numbers in all {rows} epochs "
                f"({a.folder.name} and {b.folder.name})"
            )
        if seeds[0] == seeds[1] and not equal and "seed" in a.config and a.ours and b.ours:
            yield a.found(
                f"{a.folder.name} and {b.folder.name} have the same settings and seed {seeds[0]}, "
                "but not the same numbers",
                level="warning",
            )


def s7_spread(runs: list[Record]) -> Iterator[Finding]:
    ends = [run.performance[-run.last :] for run in runs if run.rows >= 10]
    finals = [float(np.nanmean(end)) for end in ends if np.isfinite(end).any()]
    if len(finals) < 2:
        return
    middle, width = abs(float(np.median(finals))), max(finals) - min(finals)
    if not width <= max(middle, 1e-9):
        shown = ", ".join(f"{x:.4g}" for x in finals[:6])
        yield runs[0].found(
            f"the seeds end at returns of {shown}: the spread is larger than their median"
        )
