"""Printing findings."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator, Sequence

from spinup.analysis.curves import env_of
from spinup.utils.errors import one_line, printable
from spinup.utils.findings import LEVELS
from spinup_lab.doctor.examination import Examination
from spinup_lab.doctor.rule import Rule

_WIDTH = 100
_PAGE = "spinup docs debug/doctor"  # a wheel has the page, but no file in docs/


def as_json(found: Sequence[Examination]) -> str:
    """Return all findings as a JSON list; each names its run."""
    rows = [
        {"run": printable(one.record.folder), **finding.as_dict()}
        for one in found
        for finding in one.findings
    ]
    return json.dumps(rows, indent=2)


def as_text(found: Sequence[Examination], show_skipped: bool = False) -> str:
    """Return the findings about each run, and a summary of several runs."""
    parts = ["\n".join(_one(one, show_skipped)) for one in found]
    if len(found) > 1:
        parts.append("\n".join(_summary(found)))
    return "\n\n".join(parts)


def explanation(rule: Rule) -> str:
    """Return the text of `--explain ID`."""
    lines = [
        f"{rule.id}, {rule.title} ({rule.level}; part: {rule.part})",
        *_paragraph("Algorithms", ", ".join(rule.algorithms) or "all"),
        *_paragraph("Reads", ", ".join(n.replace("|", " or ") for n in rule.needs) or "-"),
        *_paragraph("In order if", rule.limit),
        *_paragraph("Why", rule.why),
        *_paragraph("Try", rule.advice),
        *_paragraph("See", f"{_PAGE}, section {rule.id}"),
    ]
    return "\n".join(lines)


def exit_code(found: Sequence[Examination]) -> int:
    """Return 3 if there are errors, 1 if there are warnings, else 0."""
    if any(one.count("error") for one in found):
        return 3
    return 1 if any(one.count("warning") for one in found) else 0


def counted(one: Examination) -> str:
    """Return the number of errors, warnings and hints in words."""
    counts = [(one.count(level), level) for level in LEVELS]
    shown = [f"{n} {level}{'' if n == 1 else 's'}" for n, level in counts if n]
    return ", ".join(shown) or "nothing found"


def _one(one: Examination, show_skipped: bool) -> Iterator[str]:
    record = one.record
    algo = one_line(record.algo or "unknown algorithm")
    many = "1 epoch" if record.rows == 1 else f"{record.rows} epochs"
    about = f"{algo}, {env_of(record.config)}, {many}"
    yield f"{printable(record.folder)} ({about}): {counted(one)}"
    for finding in one.findings:
        epochs = ""
        if finding.epochs is not None:
            first, last = finding.epochs
            epochs = f", epoch {first}" if first == last else f", epochs {first} to {last}"
        yield f"  {finding.level.upper()} {finding.id} ({finding.part}{epochs})"
        yield from _wrapped(f"{_capital(printable(finding.sentence))}.", "    ")
        yield from _paragraph("Why", finding.why)
        yield from _paragraph("Try", finding.advice)
        yield f"    See: spinup doctor --explain {finding.id}, or {_PAGE}"
    for problem in record.problems:
        yield from _wrapped(f"Note: {printable(problem)}.", "  ")
    if one.failed:
        named = "; ".join(f"{name} ({one_line(why)[:200]})" for name, why in one.failed.items())
        yield from _wrapped(f"Rules that failed on these files: {named}.", "  ")
    if show_skipped and one.skipped:
        yield "  Skipped rules:"
        for name, why in one.skipped.items():
            yield f"    {name:<4} {one_line(why)}"


def _summary(found: Sequence[Examination]) -> Iterator[str]:
    yield f"{'errors':>7} {'warnings':>9} {'hints':>6}  run"
    for one in found:
        errors, warnings, hints = (one.count(level) for level in LEVELS)
        yield f"{errors:>7} {warnings:>9} {hints:>6}  {printable(one.record.folder)}"
    ids = sorted({(f.id, f.level) for one in found for f in one.findings if f.level != "hint"})
    if ids:
        yield "Look at these first:"
        for name, level in ids[:5]:
            runs = sum(any(f.id == name for f in one.findings) for one in found)
            explained = f"spinup doctor --explain {name}"
            yield f"  {name} ({level}) in {runs} of {len(found)} runs: {explained}"


def _paragraph(word: str, text: str) -> list[str]:
    return _wrapped(f"{word}: {text}", "    ")


def _wrapped(text: str, indent: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_long_words=False
    )


def _capital(text: str) -> str:
    # A column's name keeps its case.
    return text[:1].upper() + text[1:]
