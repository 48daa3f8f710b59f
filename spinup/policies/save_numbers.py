"""The numbers of a run's saves: which there are, and which of them is meant."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from spinup.utils.errors import SpinupError

POLICY = r"policy(\d*)\.json"  # file names of saves; the group is the number


def folder_of_files(folder: Path) -> Path:
    """Return the folder in a run directory that contains the files of its torch policies."""
    return folder / "pyt_save" if (folder / "pyt_save").is_dir() else folder


def which_save(itr: int | str | None) -> int | str | None:
    """Return a number, 'last' for its other spelling, -1, or None for the unnumbered save."""
    if itr is None or itr == "":
        return None
    if itr in ("last", -1, "-1"):
        return "last"
    try:
        return int(itr)
    except (ValueError, TypeError):
        raise SpinupError(
            f"itr must be the number of a save, 'last' or 'best', not {itr!r}"
        ) from None


def chosen_save(folder: Path, itr: int | str | None, kind: str = POLICY) -> int | None:
    """Return the number of the save that `itr` selects; None is the unnumbered save."""
    number, saved = which_save(itr), saved_numbers(folder, kind)
    if not saved:
        return None
    if number == "last" or (number is None and None not in saved):
        return saved[-1]
    if number not in saved:
        raise SpinupError(f"{folder} has no save number {number}: choose from {_listed(saved)}")
    return number  # type: ignore[return-value]


def saved_numbers(folder: Path, kind: str = POLICY) -> list[int | None]:
    """Return the sorted numbers of a run directory's saves, after None for the unnumbered one."""
    found = [m[1] for p in folder_of_files(folder).iterdir() if (m := re.fullmatch(kind, p.name))]
    numbers: list[int | None] = [*sorted({int(text) for text in found if text})]
    return [None] + numbers if "" in found else numbers


def _listed(numbers: Sequence[int | None]) -> str:
    """Format the numbers of saves for a message."""
    shown = [str(n) for n in numbers if n is not None]
    shown += ["the last one (-1)"] if None in numbers else []
    if len(shown) > 12:
        shown = [*shown[:5], "...", *shown[-6:]]
    return ", ".join(shown)
