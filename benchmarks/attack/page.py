"""The table in docs/guarantees.md, which is generated from results/attack.json."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "guarantees.md"
BEGIN, END = "<!-- attack.json: begin -->\n", "<!-- attack.json: end -->"


def table(entries):
    """Return the lines of the table, one row per attack."""
    rows = [
        "| attack | attempts | held | said | broken |",
        "|---|---|---|---|---|",
    ]
    for e in entries:
        what = f"`{e['name']}`: {e['what']}"
        rows.append(
            f"| {what} | {e['attempts']:,} | {e['held']:,} | {e['said']:,} | {e['broken']:,} |"
        )
    return "\n".join(rows) + "\n"


def parts(text):
    """Return a page's text before, in and after the table."""
    before, rest = text.split(BEGIN)
    inside, after = rest.split(END)
    return before + BEGIN, inside, END + after


def write(entries):
    before, _, after = parts(PAGE.read_text())
    PAGE.write_text(before + table(entries) + after)
