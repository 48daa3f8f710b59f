"""The texts that commands write or print, one per file."""

from pathlib import Path


def template(name: str) -> str:
    """Return the text of a file in this folder."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")
