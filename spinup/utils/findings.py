"""What a checker has to say: the checker of environments, and the lab's doctor and probe."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

LEVELS = ("error", "warning", "hint")


@dataclass(frozen=True)
class Finding:
    """One thing that a checker noticed.

    Attributes:
        id: name of the rule, such as "X2" or "reward scale".
        level: one of `LEVELS`.
        part: the part of an implementation that is likely at fault.
        sentence: what was seen, with numbers.
        why: what it means.
        advice: what to do.
        page: where it is documented.
        epochs: the first and the last epoch that it speaks of.
    """

    id: str
    level: str
    part: str
    sentence: str
    why: str = ""
    advice: str = ""
    page: str = ""
    epochs: tuple[int, int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """Return the finding as plain data."""
        return asdict(self)
