"""All rules by id: the table in `rules.toml`, together with the checks.

    python -m spinup_lab.doctor.rules docs/debug/doctor.md

replaces the rules in that page.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from spinup.utils.findings import Finding
from spinup.utils.toml import parse_toml
from spinup_lab.doctor import (
    checkpoints,
    critics,
    exact,
    mechanisms,
    played,
    seeds,
    settings,
    symptoms,
)
from spinup_lab.doctor.rule import Rule

_TOPICS = (exact, symptoms, mechanisms, settings, seeds, checkpoints, critics, played)
_CHECK = re.compile(r"([xscr]\d+)_\w+")


def checks() -> dict[str, Callable[[Any], Iterator[Finding]]]:
    """Return the checks of all topics by the ids of their rules."""
    return {
        match[1].upper(): function
        for topic in _TOPICS
        for name, function in vars(topic).items()
        if (match := _CHECK.fullmatch(name))
    }


def _load() -> Mapping[str, Rule]:
    text = Path(__file__).with_name("rules.toml").read_text(encoding="utf-8")
    tables, found = parse_toml(text).items(), checks()
    return MappingProxyType({name: Rule(name, found[name], **_fields(x)) for name, x in tables})


def _fields(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule's fields; a text is one line, however it is broken in the file."""
    texts = {name: " ".join(x.split()) for name, x in table.items() if isinstance(x, str)}
    lists = {name: tuple(x) for name, x in table.items() if isinstance(x, list)}
    return {**table, **texts, **lists}


RULES = _load()


def table() -> str:
    """Return the rules as the Markdown that `docs/debug/doctor.md` contains."""
    lines: list[str] = []
    for rule in RULES.values():
        who = ", ".join(rule.algorithms) or "all algorithms"
        columns = ", ".join(f"`{name.replace('|', '` or `')}`" for name in rule.needs)
        lines += [
            f"### {rule.id}",
            "",
            f"**{rule.title[0].upper()}{rule.title[1:]}** ({rule.level}, {rule.part}; tier "
            f"{rule.tier}; {who}{f'; reads {columns}' if columns else ''})",
            "",
            f"In order if: {rule.limit}.",
            "",
            rule.why,
            "",
            f"*Try:* {rule.advice}",
            "",
        ]
    return "\n".join(lines)


_BEGIN, _END = "<!-- rules -->\n", "<!-- end of rules -->"


def rewrite(page: Path) -> None:
    """Replace the rules in a Markdown file."""
    before, _, rest = page.read_text(encoding="utf-8").partition(_BEGIN)
    after = rest.partition(_END)[2]
    page.write_text(f"{before}{_BEGIN}\n{table()}{_END}{after}", encoding="utf-8")


if __name__ == "__main__":
    rewrite(Path(sys.argv[1]))
