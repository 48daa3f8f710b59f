"""Tables of text."""

from collections.abc import Sequence


def aligned(rows: Sequence[Sequence[str]], right: bool = False, rule: bool = False) -> list[str]:
    """Return rows of cells as lines whose columns are aligned.

    With `right`, all columns but the first are aligned at the right; with `rule`, dashes separate
    the first row from the others.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    ruled = [rows[0], ["-" * width for width in widths], *rows[1:]] if rule else rows

    def cell(i: int, text: str) -> str:
        return text.rjust(widths[i]) if right and i else text.ljust(widths[i])

    return ["  ".join(cell(i, text) for i, text in enumerate(row)).rstrip() for row in ruled]
