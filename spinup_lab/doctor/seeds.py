"""Rules that compare runs of one experiment with each other (S6, S7)."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import numpy as np

from spinup_lab.doctor.examination import Examination
from spinup_lab.doctor.record import Record
from spinup_lab.doctor.rule import Found, Rule

# What may differ between two runs of one experiment.
_OWN = (
    *("seed", "logger_kwargs", "resume", "overwrite", "progress", "exp_name", "data_dir", "env_fn"),
    *("resume_with", "save_freq", "save_best", "on_epoch"),
)


def _alone(run: Record) -> Found | None:
    return None


def compare(found: list[Examination]) -> None:
    """Add what the runs of each experiment say together to the findings of its first run."""
    groups: dict[str, list[Examination]] = defaultdict(list)
    for one in found:
        if one.record.rows and one.record.config:
            groups[_experiment(one.record)].append(one)
    for group in groups.values():
        if len(group) < 2:
            continue
        for rule, seen in ((SEEDS, _seeds(group)), (SPREAD, _spread(group))):
            if seen is not None:
                group[0].findings.append(rule.finding(seen))


def _experiment(run: Record) -> str:
    kept: dict[str, Any] = {k: v for k, v in run.config.items() if k not in _OWN}
    return json.dumps(kept, sort_keys=True, default=str)


def _seeds(group: list[Examination]) -> Found | None:
    for i, one in enumerate(group):
        for other in group[i + 1 :]:
            a, b = one.record, other.record
            rows = min(a.rows, b.rows)
            same_seed = a.config.get("seed") == b.config.get("seed")
            names = [n for n in a.columns if n in b.columns and n.startswith(("Average", "Loss"))]
            if rows < 3 or not names:
                continue
            equal = all(
                np.array_equal(a.columns[n][:rows], b.columns[n][:rows], equal_nan=True)
                for n in names
            )
            if equal and not same_seed:
                return Found(
                    f"seeds {a.config.get('seed')} and {b.config.get('seed')} give the same "
                    f"numbers in all {rows} epochs ({a.folder.name} and {b.folder.name})"
                )
            if same_seed and not equal and "seed" in a.config and a.ours and b.ours:
                return Found(
                    f"{a.folder.name} and {b.folder.name} have the same settings and seed "
                    f"{a.config.get('seed')}, but not the same numbers",
                    level="warning",
                )
    return None


def _spread(group: list[Examination]) -> Found | None:
    ends = [one.record.performance[-one.record.last :] for one in group if one.record.rows >= 10]
    finals = [float(np.nanmean(end)) for end in ends if np.isfinite(end).any()]
    if len(finals) < 2:
        return None
    middle, width = abs(float(np.median(finals))), max(finals) - min(finals)
    if width <= max(middle, 1e-9):
        return None
    shown = ", ".join(f"{x:.4g}" for x in finals[:6])
    return Found(f"the seeds end at returns of {shown}: the spread is larger than their median")


SEEDS = Rule(
    "S6",
    "seeds",
    1,
    "error",
    "seeding",
    "runs with different seeds differ, and runs with the same seed and settings are equal",
    "If a seed changes nothing, it is not used, and several runs are one run counted several "
    "times.",
    "Check that environment, policy and sampling all draw from generators made from the seed.",
    _alone,
    compares=True,
    exact=True,
    root=True,
)
SPREAD = Rule(
    "S7",
    "seed spread",
    1,
    "hint",
    "hyperparameters",
    "the returns of the seeds differ by less than their median",
    "With so wide a spread, one run says little about the settings.",
    "Run more seeds, and compare settings with spinup compare.",
    _alone,
    compares=True,
    symptom=True,
)
RULES = (SEEDS, SPREAD)
