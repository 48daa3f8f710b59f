"""What a rule and a finding are.

A rule is data: what it needs, the limit that it compares with, and what to tell the reader. Its
function `check(record)` returns None if the run is in order, or a `Found`. It raises `Skip` if it
cannot judge the run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from spinup.utils.findings import LEVELS, Finding
from spinup_lab.parts import PARTS

__all__ = ["LEVELS", "PARTS", "Finding", "Found", "Rule", "Skip"]

PAGE = "docs/debug/doctor.md"

ON_POLICY = ("reinforce", "vpg", "trpo", "ppo")
DETERMINISTIC = ("ddpg", "td3")
TWINS = ("td3", "sac")
ACTOR_CRITICS = ("ddpg", "td3", "sac")  # off-policy, with a policy that climbs its critic
OFF_POLICY = ("ddpg", "td3", "sac", "dqn", "acer")


class Skip(Exception):
    """A rule cannot judge this run; the message says why."""


@dataclass(frozen=True)
class Found:
    """What a rule saw: a sentence with numbers, and the first and last epoch it speaks of.

    `level` and `part` override the rule's own, for a rule that can tell causes apart.
    """

    sentence: str
    epochs: tuple[int, int] | None = None
    level: str | None = None
    part: str | None = None


@dataclass(frozen=True)
class Rule:
    """One rule.

    Attributes:
        id: X (exact), S (statistics and settings), C (checkpoint) or R (played episodes), and a
            number.
        title: a few words.
        tier: 1 (tables and settings), 2 (checkpoint and saved policy) or 3 (played episodes).
        level: of its findings, unless the check says otherwise.
        part: the component that is likely at fault.
        limit: the statistic and its limit, in words.
        why: what the numbers mean.
        advice: what to try.
        check: the function.
        algorithms: the algorithms it applies to; empty means all. HER counts as its base.
        needs: columns; `A|B` means one of them.
        symptom: whether this is what a fault leads to, rather than a fault. Symptoms come last.
        root: whether it names what other findings of the same level follow from; it comes before
            them.
        exact: whether a violation is a fault even in a short run; X rules always are.
        compares: whether it compares several runs; `check` then sees only one and finds nothing.
    """

    id: str
    title: str
    tier: int
    level: str
    part: str
    limit: str
    why: str
    advice: str
    check: Callable[[Any], Found | None]
    algorithms: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    symptom: bool = False
    root: bool = False
    exact: bool = False
    compares: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "exact", self.exact or self.id.startswith("X"))

    @property
    def page(self) -> str:
        """Where the rule is documented."""
        return f"{PAGE}#{self.id.lower()}"

    def applies(self, record: Any) -> str | None:
        """Return why the rule does not apply to a run, or None if it does."""
        if self.algorithms and record.base not in self.algorithms:
            return f"it is for {', '.join(self.algorithms)}"
        for need in self.needs:
            if not any(record.has(name) for name in need.split("|")):
                return f"there is no column {need.replace('|', ' or ')}"
        return None

    def finding(self, found: Found) -> Finding:
        """Return what the check found, together with what the rule says about it."""
        return Finding(
            self.id,
            found.level or self.level,
            found.part or self.part,
            found.sentence,
            self.why,
            self.advice,
            self.page,
            found.epochs,
        )
