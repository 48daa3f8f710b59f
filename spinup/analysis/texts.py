"""The words of figures and comparisons, which are in `texts.toml`."""

from pathlib import Path

from spinup.utils.toml import parse_toml

TEXTS = parse_toml(Path(__file__).with_name("texts.toml").read_text(encoding="utf-8"))
