"""What a rule is.

A rule is data: what it needs, the limit that it compares with, and what to tell the reader. All of
them are in `rules.toml`. A rule's check is a function whose name begins with the rule's id, such as
`x2_ratio_one(run)`. It yields what is wrong with the run, of which the first finding counts, or
nothing if the run is in order. It raises `Skip` if it cannot judge the run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from spinup.utils.findings import Finding

PAGE = "docs/debug/doctor.md"
ON_POLICY = ("reinforce", "vpg", "trpo", "ppo")
OFF_POLICY = ("ddpg", "td3", "sac", "dqn", "acer")


class Skip(Exception):
    """A rule cannot judge this run; the message says why."""


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        id: X (exact), S (statistics and settings), C (checkpoint) or R (played episodes), and a
            number.
        check: the function.
        title: a few words.
        tier: 1 (tables and settings), 2 (checkpoint and saved policy) or 3 (played episodes).
        level: of its findings, unless the check says otherwise.
        part: the component that is likely at fault, unless the check says otherwise.
        limit: the statistic and its limit, in words.
        why: what the numbers mean.
        advice: what to try.
        algorithms: the algorithms it applies to; empty means all. HER counts as its base.
        needs: columns; `A|B` means one of them.
        rows: how many rows a run must have.
        symptom: whether this is what a fault leads to, rather than a fault. Symptoms come last.
        root: whether it names what other findings of the same level follow from; it comes before
            them.
        exact: whether a violation is a fault even in a short run; X rules always are.
        compares: whether it compares several runs; `check` then gets the list of them.
    """

    id: str
    check: Callable[[Any], Iterator[Finding]]
    title: str
    tier: int
    level: str
    part: str
    limit: str
    why: str
    advice: str
    algorithms: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    rows: int = 0
    symptom: bool = False
    root: bool = False
    exact: bool = False
    compares: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact", self.exact or self.id.startswith("X"))

    def applies(self, record: Any) -> str | None:
        """Return why the rule does not apply to a run, or None if it does."""
        if self.algorithms and record.base not in self.algorithms:
            return f"it is for {', '.join(self.algorithms)}"
        for need in self.needs:
            if not any(record.has(name) for name in need.split("|")):
                return f"there is no column {need.replace('|', ' or ')}"
        if record.rows < self.rows:
            return f"it needs {self.rows} rows, and there are {record.rows}"
        return None

    def first(self, record: Any) -> Finding | None:
        """Return the first finding of the check, together with what the rule says about it."""
        for found in self.check(record):
            return dataclasses.replace(
                found,
                id=self.id,
                level=found.level or self.level,
                part=found.part or self.part,
                why=self.why,
                advice=self.advice,
                page=f"{PAGE}#{self.id.lower()}",
            )
        return None
