"""All rules, by id."""

from __future__ import annotations

import sys
from pathlib import Path
from types import MappingProxyType

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

_ALL: tuple[Rule, ...] = (
    *exact.RULES,
    *symptoms.RULES,
    *mechanisms.RULES,
    *settings.RULES,
    *seeds.RULES,
    *checkpoints.RULES,
    *critics.RULES,
    *played.RULES,
)


def _place(rule: Rule) -> tuple[int, int]:
    return "XSCR".index(rule.id[0]), int(rule.id[1:])


RULES = MappingProxyType({rule.id: rule for rule in sorted(_ALL, key=_place)})
TIERS = {1: "tables and settings", 2: "checkpoint and saved policy", 3: "played episodes"}


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
