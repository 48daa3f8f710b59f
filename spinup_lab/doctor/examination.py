"""Applying the rules to runs."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from spinup.utils.errors import SpinupError
from spinup.utils.findings import LEVELS, Finding
from spinup_lab.doctor.record import FEW_ROWS, Record
from spinup_lab.doctor.rule import Rule, Skip
from spinup_lab.doctor.rules import RULES
from spinup_lab.doctor.seeds import experiment

# What our own code raises when the files of a run contain something unexpected.
_UNEXPECTED = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RuntimeError)


@dataclass
class Examination:
    """The findings about one run, causes first; `skipped` maps rule ids to reasons.

    `failed` maps the ids of rules that did not cope with the files to the errors.
    """

    record: Record
    findings: list[Finding] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def count(self, level: str) -> int:
        """Return the number of findings of this level."""
        return sum(finding.level == level for finding in self.findings)


def examine(folder: str | Path, play: int = 0) -> list[Finding]:
    """Examine one run directory and return the findings, causes before symptoms.

    Nothing of the run is executed. With `play` > 0, its environment is created from the id in
    `config.json`, and the saved policy plays that many episodes.
    """
    return examination(folder, play).findings


def examination(folder: str | Path, play: int = 0) -> Examination:
    """Examine one run directory and also return which rules were skipped, and why."""
    return apply(Record(_checked(folder), play), RULES.values())


def examinations(folders: Iterable[Path], play: int = 0) -> list[Examination]:
    """Examine several runs, and compare the seeds of each experiment.

    What the runs of an experiment say together is among the findings of the first of them.
    """
    found = [examination(folder, play) for folder in folders]
    groups: dict[str, list[Examination]] = defaultdict(list)
    for one in found:
        if one.record.rows and one.record.config:
            groups[experiment(one.record)].append(one)
    for first, *others in groups.values():
        records = [first.record, *(other.record for other in others)]
        rules = [rule for rule in RULES.values() if rule.compares and others]
        first.findings += [seen for rule in rules if (seen := rule.first(records))]
        first.findings.sort(key=_rank)
    return found


def apply(record: Record, rules: Iterable[Rule]) -> Examination:
    """Apply rules to a run."""
    found = Examination(record)
    for rule in rules:
        reason = _reason_to_skip(rule, record)
        if reason is not None:
            found.skipped[rule.id] = reason
            continue
        try:
            seen = rule.first(record)
        except Skip as skip:
            found.skipped[rule.id] = str(skip)
        except SpinupError as error:  # a damaged checkpoint or policy, in one sentence
            found.skipped[rule.id] = str(error)
            if str(error) not in record.problems:
                record.problems.append(str(error))
        except _UNEXPECTED as error:
            found.failed[rule.id] = f"{type(error).__name__}: {error}"
        else:
            if seen is not None:
                found.findings.append(_demoted(rule, seen, record))
    found.findings.sort(key=_rank)
    return found


def _checked(folder: str | Path) -> Path:
    folder = Path(folder).expanduser()
    if not (folder / "progress.txt").is_file():
        raise SpinupError(f"{folder} has no progress.txt: pass a run directory or a folder of runs")
    return folder


def _reason_to_skip(rule: Rule, record: Record) -> str | None:
    if rule.compares:
        return "it compares several runs"
    if record.rows == 0:
        return "there is no complete row yet"
    if rule.tier == 3 and record.play < 1:
        return "it plays episodes: pass --play N"
    return rule.applies(record)


def _demoted(rule: Rule, finding: Finding, record: Record) -> Finding:
    """A short run gives hints at most, unless the rule is exact."""
    if rule.exact or record.rows >= FEW_ROWS:
        return finding
    return dataclasses.replace(finding, level="hint")


def _rank(finding: Finding) -> tuple[bool, bool, int, bool, int, int]:
    """Causes first: exact faults, then checkpoints, mechanisms, symptoms; hints at the end."""
    rule = RULES[finding.id]
    family = "XCRS".index(rule.id[0])
    level = LEVELS.index(finding.level)
    return finding.level == "hint", rule.symptom, level, not rule.root, family, int(rule.id[1:])
