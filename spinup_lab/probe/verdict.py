"""What a probe found: one result per probe, and the verdict."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from spinup.utils.findings import Finding
from spinup.utils.toml import parse_toml
from spinup_lab.parts import PARTS

# From a seed to what is wrong: nothing if all is right. The first finding counts.
Check = Callable[[int], Iterator[Finding]]


class NotUsed(Exception):
    """A probe does not apply; the message says why."""


@functools.cache
def faults() -> Mapping[str, tuple[str, str]]:
    """Return the part and the sentence of every fault in `faults.toml`, by its name."""
    parts = parse_toml(Path(__file__).with_name("faults.toml").read_text(encoding="utf-8"))
    return {
        name: (part, " ".join(text.split()))
        for part, named in parts.items()
        for name, text in named.items()
    }


def fault(name: str, part: str = "", /, **seen: Any) -> Finding:
    """Return what one run showed to be wrong, and the part that this points to.

    `name` is that of a sentence in `faults.toml`, which `seen` completes; `part` overrides the part
    that it is listed under.
    """
    usual, sentence = faults()[name]
    return Finding(name, "error", part or usual, sentence.format(**seen))


@dataclass(frozen=True)
class Result:
    """The outcome of one probe over its seeds."""

    probe: str
    passed: bool
    seconds: float  # of CPU time, all seeds
    reason: str = ""
    skipped: str = ""  # why the probe could not be used


@dataclass(frozen=True)
class Verdict:
    """The part that is likely broken, why, and the probes that showed it."""

    part: str
    reason: str
    probes: tuple[str, ...]


@dataclass
class Report:
    """Everything that `probe` found."""

    name: str
    results: list[Result] = field(default_factory=list)
    verdict: Verdict | None = None
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether nothing was found to be broken."""
        return self.verdict is None

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain data, for JSON."""
        found = asdict(self)
        part = {} if self.verdict is None else asdict(self.verdict)
        return {**found, "passed": self.passed, "noticed": not self.passed, **part}

    def text(self) -> str:
        """Return the report as the command line prints it."""
        ran = [r for r in self.results if not r.skipped]
        width = max((len(r.probe) for r in self.results), default=0)
        lines = [f"{self.name}: {_count(len(ran), 'probe')}, {self.seconds:.1f} s of CPU time"]
        for r in self.results:
            if r.skipped:
                lines.append(f"  -     {r.probe:<{width}}  not used: {r.skipped}")
            else:
                mark = "ok   " if r.passed else "FAULT"
                lines.append(f"  {mark} {r.probe:<{width}}  {r.reason}".rstrip())
        lines.append("")
        if self.verdict is None:
            lines.append(
                "No fault found. If it does not learn in your environment, look at its "
                "hyperparameters, its exploration and the environment: 'spinup doctor RUN' and "
                "'spinup check_env ENV'."
            )
        else:
            v = self.verdict
            lines.append(f"Likely broken: {v.part} ({PARTS[v.part]}).")
            lines.append(f"  {v.reason[:1].upper()}{v.reason[1:]}.")
            lines.append(f"  Shown by {', '.join(v.probes)}.")
        return "\n".join(lines)


def _count(n: int, word: str) -> str:
    return f"{n} {word}{'' if n == 1 else 's'}"


def majority(found: Sequence[Finding]) -> Finding:
    """Return the first fault whose part is named most often."""
    parts = [one.part for one in found]
    best = max(parts, key=parts.count)
    return found[parts.index(best)]
